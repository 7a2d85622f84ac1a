"""Packages that cheat or break, by the real runner and the real scorer: each fails a gate that says why."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from real_scoring import Scored, Scoring, write_table

from shared.contracts.data import IndexRow
from shared.contracts.scoring import RunScored

pytestmark = pytest.mark.timeout(1500)

LABELS = ("plain", "block")
TEST = 24

FRAME = """
import json, os, pathlib, sys, time
*inputs, _, out = sys.argv[1:]
out = pathlib.Path(out)
def case(path, second=0.5, **more):
    return {{"input": os.path.basename(path), "probabilities": {{"plain": 1 - second, "block": second, **more}}}}
def answer(cases, **more):
    out.mkdir(parents=True, exist_ok=True)
    (out / "predictions.json").write_text(json.dumps({{"labels": ["plain", "block"], "cases": cases, **more}}))
{}
"""


@dataclass(frozen=True)
class Bad:
    code: str
    gate: str
    says: str
    """Of the gate's evidence."""
    seconds: float | None = None


BAD: Mapping[str, Bad] = {
    "prints a score": Bad(
        'answer([], AUC=1.0, level="useful", metric={"name": "auc_macro", "value": 1.0}); print("AUC 1.0")',
        "all_cases_predicted",
        "24 of 24 cases have no prediction",
    ),
    "reads outside its folder": Bad(
        'answer([case(p, float(open("RAW").read().count("block"))) for p in inputs])',
        "predictions_made",
        "ended as failed",
    ),
    "never ends": Bad("while True: time.sleep(60)", "predictions_made", "ended as timeout", seconds=0.001),
    "answers half": Bad(
        "answer([case(p) for p in inputs[::2]])", "all_cases_predicted", "of 24 cases have no prediction"
    ),
    "wrong shapes": Bad(
        'answer([{"input": os.path.basename(p), "probabilities": [[0.5], [0.5]]} for p in inputs])',
        "all_cases_predicted",
        "24 of 24",
    ),
    "cases of a wrong shape": Bad('answer({"cases": inputs})', "all_cases_predicted", "24 of 24"),
    "NaN": Bad('answer([case(p, float("nan")) for p in inputs])', "probabilities_valid", "24 cases"),
    "labels outside the map": Bad(
        "answer([case(p, 0.25, third=0.25) for p in inputs])", "labels_in_map", "not in the label map: third"
    ),
    "not JSON": Bad(
        'out.mkdir(); (out / "predictions.json").write_bytes(b"\\x80\\x04pickle")', "all_cases_predicted", "24 of 24"
    ),
    "100 MB printed": Bad(
        'answer([case(p) for p in inputs[1:]])\nfor _ in range(100): print("x" * (1 << 20))\nsys.exit(3)',
        "predictions_made",
        "ended as failed",
    ),
    "100 MB of predictions": Bad(
        'answer([case(p) for p in inputs], text="x" * (100 << 20))', "all_cases_predicted", "24 of 24"
    ),
    "predictions behind a link": Bad(
        'out.mkdir(); os.symlink("/etc/passwd", out / "predictions.json")', "all_cases_predicted", "24 of 24"
    ),
    "answers for others": Bad(
        'answer([case(p) for p in inputs] + [case("case_0000000000000000.png", 1.0)])', "", "a stranger is left out"
    ),
}


def pictures(folder: Path) -> tuple[list[IndexRow], int]:
    """Noise, with a bright block in every second picture; one a patient, 24 of them to test on."""
    folder.mkdir()
    rng, rows = np.random.default_rng(3), []
    for number in range(16 + TEST):
        pixels = rng.normal(90, 20, (24, 24))
        if number % 2:
            pixels[8:16, 8:16] += 90
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{number}.png")
        rows.append(
            IndexRow(
                sample_id=f"s{number}",
                patient=f"p{number}",
                label=LABELS[number % 2],
                files=(f"{number}.png",),
                split="train" if number < 12 else "val" if number < 16 else "test",
            )
        )
    write_table(folder, rows)
    return rows, TEST


FIRST = ("prints a score", "reads outside its folder", "labels outside the map", "answers for others")
REST = tuple(name for name in BAD if name not in FIRST)


@pytest.fixture(scope="module")
def first(real_scoring: Scoring, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scored]:
    return scored(real_scoring, tmp_path_factory.mktemp("first"), FIRST)


@pytest.fixture(scope="module")
def rest(real_scoring: Scoring, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scored]:
    return scored(real_scoring, tmp_path_factory.mktemp("rest"), REST)


def scored(real_scoring: Scoring, folder: Path, names: tuple[str, ...]) -> dict[str, Scored]:
    """All of them at once, each in a run of its own, and an honest package behind them."""
    data = real_scoring.settings.data_roots[0] / f"pictures-{names[0].replace(' ', '-')}"
    rows, _ = pictures(data)
    honest = "from PIL import Image, ImageStat as stat\n"
    honest += "answer([case(p, stat.Stat(Image.open(p)).mean[0] / 255) for p in inputs])"
    packages = {name: BAD[name].code.replace("RAW", str(data / "cases.csv")) for name in names}

    async def one(name: str, code: str, seconds: float | None) -> Scored:
        package = folder / name.replace(" ", "_")
        package.mkdir()
        (package / "predict.py").write_text(FRAME.format(code))
        ref = await asyncio.to_thread(real_scoring.put, package)
        return await real_scoring.score(data, rows, ref, seconds)

    async def every() -> dict[str, Scored]:
        found = await asyncio.gather(*(one(name, code, BAD[name].seconds) for name, code in packages.items()))
        return dict(zip(packages, found, strict=True)) | {"honest": await one("honest", honest, None)}

    return asyncio.run(every())


@pytest.mark.parametrize("name", [name for name in FIRST if BAD[name].gate])
def test_a_bad_package_ends_in_failed_gate_with_the_reason(first: dict[str, Scored], name: str) -> None:
    _ended_with_the_reason(first[name], BAD[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_so_does_every_other_one(rest: dict[str, Scored], name: str) -> None:
    _ended_with_the_reason(rest[name], BAD[name])


def _ended_with_the_reason(found: Scored, bad: Bad) -> None:
    failed = {gate.name: gate.evidence for gate in found.score.gates if not gate.passed}
    assert bad.gate in failed, failed
    assert bad.says in failed[bad.gate], failed
    assert (found.score.level, found.end.end, found.end.level) == ("ran", "failed_gate", "ran")
    assert found.end.gate in failed and found.end.reason == failed[found.end.gate]
    _says_no_more_than_it_may(found.score)


def test_answers_for_strangers_are_left_out(first: dict[str, Scored]) -> None:
    found = first["answers for others"]
    assert len(found.details["cases"]) == TEST
    assert found.score.metric is not None and found.score.metric.value == 0.5 and found.score.level == "valid"


def test_a_printed_score_stays_in_the_log(first: dict[str, Scored]) -> None:
    found = first["prints a score"]
    assert "AUC 1.0" in found.log
    assert found.score.metric is None and not found.score.others


@pytest.mark.slow
def test_a_flood_is_cut(rest: dict[str, Scored]) -> None:
    assert 1 << 20 < len(rest["100 MB printed"].log) < 70 << 20
    assert len(rest["100 MB printed"].score.model_dump_json()) < 20_000


def test_the_services_live_and_the_next_run_is_not_affected(real_scoring: Scoring, first: dict[str, Scored]) -> None:
    _live_on(real_scoring, first["honest"].score)


@pytest.mark.slow
def test_the_services_outlive_every_other_one(real_scoring: Scoring, rest: dict[str, Scored]) -> None:
    _live_on(real_scoring, rest["honest"].score)


def _live_on(real_scoring: Scoring, honest: RunScored) -> None:
    assert real_scoring.alive
    assert honest.level == "useful" and all(gate.passed for gate in honest.gates)
    assert honest.metric is not None and honest.metric.value > 0.9


def _says_no_more_than_it_may(score: RunScored) -> None:
    """Gates are read by people and language models: no name of a test sample, no text of the package's making."""
    text = " ".join(gate.evidence for gate in score.gates)
    assert "case_" not in text and "p_" not in text.replace("p_value", "")
    assert len(text) < 5000
