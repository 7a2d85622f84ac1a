"""Rules, split and lock: what the Data Engineer prepares and the scorer seals."""

from typing import Literal

from pydantic import Field, JsonValue

from shared.contracts.base import Contract, Event, Ref, Spent, TaskKind
from shared.contracts.cases import Coverage, Grouping
from shared.contracts.rules import Split


class IndexRow(Contract):
    """One case of a view (`train_index.jsonl` has one a line). Ids and names say nothing: the scorer makes them."""

    sample_id: str = Field(min_length=1)
    """`case_<random>`."""
    patient: str = Field(min_length=1)
    """`p_<random>`: what must not stand on both sides of a split."""
    label: str | tuple[str, ...] | None = None
    """Class name, or names when several may hold; None for a segmentation or report."""
    target: str | None = None
    """Relative path of the mask, or the report's text; None for a diagnosis."""
    files: tuple[str, ...] = Field(min_length=1)
    """One image a view: `<sample_id>/image.nii.gz`, `.../image.png` or `.../image.tif`; further ones `image_1.png`, ...
    Channels are in the file: of a NIfTI the fourth axis."""
    split: Split


class DatasetFacts(Contract):
    """What trusted programs measured of the cases: all that later roles learn of a dataset."""

    task: TaskKind
    dimensions: Literal[2, 3]
    label_names: tuple[str, ...] = ()
    """Class names in the order of their numbers 0..N-1; of a segmentation the structures, without background."""
    ordered: bool = False
    """Whether the classes are grades: `label_names` goes from least to most."""
    label_values: dict[str, int] = {}
    """Of a segmentation: structure -> its value in the masks; 0 is background and never listed."""
    channels: tuple[str, ...] = ()
    """Names of the images' channels, in order; empty where they have none."""
    stood_in: dict[str, int] = {}
    """`T1C for T1` -> cases that lack the one channel and have the other in its place."""
    grouping: Grouping
    grouping_from: str
    """How patients were told apart, in a sentence of ours."""
    split_from: Literal["dataset", "made"]
    left_out: dict[str, int] = {}
    """Reason, with its remedy -> cases, files or rows that are no case."""
    by_script: bool = False
    """Whether a script listed the cases instead of rules."""
    measured: dict[str, JsonValue] = {}
    """Sizes, spacing, values (`hu`, percentiles by class, of structures inside them), over the training cases."""


class PreparedDataset(Contract):
    """Deliver the rules by which this dataset's cases are found: a YAML file of your workspace (`dataset.yaml`).

    A probe carries them out on the whole dataset before they are accepted; `try_rules` tells you the same before.
    `notes` are for the report: what a reader should know of these data. No later role reads them.
    """

    rules_path: str = "dataset.yaml"
    listed_path: str | None = None
    """What `listed` in the rules names, if a script listed the cases."""
    notes: tuple[str, ...] = Field(default=(), max_length=20)


class DatasetPrepared(Event):
    kind: Literal["DatasetPrepared"] = "DatasetPrepared"
    rules: Ref
    """A `shared.contracts.rules.Rules` as YAML."""
    listed: Ref | None = None
    """The cases that a script listed (`Rules.listed`)."""
    coverage: Coverage
    notes: tuple[str, ...] = ()
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
    """Test cases and their answers are away; later roles see `view` and nothing else."""

    kind: Literal["DatasetLocked"] = "DatasetLocked"
    rules_sha256: str
    sealed: Ref
    """A `SealedSplit` in the bucket sealed."""
    manifest_sha256: str
    """Of the sealed split: sorted `sample_id patient split` lines."""
    view: Ref
    """A `ViewManifest` with training and validation cases only."""
    leakage: LeakageReport
    locks: int = Field(ge=1)
    counts: dict[str, dict[str, int]]
    """split -> class -> cases; the class of unlabelled tasks is `all`. Where several labels may hold, a case counts for
    each and once for `all`."""
    patients: dict[str, int]
    """split -> patients."""
    facts: DatasetFacts
    unvouched: bool = False
    """Whether the score is at most `valid` unless a person says that the rules are right (gate `rules_say_little`)."""


class StoredCase(Contract):
    """Where the files of a case lie in the store: canonical ones, in the bucket `cases`."""

    sample_id: str
    images: tuple[Ref, ...] = Field(min_length=1)
    """One a view, in the order of the row's files."""
    mask: Ref | None = None


class ViewManifest(Contract):
    """The training view: training and validation cases, and where their files lie."""

    rows: tuple[IndexRow, ...]
    stored: tuple[StoredCase, ...]
    """One a row, in its order."""
    facts: DatasetFacts


class SealedSplit(Contract):
    """All cases with their sides, made once by the scorer from a secret seed. Only scorer and runner read it."""

    rows: tuple[IndexRow, ...]
    """Train, val and test."""
    stored: tuple[StoredCase, ...]
    """One a row, in its order."""
    keys: tuple[str, ...]
    """One a row: what the rules call the case."""
    facts: DatasetFacts
    seed: str
    """Hexadecimal; a replay with it gives the same split."""


Altered = Literal["blanked", "moved", "noise"]
"""What is done to an image (`shared.dataset.intake.altered`)."""


class CaseList(Contract):
    """Cases that a package is to predict on: their images, never their masks."""

    samples: tuple[StoredCase, ...]
    altered: dict[str, Altered] = {}
    """Control cases among them -> what the runner does to their images."""
