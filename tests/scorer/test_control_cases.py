"""Packages that know the pictures, or read their size, by the real way; and the two gates on played answers."""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from case_tables import sealed_of
from PIL import Image
from real_scoring import Scored, Scoring, write_table

from services.scorer.altered import ALPHA, BLANK, CHANGED, judge, with_controls
from services.scorer.classes import diagnosis
from services.scorer.findings import Asked
from services.scorer.texts import reports
from shared.contracts.data import IndexRow
from shared.contracts.scoring import Gate
from shared.store import Store

TRAIN, TEST = 40, 40

FRAME = """
import hashlib, json, os, pathlib, sys
from PIL import Image, ImageStat
*inputs, _, out = sys.argv[1:]
table = json.loads(pathlib.Path(__file__).with_name("table.json").read_text())
def chance(path):
    picture = Image.open(path)
    {}
def case(path):
    return {{"input": os.path.basename(path), "probabilities": {{"dark": 1 - chance(path), "light": chance(path)}}}}
cases = [case(path) for path in inputs]
pathlib.Path(out).mkdir(parents=True, exist_ok=True)
(pathlib.Path(out) / "predictions.json").write_text(json.dumps({{"labels": ["dark", "light"], "cases": cases}}))
"""
PACKAGES: Mapping[str, tuple[str, set[str]]] = {
    "looks": ("return min(1.0, ImageStat.Stat(picture).mean[0] / 255)", set()),
    "knows the pictures": ("return table.get(hashlib.sha256(picture.tobytes()).hexdigest(), 0.5)", {CHANGED}),
    "reads their size": ("return (picture.width - 24) / 16", {BLANK}),
}
"""Code, and the gates that it fails."""


def pictures(folder: Path) -> tuple[list[IndexRow], dict[str, float]]:
    """Light pictures are wider, too. One patient in ten has the other brightness, one in twenty the other width, so
    that widths tell any half of the test pictures apart. Also a table of the test pictures."""
    folder.mkdir()
    rng, rows, table = np.random.default_rng(4), [], {}
    for number in range(TRAIN + TEST):
        light = number % 2 == 0
        bright, wide = light ^ (rng.random() < 0.1), light ^ (number % 20 == number // 20 % 20)
        pixels = np.clip(rng.normal(130 if bright else 90, 20, (24, 36 if wide else 28)), 0, 255).astype(np.uint8)
        picture = Image.fromarray(pixels)
        picture.save(folder / f"{number}.png")
        split = "test" if number >= TRAIN else "val" if number >= 30 else "train"
        table[hashlib.sha256(picture.tobytes()).hexdigest()] = float(light)
        rows.append(
            IndexRow(
                sample_id=f"s{number}", patient=f"p{number}", label="light" if light else "dark",
                files=(f"{number}.png",), split=split,
            )
        )  # fmt: skip
    write_table(folder, rows)
    return rows, table


@pytest.fixture(scope="module")
def outcomes(real_scoring: Scoring, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scored]:
    folder, data = tmp_path_factory.mktemp("packages"), real_scoring.settings.data_roots[0] / "light"
    rows, table = pictures(data)

    async def one(name: str) -> Scored:
        package = folder / name
        package.mkdir()
        (package / "predict.py").write_text(FRAME.format(PACKAGES[name][0]))
        (package / "table.json").write_text(json.dumps(table))
        return await real_scoring.score(data, rows, await asyncio.to_thread(real_scoring.put, package))

    async def every() -> dict[str, Scored]:
        return dict(zip(PACKAGES, await asyncio.gather(*map(one, PACKAGES)), strict=True))

    return asyncio.run(every())


@pytest.mark.parametrize("name", list(PACKAGES))
def test_who_looks_passes_and_who_does_not_fails_by_name(outcomes: dict[str, Scored], name: str) -> None:
    found, failing = outcomes[name].score, PACKAGES[name][1]
    gates = {gate.name: gate for gate in found.gates}
    print({name: gates[name].evidence for name in (BLANK, CHANGED)})
    assert {gate for gate in (BLANK, CHANGED) if not gates[gate].passed} == failing
    assert "on 20 blank images" in gates[BLANK].evidence and "on 20 images moved by a pixel" in gates[CHANGED].evidence
    assert found.level == ("ran" if failing else "valid")
    # The size goes with the class whatever the package does.
    assert not gates["no_shortcut"].passed and "dimensions" in gates["no_shortcut"].evidence


def test_control_cases_are_no_part_of_the_score(outcomes: dict[str, Scored]) -> None:
    found = outcomes["looks"]
    assert {case["sample_id"] for case in found.details["cases"]} <= found.keys.keys()
    assert found.score.metric is not None and found.score.metric.n == len(found.details["cases"]) == TEST


Says = Callable[[IndexRow], object]


def played(test: list[IndexRow], says: Says, blank: Says, changed: Says, store: Store | None = None) -> dict[str, Gate]:
    """The gates on these answers to the test cases and their control cases."""
    train = [row.model_copy(update={"sample_id": f"t{row.sample_id}", "split": "train"}) for row in test]
    task = "diagnosis" if test[0].label else "report_generation"
    sealed = sealed_of([*train, *test], task, ("dark", "light") if test[0].label else ())
    rows = {row.sample_id: row for row in test}
    stored = [case for case in sealed.stored if case.sample_id in rows]
    asked_for = with_controls(sealed, stored)
    assert len(asked_for.samples) <= 2 * len(test)
    controls = {
        name: (blank if how == "blanked" else changed)(rows[name.removeprefix(f"{how} ")])
        for name, how in asked_for.altered.items()
    }
    data = json.dumps({"cases": {name: says(row) for name, row in rows.items()}, "controls": controls}).encode()
    metric, measure = ("auc_macro", diagnosis.measure) if task == "diagnosis" else ("rouge_l", reports.measure)
    asked = Asked(sealed, metric, data, store)  # type: ignore[arg-type]
    found = measure(asked)
    headline = next(one for one in found.figures if one.name == metric)
    return {gate.name: gate for gate in judge(asked, measure, found, headline)}


def classes(count: int) -> list[IndexRow]:
    return [
        IndexRow(sample_id=f"s{n}", patient=f"p{n}", label=("dark", "light")[n % 2], files=("image.png",), split="test")
        for n in range(count)
    ]  # fmt: skip


def chances(light: float) -> object:
    return {"probabilities": {"dark": 1 - light, "light": light}}


def right(row: IndexRow) -> object:
    return chances(float(row.label == "light"))


def unsure(_: IndexRow) -> object:
    return chances(0.5)


def failing(_: IndexRow) -> object:
    return {"error": "std is 0"}


@pytest.mark.parametrize(
    ("blank", "changed", "gates"),
    [
        (unsure, right, set()),
        (failing, right, set()),
        (right, right, {BLANK}),
        (unsure, unsure, {CHANGED}),
        (unsure, failing, {CHANGED}),
    ],
)
def test_of_classes(blank: Says, changed: Says, gates: set[str]) -> None:
    found = played(classes(40), right, blank, changed)
    assert {name for name, gate in found.items() if not gate.passed} == gates, found


def test_an_honest_model_whose_blank_answers_differ_by_size_is_not_blamed() -> None:
    """Another answer for each size, which does not go with the class."""
    found = played(classes(60), right, lambda row: chances(int(row.sample_id[1:]) * 37 % 61 / 61), right)
    assert found[BLANK].passed


def test_one_changed_answer_in_a_few_is_no_loss_and_few_cases_say_nothing() -> None:
    one = [row.sample_id for row in classes(24)]
    found = played(classes(24), right, unsure, lambda row: right(row) if row.sample_id != one[5] else unsure(row))
    assert found[CHANGED].passed
    alone = played(classes(2), right, right, right)
    assert all(gate.passed for gate in alone.values()), alone


def told_of(count: int) -> list[IndexRow]:
    words = ["no", "left", "small", "large", "pleural", "effusion", "nodule", "upper", "lobe", "heart", "normal"]
    rng = np.random.default_rng(1)
    return [
        IndexRow(sample_id=f"s{n}", patient=f"p{n}", target=" ".join(said), files=("image.png",), split="test")
        for n, said in enumerate(rng.choice(words, (count, 8)))
    ]


def written(row: IndexRow) -> object:
    return {"report": row.target}


def same(_: IndexRow) -> object:
    return {"report": "heart normal"}


def test_of_reports() -> None:
    rows = told_of(30)
    assert all(gate.passed for gate in played(rows, written, same, written).values())
    told = played(rows, written, written, same)
    assert not told[BLANK].passed and not told[CHANGED].passed
    assert f"p = {0.001:.4f}" in told[BLANK].evidence and ALPHA == 0.01


@pytest.mark.parametrize(("kept", "passes"), [(2, True), (0, False)])
def test_a_loss_by_chance_is_told_from_a_table(kept: int, passes: bool) -> None:
    """Of the changed images few are read right: others once they are changed, or none."""
    rows = told_of(60)
    split = sealed_of(rows, "report_generation", ())
    made = with_controls(split, list(split.stored)).altered
    there = sorted({name.split()[-1] for name, how in made.items() if how != "blanked"})
    before, after = set(there[:5]), set(there[-kept:]) if kept else set()

    def says(row: IndexRow) -> object:
        return written(row) if row.sample_id in before or row.sample_id not in there else same(row)

    gate = played(rows, says, same, lambda row: written(row) if row.sample_id in after else same(row))[CHANGED]
    assert gate.passed is passes and "of the patients lose nothing" in gate.evidence, gate.evidence
