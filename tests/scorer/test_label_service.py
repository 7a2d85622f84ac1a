"""Several labels of a sample by the real way: packing, the lock, packages in the sandbox, the score.

Pictures have three places, each bright or not whatever the others are; in one patient in ten a place lies about it.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from real_scoring import Scored, Scoring, write_table
from real_training import train

from shared.contracts.data import IndexRow

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

LABELS = ("left", "middle", "right")
TRAIN, VAL, TEST = 160, 40, 40
"""Samples; in the test set patients have two, with the same labels."""

FRAME = """
import json, os, pathlib, random, sys
from PIL import Image
*inputs, _, out = sys.argv[1:]
out, names = pathlib.Path(out), ["left", "middle", "right"]
def look(path):
    picture = Image.open(path)
    places = [picture.crop((2 + 10 * k, 12, 10 + 10 * k, 20)) for k in range(3)]
    return [min(1.0, max(0.0, (place.resize((1, 1), Image.BOX).getpixel((0, 0)) - 90) / 60)) for place in places]
def case(path, chances, **more):
    return {{"input": os.path.basename(path), "probabilities": {{**dict(zip(names, chances)), **more}},
             "label": [name for name, chance in zip(names, chances) if chance >= 0.5]}}
def answer(cases, multi_label=True):
    out.mkdir(parents=True, exist_ok=True)
    found = {{"task": "diagnosis", "labels": names, "multi_label": multi_label, "cases": cases}}
    (out / "predictions.json").write_text(json.dumps(found))
{}
"""

HONEST = "answer([case(p, look(p)) for p in inputs])"
BLIND: Mapping[str, str] = {
    "constant": "answer([case(p, [0.7, 0.4, 0.2]) for p in inputs])",
    "guesses": "answer([case(p, [random.random() for _ in names]) for p in inputs])",
    "another patient's": "answer([case(p, look(q)) for p, q in zip(inputs, inputs[1:] + inputs[:1])])",
}
BAD: Mapping[str, tuple[str, str, str]] = {
    "one label a sample": (
        "answer([case(p, [x / 3 for x in (1, 1, 1)]) for p in inputs], multi_label=False)",
        "labels_a_sample",
        "the package answers with one label a sample, the index has several labels that may hold",
    ),
    "above one": ("answer([case(p, [1.2, 0.1, 0.1]) for p in inputs])", "probabilities_valid", "40 cases"),
    "yes and no": ("answer([case(p, [True, False, True]) for p in inputs])", "probabilities_valid", "40 cases"),
    "a label too many": ("answer([case(p, look(p), hernia=0.1) for p in inputs])", "labels_in_map", "map: hernia"),
    "a label too few": ("answer([case(p, look(p)[:2]) for p in inputs])", "labels_in_map", "40 cases"),
    "labels only": (
        "answer([{'input': os.path.basename(p), 'label': ['left']} for p in inputs])",
        "all_cases_predicted",
        "40 of 40 cases",
    ),
    "half of them": ("answer([case(p, look(p)) for p in inputs[::2]])", "all_cases_predicted", "of 40 cases"),
}


def pictures(folder: Path) -> list[IndexRow]:
    folder.mkdir()
    rng, rows = np.random.default_rng(7), []
    for number in range(TRAIN + VAL + TEST):
        test = number >= TRAIN + VAL
        if not test or number % 2 == 0:
            held = rng.random(3) < (0.5, 0.3, 0.3)
        bright = held ^ (rng.random(3) < (0.1 if test else 0))
        pixels = rng.normal(90, 20, (32, 32))
        for place in np.flatnonzero(bright):
            pixels[12:20, 2 + 10 * place : 10 + 10 * place] += 60
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{number}.png")
        rows.append(
            IndexRow(
                sample_id=f"s{number}",
                patient=f"p{number // 2 if test else number + 1000}",
                label=tuple(name for name, there in zip(LABELS, held, strict=True) if there),
                files=(f"{number}.png",),
                split="test" if test else "val" if number >= TRAIN else "train",
            )
        )
    write_table(folder, rows)
    return rows


@pytest.fixture(scope="module")
def rows(real_scoring: Scoring) -> list[IndexRow]:
    return pictures(real_scoring.settings.data_roots[0] / "several")


async def scored(real_scoring: Scoring, rows: list[IndexRow], package: Path) -> Scored:
    ref = await asyncio.to_thread(real_scoring.put, package)
    return await real_scoring.score(real_scoring.settings.data_roots[0] / "several", rows, ref)


@pytest.fixture(scope="module")
def outcomes(
    real_scoring: Scoring, rows: list[IndexRow], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Scored]:
    """All of them at once, each in a run of its own."""
    folder = tmp_path_factory.mktemp("labels")
    codes = {"honest": HONEST} | BLIND | {name: code for name, (code, *_) in BAD.items()}

    async def one(number: int, code: str) -> Scored:
        package = folder / f"{number}"
        package.mkdir()
        (package / "predict.py").write_text(FRAME.format(code))
        return await scored(real_scoring, rows, package)

    async def every() -> dict[str, Scored]:
        found = await asyncio.gather(*(one(number, code) for number, code in enumerate(codes.values())))
        return dict(zip(codes, found, strict=True))

    return asyncio.run(every())


@pytest.fixture(scope="module")
def trained(real_scoring: Scoring, rows: list[IndexRow], tmp_path_factory: pytest.TempPathFactory) -> Scored:
    """The template's package, trained on the same rows."""
    folder = tmp_path_factory.mktemp("template") / "workspace"
    package = train(folder, real_scoring.settings.data_roots[0] / "several", rows, LABELS, epochs=3)
    return asyncio.run(scored(real_scoring, rows, package))


def test_a_trained_package_is_useful(trained: Scored) -> None:
    score = trained.score
    assert score.level == "useful" and all(gate.passed for gate in score.gates), trained.details["why"]
    assert score.metric is not None and score.metric.value > 0.75


def test_what_sees_the_labels_is_useful(outcomes: dict[str, Scored]) -> None:
    score, details = outcomes["honest"].score, outcomes["honest"].details
    assert score.level == "useful" and all(gate.passed for gate in score.gates), details["why"]
    assert (
        score.metric is not None
        and score.metric.name == "auc_macro"
        and (score.metric.n, score.metric.patients) == (40, 20)
    )
    assert 0.75 < score.metric.value < 1 and score.metric.low < score.metric.value < score.metric.high
    others = {one.name: one for one in score.others}
    assert set(others) == {
        "balanced_accuracy", "accuracy", "f1_macro", "average_precision_macro", "auc_macro_by_patient", "brier", "ece",
    }  # fmt: skip
    people = others["auc_macro_by_patient"]
    assert (people.n, people.patients) == (20, 20) and people.value > score.metric.value
    assert [control.name for control in score.controls] == ["prior", "constant", "permutation"]
    assert score.permutation_p is not None and score.permutation_p < 0.01
    assert set(score.per_class) == set(LABELS)
    assert set(score.per_class["left"]) == {"n", "auc", "average_precision", "sensitivity", "specificity", "f1"}
    cases = details["cases"]
    assert details["multi_label"] is True and len(cases) == TEST and {len(case["label"]) for case in cases} >= {0, 1, 2}
    for case in cases:
        assert case["predicted"] == [label for label, chance in case["probabilities"].items() if chance >= 0.5]
    right = sum(case["predicted"] == case["label"] for case in cases) / TEST
    assert others["accuracy"].value == pytest.approx(right)
    assert "all its labels" in " ".join(details["rules"])


@pytest.mark.parametrize("name", list(BLIND))
def test_what_does_not_look_is_valid_and_a_control_says_so(outcomes: dict[str, Scored], name: str) -> None:
    found = outcomes[name]
    assert (found.score.level, found.end.end) == ("valid", "succeeded")
    assert all(gate.passed for gate in found.score.gates)
    best = max(found.score.controls, key=lambda control: control.value)
    assert f"is not above the {best.name} control" in " ".join(found.details["why"])
    assert found.score.permutation_p is not None and found.score.permutation_p > 0.01


@pytest.mark.parametrize("name", list(BAD))
def test_a_bad_package_ends_in_failed_gate_with_the_reason(outcomes: dict[str, Scored], name: str) -> None:
    found, (_, gate, says) = outcomes[name], BAD[name]
    failed = {one.name: one.evidence for one in found.score.gates if not one.passed}
    assert says in failed.get(gate, ""), failed
    assert (found.score.level, found.end.end) == ("ran", "failed_gate")
