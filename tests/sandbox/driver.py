"""A runner in miniature: started as root it drops to another user, then runs every case at one level, prints JSON.

Usage: driver.py LEVEL, or driver.py LEVEL BASE hold: start one long command below BASE and wait to be killed.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from services.tool_runner import sandbox
from services.tool_runner.sandbox import root
from shared.errors import ToolBroken, UserError
from tests.sandbox.bench import CASES, UIDS, Bench
from tests.sandbox.cases_ends import cancel_ignored
from tests.sandbox.cases_limits import fork_bomb
from tests.sandbox.cases_walls import attacks, who_they_are

LEVEL = cast(sandbox.Level, sys.argv[1])
UID = UIDS[LEVEL]


async def all_cases(bench: Bench) -> dict[str, Any]:
    results: dict[str, Any] = {}
    # `none` isolates nothing; what is left to see there is how a run ends.
    skipped = {"attacks", "learning", "fork_bomb", "shared_memory_fill", "read_only_workspace", "cancel_ignored"}
    results["who_they_are"] = await who_they_are(bench)
    # It waits for ten seconds, so it begins first.
    waiting = asyncio.create_task(cancel_ignored(bench)) if LEVEL != "none" else None
    if LEVEL == "none":
        results |= dict.fromkeys(skipped)
    else:
        results |= {"attacks": await attacks(bench), "fork_bomb": await fork_bomb(bench), "cancel_ignored": None}
        if LEVEL == "landlock":  # would fill the machine's own; stated in the package's docstring
            results["shared_memory_fill"] = None
    slots = asyncio.Semaphore(3)

    async def one(name: str) -> None:
        async with slots:
            try:
                results[name] = await CASES[name](bench)
            except Exception as error:
                results[name] = {"raised": repr(error)}

    await asyncio.gather(*(one(name) for name in CASES if name not in results))
    if waiting:
        results["cancel_ignored"] = await waiting
    return results


def small_disk(folder: Path) -> Path | None:
    """64 MB and 4,000 files; None where this process may not mount."""
    try:
        root._own_mounts()
        root._mount("tmpfs", str(folder), "tmpfs", 0, f"size=64m,nr_inodes=4000,uid={UID},gid={UID},mode=700")
    except ToolBroken:
        return None
    return folder


def lazily() -> str:
    """A module of the standard library that nothing has loaded yet."""
    import wave

    return str(wave.__file__)


def main() -> None:
    os.environ["M3_S3_SECRET_KEY"] = os.environ.get("M3_S3_SECRET_KEY", "")
    if len(sys.argv) > 2:
        bench = Bench(LEVEL, Path(sys.argv[2]))
        asyncio.run(bench.run("sleep", bench.token(4), workspace=bench.base / "workspaces" / "held"))
        return
    outer = Path(tempfile.mkdtemp(prefix="m3-sandbox-test-"))
    base = outer / "state"
    for folder in ("outside", "data", "packages", "logs", "tmp", "small", "workspaces/other"):
        (base / folder).mkdir(parents=True)
    (base / "outside" / "secret").write_text("the secret")
    (base / "data" / "scan.txt").write_text("voxels")
    (base / "packages" / "helper.py").write_text("NAME = 'helper'")
    (base / "workspaces" / "other" / "file").write_text("of another run")
    for path in (base, *base.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, UID, UID)
    os.environ["TMPDIR"] = str(base / "tmp")
    tempfile.tempdir = None
    facts: dict[str, Any] = {"started_as": os.geteuid(), "user": UID}
    small = small_disk(base / "small")
    sandbox.drop_root(UID, [base])  # its parent is closed to others, as mkdtemp made it
    sandbox.drop_root(UID, [base])
    facts |= {"uid": os.getresuid(), "gid": os.getresgid(), "groups": os.getgroups(), "home": os.environ["HOME"]}
    facts["lazy"] = lazily()
    facts["root_listed"] = os.access("/root", os.R_OK)
    try:
        sandbox.detect("strong")
    except UserError as error:
        facts["unknown_level"] = str(error)
    try:
        facts["level"] = sandbox.detect(LEVEL)
    except ToolBroken as error:
        facts["unavailable"] = str(error)
    else:
        facts |= asyncio.run(all_cases(Bench(LEVEL, base, small)))
        facts["auto"] = sandbox.detect("auto")
    facts["homes_left"] = [path.name for path in (base / "tmp").iterdir()]
    facts["base"] = str(outer)
    print(json.dumps(facts))


main()
