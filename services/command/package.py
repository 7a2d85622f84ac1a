"""Using a delivered package the way a stranger would: alone, in an empty environment."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import services
from shared.errors import ToolBroken, UserError
from shared.store.paths import UnsafePath, open_inside

SECONDS = 600
LARGEST = 64 << 20
"""Bytes read of a predictions.json."""


def predict_alone(package: Path, scan: Path, out: Path, uid: int) -> tuple[dict[str, Any], str]:
    """The answer of the package's predict.py for one input, and how it was isolated. `out` is a new folder.

    The `mask` of a segmentation becomes its path on this machine, a regular file below `out`/result.

    It sees the package, the input, the interpreter and nothing else; its environment is cleared and it is not root.
    Raises ToolBroken where no sandbox can be had, and with the end of its output when it makes no prediction; UserError
    for a package that is a link.
    """
    if package.is_symlink():
        raise UserError(f"{package} is a link; give the folder that it leads to")
    out.mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(out, uid, uid)
    # A process of its own: dropping root cannot be undone.
    asked = [sys.executable, "-m", "services.command.package", str(package), str(scan), str(out), str(uid)]
    env = dict(os.environ) | {"PYTHONPATH": str(Path(services.__path__[0]).parent)}
    done = subprocess.run(asked, env=env, cwd="/", capture_output=True, text=True, timeout=SECONDS + 60, check=False)
    if done.returncode != 0:
        # Never bare: a package is code of strangers, and failing in the sandbox is easily arranged.
        raise ToolBroken(f"the package was not run, since no sandbox could be had:\n{done.stderr[-1500:]}")
    isolation, output = done.stdout.strip(), (out / "predict.log").read_text(errors="replace")
    try:
        # By way of `out`, which is ours: the result folder and all that is in it may be links.
        with open_inside(out, "result/predictions.json") as stream:
            case = json.loads(stream.read(LARGEST))["cases"][0]
        failed = "error" in case
    except (OSError, ValueError, LookupError, TypeError, UnsafePath):
        raise ToolBroken(f"the package made no prediction; the end of its output:\n{output[-2000:]}") from None
    if failed:
        raise ToolBroken(f"the package refused the input: {case['error']}")
    if "mask" in case:
        case["mask"] = str(_mask(out, case["mask"]))
    return case, isolation


def _mask(out: Path, named: object) -> Path:
    try:
        with open_inside(out, f"result/{named}"):
            return out / "result" / str(named)
    except (OSError, ValueError, UnsafePath):
        raise ToolBroken("the mask that the package names is no regular file in its result folder") from None


def _main(package: Path, scan: Path, out: Path, uid: int) -> None:
    from services.tool_runner.sandbox import Limits, Mount, detect, drop_root, run

    drop_root(uid, [out, package, scan])
    level = detect("auto")
    mounted = level == "bwrap"
    entry = "/package/predict.py" if mounted else str(package / "predict.py")
    case = f"/data/{scan.name}" if mounted else str(scan)
    work = out / "work"
    work.mkdir()
    done = asyncio.run(
        run(
            ["python", "-I", entry, case, "--output", "result"],
            workspace=work,
            mounts=[Mount(package, "/package"), Mount(scan, f"/data/{scan.name}")],
            limits=Limits(seconds=SECONDS, memory_mb=8192),
            log=out / "predict.log",
            level=level,
        )
    )
    if (work / "result").is_dir() and not (work / "result").is_symlink():
        (work / "result").rename(out / "result")
    print(f"{done.level} sandbox, not root, no network, cleared environment, only package, input and Python in sight")


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
