"""What an anomaly detection is measured by beside Dice: lesions, healthy cases, the AUC of its score images."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest
from case_tables import sealed_of
from mask_files import OBLIQUE, answered, canonical, nifti, npy, png
from sklearn.metrics import roc_auc_score

from services.scorer.findings import Asked, Findings
from services.scorer.masks.files import Grid
from services.scorer.masks.lesions import count_lesions
from services.scorer.masks.pixel_scores import BadScores, pooled_auc, tally_scores
from services.scorer.masks.segmentation import measure
from shared.contracts.base import Ref
from shared.contracts.data import IndexRow, SealedSplit
from shared.scorebins import BINS, bins_of
from shared.store import Store

SHAPE = (14, 10, 6)
LESIONS = (2, 1, 0, 0, 3)
"""Of the five test cases."""


def box(*places: tuple[int, int, int]) -> np.ndarray:
    """uint8, a lesion of 2 x 2 x 2 voxels at each place."""
    found = np.zeros(SHAPE, np.uint8)
    for x, y, z in places:
        found[x : x + 2, y : y + 2, z : z + 2] = 3
    return found


TRUTHS = [box(*((4 * n, 1 + case, 2) for n in range(count))) for case, count in enumerate(LESIONS)]


@pytest.fixture(scope="module")
def made(kept: Store) -> tuple[Store, SealedSplit]:
    rows, masks = [], []
    for number, split in enumerate(["train"] * 2 + ["test"] * len(LESIONS)):
        mask = canonical(TRUTHS[number - 2] if number > 1 else box((0, 0, 0)))
        masks.append(kept.put_bytes("cases", mask))
        rows.append(IndexRow(sample_id=f"s{number}", patient=f"p{number}", target="m", files=("i",), split=split))
    return kept, sealed_of(rows, "anomaly_detection", values={"infection": 3}, masks=masks)


def measured(
    made: tuple[Store, SealedSplit], masks: list[np.ndarray | None], scores: list[bytes | None] | None = None
) -> Findings:
    store, sealed = made
    cases: dict[str, dict[str, object]] = {}
    for number, mask in enumerate(masks):
        score = scores[number] if scores else None
        cases[f"s{number + 2}"] = {"error": "none"} if mask is None else answered(store, nifti(mask), score)
    return measure(Asked(sealed, "dice", json.dumps({"cases": cases}).encode(), store))


def figures(found: Findings) -> dict[str, float]:
    return {one.name: one.value for one in found.figures}


def test_lesions_and_healthy_cases_are_figures_of_their_own(made) -> None:
    given = [mask.copy() for mask in TRUTHS]
    given[0][:2] = 0  # one of two lesions missed
    given[1] |= box((10, 6, 0))  # one too many
    given[3] = box((5, 5, 2))  # a healthy case with a lesion made up
    found = measured(made, given)
    shown = figures(found)
    assert shown["lesion_sensitivity"] == pytest.approx((1 / 2 + 1 + 1) / 3)
    assert shown["lesion_false_positives"] == pytest.approx(2 / 5)
    each = {"s2": 2 / 3, "s3": 2 / 3, "s5": 0.0, "s6": 1.0}
    assert shown["dice"] == pytest.approx(np.mean(list(each.values())))  # s4, rightly called healthy, earns nothing
    assert shown["dice_lesion"] == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)
    assert shown["dice_healthy"] == pytest.approx(1 / 2)
    assert "pixel_auc" not in shown and not any(gate.name == "scores_readable" for gate in found.gates)
    assert found.details["lesions"] == {
        "cases_with": 3, "cases_without": 2, "clean_without": 1, "lesions": 6, "found": 5, "false": 2,
    }  # fmt: skip
    assert {(one.n, one.patients) for one in found.figures if one.name == "dice_healthy"} == {(2, 2)}
    assert all(one.low <= one.value <= one.high for one in found.figures)


def test_a_case_without_an_answer_finds_nothing(made) -> None:
    shown = figures(measured(made, [None, *TRUTHS[1:3], None, TRUTHS[4]]))
    assert shown["lesion_sensitivity"] == pytest.approx(2 / 3) and shown["lesion_false_positives"] == 0
    assert shown["dice_healthy"] == 0.5


def test_marking_everything_finds_nothing_and_corners_join() -> None:
    truth = np.zeros((9, 9), np.uint8)
    truth[1, 1] = truth[2, 2] = 1  # one lesion, over a corner
    truth[6:8, 6:8] = 1
    assert count_lesions(truth, np.ones_like(truth), 1) == (2, 0, 1)
    assert count_lesions(truth, truth, 1) == (2, 2, 0)
    assert count_lesions(truth, None, 1) == (2, 0, 0)
    assert count_lesions(truth, np.where(truth, 2, 0), 2) == (2, 0, 2)  # a lesion of another kind is another lesion
    part = np.zeros_like(truth)
    part[6, 6] = part[1, 1] = 1
    assert count_lesions(truth, part, 1) == (2, 2, 0)


def scored(seed: int) -> list[np.ndarray]:
    """Probabilities that tend to be higher in lesions, most of them near 0 as those of trained models are."""
    rng = np.random.default_rng(seed)
    found = [1 / (1 + np.exp(-rng.normal(-6 + 3 * (truth > 0), 2))) for truth in TRUTHS]
    found[2][0, 0, :2] = 0, 1
    return found


def test_the_auc_of_all_voxels_is_that_of_a_sort(made) -> None:
    scores = scored(1)
    exact = roc_auc_score(np.concatenate([t.ravel() > 0 for t in TRUTHS]), np.concatenate([s.ravel() for s in scores]))
    found = measured(made, TRUTHS, [nifti(score.astype(np.float32)) for score in scores])
    metric = next(one for one in found.figures if one.name == "pixel_auc")
    assert 0.7 < exact < 0.95 and metric.value == pytest.approx(exact, abs=1e-3)
    assert metric.low < metric.value < metric.high and all(gate.passed for gate in found.gates)
    assert found.figures[0].name == "dice"

    # A case without a score image has the lowest in every voxel.
    some = measured(made, TRUTHS, [None, *(nifti(score) for score in scores[1:])])
    scores[0][:] = 0
    exact = roc_auc_score(np.concatenate([t.ravel() > 0 for t in TRUTHS]), np.concatenate([s.ravel() for s in scores]))
    assert figures(some)["pixel_auc"] == pytest.approx(exact, abs=1e-3)
    assert some.details["score_images"] == {"given": 4, "unusable": {}}


def tallied(store: Store, score: bytes, truth: np.ndarray, grid: Grid) -> np.ndarray:
    """Raises BadScores, also with what was said of the package's file."""
    case = answered(store, png(truth) if grid.affine is None else nifti(truth, grid.affine), score)
    if "score_error" in case:
        raise BadScores(case["score_error"])
    return tally_scores(store, Ref.model_validate(case["score"]), truth, grid)


def test_scores_are_read_in_every_format_alike(made) -> None:
    store = made[0]
    rng = np.random.default_rng(2)
    truth = (rng.random((6, 8)) > 0.7).astype(np.uint8)
    whole = rng.integers(0, 65536, truth.shape).astype(np.uint16)
    volume, picture = Grid(truth.shape, OBLIQUE), Grid(truth.shape, None)
    given = [
        (npy(whole / 65535), volume),
        (npy(np.asfortranarray(whole / 65535)), picture),
        (nifti(whole / 65535), volume),
        (nifti(whole, slope=1 / 65535), volume),
        (png(whole), picture),
    ]
    counts = [tallied(store, data, truth, grid) for data, grid in given]
    for found in counts:
        assert found.shape == (2, BINS) and found.sum(axis=1).tolist() == [(truth == 0).sum(), (truth > 0).sum()]
        assert float(pooled_auc(found[None], np.ones((1, 1)))[0]) == pytest.approx(
            roc_auc_score(truth.ravel(), whole.ravel()), abs=0.002
        )


def test_bins_are_fine_where_scores_are() -> None:
    ascending = np.array([0, 1e-9, 1e-6, 1.01e-6, 0.01, 0.5, 0.503, 0.99, 0.9999, 1 - 1e-6, 1])
    places = bins_of(ascending)
    assert places[0] == places[1] == 0 and places[-1] == BINS - 1
    assert (np.diff(places)[1:] > 0).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s: nifti(np.where(s > 0.5, np.nan, s)), "no numbers from 0 to 1"),
        (lambda s: nifti(10 * s), "no numbers from 0 to 1"),
        (lambda s: nifti(s[:-1]), "the score image cannot be read: it has the shape"),
        (lambda s: nifti(s, np.diag([9.0, 9, 9, 1])), "affine moves a corner"),
        (lambda s: nifti(s)[:200], "no readable NIfTI"),
        (lambda s: gzip.compress(gzip.decompress(nifti(s))[:900]), "holds"),
        (
            lambda s: b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (14, 10, 6)}\n",
            "cannot be",
        ),
        (lambda s: b"\x93NUMPY\x09\x00", "version"),
        (lambda s: png(np.zeros((14, 10), np.uint8)), "picture where a volume was wanted"),
        (lambda s: b"", "cannot be read"),
    ],
)
def test_what_is_no_score_image_is_said(made, change, reason: str) -> None:
    with pytest.raises(BadScores, match=reason):
        tallied(made[0], change(scored(3)[1]), TRUTHS[1], Grid(SHAPE, OBLIQUE))


def test_a_bad_score_image_fails_its_gate_and_nothing_else(made) -> None:
    data = [nifti(score) for score in scored(3)]
    data[1] = nifti(10 * scored(3)[1])
    found = measured(made, TRUTHS, data)
    failed = {gate.name: gate.evidence for gate in found.gates if not gate.passed}
    assert set(failed) == {"scores_readable"} and failed["scores_readable"].startswith("1 of 5")
    assert "no numbers from 0 to 1" in failed["scores_readable"] and "s3" not in failed["scores_readable"]
    assert figures(found)["dice"] == 1.0 and found.details["score_images"]["unusable"].keys() == {"s3"}


def test_organs_have_none_of_it(made) -> None:
    store, sealed = made
    cases = {f"s{number + 2}": answered(store, nifti(mask)) for number, mask in enumerate(TRUTHS)}
    asked = Asked(sealed, "dice", json.dumps({"cases": cases}).encode(), store)
    facts = sealed.facts.model_copy(update={"task": "organ_segmentation"})
    organs = replace(asked, sealed=sealed.model_copy(update={"facts": facts}))
    assert set(figures(measure(organs))) == {"dice", "nsd", "hd95"}
    with pytest.raises(ValueError, match="no numbers"):
        bins_of(np.array([-0.5]))
