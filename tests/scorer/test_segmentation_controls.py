"""Controls on toys whose figures are known, and what is judged of hostile masks, with a real store."""

import gzip
import itertools
import json

import numpy as np
import pytest
from case_tables import sealed_of
from mask_files import OBLIQUE, answered, ball, canonical, nifti, png

from services.scorer.altered import BLANK, CHANGED, judge, with_controls
from services.scorer.findings import Asked
from services.scorer.masks.controls import MeanMask, constant, pair_scores, permutation
from services.scorer.masks.lattice import lattice_shape, resampled, turned
from services.scorer.masks.overlap import mean
from services.scorer.masks.reader import TOLERANCE
from services.scorer.masks.segmentation import measure
from shared.contracts.data import IndexRow, SealedSplit
from shared.contracts.scoring import Gate
from shared.store import Store

SHAPE = (12, 12, 12)
VALUES = {"liver": 6, "spleen": 28}
TEST = 5


def mask_of(number: int) -> np.ndarray:
    """Two balls; those of different patients lie apart."""
    liver = ball(SHAPE, (3 + 6 * (number % 2), 3, 3), 2.5, 6)
    return ball(SHAPE, (3, 8, 3 + 6 * (number // 2 % 2)), 1.5, 28, liver)


@pytest.fixture(scope="module")
def made(kept: Store) -> tuple[Store, SealedSplit]:
    """Twelve training cases and five of test."""
    rows, masks = [], []
    for number, split in enumerate(["train"] * 12 + ["test"] * TEST):
        masks.append(kept.put_bytes("cases", canonical(mask_of(number))))
        rows.append(IndexRow(sample_id=f"s{number}", patient=f"p{number}", target="m", files=("i",), split=split))
    return kept, sealed_of(rows, "organ_segmentation", values=VALUES, masks=masks)


def answers(store: Store, masks: list[bytes | None], **more: object) -> bytes:
    cases = {}
    for number, data in enumerate(masks, 12):
        if data is not None:
            cases[f"s{number}"] = answered(store, data)
    return json.dumps({"task": "organ_segmentation", "label_values": VALUES, "cases": cases} | more).encode()


def truths() -> list[np.ndarray]:
    return [mask_of(number) for number in range(12, 12 + TEST)]


def asked(made: tuple[Store, SealedSplit], given: bytes | Gate, **more: object) -> Asked:
    return Asked(made[1], "dice", given, made[0], **more)


def test_right_answers_score_one_and_beat_every_control(made) -> None:
    found = measure(asked(made, answers(made[0], [nifti(mask) for mask in truths()])))
    assert all(gate.passed for gate in found.gates)
    assert (found.figures[0].value, found.figures[0].n, found.figures[0].patients) == (1.0, TEST, TEST)
    assert found.per_class["liver"] == {"dice": 1.0, "n": TEST, "missed": 0, "invented": 0, "nsd": 1.0, "hd95": 0.0}
    nsd, hd95 = found.figures[1:]
    assert (nsd.name, nsd.value, nsd.low, nsd.high) == ("nsd", 1, pytest.approx(0.05 ** (1 / TEST)), 1)
    assert (hd95.name, hd95.value, hd95.low, hd95.high) == ("hd95", 0, 0, 0)
    controls = {control.name: control for control in found.controls}
    assert set(controls) == {"mean_mask", "constant", "permutation"}
    # Livers stand in two places and spleens in two, each half of the time: a fixed mask gets one place right, or all
    # at the price of as many voxels too many.
    assert 0.4 < controls["mean_mask"].value < 0.7
    sizes = [[(mask == value).sum() for value in VALUES.values()] for mask in truths()]
    assert controls["constant"].value == pytest.approx(np.mean([2 * a / (a + 12**3) / 2 for a, _ in sizes]))
    assert "liver" in controls["constant"].detail
    # Some patients are alike, so that orders exist which change nothing.
    assert found.permutation_p is not None and 1 / 120 <= found.permutation_p < 0.5
    assert "all 120 orders of 5 patients" in controls["permutation"].detail
    assert "the smallest possible 0.0083" in controls["permutation"].detail
    assert found.details["left_out"] == 0 and len(found.details["rules"]) == 7
    assert "s12" not in json.dumps([gate.evidence for gate in found.gates] + [c.detail for c in found.controls])


def test_a_figure_by_hand_with_a_missing_case(made) -> None:
    masks = truths()
    half = np.where(masks[0] == 28, 0, masks[0])  # without its spleen
    given = [nifti(half), *(nifti(mask) for mask in masks[1:-1]), None]
    found = measure(asked(made, answers(made[0], given)))
    failed = [gate for gate in found.gates if not gate.passed]
    assert [gate.name for gate in failed] == ["all_cases_predicted"]
    assert failed[0].evidence == "1 of 5 cases have no prediction; 0 may fail"
    assert found.figures[0].value == pytest.approx((0.5 + 1 + 1 + 1 + 0) / 5)
    diagonal = float(np.linalg.norm(12 * np.linalg.norm(OBLIQUE[:3, :3], axis=0)))
    surfaces = {"nsd": pytest.approx(3 / 5), "hd95": pytest.approx(2 / 5 * diagonal)}
    assert found.per_class["spleen"] == {"dice": pytest.approx(3 / 5), "n": 5, "missed": 2, "invented": 0, **surfaces}
    figures = {one.name: one.value for one in found.figures}
    assert figures["nsd"] == pytest.approx(3.5 / 5) and figures["hd95"] == pytest.approx(1.5 / 5 * diagonal)
    assert [line["dice"] for line in found.cases] == pytest.approx([0.5, 1, 1, 1, 0])
    assert found.cases[0]["structures"] == {"liver": 1.0, "spleen": 0.0}
    assert found.cases[-1]["failed"] == "no prediction"
    assert found.details["worst"][:2] == ["s16", "s12"]


def moved(shift: float) -> np.ndarray:
    affine = OBLIQUE.copy()
    affine[0, 3] += shift
    return affine


def without_space(data: bytes) -> bytes:
    """All voxels in one place."""
    return data[:280] + bytes(48) + data[328:]


EDGE = float(np.linalg.norm(OBLIQUE[:3, :3], axis=0).min())
GOOD = truths()[0]


@pytest.mark.parametrize(
    ("data", "gate"),
    [
        (nifti(GOOD, np.diag([2.0, 2.0, 3.0, 1.0])), "geometry_kept"),
        (nifti(GOOD, moved(1.5 * TOLERANCE * EDGE)), "geometry_kept"),
        (nifti(GOOD[::-1], OBLIQUE @ np.diag([-1, 1, 1, 1.0])), "geometry_kept"),
        (nifti(GOOD[..., :-1]), "geometry_kept"),
        (nifti(np.zeros((1000, 1000, 2), np.uint8)), "geometry_kept"),
        (png(GOOD[..., 0]), "geometry_kept"),
        (nifti(GOOD * 1.3), "values_whole"),
        (nifti(np.where(GOOD == 6, np.nan, GOOD).astype(np.float32)), "values_whole"),
        (nifti(np.where(GOOD == 6, 1, GOOD)), "labels_in_map"),
        (nifti(-GOOD.astype(np.int16)), "labels_in_map"),
        (without_space(nifti(GOOD, packed=False)), "predictions_readable"),
        (nifti(GOOD)[:-30], "predictions_readable"),
        (gzip.compress(b"\0" * 100000), "predictions_readable"),
        (b"<script>", "predictions_readable"),
    ],
)
def test_a_mask_that_is_none_fails_its_own_gate_and_counts_zero(made, data: bytes, gate: str) -> None:
    others = [nifti(mask) for mask in truths()[1:]]
    found = measure(asked(made, answers(made[0], [data, *others])))
    assert [one.name for one in found.gates if not one.passed] == [gate]
    assert found.figures[0].value == pytest.approx(0.8)
    again = measure(asked(made, answers(made[0], [nifti(GOOD), *others])))
    assert again.figures[0].value == 1.0 and all(one.passed for one in again.gates)


def test_a_rounded_affine_and_whole_floats_are_no_fault(made) -> None:
    masks = [nifti(mask.astype(np.float32), moved(0.5 * TOLERANCE * EDGE)) for mask in truths()]
    found = measure(asked(made, answers(made[0], masks)))
    assert found.figures[0].value == 1.0 and all(gate.passed for gate in found.gates)


@pytest.mark.parametrize(
    ("given", "gate"),
    [
        (b"{", "predictions_readable"),
        (b'{"cases": []}', "predictions_readable"),
        (b'{"cases": {"s12": {"mask": "../../etc/passwd"}}}', "all_cases_predicted"),
        (Gate(name="predictions_made", passed=False, evidence="it ended"), "predictions_made"),
    ],
)
def test_without_any_answer_there_is_no_figure(made, given: bytes | Gate, gate: str) -> None:
    found = measure(asked(made, given))
    assert [one.name for one in found.gates if not one.passed] == [gate]
    assert not found.figures and not found.controls
    assert len(found.cases) == TEST and all("failed" in line for line in found.cases)


def test_only_what_the_runner_stored_is_fetched(made) -> None:
    target = made[1].stored[12].mask
    cases = {"s12": {"mask": target.model_dump(mode="json"), "suffix": ".nii.gz"}, "s99": {"error": "x"}}
    found = measure(asked(made, json.dumps({"cases": cases, "label_values": {"liver": 1}}).encode()))
    failed = [gate.name for gate in found.gates if not gate.passed]
    assert failed == ["all_cases_predicted", "no_unknown_cases", "labels_in_map"]
    assert not found.figures


def test_a_split_that_was_changed_is_not_scored(made) -> None:
    given = answers(made[0], [nifti(mask) for mask in truths()])
    found = measure(asked(made, given, compute=False))
    assert not found.figures and not found.gates


def test_the_prior_is_where_training_masks_agree(made) -> None:
    store, sealed = made
    alike = [sealed.stored[number] for number in (0, 4, 8)]
    prior = MeanMask(store, sealed.facts, alike, lattice_shape(3, 5, 2))
    assert (prior.masks, prior.unreadable, prior.points.shape) == (3, 0, (96, 96, 96))
    straight = turned(np.select([mask_of(0) == 6, mask_of(0) == 28], [1, 2], 0), OBLIQUE)
    assert (resampled(prior.points, SHAPE) == straight).all()
    assert MeanMask(store, sealed.facts, [], (8, 8, 8)).points.max() == 0


def test_the_lattice_follows_the_patient_and_not_the_file() -> None:
    numbers = ball((6, 8, 12), (1, 2, 3), 2, 1)
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    flipped = numbers[::-1].transpose(2, 0, 1)
    turn = np.zeros((4, 4))
    # Axis 0 of the file runs along z, axis 1 against x, axis 2 along y.
    turn[2, 0], turn[0, 1], turn[1, 2], turn[3, 3] = 2, -2, 2, 1
    assert (turned(flipped, turn) == turned(numbers, affine)).all()
    lattice = lattice_shape(3, 10, 2)
    assert (resampled(resampled(numbers, lattice), numbers.shape) == numbers).all()
    flat = ball((16, 32), (5, 6), 3, 1)
    assert resampled(turned(flat, None), lattice_shape(2, 10, 1)).shape == (512, 512, 1)


def test_the_lattice_is_coarser_for_many_cases() -> None:
    assert [lattice_shape(3, cases, 14)[0] for cases in (10, 300, 1000)] == [96, 48, 32]
    assert lattice_shape(2, 2000, 1) == (128, 128, 1)


def test_pair_scores_are_dice_of_every_truth_with_every_answer() -> None:
    rng = np.random.default_rng(3)
    truth, given = rng.integers(0, 3, (2, 4, 50)).astype(np.uint8)
    truth[3] = given[3] = 0
    scores = pair_scores(truth, given, np.array([True, True, False, True]), 2)
    for i, j in itertools.product(range(4), range(4)):
        each = []
        for s in (1, 2):
            a, b = truth[i] == s, given[j] == s
            if a.sum() + b.sum():
                each.append(2 * (a & b).sum() / (a.sum() + b.sum()))
        wanted = 0.0 if j == 2 else np.mean(each) if each else np.nan
        np.testing.assert_allclose(scores[i, j], wanted)


def test_few_patients_are_permuted_in_all_orders() -> None:
    scores = np.where(np.eye(3, dtype=bool), 0.9, 0.3)
    (control,), p = permutation(scores, np.arange(3), (8, 8, 8), 1000, 0)
    assert p == pytest.approx(1 / 6)
    assert control.value == pytest.approx(0.42)  # in three of the five others a patient keeps its own answer
    assert "all 6 orders of 3 patients" in control.detail and "smallest possible 0.1667" in control.detail
    many = np.where(np.eye(12, dtype=bool), 0.9, 0.3)
    (control,), p = permutation(many, np.arange(12), (8, 8, 8), 500, 0)
    assert p == pytest.approx(1 / 501) and "500 random exchanges" in control.detail
    assert permutation(np.full((2, 2), 0.5), np.arange(2), (8, 8, 8), 100, 0)[1] == 1.0
    assert permutation(np.full((2, 2), np.nan), np.arange(2), (8, 8, 8), 100, 0) == ((), None)


def test_the_cases_of_a_patient_move_together() -> None:
    # Two scans each: the second of a patient gets the other's second.
    scores = np.arange(16, dtype=float).reshape(4, 4) / 16
    (control,), _ = permutation(scores, np.array([0, 0, 1, 1]), (8, 8, 8), 100, 0)
    assert control.value == pytest.approx(float(mean(scores[[0, 1, 2, 3], [2, 3, 0, 1]])))


def test_the_best_constant_is_found() -> None:
    control = constant(np.array([[10, 0], [0, 30]]), np.array([100, 100]), ("a", "b"))
    assert control.value == pytest.approx(max(20 / 110 / 1 + 0, (0 + 60 / 130) / 2))


@pytest.mark.parametrize(
    ("blank", "noisy", "failing"),
    [
        (lambda number: 0, lambda number: number, set()),
        (lambda number: None, lambda number: number, set()),
        (lambda number: number, lambda number: number, {BLANK}),
        (lambda number: 0, lambda number: number + 1, {CHANGED}),
    ],
)
def test_control_cases_of_masks(made, blank, noisy, failing: set[str]) -> None:
    """Whose mask a package answers with: on a blank image anyone's or none, on a noisy one the case's own."""
    store, many = made[0], 20
    refs = [store.put_bytes("cases", canonical(mask_of(number))) for number in range(4)]
    given = [answered(store, nifti(mask_of(number))) for number in range(4)]
    rows = [
        IndexRow(
            sample_id=f"s{number}", patient=f"p{number}", target="m", files=("i",),
            split="test" if number < many else "train",
        )
        for number in range(2 * many)
    ]  # fmt: skip
    sealed = sealed_of(rows, "organ_segmentation", values=VALUES, masks=[refs[n % 4] for n in range(2 * many)])
    listed = with_controls(sealed, sealed.stored[:many])
    assert sorted(listed.altered.values()) == ["blanked"] * 10 + ["noise"] * 10

    def answer(number: int | None) -> object:
        error = {"error": "std is 0"}
        return error if number is None else given[number % 4]

    says = {"blanked": blank, "noise": noisy}
    controls = {name: answer(says[how](int(name.rpartition("s")[2]))) for name, how in listed.altered.items()}
    cases = {row.sample_id: answer(number) for number, row in enumerate(rows[:many])}
    data = {"task": "organ_segmentation", "label_values": VALUES, "cases": cases, "controls": controls}
    one = Asked(sealed, "dice", json.dumps(data).encode(), store)
    found = measure(one)
    gates = judge(one, measure, found, found.figures[0])
    assert {gate.name for gate in gates if not gate.passed} == failing, gates
