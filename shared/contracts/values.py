"""Tables of a dataset, and where one value of a case comes from. Patterns are those of `shared.contracts.rules`."""

from typing import Annotated, Any, Self

from pydantic import BeforeValidator, model_validator

from shared.contracts.base import Contract

Pattern = str


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""One text or a list of them."""
Patterns = Texts
"""A file that fits one of them counts."""


class Table(Contract):
    """A table of the dataset: CSV, TSV, Excel, JSON, JSON Lines, XML or HL7 messages, in any encoding.

    With fields in `file` it is one small file for each case (a report as XML or text): its values are columns then,
    named by their path (`findings`, `report/impression`); a text file has the column `text` and one for each heading.
    """

    file: Pattern
    sheet: str | None = None
    """Of an Excel file; the first when empty. With a field (`{side}`) all that fit, and the field is a column."""
    each: str | None = None
    """Of an XML or JSON file whose rows stand deep in it: the path of their elements, such as `Study/Series/Image`.
    What encloses one is told as `Series/Laterality`."""
    key: str | None = None
    """Column that names the case, or several as `{patient}/{side}`, dates in another form as `{day:%y%m%d}`;
    None where `file` has fields, which join it."""
    names: str = "auto"
    """What `key` names: `path`, `name`, `stem` or `folder` of the image, `name and bytes` (`IMG_1.jpg 17946`), a field,
    several as `{site}-{number}`, `case` (the fields of `case` with `/` between them), `table.column` (the value that
    another table gives the image), `header.PatientID` (or another DICOM keyword), or `auto`: what fits most rows. Keys
    match as people write them: `7` and `007`, `TS-001` and `TS001`, in any case, with or without suffix."""
    rows: dict[str, str] = {}
    """Column -> field of the images, such as `event: visit`: of the rows that a key names those count of which the
    column says what the field says."""
    called: dict[str, str] = {}
    """What the table writes there (`baseline_arm_1`, `right`) -> what the images' names say (`BL`, `R`)."""
    only: dict[str, Texts] = {}
    """Column -> values of the rows that count, such as {status: [corrected]}; all rows where it says nothing."""
    between: dict[str, tuple[str, str]] = {}
    """Field -> columns of the first and the last number: of the rows of a key those count between whose numbers the
    number in the field is: {image: [first, last]} of a logbook."""
    prefer: dict[str, Texts] = {}
    """Column -> values, the best first: of several rows of a key those with the first of them that there is count, all
    where there is none: {material: [specimen, biopsy]}."""
    latest: str | None = None
    """Column of dates or numbers: of several rows of a key the last one counts, such as a revised diagnosis."""

    @model_validator(mode="after")
    def _of_rows(self) -> Self:
        if self.each is not None and self.key is None:
            raise ValueError("`each` makes rows, of which `key` says whose they are")
        chosen = ("only", "rows", "between", "prefer", "latest")
        if self.key is None and any(getattr(self, name) for name in chosen):
            raise ValueError(f"{', '.join(chosen)} choose among rows: they need `key`, which names the case")
        return self


class Source(Contract):
    """Where one value of a case comes from: a field, a column of a table, a DICOM header, an array, or the same for
    all."""

    field: str | None = None
    """Of the files' paths; several woven as `{centre}-{person}`, where one of them tells no two apart."""
    table: str | None = None
    """Name in `Rules.tables`; with `column`."""
    column: str | None = None
    """Of a table with a column for each side or visit `{field}` takes the field's text: `grade_{side}`."""
    agree: Texts = ()
    """Further columns of the table, such as those of other readers: only where all say the same (as `classes` of the
    label name it) has the case a value here."""
    header: str | None = None
    """DICOM keyword, such as PatientID; of several (`ImageLaterality|Laterality`) the first with a value counts."""
    array: str | None = None
    """Name of a value or an array in the case's own npz, mat or h5 file, such as `label`; `{field}` takes a field's
    text. With `case: entry` it has one value an entry, or one for all. Several zeros and ones of a case are classes by
    their place from 0, those of the ones joined by `|`."""
    file: Pattern | None = None
    """File in which `array` stands where it is not the case's own; it shares fields with `images`, or is one for all. A
    `.npy` file has the array ''."""
    value: str | None = None
    part: str | None = None
    """Regular expression with one group: the part of the value that counts, such as `^(\\d+)`."""
    called: dict[str, str] = {}
    """Value, of this source or one that stands in for it -> what it is to be called: sides in other words, a
    provisional number of a patient."""
    prefix: str = ""
    """Put before each value: numbers of two sites (`7` and `7`) are not one."""
    otherwise: "Source | None" = None
    """Where a case has no value of this source: a table for each site, or corrections before what they correct."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in ("field", "column", "header", "array", "value") if getattr(self, name) is not None]
        if len(given) != 1:
            said = ", ".join(given) or "none"
            raise ValueError(f"a source is one of field, column, header, array, value; given: {said}")
        if self.file is not None and self.array is None:
            raise ValueError("`file` goes with `array` ('' of a .npy file)")
        if self.agree and self.column is None:
            raise ValueError("`agree` names columns beside `column`")
        if (self.table is None) != (self.column is None):
            raise ValueError("`table` and `column` go together")
        return self

    def chain(self) -> "tuple[Source, ...]":
        """This one and those that stand in for it, in their order."""
        return (self, *(self.otherwise.chain() if self.otherwise else ()))
