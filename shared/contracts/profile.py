"""What trusted code saw in a dataset's files: told with its card, and shown by `m3builder dataset check`."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, JsonValue

from shared.contracts.base import Contract
from shared.contracts.values import Source

TELLING = (
    "SeriesDescription", "ProtocolName", "StudyDescription", "Modality", "BodyPartExamined", "ViewPosition",
    "ImageLaterality", "Laterality", "ImageType", "PresentationIntentType", "ConvolutionKernel", "SliceThickness",
    "PhotometricInterpretation", "ImageComments", "Manufacturer",
)  # fmt: skip
"""DICOM headers that tell images of one folder apart."""
GROUPS, COLUMNS, CODES = 12, 30, 8
"""Kinds of files (and tables), columns of each, and codes of a column that the Data Engineer's core is told."""
LONG = 30
"""Characters of a value that is not told."""
ColumnKind = Literal["integer", "number", "date", "text", "category", "id", "empty"]
MODALITIES = {"CT": "CT", "MR": "MRI", "PT": "PET", "US": "ultrasound", "CR": "X-ray", "DX": "X-ray",
              "MG": "mammography", "OP": "photograph", "OPT": "OCT",
              "SM": "histology", "ES": "endoscopy", "XC": "photograph"}  # fmt: skip
"""Modality as DICOM headers name it -> as words do."""


class Column(Contract):
    """A column of a table."""

    name: str
    kind: ColumnKind
    filled: float
    """Share of rows that have a value."""
    distinct: int
    values: dict[str, int] = {}
    """Value -> rows, where there are 20 values at most."""
    codes: dict[str, str] = {}
    """Value -> its name in a data dictionary of the dataset, in the dictionary's order; of 20 at most."""
    names_files: float = 0.0
    """Share of image files (or folders of slices) that its values name."""
    names_people: bool = False
    """Whether the header says that it tells people apart."""

    @property
    def told(self) -> str:
        """The name, with what its values are or mean, in brackets."""
        if self.codes:
            said = ", ".join(f"{code} = {name}" for code, name in list(self.codes.items())[:CODES])
        elif self.names_files >= 0.5:
            said = "names the images"
        elif self.names_people:
            said = f"patients: {self.distinct:,}"
        elif len(some := list(self.values)[:CODES]) > 1 and self._short(some):
            more = self.distinct - len(some)
            said = ", ".join(some) + (f" and {more:,} more" if more > 0 else "")
        else:
            said = "" if self.kind in ("id", "text") else self.kind
        return f"{self.name} ({said})" if said else self.name

    def _short(self, values: Sequence[str]) -> bool:
        """Whether values say more than the kind of the column."""
        few = self.kind == "category" or (self.kind == "integer" and self.distinct <= len(values))
        return few and max(map(len, values)) < LONG


class TableFacts(Contract):
    file: str
    sheet: str | None = None
    rows: int
    columns: tuple[Column, ...] = ()


class FileGroup(Contract):
    """Files that look alike by name and place, and what the headers of a few of them say."""

    pattern: str
    """A pattern (`shared.contracts.rules`) that takes them, with fields named part1, part2, ..."""
    files: int
    suffix: str
    kind: Literal["volume", "picture", "slices", "mask", "table", "text", "annotation", "other"]
    """`slices`: folders of pictures or single DICOM files that make volumes. `mask`: few whole values."""
    example: str
    dimensions: Literal[2, 3] | None = None
    shape: tuple[int, ...] = ()
    """Median: x, y, z of a volume, width and height of a picture."""
    spacing: tuple[float, ...] = ()
    """Median, mm."""
    channels: int = 1
    dtype: str = ""
    low: float | None = None
    high: float | None = None
    """1st and 99th percentile over the files looked at."""
    hu: bool = False
    """Whether the values look like Hounsfield units."""
    modality: str | None = None
    """From DICOM headers."""
    values: tuple[int, ...] = ()
    """Of a mask: values that occur, without 0."""
    arrays: dict[str, str] = {}
    """Of npz, mat and h5 files that hold several arrays or values: name -> shape, type and, of small ones, values."""
    unreadable: int = 0
    looked_at: int = 0
    opened: int = 0
    names: dict[str, int] = {}
    """Of masks that name their values (`.seg.nrrd`): name -> files, of those looked at."""
    empty: int = 0
    """Of masks: how many were opened whole, and how many of these mark nothing."""


class Candidate(Contract):
    """Something that may tell patients, classes, splits or texts apart."""

    source: Source
    where: str
    """In words: `folder 2`, `column Diagnosis of labels.csv`, `PatientID of the DICOM headers`."""
    distinct: int
    share: float
    """Of the image files that have a value."""
    values: dict[str, int] = {}
    """Value -> files, where there are few."""
    columns: tuple[str, ...] = ()
    """Of a label: one-hot columns that are its classes together; `source` is the first of them."""
    separator: str | None = None
    """Of a label: what divides cells with several classes."""


class Profile(Contract):
    """Bounded: at most 40 groups, 20 tables with 40 columns each, 8 candidates a role. As JSON at most 60 kB."""

    digest: str
    """Of all names, sizes and times: another one means that the data have changed."""
    files: int
    size: int
    """Bytes."""
    images: int
    """Files that are read as images."""
    dimensions: dict[str, int] = {}
    """`2` and `3` -> image files or folders of slices."""
    modalities: dict[str, int] = {}
    """From headers -> files looked at. `CT?` where only the values look like Hounsfield units."""
    documents: dict[str, str] = {}
    """Texts for people beside the data, such as a README: path -> how it begins."""
    groups: tuple[FileGroup, ...] = ()
    tables: tuple[TableFacts, ...] = ()
    patients: tuple[Candidate, ...] = ()
    labels: tuple[Candidate, ...] = ()
    splits: tuple[Candidate, ...] = ()
    texts: tuple[Candidate, ...] = ()
    masks: tuple[str, ...] = ()
    """Where masks are, in words, such as `labels/*.nii.gz beside images/*.nii.gz (values 1, 2)`."""
    tasks: dict[str, float] = {}
    """Task -> share of image files for which the files themselves hold a target."""
    not_read: dict[str, str] = {}
    """Format or kind of mask that is not supported -> what to convert it to."""
    warnings: tuple[str, ...] = ()
    """What is wrong with the data and what to do about it, worst first: each with a count and an example."""
    skipped: tuple[str, ...] = ()
    """What was not looked at, and why."""
    headers: dict[str, dict[str, int]] = {}
    """DICOM header (`TELLING`) -> value -> files, of those looked at; the commonest values, where there are several."""
    measured: dict[str, JsonValue] = Field(default={})

    def for_rules(self) -> dict[str, JsonValue]:
        """What the Data Engineer's core is told before it looks itself: kinds of files, tables with their columns,
        documents, what is wrong."""
        groups = [
            f"{one.files} x {one.pattern} ({', '.join(filter(None, (one.kind, one.modality, _size(one))))})"
            + (f", {one.unreadable} of {one.looked_at} not readable" if one.unreadable else "")
            + (f", {one.empty} of {one.opened} opened ones mark nothing" if one.opened else "")
            + (f", names {_counted(one.names)}" if one.names else "")
            for one in self.groups[:GROUPS]
        ]
        tables = [
            f"{one.file}{f' sheet {one.sheet}' if one.sheet else ''}: {one.rows} rows of {_columns(one.columns)}"
            for one in self.tables[:GROUPS]
        ]
        wrong = list(self.warnings[:5])
        told: dict[str, JsonValue] = {
            "images": self.images,
            "groups": [*groups],
            "tables": [*tables],
            "headers of those looked at": {name: _counted(values) for name, values in self.headers.items()},
            "documents": {**self.documents},
            "wrong": [*wrong],
        }
        return {name: one for name, one in told.items() if one}

    def for_planning(self) -> "Profile":
        """All that the Task Manager's core is told of files: counts, and words of our own.

        Whatever files say in words (names, cells, headers, and so also classes found in them) may be a person's name.
        """
        return Profile(
            digest=self.digest, files=self.files, size=self.size, images=self.images, dimensions=self.dimensions,
            modalities={name: many for name, many in self.modalities.items() if name.rstrip("?") in MODALITIES},
            tasks=self.tasks, not_read=self.not_read,
        )  # fmt: skip


def _columns(columns: Sequence[Column]) -> str:
    """What tells rows apart first of all."""
    telling = [one for one in columns if one.distinct > 1 or 0 < one.filled < 1] or list(columns)
    more = len(columns) - len(telling[:COLUMNS])
    return ", ".join(one.told for one in telling[:COLUMNS]) + (f" and {more} more" if more else "")


def _counted(values: Mapping[str, int]) -> str:
    return ", ".join(f"{value} {many}" for value, many in values.items())


def _size(group: FileGroup) -> str:
    edges = " x ".join(map(str, group.shape))
    return f"{edges} x {group.channels} channels" if edges and group.channels > 1 else edges
