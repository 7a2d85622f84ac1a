"""Tries by real runners: side by side, each in a copy of the workspace, told as one table, and delivered."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from services.module_architect.role import ROLE as ARCHITECT
from services.scorer.history import package_of_this_lock
from services.tool_runner.mounts import TEMPLATES
from shared.agent.calls import call, submit
from shared.agent.loop import Accepted
from shared.agent.showing import CLOSE, OPEN
from shared.bus import Bus
from shared.contracts.starting import Repackage, StartTraining, Try, TryConfigs
from shared.contracts.tools import CopyFiles, EditFiles, ReadFiles, ViewImage, WriteFiles
from shared.contracts.training import TRAIN, FinishedTraining, TrainingFinished
from shared.contracts.transcript import Observation
from shared.settings import Settings
from shared.store import Store
from tests.runner.tries_bench import Bench

CONFIG = """preprocess:
  input_shape: [32, 32]
model:
  backbone: resnet10
  width: 8      # few
training:
  epochs: null
  train_seconds: 600
  patience: 2
  batch_size: 8
  learning_rate: 0.001
"""
PROGRAM = """import json, pathlib, yaml
config = yaml.safe_load(open('config.yaml'))
note = pathlib.Path('checkpoints/run.json')
before = json.loads(note.read_text())['seconds'] if note.exists() else 0
import model
note.parent.mkdir(exist_ok=True)
note.write_text(json.dumps({'seconds': before + 5}))
value = config['training']['learning_rate'] * 100 + before / 100
cases = [{'id': f's{n}', 'figure': n / 40, 'false_parts': 2, 'false_mm3': 3.0 * n} for n in range(24, 36)]
told = {'metric': value, 'metric_name': 'auc_macro', 'metrics': {'auc_macro': value}, 'epochs': 3, 'seconds': 6}
told |= {'spread': 0.05, 'cases': cases, 'patients': {'val': 12}, 'limit': config['training']['train_seconds']}
told['whole'] = config['training']['whole_seconds']
pathlib.Path('metrics.json').write_text(json.dumps(told))
with open('progress.jsonl', 'a') as file:
    for epoch in range(3):
        print(json.dumps({'epoch': epoch, 'metric': value - 0.01 * (2 - epoch), 'loss': 1 / (epoch + 1)}), file=file)
pathlib.Path('package').mkdir(exist_ok=True)
pathlib.Path('package/predict.py').write_text('1')
"""
OWN = CONFIG.replace("  patience", "  whole_seconds: null\n  patience")
WORKSPACE = {"train.py": PROGRAM, "config.yaml": OWN, "model.py": "WIDTH = 8\n"}


class Killed(BaseException):
    """The agent is gone: nothing of ours may catch it."""


@pytest.fixture
async def bench(settings: Settings, bus: Bus, store: Store, tmp_path: Path) -> AsyncIterator[Bench]:
    tmp_path.chmod(0o755)
    made = await Bench.begin(settings, bus, store, tmp_path / "cases")
    for number in (1, 2):
        made.start_runner(number)
    yield made
    await made.stop()


def refused(seen: Observation | Accepted) -> str:
    assert isinstance(seen, Observation) and not seen.results[-1].ok and not seen.event
    return seen.results[-1].summary


def told(seen: Observation | Accepted) -> str:
    """The table, as the core reads it in its fence."""
    assert isinstance(seen, Observation) and seen.event, seen
    print(text := "\n".join(seen.notes))
    return text.removeprefix(f"{OPEN}\n").removesuffix(f"\n{CLOSE}")


async def test_tries_run_beside_each_other_and_are_told_as_one_table(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.turn(call(WriteFiles(files=WORKSPACE)))
    tries = (
        Try(name="low", changes={"training.learning_rate": 0.0005}),
        Try(name="broken", files={"model.py": "raise SystemExit('there is no model')\n"}),
        Try(name="plain"),
    )
    # The agent is killed when the first job is queued; another replica goes on.
    submit_job = Bus.submit_job

    async def last(self: Bus, *given: Any) -> None:
        await submit_job(self, *given)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Bus, "submit_job", last)
        with pytest.raises(Killed):
            await bench.turn(call(TryConfigs(tries=tries, seconds=20)))
    seen = await bench.turn()
    table = told(seen)
    assert isinstance(seen, Observation) and seen.event
    ended = {job["tried"]["name"]: job for job in seen.event["jobs"]}  # type: ignore[union-attr,index,call-overload]
    assert {name: job["outcome"] for name, job in ended.items()} == {"low": "ok", "broken": "failed", "plain": "ok"}
    plain = (await bench.bus.state(bench.run_id)).training("plain")
    assert plain and plain.metrics["limit"] == 18, "of 20 seconds"
    assert plain.names == (plain.job_id, "plain") and plain.model_copy(update={"tried": None}).names[1] == "workspace"
    assert plain.metrics["whole"] == 372, "of the run's 400: what follows the time is as it will be in the end"
    lines = table.splitlines()
    assert lines[1].startswith("1. plain: 0.1000 ± 0.0500, 3 epochs of 2.0 s") and "the workspace as it is" in lines[1]
    assert lines[2].startswith("2. low: 0.0500") and lines[2].endswith("training.learning_rate 0.001 -> 0.0005.")
    assert lines[3].startswith("3. broken: failed") and "there is no model" in lines[3] and "model.py" in lines[3]
    assert "plain tells:" in table and "Worst cases: s24 0.6" in table and "False parts: 24 in 12 of 12" in table
    assert lines[-1].startswith("A training may take 400 s, all that end ok and all tries 800 s together. Left: 7")
    files = await bench.turn(call(ReadFiles(paths=("config.yaml", "model.py"))))
    assert isinstance(files, Observation) and "# few" in files.results[0].summary, "the workspace is as it was"

    table = told(await bench.turn(call(TryConfigs(tries=(Try(name="on", continues="plain"),), seconds=20))))
    assert table.splitlines()[1].startswith("1. on: 0.1500") and "goes on from plain" in table
    state = await bench.bus.state(bench.run_id)
    assert len(state.jobs_done) == 4 and not state.jobs
    assert state.trainings[-1].metrics["limit"] == 23, "of 20 seconds, beside the 5 that it goes on from"


async def test_what_is_wrong_with_tries_is_said_before_anything_is_queued(bench: Bench, settings: Settings) -> None:
    async def answer(*tries: Try, seconds: float = 20) -> str:
        print(text := refused(await bench.turn(call(TryConfigs(tries=tries, seconds=seconds)))))
        return text

    assert "copy a template" in await answer(Try(name="early"))
    await bench.turn(call(WriteFiles(files=WORKSPACE)))
    unknown = await answer(Try(name="a"), Try(name="b", changes={"training.learning_rat": 1}))
    assert "b: config.yaml has no key training.learning_rat" in unknown and "training.learning_rate" in unknown
    assert "there is no /data" in await answer(Try(name="a", files={"/data/s00/000.png": "x"}))
    assert "trainings write there" in await answer(Try(name="a", files={"checkpoints/x.py": "x"}))
    assert "does not parse" in await answer(Try(name="a", files={"model.py": "def"}))
    assert "already" in await answer(Try(name="a"), Try(name="a"))
    assert "900 s" in await answer(*(Try(name=f"t{n}") for n in range(3)), seconds=300)
    # A training of another run; the Module Architect tries with a part of the time.
    other = await Bench.begin(settings, bench.bus, bench.store, settings.home / "others", ARCHITECT)
    await other.turn(call(WriteFiles(files=WORKSPACE)))
    assert "150 s, and 100 s" in refused(
        await other.turn(call(TryConfigs(tries=tuple(Try(name=f"t{n}") for n in range(3)), seconds=50)))
    )
    told(await other.turn(call(TryConfigs(tries=(Try(name="theirs"),), seconds=20))))
    (job,) = (await bench.bus.state(other.run_id)).jobs_done
    for name in ("theirs", job):
        assert "no training of this run" in await answer(Try(name="a", continues=name))
    state = await bench.bus.state(bench.run_id)
    assert not state.jobs and not state.jobs_done


PREDICT = """import json, pathlib, sys
from PIL import Image
*inputs, _, out = sys.argv[1:]
pathlib.Path(out).mkdir(exist_ok=True)
for number, name in enumerate(inputs):
    pixels = Image.open(name).convert('L').point(lambda value: value > 110)
    pixels.save(pathlib.Path(out, f'{number}.png'))
cases = [{'input': 'image', 'mask': f'{number}.png'} for number in range(len(inputs))]
pathlib.Path(out, 'predictions.json').write_text(json.dumps({'cases': cases}))
"""


@pytest.mark.slow
async def test_a_training_in_the_workspace_tells_what_changed_and_draws_its_worst_cases(
    settings: Settings, bus: Bus, store: Store, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    bench = await Bench.begin(settings, bus, store, tmp_path / "cases", masks=True)
    bench.start_runner(1)
    program = PROGRAM.replace("write_text('1')", "write_text(open('given.py').read())")
    files = WORKSPACE | {"train.py": program, "given.py": PREDICT}
    try:
        await bench.turn(call(WriteFiles(files=files)), call(StartTraining(command=TRAIN, seconds=60)))
        edit = call(EditFiles(path="config.yaml", old="0.001", new="0.002"))
        seen = await bench.turn(edit, call(StartTraining(command=TRAIN, seconds=60)))
        assert isinstance(seen, Observation) and seen.event
        print(summary := str(seen.event["summary"]))
        assert "worst/1.png is s24, worst/2.png is s25" in summary
        assert summary.endswith("Changed since the last training: training.learning_rate 0.001 -> 0.002")
        viewed = await bench.turn(call(ViewImage(paths=("worst/1.png",))))
        assert isinstance(viewed, Observation) and viewed.results[0].ok, viewed
        head = await bus.workspace_head(bench.run_id, "build")
        assert head
        kept = await asyncio.to_thread(store.get_manifest, head)
        drawn = await asyncio.to_thread(store.get_bytes, kept.files["worst/1.png"].ref)
        (tmp_path / "drawn.png").write_bytes(drawn)
        better = Try(name="seen", changes={"training.learning_rate": 0.005})
        table = told(await bench.turn(call(TryConfigs(tries=(better,), seconds=60))))
        assert "worst/seen/1.png is s24, worst/seen/2.png is s25" in table
        viewed = await bench.turn(call(ViewImage(paths=("worst/seen/1.png", "s24"), overlays=("", "s24"))))
        assert isinstance(viewed, Observation) and viewed.results[0].ok, viewed
        assert "2 /data/s24/000.png" in viewed.results[0].summary and viewed.results[0].pictures
        pixels = np.asarray(Image.open(tmp_path / "drawn.png").convert("RGB")).astype(int)
        assert (pixels[..., 0] > pixels[..., 1] + 60).mean() > 0.05, "the answer is not filled"
    finally:
        await bench.stop()


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_try_of_a_template_is_gone_on_with_packaged_anew_and_delivered(bench: Bench) -> None:
    await bench.turn(
        call(CopyFiles(source="/templates/diagnosis", destination="/workspace")),
        call(WriteFiles(files={"config.yaml": CONFIG}, overwrite=True)),
    )
    table = told(await bench.turn(call(TryConfigs(tries=(Try(name="short"),), seconds=120))))
    told(await bench.turn(call(TryConfigs(tries=(Try(name="longer", continues="short"),), seconds=200))))
    assert "dark: " in table and "true '" in table and ", said '" in table
    state = await bench.bus.state(bench.run_id)
    short, longer = (state.training(name) for name in ("short", "longer"))
    assert short and longer and longer.outcome == "ok" and longer.metrics["epochs"] > short.metrics["epochs"]
    assert not longer.own_code and sorted(longer.outputs) == ["fitted", "package"]

    changed = (TEMPLATES / "diagnosis" / "predict.py").read_text().replace('"""', '"""Changed. ', 1)
    edit = call(WriteFiles(files={"predict.py": changed}, overwrite=True))
    table = told(await bench.turn(edit, call(Repackage(job="longer"))))
    state = await bench.bus.state(bench.run_id)
    name = state.trainings[-1].names[1]
    assert name.startswith("repackaged-") and f"{name}: {longer.metrics['metric']:.4f}" in table
    edit = call(WriteFiles(files={"model.py": "raise SystemExit('other weights')\n"}, overwrite=True))
    assert "the weights do not go with the files" in told(await bench.turn(edit, call(Repackage(job="longer"))))

    answer = FinishedTraining(job_id=name)
    accepted = await bench.turn(submit("submit_training", answer))
    assert isinstance(accepted, Accepted) and accepted.facts["output_follows_image"], accepted
    state = await bench.bus.state(bench.run_id)
    brief = (await bench.desk()).brief
    event = bench.role.submissions[0].event(answer, accepted.facts, brief, state, accepted.spent)
    assert isinstance(event, TrainingFinished)
    state = await bench.bus.append(event)
    assert package_of_this_lock([one for _, one in await bench.bus.events(bench.run_id) if one], event).passed
    assert (again := state.training(name)) and event.package == again.outputs["fitted"]
    package = await asyncio.to_thread(bench.store.get_manifest, event.package)
    text = await asyncio.to_thread(bench.store.get_bytes, package.files["predict.py"].ref)
    assert text.startswith(b'"""Changed. ')
