"""Index, split and lock: what the Data Engineer prepares and the scorer seals."""

from typing import Literal

from pydantic import Field, JsonValue

from shared.contracts.base import Contract, Event, Ref, Spent, TaskKind

Split = Literal["train", "val", "test"]
Grouping = Literal["stated", "derived", "inferred"]


class IndexRow(Contract):
    """One sample of an index. The file is JSON Lines, one row a line (`index.jsonl`).

    A scan may be one file or an ordered list of slices; order is the order of slices.
    """

    sample_id: str = Field(min_length=1)
    patient: str = Field(min_length=1)
    """Whatever must not stand on both sides of a split."""
    study: str | None = None
    label: str | tuple[str, ...] | None = None
    """Class name, or names when several may hold; None for a segmentation or report."""
    target: str | None = None
    """Relative path of the mask, or the report's text; None for a diagnosis."""
    files: tuple[str, ...] = Field(min_length=1)
    """Relative to the dataset's folder, `/` as separator, never leaving it."""
    attributes: dict[str, JsonValue] = {}
    """Columns that inference needs too (rescale slope, region of interest); never a label."""
    split: Split


class IndexMeta(Contract):
    """What holds for the whole index (`index_meta.json` beside `index.jsonl`)."""

    task: TaskKind
    dimensions: Literal[2, 3]
    label_names: tuple[str, ...] = ()
    """Class names in the order of their numbers 0..N-1; of a segmentation the structures, without background."""
    label_values: dict[str, int] = {}
    """Of a segmentation: structure -> its value in the masks (28 stays 28); 0 is background and never listed."""
    grouping: Grouping
    grouping_from: str
    """How patients were told apart, in a sentence."""
    split_from: Literal["dataset", "made"]
    seed: int = 0
    excluded: dict[str, tuple[str, ...]] = {}
    """Reason -> files or samples left out; long lists are cut, `excluded_counts` is whole."""
    excluded_counts: dict[str, int] = {}


class Handoff(Contract):
    """What the earlier role learned, so that no later role explores again."""

    layout: str = ""
    geometry: dict[str, JsonValue] = {}
    """Measured: slices a scan, image sizes, spacing, intensity range, file types."""
    oddities: tuple[str, ...] = ()


class PreparedDataset(Contract):
    """Deliver the index: where it lies in your workspace, and what you learned that later roles need.

    A probe reads every row and file before it is accepted: patients, copies, missing and unreadable files, labels.
    """

    index_path: str = "index.jsonl"
    meta_path: str = "index_meta.json"
    handoff: Handoff = Handoff()
    warnings: tuple[str, ...] = ()


class DatasetPrepared(Event):
    kind: Literal["DatasetPrepared"] = "DatasetPrepared"
    index: Ref
    meta: IndexMeta
    counts: dict[str, dict[str, int]]
    """split -> class -> samples; the class of unlabelled tasks is `all`. Where several labels may hold, a sample counts
    for each and once for `all`."""
    patients: dict[str, int]
    """split -> patients."""
    handoff: Handoff = Handoff()
    warnings: tuple[str, ...] = ()
    spent: Spent = Spent()


TOLD_CHECKS = {
    "near_duplicate": "told: pairs of different patients that show the same image; a gate of its own judges them",
    "near_duplicate_in_given_split": "told: the split came with the dataset and was left as it is",
    "content_not_compared": "told: samples whose content could not be compared",
    "look_not_compared": "told: samples in which near-duplicates would not be found",
}
"""Checks of a leakage report that do not fail a lock, and what their number means."""


class LeakageReport(Contract):
    """What was looked for across the sides of the split, and what was found."""

    checks: dict[str, int]
    """Check -> number of offending pairs; every check that ran is named, also with 0."""
    pairs: tuple[tuple[str, str, str], ...] = ()
    """(check, sample, sample), the first of each."""
    notes: tuple[str, ...] = ()
    """What was compared and what was not, in sentences."""


class DatasetLocked(Event):
    """Test rows and labels are away; later roles see `view` and nothing else."""

    kind: Literal["DatasetLocked"] = "DatasetLocked"
    index_sha256: str
    manifest_sha256: str
    """Of the sealed split: sorted `sample_id patient split` lines."""
    view: Ref
    """A `ViewManifest` with training and validation rows only."""
    leakage: LeakageReport
    locks: int = Field(ge=1)
    counts: dict[str, dict[str, int]]
    patients: dict[str, int]
    label_names: tuple[str, ...] = ()
    label_values: dict[str, int] = {}


class PackedSample(Contract):
    """One sample's files as an uncompressed tar with its members in order and their times zeroed."""

    sample_id: str
    pack: Ref
    files: tuple[str, ...]
    """Member names, in order; of a training row with a mask that is the last."""
    target: Ref | None = None
    """The mask of a test row, an object of its own in the bucket sealed: never beside what a package is given."""


class PackList(Contract):
    """Result of a `pack` job: one entry for each row of the index, in its order."""

    samples: tuple[PackedSample, ...]
    looks: Ref | None = None
    """`shared.looks.RECORD`s, one for each sample: digests and small images, to find copies by."""


class ViewManifest(Contract):
    """The training view: rows to train on, the packs that hold their files, the workspace's allow-list."""

    rows: tuple[IndexRow, ...]
    packs: tuple[PackedSample, ...]
    label_names: tuple[str, ...]
    label_values: dict[str, int] = {}
    task: TaskKind
    dimensions: Literal[2, 3]
    handoff: Handoff = Handoff()
