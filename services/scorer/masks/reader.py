"""Reading a test set's masks: the truth from the sealed bucket, the answers as data that strangers wrote."""

import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from services.scorer.answers import Answers, all_cases, error_text, parse
from services.scorer.masks.overlap import Numbers
from shared.contracts.base import Ref
from shared.contracts.data import PackedSample
from shared.contracts.scoring import Gate
from shared.maskfile import MAX_BYTES, BadMask, Classes, MaskHeader, read_classes, read_header
from shared.store import Store

TOLERANCE = 0.25
"""Of the shortest voxel edge: how far a corner of an answer's volume may lie from that of the truth."""


def read_mask(store: Store, ref: Ref, values: Sequence[int]) -> tuple[MaskHeader, Classes]:
    """A mask of the dataset. Raises BadMask."""
    with tempfile.TemporaryDirectory(prefix="m3-mask-") as folder:
        path = Path(folder) / "mask"
        store.get_file(ref, path)
        with path.open("rb") as stream:
            header = read_header(stream)
            return header, read_classes(stream, header, values)


def read_packed_mask(store: Store, pack: PackedSample, values: Sequence[int]) -> tuple[MaskHeader, Classes]:
    """The mask of a training row, the last member of its pack. Raises BadMask."""
    with tempfile.TemporaryDirectory(prefix="m3-mask-") as folder:
        path = Path(folder) / "pack.tar"
        store.get_file(pack.pack, path)
        with tarfile.open(path, "r:") as archive:
            stream = archive.extractfile(archive.getmember(pack.files[-1]))
            if stream is None:
                raise BadMask("the last member of its pack is no file")
            header = read_header(stream)  # type: ignore[arg-type]
            return header, read_classes(stream, header, values)  # type: ignore[arg-type]


def damage(store: Store, pack: PackedSample, values: Sequence[int]) -> str | None:
    """What keeps a test row's mask from being scored against; None when nothing does."""
    if pack.target is None:
        return None  # said by a gate of its own
    try:
        header, found = read_mask(store, pack.target, values)
    except BadMask as error:
        return str(error)
    if found.fractions:
        return f"{found.fractions} voxels are no whole numbers"
    image = _image_header(store, pack)
    # A package keeps to the grid of what it is given: no answer could be right for a mask that lies elsewhere. Half of
    # the tolerance is for this, so that the other half is left to the package.
    return f"beside its image, {off}" if image and (off := off_grid(header, image, TOLERANCE / 2)) else None


def _image_header(store: Store, pack: PackedSample) -> MaskHeader | None:
    """Of a sample's first image; None where it has none that masks have too (DICOM, several channels)."""
    with tempfile.TemporaryDirectory(prefix="m3-mask-") as folder:
        path = Path(folder) / "pack.tar"
        store.get_file(pack.pack, path)
        with tarfile.open(path, "r:") as archive:
            stream = archive.extractfile(archive.getmember(pack.files[0]))
            try:
                return read_header(stream) if stream else None  # type: ignore[arg-type]
            except BadMask:
                return None


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

    def read(self, case: str, truth: MaskHeader) -> Numbers | None:
        """Class numbers on the truth's grid; None where there is no usable answer."""
        try:
            return self._usable(self._given.cases.get(case), truth)
        except _Unusable as error:
            self._faults[error.fault] += 1
            self.failed[case] = str(error)
        except BadMask as error:
            self._faults["unreadable"] += 1
            self.failed[case] = str(error)
        return None

    def score_of(self, case: str) -> Ref | str | None:
        """The stored score image of a case, what is wrong with it, or None where the package gave none."""
        answer = self._given.cases.get(case)
        if not isinstance(answer, dict):
            return None
        if answer.get("score_error") is not None:
            return error_text({"error": answer["score_error"]}, "the score image is no file")
        if answer.get("score") is None:
            return None
        return _ref({"mask": answer["score"]}) or "the score image was not stored"

    def _usable(self, answer: object, truth: MaskHeader) -> Numbers:
        ref = _ref(answer)
        if ref is None:
            raise _Unusable("missing", error_text(answer, "no mask"))
        with tempfile.TemporaryDirectory(prefix="m3-mask-") as folder:
            path = Path(folder) / "mask"
            self._store.get_file(ref, path)
            with path.open("rb") as stream:
                header = read_header(stream, pictures=("PNG",))
                if off := off_grid(header, truth):
                    raise _Unusable("geometry", off)
                found = read_classes(stream, header, list(self._values.values()))
        if found.fractions:
            raise _Unusable("fractions", f"{found.fractions} voxels are no whole numbers")
        if found.unknown:
            raise _Unusable("labels", f"{found.unknown} voxels have a value that is not in the label map")
        return found.numbers

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


def off_grid(header: MaskHeader, wanted: MaskHeader, tolerance: float = TOLERANCE) -> str | None:
    """How a mask misses the grid that it should be on; None when it does not."""
    if (header.affine is None) != (wanted.affine is None):
        return "the mask is a picture where a volume was wanted, or a volume for a picture"
    if header.shape != wanted.shape:
        return f"the mask has the shape {header.shape} instead of {wanted.shape}"
    if header.affine is None or wanted.affine is None:
        return None
    size = [*wanted.shape, *[1] * (3 - len(wanted.shape))]
    corners = np.array([(x, y, z, 1) for x in (0, size[0]) for y in (0, size[1]) for z in (0, size[2])], dtype=float)
    off = float(np.linalg.norm((corners @ (header.affine - wanted.affine).T)[:, :3], axis=1).max())
    edge = float(np.linalg.norm(wanted.affine[:3, :3], axis=0).min())
    return f"the mask's affine moves a corner by {off:.3g} mm" if off > tolerance * edge else None


def _ref(answer: object) -> Ref | None:
    """The stored mask that an answer names; only what the runner stored among the packages' output counts."""
    if not isinstance(answer, dict) or answer.get("error") is not None:
        return None
    try:
        ref = Ref.model_validate(answer.get("mask"))
    except ValidationError:
        return None
    return ref if ref.bucket == "packages" and ref.size <= MAX_BYTES else None
