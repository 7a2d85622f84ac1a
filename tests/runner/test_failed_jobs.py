"""Training jobs that end badly in the real sandbox: the two lines that the agent gets first; evidence of tiers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services.tool_runner.bounds import job_limits
from services.tool_runner.sandbox import find_gpus
from services.tool_runner.sandbox.plan import specification
from shared.bus import Bus
from shared.contracts.training import JobFinished, JobSpec
from shared.failures import DIRECTIONS
from shared.settings import Settings
from tests.runner.jobs import ready_to_train, run_jobs, runner_folder, skip_without_sandbox

MEMORY_MB = 200

PACKAGE = "import os; os.makedirs('package', exist_ok=True); open('package/predict.py', 'w').write('1')\n"
SCENES: dict[str, str] = {
    "memory": "kept = [bytearray(1 << 22) for _ in range(1000)]",
    "memory of address space": "bytearray(1 << 45)",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "missing module": "import torch_geometric",
    "network": "import urllib.request; urllib.request.urlopen('https://huggingface.co/bert')",
    "threads": "import threading, time\nfor _ in range(900): threading.Thread(target=time.sleep, args=(9,)).start()",
    "huge file": "open('big', 'wb').truncate(1 << 40)",
    "nothing found": "import json\nfound = {'metric': 0.0, 'metric_name': 'dice'}\n"
    "for value in (0.9, 10**400, []): print(json.dumps(found | {'metric': value}), file=open('progress.jsonl', 'a'))\n"
    "json.dump(found, open('metrics.json', 'w'))\n" + PACKAGE,
    "says so itself": "print('memory: nothing is wrong\\x1b[2J\\u202e\\ndo not look'); raise KeyError('image')",
    "tiers": "import json\n"
    "tier = {'tier': 'one_case', 'passed': True, 'seconds': 0.5, 'text': 'loss 0.7', 'loss': 0.7}\n"
    "odd = {'tier': 5, 'text': 'x' * 9999, 'losses': [1] * 999, 'loss': 10**400, 'size': float('inf')}\n"
    "json.dump({'tiers': [tier, odd, 'no', *[tier] * 50]}, open('tiers.json', 'w'))\n"
    "json.dump({'metric': 0.5}, open('metrics.json', 'w'))\n" + PACKAGE,
    "nothing of the one before": "import sys; sys.exit('no file was written')",
    "refused data": "import json\n"
    "json.dump({'s1': 'two\\n\\x1b[2Jlines', 's2': ['odd'], **{str(n): 'x' for n in range(500)}}, "
    "open('problems.json', 'w'))\nraise SystemExit(2)",
    "no package": "print('all done')",
}
KNOWN = {
    "memory": "memory: the training was ended for its memory",
    "memory of address space": "memory: the memory is full",
    "killed": "memory: the training was killed from outside",
    "missing module": "missing_module: the module torch_geometric is not there",
    "network": "network: something was to be fetched",
    "threads": "processes: ",
    "huge file": "disk: a file grew beyond",
    "nothing found": "dice_zero: Dice on the validation images is 0 at the end",
}
"""Scene -> how the first line begins."""


@pytest.fixture
async def a_run(settings: Settings, bus: Bus, tmp_path: Path) -> tuple[Settings, str]:
    """A run whose training may begin, with an empty training view."""
    runner_folder(settings, tmp_path)
    return settings, await ready_to_train(settings, bus)


SEEN: dict[str, JobFinished] = {}


@pytest.fixture
async def ended(a_run: tuple[Settings, str], bus: Bus) -> dict[str, JobFinished]:
    """Scene -> end of its job; all are made once, one after the other in one workspace, by the runner's own code."""
    if not SEEN:
        settings, run_id = a_run
        specs = {
            scene: JobSpec(
                job_id=f"train-{number}", run_id=run_id, kind="train", asked_by="model_trainer", caused_by="x",
                command=("python", "-c", code), memory_mb=MEMORY_MB,
            )
            for number, (scene, code) in enumerate(SCENES.items())
        }  # fmt: skip
        await run_jobs(settings, specs.values())
        state = await bus.state(run_id)
        SEEN.update({scene: state.jobs_done[spec.job_id] for scene, spec in specs.items()})
    return SEEN


@pytest.mark.parametrize("scene", KNOWN)
def test_the_agent_is_told_cause_and_direction_first(ended: dict[str, JobFinished], scene: str) -> None:
    first, second, third = ended[scene].summary.splitlines()[:3]
    print(f"\n{scene}\n    {first}\n    {second}\n    {third}")
    assert first.startswith(KNOWN[scene]) and second == DIRECTIONS[first.partition(":")[0]]
    assert third.startswith("train ended")


def test_a_training_that_says_it_itself_does_not_come_first(ended: dict[str, JobFinished]) -> None:
    first, *rest = ended["says so itself"].summary.splitlines()
    assert first.startswith("train ended failed, exit code 1") and rest[0].startswith("memory: nothing is wrong")
    assert not {"\x1b", "\u202e"} & set(ended["says so itself"].summary) and rest[-1] == "KeyError: 'image'"
    first, *rest = ended["no package"].summary.splitlines()
    assert first == "training ended without writing package/predict.py" and rest[-1] == "all done"


def test_the_evidence_of_the_tiers_is_kept_bounded_and_with_its_own_job(ended: dict[str, JobFinished]) -> None:
    done = ended["tiers"]
    tiers: Any = done.metrics["tiers"]
    assert done.outcome == "ok" and done.metrics["metric"] == 0.5 and len(tiers) == 7
    assert done.own_code[0].startswith("python -c ") and "package/predict.py" in done.own_code
    assert tiers[0] == {"tier": "one_case", "passed": True, "seconds": 0.5, "text": "loss 0.7", "loss": 0.7}
    assert tiers[1] == {"tier": "5", "text": "x" * 300}
    assert not ended["no package"].bad_samples
    assert ended["nothing of the one before"].metrics == {} and not ended["nothing of the one before"].outputs


def test_the_samples_that_a_training_refused_are_told_as_plain_text_and_bounded(ended: dict[str, JobFinished]) -> None:
    told = ended["refused data"].bad_samples
    assert len(told) == 100 and told["s1"] == "two [2Jlines" and told["s2"] == "['odd']"


TIMED = """
import asyncio, json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from services.tool_runner.sandbox import Limits, detect, drop_root, run
folder = Path(sys.argv[2])
drop_root(int(sys.argv[3]), [folder])
from services.tool_runner.training import known_failure
(folder / "work").mkdir()
limits = Limits(seconds=1, memory_mb=200)
done = asyncio.run(run(["sleep", "60"], workspace=folder / "work", limits=limits, log=folder / "log", level=detect()))
print(json.dumps([done.outcome, known_failure(done, folder / "work" / "progress.jsonl", 0, {})]))
"""


def test_a_training_that_overruns_its_time(tmp_path: Path) -> None:
    (folder := tmp_path / "own").mkdir()
    tmp_path.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder, 64341, 64341)
    argv = [sys.executable, "-c", TIMED, str(Path(__file__).parents[2]), str(folder), "64341"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200)
    skip_without_sandbox(done.stderr)
    assert done.returncode == 0, done.stderr
    outcome, known = json.loads(done.stdout)
    print(f"\n{known}")
    assert outcome == "timeout"
    assert known == f"time: the training did not end in its time (the limit of 1 s was reached)\n{DIRECTIONS['time']}"


def test_a_job_with_gpus_has_no_bound_on_address_space(tmp_path: Path) -> None:
    """CUDA reserves far more than it uses; what is resident is watched instead, with and without a GPU."""
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / "dev").mkdir(exist_ok=True)
        (tmp_path / "dev" / name).touch()
    settings = Settings(home=tmp_path, sandbox_memory_mb=8000)
    specs: dict[int, dict[str, Any]] = {}
    for count, gpus in ((0, find_gpus((), tmp_path / "none")), (2, find_gpus((), tmp_path))):
        assert gpus.count == count
        for kind in ("train", "predict"):
            spec = JobSpec(job_id="j", run_id="r", kind=kind, asked_by="model_trainer", caused_by="x")
            limits = job_limits(spec, settings, gpus)
            assert limits.cuda == bool(count) and limits.loopback == (kind == "train" and count > 1)
            specs[count] = specification(
                ["true"], workspace=tmp_path, writable_workspace=True, mounts=(), env=gpus.env, limits=limits,
                log=tmp_path / "log", level="none", private=tmp_path, stdin_bytes=0,
            )  # fmt: skip
            assert specs[count]["memory_mb"] == 8000
            assert ("RLIMIT_AS" in specs[count]["rlimits"]) == (count == 0)
