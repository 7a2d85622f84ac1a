"""Reading a test set's masks: the truth as intake wrote it, the answers as the runner's program wrote them anew."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from pydantic import ValidationError

from services.scorer.answers import Answers, all_cases, error_text, parse
from services.scorer.masks.files import BadMask, Grid, fetched
from services.scorer.masks.overlap import Numbers
from shared.contracts.answers import MaskAnswer
from shared.contracts.base import Ref
from shared.contracts.scoring import Gate
from shared.store import Store

TOLERANCE = 0.25
"""Of the shortest voxel edge: how far a corner of an answer's volume may lie from that of the truth."""


def read_mask(store: Store, ref: Ref, values: Sequence[int]) -> tuple[Grid, Numbers]:
    """Grid and class numbers of a case. Raises BadMask."""
    with fetched(store, ref) as file:
        return file.grid, classes(file.numbers(), values)[0]


def classes(stored: Numbers, values: Sequence[int]) -> tuple[Numbers, int]:
    """Class numbers 1..N of the values in their order, and how many voxels hold another; those are 0, background."""
    kind = np.uint8 if len(values) < 255 else np.uint16
    unknown = np.iinfo(kind).max
    table = np.full(256**stored.dtype.itemsize, unknown, kind)
    table[0] = 0
    for number, value in enumerate(values, 1):
        if 0 < value < len(table):
            table[value] = number
    numbers = table[stored]
    other = numbers == unknown
    numbers[other] = 0
    return numbers, int(np.count_nonzero(other))


class _Unusable(Exception):
    def __init__(self, fault: str, why: str) -> None:
        super().__init__(why)
        self.fault = fault


class MaskReader:
    """The masks of one package, one at a time. What was wrong with them is in `failed`, and judged by `gates`."""

    def __init__(
        self, answers: bytes | Gate, cases: Sequence[str], label_values: Mapping[str, int], store: Store
    ) -> None:
        """`label_values` in the order of the structures' numbers."""
        self.failed: dict[str, str] = {}
        self._cases, self._values, self._store = tuple(cases), dict(label_values), store
        self._faults: Counter[str] = Counter()
        self._given = Answers(cases={}, rest={})
        self._read = Gate(name="predictions_readable", passed=True, evidence="")
        if isinstance(answers, Gate):
            self._read = answers
        else:
            try:
                self._given = parse(answers)
            except ValueError as error:
                self._read = self._read.model_copy(update={"passed": False, "evidence": str(error)})
        if not self.readable:
            self.failed = dict.fromkeys(cases, self._read.name)

    @property
    def readable(self) -> bool:
        """Whether there are answers at all."""
        return self._read.passed

    def read(self, case: str, truth: Grid) -> Numbers | None:
        """Class numbers on the truth's grid; None where there is no usable answer."""
        try:
            return self._usable(case, truth)
        except _Unusable as error:
            self._faults[error.fault] += 1
            self.failed[case] = str(error)
        except BadMask as error:
            self._faults["unreadable"] += 1
            self.failed[case] = str(error)
        return None

    def score_of(self, case: str) -> Ref | str | None:
        """The stored score image of a case, what is wrong with it, or None where the package gave none."""
        answer = self._answer(case)
        if answer is None:
            return None
        if answer.score_error is not None:
            return error_text({"error": answer.score_error}, "the score image is no file")
        return answer.score and (stored_by_runner(answer.score) or "the score image was not stored")

    def _answer(self, case: str) -> MaskAnswer | None:
        try:
            return MaskAnswer.model_validate(self._given.cases.get(case))
        except ValidationError:
            return None

    def _usable(self, case: str, truth: Grid) -> Numbers:
        answer = self._answer(case)
        ref = stored_by_runner(answer.mask) if answer and answer.error is None else None
        if answer is None or ref is None:
            fault = "unreadable" if answer and answer.unreadable else "missing"
            raise _Unusable(fault, error_text(self._given.cases.get(case), "no mask"))
        with fetched(self._store, ref) as file:
            if off := off_grid(file.grid, truth):
                raise _Unusable("geometry", off)
            if answer.fractions:
                raise _Unusable("fractions", f"{answer.fractions} voxels are no whole numbers")
            numbers, unknown = classes(file.numbers(), list(self._values.values()))
        if unknown := unknown + answer.outside:
            raise _Unusable("labels", f"{unknown} voxels have a value that is not in the label map")
        return numbers

    def gates(self) -> tuple[Gate, ...]:
        """What became of the answers; counts, never the names of test cases. Call it when all were read."""
        if not self._read.passed:
            return (self._read,)
        asked, faults = len(self._cases), self._faults
        unknown = len(set(self._given.cases) - set(self._cases))
        said = self._given.rest.get("label_values")
        differs = isinstance(said, dict) and bool(said) and said != self._values

        def gate(name: str, fault: str, what: str) -> Gate:
            return Gate(name=name, passed=not faults[fault], evidence=f"{faults[fault]} of {asked} masks {what}")

        return (
            gate("predictions_readable", "unreadable", "cannot be read as NIfTI or PNG"),
            all_cases(faults["missing"], asked),
            Gate(
                name="no_unknown_cases", passed=not unknown, evidence=f"{unknown} predictions for cases not asked for"
            ),
            gate(
                "geometry_kept",
                "geometry",
                f"are not on the truth's grid (same shape, corners within {TOLERANCE:g} of a voxel edge)",
            ),
            Gate(
                name="labels_in_map",
                passed=not faults["labels"] and not differs,
                evidence=f"{faults['labels']} of {asked} masks have values other than 0 and the {len(self._values)} of "
                f"the label map{'; the package states other label values' if differs else ''}",
            ),
            gate("values_whole", "fractions", "have values that are no whole numbers"),
        )


def off_grid(grid: Grid, wanted: Grid) -> str | None:
    """How a mask misses the grid that it should be on; None when it does not."""
    if (grid.affine is None) != (wanted.affine is None):
        return "the mask is a picture where a volume was wanted, or a volume for a picture"
    if grid.shape != wanted.shape:
        return f"the mask has the shape {grid.shape} instead of {wanted.shape}"
    if grid.affine is None or wanted.affine is None:
        return None
    size = [*wanted.shape, *[1] * (3 - len(wanted.shape))]
    corners = np.array([(x, y, z, 1) for x in (0, size[0]) for y in (0, size[1]) for z in (0, size[2])], dtype=float)
    off = float(np.linalg.norm((corners @ (grid.affine - wanted.affine).T)[:, :3], axis=1).max())
    edge = float(np.linalg.norm(wanted.affine[:3, :3], axis=0).min())
    return f"the mask's affine moves a corner by {off:.3g} mm" if off > TOLERANCE * edge else None


def stored_by_runner(ref: Ref | None) -> Ref | None:
    """Only what the runner stored among the packages' output counts."""
    return ref if ref and ref.bucket == "packages" else None
