"""From rules to cases: what the resolver lists, what intake makes of it, and what either says about coverage."""

from collections.abc import Collection
from typing import Literal

from pydantic import Field, JsonValue

from shared.contracts.base import Contract, Ref, TaskKind
from shared.contracts.rules import MaskKind, Rules, Split
from shared.contracts.wrapping import Groups, Wrapping

NAMES, NAME, NAMES_IN_ALL = 1000, 100, 20_000
"""Most names of classes or structures, and characters of one and of all: names travel to later roles."""
Grouping = Literal["stated", "derived", "inferred"]
"""How sure patients are: a column or header names them; read off names or folders; or each case counts as one, and what
shows one study is joined by the lock."""


def unfit(names: Collection[str]) -> str:
    """Why these cannot name classes or structures: names could carry anything, and a vocabulary is short. Empty where
    they can."""
    if strange := [name for name in names if not 0 < len(name) <= NAME or not name.isprintable()]:
        return (
            f"{len(strange)} of {len(names)} names of classes or structures are empty, not printable or longer than "
            f"{NAME} characters, such as {strange[0][:40]!r}: give them short names in `classes` or `values`, or take "
            "another column"
        )
    if len(names) > NAMES or sum(map(len, names)) > NAMES_IN_ALL:
        return f"{len(names)} names of classes or structures are too many or too long: take another column"
    return ""


class Part(Contract):
    """One channel of one image: a file, or slices in order; `array` picks one of several arrays of the file, `index`
    one entry of it."""

    files: tuple[str, ...] = Field(min_length=1)
    """Relative to the dataset, `/` as separator, never leaving it."""
    array: str | None = None
    index: int | None = Field(default=None, ge=0)
    """Of an array that holds one image after the other: which, from 0."""


class Shape(Contract):
    """A marked region in pixels of the image: x to the right, y down, (0, 0) is the outer corner of the first pixel."""

    value: int = Field(ge=1)
    kind: Literal["box", "polygon", "relative_box", "relative_polygon", "runs", "coco_runs"]
    """`box`: x, y, width, height. `polygon`: x, y, x, y, ... `relative_*`: shares of the edges; boxes by their middle.
    `runs`: start, length, ... of pixels. `coco_runs`: alternating counts of background and structure down columns."""
    numbers: tuple[float, ...]


class MaskSpec(Contract):
    """One mask of a case with its decisions made: which file, and which value becomes which."""

    kind: MaskKind
    files: tuple[str, ...] = ()
    array: str | None = None
    index: int | None = Field(default=None, ge=0)
    """As in `Part`."""
    values: dict[str, int] = {}
    """Value in the file, as text (of a palette `#rrggbb`, of SEG and RTSTRUCT the name) -> value of the case's mask.
    `nonzero` stands for every value that is not 0; `*` keeps every value as it is."""
    shapes: tuple[Shape, ...] = ()
    """Of rle, boxes, polygons, coco, yolo, voc and labelme."""
    order: Literal["columns", "rows"] = "columns"
    start: Literal[0, 1] = 1
    size: tuple[int, int] | None = None
    """Width and height that the annotation gives the image; None when it does not say."""


class CaseSpec(Contract):
    """One case as the rules find it, before anything of it is decoded."""

    key: str = Field(min_length=1)
    """Unique; names the case to the Data Engineer and in the report of left out cases. Never leaves them."""
    images: tuple[tuple[Part, ...], ...] = Field(min_length=1)
    """View -> channel. Only views of one examination make several."""
    patient: str = Field(min_length=1)
    label: str | tuple[str, ...] | None = None
    text: str | None = None
    masks: tuple[MaskSpec, ...] = ()
    slope: float | None = None
    intercept: float | None = None
    split: Split | None = None
    """Where the dataset puts it; None when the dataset does not say."""
    groups: Groups = Groups()
    """That tables tell; headers are read later."""


Lossless = Literal["untargeted", "unmasked", "no_image"]
"""What may be left out without a loss: cases not asked for, or without a class or report; images without a mask, for
which there is no case; files that are no image of a case (`shared.dataset.rules.reasons`)."""


class Coverage(Contract):
    """What rules make of a dataset: the answer of `try_rules`, and what the lock's report says of them."""

    task: TaskKind
    dimensions: Literal[2, 3]
    cases: int
    files: int
    """Image files of the dataset, targets included."""
    used: int
    """Of them, files that are part of a case."""
    patients: int
    grouping: Grouping
    grouping_from: str
    counts: dict[str, int] = {}
    """Class or structure -> cases (of masks: where it is known without opening them)."""
    label_names: tuple[str, ...] = ()
    """Classes or structures, sorted naturally; grades from least to most."""
    ordered: bool = False
    """Whether the classes are grades, as `label.order` of the rules says."""
    label_values: dict[str, int] = {}
    """Of masks: structure -> value in the cases' masks."""
    splits: dict[str, int] = {}
    """Side -> cases, where the dataset brings a split."""
    channels: tuple[str, ...] = ()
    views: dict[str, int] = {}
    """Number of views -> cases, where cases differ or have several."""
    added_up: int = 0
    """Cases of which several masks mark one structure; they add up."""
    stood_in: dict[str, int] = {}
    """`T1C for T1` -> cases that lack the one channel and have the other in its place."""
    left_out: dict[str, int] = {}
    """Reason, with its remedy -> how many files, rows or cases."""
    lossless: dict[Lossless, int] = {}
    """Of `left_out`, how many were to be expected."""
    left_out_examples: dict[str, tuple[str, ...]] = {}
    unnamed: dict[str, tuple[str, ...]] = {}
    """Table whose rows name no image, and what its key names -> some images without a row, as a key would name them."""
    conflicts: tuple[str, ...] = ()
    """Contradictions of rules and data: two ids for one file, a file in two cases, a patient on two sides."""
    problems: tuple[str, ...] = ()
    """Why no model can be made of this: no case, one class, one patient. Empty when one can."""
    examples: tuple[dict[str, JsonValue], ...] = ()
    """The first cases, each in a line's worth of fields."""

    @property
    def lost(self) -> int:
        """Of `left_out`, what was not to be expected."""
        return sum(self.left_out.values()) - sum(self.lossless.values())


class CaseRecord(Contract):
    """One case after intake: a line of the case table in the bucket `sealed`, which the scorer alone reads."""

    key: str
    patient: str
    label: str | tuple[str, ...] | None = None
    text: str | None = None
    split: Split | None = None
    images: tuple[Ref, ...] = Field(min_length=1)
    """One a view, canonical: `image/png`, `image/tiff` or `application/x-nifti` (gzipped)."""
    mask: Ref | None = None
    """On the grid of the image: `image/png` for a picture, gzipped NIfTI for a volume."""
    values: tuple[int, ...] = ()
    """That occur in the mask, without 0."""
    facts: dict[str, JsonValue] = {}
    """Measured by trusted code: shape, spacing, channels, hu, percentiles."""
    wrapping: Wrapping = Wrapping()


class Persons(Contract):
    """Whose each case is by one source in the files that trusted code read (`shared.dataset.rules.persons`)."""

    where: str
    """In words: `PatientID of the DICOM headers`, `column patient of cases.csv`."""
    stated: bool
    """Whether a header or column says so; else it is read off names."""
    of: dict[str, int]
    """Key of a case -> a number that stands for the person and says nothing of it."""


class Apart(Contract):
    """How the cases of the rules that were carried out differ from those that a proposal finds
    (`shared.dataset.rules.apart`)."""

    cases: int
    """Of the proposal."""
    absent: int = 0
    """Of them, cases that the rules do not find."""
    renamed: dict[str, str] = {}
    """Class or structure as the proposal calls it -> as the rules do, where that differs."""
    relabelled: int = 0
    """Cases with another label than the renamed one."""
    labels: int = 0
    """Labels that cases have once they are renamed: those that relabelled ones may have."""
    regrouped: int = 0
    """Cases that move to another patient, or to one of their own."""
    no_split: bool = False
    """Whether the rules do without the split that the proposal uses."""


class Proposal(Contract):
    """One set of rules that the search proposes, with what it explains."""

    rules: dict[str, JsonValue]
    """A `Rules`, as it stands in dataset.yaml."""
    coverage: Coverage
    share: float
    """Of the image files that it explains, 0 to 1."""
    score: float
    says: str
    """In a sentence a person understands: what is a case, where its patient, its target and its split come from."""
    key: str = ""
    """What it differs in from others, such as `label column`; proposals of one key are alternatives of a question."""
    choice: str = ""
    """Its value of `key`, such as `diagnosis in labels.csv`."""
    apart: Apart | None = None
    """In a case table; None where cases were not compared, or more differs."""


class CaseTable(Contract):
    """Result of an intake job, in the bucket `sealed`."""

    cases: tuple[CaseRecord, ...]
    coverage: Coverage
    left_out: dict[str, tuple[str, ...]] = {}
    """Reason -> keys or files that intake left out, beyond what rules did: unreadable, mask on another grid, NaN."""
    looks: Ref | None = None
    """`shared.looks.RECORD`s, one for each case."""
    by_script: bool = False
    """Whether a script of the Data Engineer listed the cases (`Rules.listed`)."""
    persons: tuple[Persons, ...] = ()
    rules: Rules | None = None
    """That were carried out."""
    proposals: tuple[Proposal, ...] = ()
    """What the search proposes for plan, request and files, best first, without a word of whoever wrote the rules."""
    limited: tuple[Proposal, ...] = ()
    """The same, limited to `coverage.label_names`, where these are a part of the names that `proposals` tell apart."""
