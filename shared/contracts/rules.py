"""Rules of a dataset (`dataset.yaml`): how its cases, patients and targets are found. The Data Engineer's answer.

Rules say how, never which: no row of a case stands in them. Trusted code (`shared.dataset.rules.resolve`) carries them
out.

A *pattern* is a path relative to the dataset, `/` as separator, case-insensitive: `{name}` takes one or more characters
of a file or folder name other than `/` and is a *field*; `*` takes any characters but `/`, `**` also `/`. A field that
stands twice takes the same text both times. Patterns of one set of rules are joined over the fields that they share.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from shared.contracts.base import Contract, TaskKind
from shared.contracts.values import Patterns, Source, Table, Texts

Split = Literal["train", "val", "test"]


class Images(Contract):
    """The files of one channel. Most datasets have one channel, and then one entry."""

    files: Patterns = Field(min_length=1)
    take: Literal["all", "first"] = "all"
    """Of a case for which several patterns of `files` have files: all of them, or those of the first one, such as
    images that were digitised again."""
    channel: str = ""
    """Its name, such as T1 or FLAIR; needed where there are several."""
    stand_in: str = ""
    """Name of the channel whose image is taken in this one's place where a case lacks it; empty: such a case is left
    out."""
    array: str | None = None
    """Name of the array in an npz, mat or h5 file that holds several. With fields (`scans/{scan}`, `{split}_images`) it
    is a pattern: each array that fits is an image of its own, with these fields beside those of `files`."""


class LabelRule(Contract):
    """The class of a case (`source`), or its classes (`source` with `separator`, or one-hot `columns` of `table`)."""

    source: Source | None = None
    separator: str | None = None
    """Splits a cell with several classes, such as `|`; several may hold then."""
    table: str | None = None
    columns: dict[str, str] = {}
    """Column with 0/1, yes/no -> class."""
    otherwise: "LabelRule | None" = None
    """Of one-hot columns: those of another table, for cases of which this one has no mark: an adjudication before the
    reading that it corrects. Only its `table` and `columns` count."""
    several: bool = False
    """Of one-hot columns: whether several classes may hold of one case. Otherwise exactly one is 1."""
    classes: dict[str, str | None] = {}
    """Value as written -> class, null leaves the case out. Empty: values are the classes. Values that are not listed
    leave the case out."""
    only: tuple[str, ...] = ()
    """Classes that were asked for; cases of others are left out (of several labels: others are dropped)."""
    order: tuple[str, ...] = ()
    """All classes from least to most, where they are grades or stages; empty where they are kinds."""
    missing: Literal["leave_out", "none"] = "leave_out"
    """Of several labels: what an empty cell means, unknown or that none holds."""

    @property
    def tables(self) -> "tuple[LabelRule, ...]":
        """With one-hot columns: this rule and those that stand in for it, in their order."""
        return (self, *(self.otherwise.tables if self.otherwise else ())) if self.columns else ()

    @model_validator(mode="after")
    def _with_columns(self) -> Self:
        if self.otherwise and not (self.columns and self.otherwise.columns):
            raise ValueError("`otherwise` of `label` is for `columns`; of a source it stands in the source")
        return self

    @model_validator(mode="after")
    def _one_grade(self) -> Self:
        if self.order and (self.separator is not None or self.several):
            raise ValueError("`order` is of classes of which a case has one: it goes with no `separator`, no `several`")
        return self


MaskKind = Literal[
    "file", "palette", "array", "rle", "boxes", "polygons", "coco", "label_studio", "cvat", "via", "yolo", "voc",
    "labelme", "dicom_seg", "rtstruct",
]  # fmt: skip
Box = Literal["corners", "inclusive", "size", "middle"]


class MaskRule(Contract):
    """Where structures are marked. Several rules of one case add up, the later one on top.

    `file`: `files` is a label image, or with the field `structure` one binary file a structure.
    `palette`: a colour picture with `colors`. Where names do not lead to the images, the cells of `column` of `table`
    name a case's masks, by path, name or a field of `files`, as a table's key names images (`12` is `kontur_012` of
    `kontur_{number}`). `array`: `array` of the image's own file, or of `files`;
    `{field}` takes a field's text, and with `case: entry` it has one mask an entry.
    `rle`: `column` of `table`, one row or several a case. `boxes`, `polygons`: numbers in `columns` of `table`, one row
    or several a case; of overlapping ones of one rule the smaller is on top, and a row without numbers marks nothing.
    `coco`, `label_studio`, `cvat`, `via`: `files` is the JSON, XML or CSV; its images are matched by name, where `via`
    tells it also by their size in bytes. Of `cvat` and `via` an image
    without a shape or a tag is one without a mask (`missing`).
    `yolo`, `voc`, `labelme`: one text, XML or JSON file a case; `values`/`structures` name the numbers of yolo.
    `dicom_seg`, `rtstruct`: the object refers to its series itself.
    """

    kind: MaskKind = "file"
    files: Patterns = ()
    take: Literal["all", "first"] = "all"
    """Of a case for which several patterns of `files` have masks: all of them, or those of the first one, such as a
    consensus before its readers."""
    structure: str | None = None
    """Name of the structure where everything that is not 0, or that a list marks (coco and alike), belongs to one;
    `{field}` takes a field's text."""
    values: dict[str, int] = {}
    """Structure -> its value in the file (of yolo, boxes: its number); a case with another value is left out. Empty and
    no `structure`: all values that occur, named by the file's own names (SEG, COCO, Label Studio, RTSTRUCT, VOC) or
    `structure <value>`."""
    named: dict[str, Texts] = {}
    """Structure -> what files call it that name what they mark (3D Slicer's `.seg.nrrd`, SEG, RTSTRUCT, COCO and
    alike), each reader in their own way: {bladder: [Bladder, blaas, "bladder *"]}."""
    colors: dict[str, str] = {}
    """Of a palette: `#rrggbb` -> structure; black is background unless listed."""
    array: str | None = None
    table: str | None = None
    column: str | None = None
    columns: tuple[str, ...] = ()
    """Of `boxes`: the four columns of x, y and what `box` says, or one whose cells hold all of it. Of `polygons`: those
    of x and of y, or one. A cell may hold several: `[[1, 2, 30, 40], ...]`, `1 2 30 40; ...`, or in lines."""
    box: Box = "corners"
    """The numbers of a box: x, y of two corners, the far one behind the last pixel (`corners`) or on it (`inclusive`,
    like VOC but from 0); x, y of the top left corner, width, height (`size`); or x, y of the middle (`middle`)."""
    shares: bool = False
    """Of `boxes` and `polygons`: numbers are shares of the image's width and height instead of pixels."""
    class_column: str | None = None
    """Of `rle`, `boxes` and `polygons`: the column that names the structure, or as many as the row has regions; else
    `structure`. Where it holds numbers, `values` may name them."""
    order: Literal["columns", "rows"] = "columns"
    """Of `rle`: pixels are counted down the columns (as Kaggle does) or along the rows."""
    start: Literal[0, 1] = 1
    """Of `rle`: number of the first pixel."""
    only: tuple[str, ...] = ()
    """Structures that were asked for; others count as background."""
    latest: str | None = None
    """Of `dicom_seg` and `rtstruct`: DICOM keyword of a date, such as ContentDate; of several objects of a case the
    last one counts. Otherwise they add up."""
    missing: Literal["leave_out", "empty"] = "leave_out"
    """What a case without a mask is: left out, or healthy with nothing marked."""
    marked: Source | None = None
    """Yes or no (1 or 0), or how many: whether there is something to mark. Of cases without a mask one with no is
    healthy, whatever `missing` says, and one with yes lacks its mask and is left out."""
    unmarked: Texts = ()
    """Values of `marked` that say no, where it is told in words; all others say yes."""

    @model_validator(mode="after")
    def _of_use(self) -> Self:
        kinds = ("file", "palette", "array", "coco", "label_studio", "cvat", "via")
        if self.take == "first" and (self.kind not in kinds or self.table or len(self.files) < 2):
            raise ValueError(
                "`take: first` chooses among several patterns of `files` that the fields of images lead to"
            )
        if self.unmarked and self.marked is None:
            raise ValueError("`unmarked` names values of `marked`: say where these stand")
        return self


class TextRule(Contract):
    """The report of a case: its sources in order, joined by an empty line; empty ones are passed over."""

    sources: tuple[Source, ...] = Field(min_length=1)
    section: str | None = None
    """Heading of the part of the text that is wanted, such as findings; the whole text when empty."""


class SplitRule(Contract):
    """A split that the dataset brings: values of `source` that mean each side. Cases with other values are left out."""

    source: Source
    train: tuple[str, ...] = Field(min_length=1)
    val: tuple[str, ...] = ()
    test: tuple[str, ...] = ()


class Excluded(Contract):
    """What is not to be used: image files by their paths (`files`), or cases of which `source` has one of `values`, any
    value at all where none are named: those that a list of withdrawn ones names."""

    files: Patterns = ()
    source: Source | None = None
    values: Texts = ()
    unless: Texts = ()
    """In place of `values`: those that are to be used; all others are not, cases without a value among them."""
    above: float | None = None
    below: float | None = None
    """In place of `values`: numbers beyond which a case is not to be used."""
    of: Literal["case", "file"] = "case"
    """Whether a value says so of a case, or of one file of several: a rejected view, by its headers."""
    reason: str = Field(min_length=1)

    @model_validator(mode="after")
    def _one(self) -> Self:
        bounds = self.above is not None or self.below is not None
        given = [bool(self.values), bool(self.unless), bounds]
        if bool(self.files) == (self.source is not None) or (self.files and any(given)):
            raise ValueError("`exclude` needs either `files`, or `source` with the `values` that are not to be used")
        if sum(given) > 1:
            raise ValueError(
                "`exclude` takes one of `values` that are not to be used, `unless`, those that are, and bounds"
            )
        return self


class Views(Contract):
    """Which image of a case is which view: every case has one of each."""

    field: str
    order: tuple[str, ...] = Field(min_length=2)
    """Its values, in the order of the views; files with another one are left out."""


class Rules(Contract):
    """How the cases of a dataset are found. See the module's docstring for patterns."""

    task: TaskKind
    dimensions: Literal[2, 3]
    images: tuple[Images, ...] = Field(default=(), max_length=16)
    fields: dict[str, Source] = {}
    """Further fields of image files that a table, header or array tells: {side: {header: ImageLaterality}}, or the
    examination by which a table joins the files of two channels. They are used as fields of paths are, by those behind
    them, too."""
    case: Literal["file", "folder", "series", "entry"] | tuple[str, ...] = "file"
    """What one case is: a file (an array, where `array` has fields); the files of a folder (slices of a volume); a
    DICOM series; an entry of an array that holds one image after the other along its first axis (of MATLAB's the
    last), with its number from 0 in the field `entry`; or all files that agree in the named fields
    (`header.AccessionNumber` or another DICOM keyword is one, too)."""
    several: Literal["slices", "views"] = "slices"
    """Several files of one channel in one case are slices of a volume in natural order, or views of one examination."""
    views: Views | None = None
    """With `several: views`: {field: angle, order: [front, side]}."""
    axis4: Literal["refuse", "channels", "first"] = "refuse"
    """What the fourth axis of a 4D file holds: channels, or times of which the first is taken."""
    channel_names: tuple[str, ...] = ()
    """Of the fourth axis, in order."""
    tables: dict[str, Table] = {}
    patient: Source | None = None
    """None: nothing tells patients apart, so each case is taken for one."""
    label: LabelRule | None = None
    masks: tuple[MaskRule, ...] = ()
    text: TextRule | None = None
    slope: Source | None = None
    intercept: Source | None = None
    """How stored numbers become values where no header says so; used where they make more of CT Hounsfield units."""
    split: SplitRule | None = None
    exclude: tuple[Excluded, ...] = ()
    leave_out: dict[str, str] = {}
    """Ids of cases that a later role handed back -> what is wrong with them."""
    listed: str | None = None
    """Escape hatch: a JSON Lines file of the workspace with one `shared.contracts.cases.CaseSpec` a line, in place of
    images, patient and targets; names of structures stand in `masks: [{values: {liver: 1}}]`. The report says that
    cases were listed by a script."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.views is not None and self.several != "views":
            raise ValueError("`views` names the views of a case: set `several: views`")
        if not self.images and not self.listed:
            raise ValueError("`images` says nothing: give at least one pattern")
        if self.task == "diagnosis" and not self.label and not self.listed:
            raise ValueError("a diagnosis needs `label`")
        if self.task in ("organ_segmentation", "anomaly_detection") and not self.masks and not self.listed:
            raise ValueError(f"{self.task} needs `masks`")
        if self.task == "report_generation" and not self.text and not self.listed:
            raise ValueError("report_generation needs `text`")
        used = [source for source in self.sources() if source.table is not None]
        names = {source.table for source in used} | {mask.table for mask in self.masks if mask.table}
        names |= {one.table for one in self.label.tables if one.table} if self.label else set()
        if unknown := names - set(self.tables):
            raise ValueError(f"no table is named {', '.join(sorted(map(str, unknown)))} in `tables`")
        return self

    def label_sources(self) -> tuple[Source, ...]:
        """All that may tell the class of a case."""
        return self.label.source.chain() if self.label and self.label.source else ()

    def sources(self) -> tuple[Source, ...]:
        label = (self.label.source,) if self.label else ()
        texts = self.text.sources if self.text else ()
        split = (self.split.source,) if self.split else ()
        excluded = (one.source for one in self.exclude)
        marked = (one.marked for one in self.masks)
        told = self.fields.values()
        found = (*told, self.patient, self.slope, self.intercept, *label, *texts, *split, *excluded, *marked)
        return tuple(one for source in found if source is not None for one in source.chain())
