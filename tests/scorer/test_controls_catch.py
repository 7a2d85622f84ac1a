"""Trained models that learned nothing, scored by the real way: none is useful, and each says which control caught it.

The pictures have nine places, each bright in half of the patients whatever the others are; the middle one is the class.
Of every class two test patients in twenty look like the other one, so no model can know better than an AUC of 0.90.
"""

import asyncio
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from PIL import Image
from real_scoring import Scored, Scoring, write_table
from real_training import train

from shared.contracts.data import IndexRow
from shared.training.package import checksums

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

LABELS = ("dark", "bright")
TRAIN, VAL, TEST = 160, 40, 40
BEST = 0.9**2 + 0.9 * 0.1
"""AUC of a model that sees what there is to see: 0.9 of each class look like it, and alike are ranked by chance."""


def pictures(folder: Path) -> list[IndexRow]:
    folder.mkdir()
    rng, rows = np.random.default_rng(7), []
    for number in range(TRAIN + VAL + TEST):
        label = number % 2
        bright = rng.integers(0, 2, 9)
        test = number >= TRAIN + VAL
        bright[4] = label ^ int(test and number // 2 % 10 == 0)
        pixels = rng.normal(90, 20, (32, 32))
        for place in np.flatnonzero(bright):
            top, left = 2 + 10 * (place // 3), 2 + 10 * (place % 3)
            pixels[top : top + 8, left : left + 8] += 60
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(folder / f"{number}.png")
        split = "test" if test else "val" if number >= TRAIN else "train"
        rows.append(
            IndexRow(
                sample_id=f"s{number}", patient=f"p{number}", label=LABELS[label], files=(f"{number}.png",), split=split
            )
        )
    write_table(folder, rows)
    return rows


def shuffled(rows: list[IndexRow]) -> list[IndexRow]:
    """Half of each class gets the other label, so that the labels tell nothing of the pictures."""
    return [row.model_copy(update={"label": LABELS[number // 2 % 2]}) for number, row in enumerate(rows)]


BLIND = """
import os, pathlib, runpy, sys, tempfile
from PIL import Image
here, (*inputs, option, out) = pathlib.Path(__file__).parent, sys.argv[1:]
shown = [os.path.join(tempfile.mkdtemp(), os.path.basename(path)) for path in inputs]
for path in shown:
    Image.frombytes("L", (32, 32), os.urandom(1024)).save(path)
sys.argv = [str(here / "seeing.py"), *shown, option, out]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def blind(package: Path, copy: Path) -> Path:
    """The same model, which is shown noise instead of the picture."""
    shutil.copytree(package, copy)
    (copy / "predict.py").rename(copy / "seeing.py")
    (copy / "predict.py").write_text(BLIND)
    return _sealed(copy)


def unmoved(package: Path, copy: Path) -> Path:
    """The same model, whose last layer has forgotten all but its bias."""
    shutil.copytree(package, copy)
    weights = safetensors.numpy.load_file(copy / "model.safetensors")
    last = [name for name, values in weights.items() if values.shape[:1] == (len(LABELS),) and values.ndim == 2]
    assert len(last) == 1, list(weights)
    weights[last[0]] = np.zeros_like(weights[last[0]])
    safetensors.numpy.save_file(weights, copy / "model.safetensors")
    return _sealed(copy)


def _sealed(package: Path) -> Path:
    (package / "SHA256SUMS").write_text(checksums(package))
    return package


@pytest.fixture(scope="module")
def outcomes(real_scoring: Scoring, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Scored]:
    folder = tmp_path_factory.mktemp("controls")
    data = real_scoring.settings.data_roots[0] / "places"
    rows = pictures(data)
    with ThreadPoolExecutor(2) as pool:
        trained = [
            pool.submit(train, folder / name, data, of, LABELS)
            for name, of in (("honest", rows), ("off", shuffled(rows)))
        ]
    honest, off = (one.result() for one in trained)
    packages = {
        "honest": honest,
        "honest again": honest,
        "ignores its input": blind(honest, folder / "blind"),
        "predicts a constant": unmoved(honest, folder / "unmoved"),
        "trained on shuffled labels": off,
    }

    async def one(package: Path) -> Scored:
        return await real_scoring.score(data, rows, await asyncio.to_thread(real_scoring.put, package))

    async def every() -> dict[str, Scored]:
        return dict(zip(packages, await asyncio.gather(*map(one, packages.values())), strict=True))

    return asyncio.run(every())


def test_the_honest_model_is_useful_and_knows_what_can_be_known(outcomes: dict[str, Scored]) -> None:
    found = outcomes["honest"]
    assert found.score.level == "useful", found.details["why"]
    assert found.score.metric is not None and abs(found.score.metric.value - BEST) < 0.1
    assert found.score.metric.low < BEST < found.score.metric.high
    assert found.score.permutation_p is not None and found.score.permutation_p < 0.01


@pytest.mark.parametrize("name", ["ignores its input", "predicts a constant", "trained on shuffled labels"])
def test_what_learned_nothing_is_valid_and_the_control_is_named(outcomes: dict[str, Scored], name: str) -> None:
    found = outcomes[name]
    print(f"\n{name}: {found.score.metric}\n{found.details['why']}")
    assert (found.score.level, found.end.end, found.end.level) == ("valid", "succeeded", "valid")
    assert all(gate.passed for gate in found.score.gates)
    why = " ".join(found.details["why"])
    best = max(found.score.controls, key=lambda control: control.value)
    assert f"is not above the {best.name} control" in why
    assert found.score.metric is not None and found.score.metric.low <= best.value


def test_a_constant_scores_chance_with_p_1(outcomes: dict[str, Scored]) -> None:
    found = outcomes["predicts a constant"].score
    assert found.metric is not None
    assert (found.metric.value, found.metric.low, found.metric.high) == (0.5, 0.5, 0.5)
    assert found.permutation_p == 1.0


def test_the_same_package_scored_twice_has_the_same_figures(outcomes: dict[str, Scored]) -> None:
    """Although cases have other names and another order in each run; draws of patients differ by that. In another batch
    a probability may differ in its last digits, as kernels of some processors do."""
    first, second = (_figures(outcomes[name]) for name in ("honest", "honest again"))
    for name in ("figures", "classes", "cases"):
        one, other = (_plain(found[name]) for found in (first, second))
        assert one == pytest.approx(other, abs=1e-6, nan_ok=True), name
    assert first["level"] == second["level"] and all(map(_plain, first["cases"].values()))


def _plain(figures: Mapping[str, Any], lead: str = "") -> dict[str, float]:
    """`class/figure` -> value."""
    found: dict[str, float] = {}
    for name, value in figures.items():
        found |= _plain(value, f"{lead}{name}/") if isinstance(value, Mapping) else {f"{lead}{name}": value}
    return found


def _figures(found: Scored) -> dict[str, Any]:
    score = found.score
    assert score.metric is not None
    cases = {found.keys[case["sample_id"]]: case["probabilities"] for case in found.details["cases"]}
    figures = {one.name: round(one.value, 9) for one in (score.metric, *score.others)}
    return {"figures": figures, "classes": score.per_class, "level": score.level, "cases": cases}
