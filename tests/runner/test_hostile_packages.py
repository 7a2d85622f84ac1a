"""What a package may leave in place of its predictions: read back as data or not at all, and nothing of it stays."""

import asyncio
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.data import CaseList
from shared.contracts.training import JobSpec
from shared.settings import Settings
from shared.store import Store
from tests.cases import begun, row, store_cases
from tests.runner.jobs import run_jobs, runner_folder

MARK = Path("/tmp/m3-hostile-package-was-here")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HEAD = """
import json, os, pickle, socket, stat, sys
inputs, out = sys.argv[1:-2], sys.argv[-1]
said = out + "/predictions.json"

def honest():
    os.makedirs(out, exist_ok=True)
    with open(said, "w") as file:
        json.dump({"labels": ["a"], "cases": [{"input": path, "probabilities": [1.0]} for path in inputs]}, file)

def refused(attempt, *words):
    try:
        attempt(*words)
    except OSError:
        return
    open(said, "w").write(json.dumps({"cases": []}))
    sys.exit("it was let")

"""
GAMES: dict[str, str] = {
    "link": "os.mkdir(out); os.symlink('/etc/passwd', said)",
    "link to an input": "os.mkdir(out); os.symlink(inputs[0], said)",
    "folder that is a link": "os.symlink('/etc', out)",
    "pipe": "os.mkdir(out); os.mkfifo(said)",
    "socket": "os.mkdir(out); os.chdir(out); socket.socket(socket.AF_UNIX).bind('predictions.json')",
    "folder": "os.makedirs(said)",
    "device": "os.mkdir(out); os.mknod(said, stat.S_IFCHR | 0o666, os.makedev(1, 5))",
    "hard link": "os.mkdir(out); os.link(inputs[0], said)",
    "too large": "os.mkdir(out); open(said, 'w').truncate(65 << 20)",
    "nested": "os.mkdir(out); open(said, 'w').write('[' * 1000000)",
    "endless number": "os.mkdir(out); open(said, 'w').write('{\"cases\": ' + '9' * 1000000 + '}')",
    "millions of objects": "os.mkdir(out); open(said, 'w').write('{\"cases\": [' + '{},' * 20_000_000 + '{}]}')",
    "no object": "os.mkdir(out); open(said, 'w').write('[1]')",
    "cases of another shape": "os.mkdir(out); open(said, 'w').write('{\"cases\": {\"a\": 1}}')",
    "not text": "os.mkdir(out); open(said, 'wb').write(bytes(range(256)))",
}
"""Nothing is taken for an answer."""
NOISE: dict[str, str] = {
    "sparse terabyte": "refused(open('sparse', 'wb').truncate, 1 << 40)",
    "its own package": "refused(open, sys.argv[0], 'w')",
    "another case": "refused(open, inputs[0], 'w')",
    "thousands of files": "os.mkdir(out); [open(f'{out}/{n}', 'w').close() for n in range(5000)]",
    "endless folders": "os.mkdir(out); os.chdir(out); top = os.getcwd()\n"
    "for n in range(1100):\n    os.mkdir('folderfolder'); os.chdir('folderfolder')\nos.chdir(top + '/..')",
    "odd names": "os.mkdir(out); [open(os.fsencode(out) + b'/' + name, 'w').close() for name in "
    "(b'a\\nb', b'\\x1b[2J', b'\\xff', b'-rf', b'*', b'n' * 255, '\\u202egnp'.encode())]",
    "closed folders": "os.makedirs(out + '/x/y'); os.chmod(out + '/x/y', 0); os.chmod(out + '/x', 0)",
    "weights that run code": "pickle.load(open(os.path.dirname(sys.argv[0]) + '/weights.pkl', 'rb'))\n"
    "assert os.path.exists('ran-inside')",
}
"""What comes with an honest answer, which counts."""


class Payload:
    """Unpickled, it reports itself where it can."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, (f"touch {MARK}; touch ran-inside; echo M3 >> {Path(__file__)}",))


SEEN: dict[str, dict[str, Any]] = {}


@pytest.fixture(params=["bwrap", "landlock"])
async def seen(request: pytest.FixtureRequest, settings: Settings, bus: Bus, tmp_path: Path) -> dict[str, Any]:
    """Game -> outcome and cases of its predict job; all jobs of a level are made once, by one runner."""
    level = request.param
    if level not in SEEN:
        SEEN[level] = await played(settings.model_copy(update={"isolation": level}), bus, tmp_path)
    return SEEN[level]


async def played(settings: Settings, bus: Bus, folder: Path) -> dict[str, Any]:
    data, runner = folder / "data", runner_folder(settings, folder)
    data.mkdir()
    (data / "a.png").write_bytes(b"no picture")
    store = Store.connect(settings)
    await asyncio.to_thread(store.ensure_buckets)
    run_id = new_run_id()
    for event in begun(run_id, {"path": str(data)}):
        await bus.append(event)
    cases = await asyncio.to_thread(store_cases, store, data, [row("s", "a.png", split="test", label="a")])
    samples = store.put_bytes("sealed", CaseList(samples=cases).model_dump_json().encode())
    specs = {}
    for number, (game, code) in enumerate((GAMES | NOISE).items()):
        package = folder / "packages" / str(number)
        package.mkdir(parents=True)
        (package / "predict.py").write_text(HEAD + code + ("\nhonest()\n" if game in NOISE else "\n"))
        (package / "weights.pkl").write_bytes(pickle.dumps(Payload()))
        inputs = {"package": store.put_folder("packages", package), "samples": samples}
        specs[game] = JobSpec(
            job_id=f"predict-{number}", run_id=run_id, kind="predict", asked_by="scorer", caused_by="x", inputs=inputs
        )
    held = await run_jobs(settings, specs.values())
    state = await bus.state(run_id)
    found: dict[str, Any] = {
        "memory_mb": held,
        "level": settings.isolation,
        "left": [path.name for path in (runner / "jobs").iterdir()],
    }
    for game, spec in specs.items():
        ended = state.jobs_done[spec.job_id]
        cases = json.loads(store.get_bytes(ended.outputs["predictions"]))["cases"] if ended.outputs else None
        found[game] = {"outcome": ended.outcome, "cases": cases, "summary": ended.summary, "level": ended.isolation}
    return found


@pytest.mark.parametrize("game", GAMES)
def test_what_is_no_answer_is_none(seen: dict[str, Any], game: str) -> None:
    assert seen[game]["cases"] == {"s": {"error": "no prediction was returned"}}, seen[game]
    assert seen[game]["level"] == seen["level"]


@pytest.mark.parametrize("noise", NOISE)
def test_an_honest_answer_counts_whatever_lies_beside_it(seen: dict[str, Any], noise: str) -> None:
    assert seen[noise]["outcome"] == "ok", seen[noise]["summary"]
    assert seen[noise]["cases"]["s"]["probabilities"] == [1.0]


def test_the_runner_itself_parses_nothing_of_it(seen: dict[str, Any]) -> None:
    assert seen["memory_mb"] < 600, "the millions of objects alone take 1,500 MB"


def test_no_job_leaves_anything_on_the_runner(seen: dict[str, Any]) -> None:
    assert seen["left"] == []


def test_code_in_weights_ran_in_the_sandbox_only(seen: dict[str, Any]) -> None:
    assert not MARK.exists()
    assert not Path(__file__).read_text().endswith("M3\n")
