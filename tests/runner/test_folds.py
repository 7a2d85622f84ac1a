"""Tries in folds by a real runner: every patient is held out once, and what is compared is never delivered."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.tool_runner.forks import divided
from shared.agent.calls import call, submit
from shared.agent.loop import Accepted
from shared.bus import Bus
from shared.contracts.starting import Try, TryConfigs
from shared.contracts.tools import WriteFiles
from shared.contracts.training import FinishedTraining
from shared.contracts.transcript import Observation
from shared.errors import ToolRefused
from shared.settings import Settings
from shared.store import Store
from tests.runner.tries_bench import Bench

PROGRAM = """import json, pathlib, yaml
rate = yaml.safe_load(open('config.yaml'))['training']['learning_rate']
rows = [json.loads(line) for line in open('train_index.jsonl')]
held = sorted({row['patient'] for row in rows if row['split'] == 'val'})
assert not {row['patient'] for row in rows if row['split'] == 'train'} & set(held)
figures = {patient: rate + 0.001 * place for place, patient in enumerate(held)}
told = {'metric': rate, 'metric_name': 'auc_macro', 'metrics': {'auc_macro': rate}, 'figures': figures}
json.dump(told, open('metrics.json', 'w'))
pathlib.Path('package').mkdir()
pathlib.Path('package/predict.py').write_text('1')
"""
WORKSPACE = {"train.py": PROGRAM, "config.yaml": "training:\n  learning_rate: 0.5\n"}


@pytest.fixture
async def bench(settings: Settings, bus: Bus, store: Store, tmp_path: Path) -> AsyncIterator[Bench]:
    tmp_path.chmod(0o755)
    made = await Bench.begin(settings, bus, store, tmp_path / "cases")
    made.start_runner(1)
    yield made
    await made.stop()


async def test_every_patient_is_held_out_once_and_no_fold_is_delivered(bench: Bench) -> None:
    await bench.turn(call(WriteFiles(files=WORKSPACE)))
    tries = (Try(name="plain"), Try(name="higher", changes={"training.learning_rate": 0.75}))
    seen = await bench.turn(call(TryConfigs(tries=tries, seconds=20, folds=3)))
    assert isinstance(seen, Observation) and seen.event
    print(table := "\n".join(seen.notes))
    state = await bench.bus.state(bench.run_id)
    held = [set(done.metrics["figures"]) for done in state.trainings if done.tried and done.tried.fold_of == "plain"]  # type: ignore[arg-type]
    assert len(held) == 3 and sum(map(len, held)) == len(set.union(*held)) == 36
    first, second = (line for line in table.splitlines() if line.startswith("- "))
    assert first.startswith("- higher: 0.7500; folds 0.7500, 0.7500, 0.7500; 36 patients.")
    assert second.startswith("- plain: 0.5000; folds 0.5000, 0.5000, 0.5000; patient by patient 0.2500 ± 0.0000 behind")
    assert "1. " not in table

    refused = await bench.turn(submit("submit_training", FinishedTraining(job_id="higher-fold1")))
    assert not isinstance(refused, Accepted) and "a fold of higher" in refused.results[0].summary
    for again, why in (
        (Try(name="on", continues="plain-fold1"), "trained on other patients"),
        (Try(name="plain"), "There is a try of the name plain already"),
    ):
        answer = await bench.turn(call(TryConfigs(tries=(again,), seconds=20)))
        assert not isinstance(answer, Accepted) and why in answer.results[0].summary
    costly = await bench.turn(call(TryConfigs(tries=(Try(name="all"),), seconds=200, folds=5)))
    assert not isinstance(costly, Accepted) and "that takes 1000 s" in costly.results[0].summary


def test_each_label_is_in_each_fold_and_too_few_patients_are_refused() -> None:
    def line(number: int, label: str) -> str:
        row = {
            "sample_id": f"s{number}",
            "patient": f"p{number // 2}",
            "label": label,
            "files": ["a"],
            "split": "train",
        }
        return json.dumps(row)

    index = "\n".join(line(number, "ill" if number < 12 else "well") for number in range(48))
    for fold in divided(index, 3):
        rows = [json.loads(one) for one in fold.splitlines()]
        held = [row for row in rows if row["split"] == "val"]
        assert len(rows) == 48 and len(held) == 16 and sum(row["label"] == "ill" for row in held) == 4
    with pytest.raises(ToolRefused, match="too few for 5 folds"):
        divided("\n".join(index.splitlines()[:8]), 5)
    rare = "\n".join(line(number, "ill" if number < 4 else "well") for number in range(48))
    with pytest.raises(ToolRefused, match="ill has 2 patients: 2 folds at most"):
        divided(rare, 3)
    with pytest.raises(ToolRefused, match="cannot be divided"):
        divided("no index", 2)
