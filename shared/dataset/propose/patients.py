"""Where a case's patient comes from: a column, a header, a folder, a part of the name, or nothing."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from shared.contracts.values import Source
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.inner_values import Inner, inner_values
from shared.dataset.propose.people import Name, names
from shared.dataset.propose.tables import with_table
from shared.dataset.propose.united import apart, merged, with_sources
from shared.dataset.propose.values import Look, cell_of, distinct, falls_into, look_at, share
from shared.dataset.survey.column_looks import ABOUT, ColumnLook, says_people
from shared.dataset.survey.joins import TableLook
from shared.dataset.survey.people import PERSONS
from shared.dataset.survey.pieces import braces
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.column_words import label_likeness
from shared.dataset.tables.forms import DAY
from shared.dataset.tables.words import acquired

_ONE_PERSON = re.compile(rf"(?:^|[/_. -])((?:{PERSONS})[-_ ]?\d+)(?=[/_. -])", re.I)
_MOST_OF_A_ROW = 20
"""Images of a row, on average: a row with more is of a site or a class."""
_BEFORE_VIEW = r"^.*?([^\W\d_]*[-_ ]?\d+)"
_A_VISIT = r"[-_ ](?:[Vv]|visit|Visit|ses|T)-?\d{1,2}"
_BEFORE_VISIT, _VISIT = rf"^(.+?)(?:{_A_VISIT})?$", re.compile(rf"(.+){_A_VISIT}")
_GROUPS = re.compile(
    r"lesion|study|exam|accession|stay|admission|slide|specimen|family|donor|biopsy|video|sequence (?:id|no|number)",
    re.I,
)
_HOW_MANY = re.compile(r"length|duration|days|hours|count|number of", re.I)


@dataclass(frozen=True)
class Option:
    strength: int
    """3 named by a column or header, 2 said by a word in names, 1 only by names that repeat, 0 by how names begin."""
    where: str
    values: list[str | None]
    name: Name | None = None
    table: int | None = None
    """Index in `Survey.tables`."""
    column: str = ""
    header: str | None = None
    inner: Inner | None = None
    part: str | None = None
    """What of a column's text counts (`Source.part`)."""
    unsaid: bool = False
    """Of a column whose header says in no known language that it tells people or examinations apart."""
    same: str | None = None
    """The one person that all images are of."""
    also: "tuple[Option, ...]" = ()
    """Columns of other tables, of the images of which this one says nothing."""

    @property
    def groups(self) -> int:
        return distinct(self.values)


def with_patient(draft: Draft, survey: Survey, taken: set[str], answer: str | None) -> list[Draft]:
    """The draft with its patient; several where two sources that are equally sure contradict each other.

    `taken` are fields that tell a class or a split. `answer` is what a person chose.
    """
    look = look_at(draft)
    options = _options(draft, survey, look, taken)
    chosen = _chosen(options, len(look.units)) or one_person(survey, look)
    if (row := _row(survey, look)) and not any(
        one.strength == 3 or falls_into(row.values, one.values) for one in chosen
    ):
        chosen = [row]
    if answer is not None:
        chosen = [one for one in options if one.where == answer] or chosen[:1]
    drafts = [made for one in chosen if (made := _applied(draft, survey, one))]
    if not drafts and (made := _by_names_of_folders(draft, taken)) is not None:
        return [made]
    if not drafts and draft.patient is not None:
        return [draft.said("patient", "of names that differ by a last number (`AB12`, `AB12_2`) the patient is one")]
    if not drafts:
        return [draft.said("patient", "nothing tells patients apart, so each case counts as one")]
    if len(drafts) > 1:
        drafts = [made.decided("patient", one.where) for made, one in zip(drafts, chosen, strict=False)]
    return drafts


def _applied(draft: Draft, survey: Survey, option: Option) -> Draft | None:
    said = draft.said("patient", f"the patient is told by {option.where}")
    if option.header:
        return said.change(patient=Source(header=option.header), prior=said.prior + 0.02)
    if option.same:
        return said.change(patient=Source(value=option.same))
    if option.name:
        named = _by_name(said, option.name)
        if named and named.patient and named.patient.part is None and _has_visits(option.values):
            named = named.change(patient=named.patient.model_copy(update={"part": _BEFORE_VISIT}))
        return named
    if option.inner:
        made_so = option.inner.added(said)
        return made_so.change(patient=option.inner.source, prior=said.prior + 0.02) if made_so else None
    assert option.table is not None
    if option.also:
        told = [(survey.tables[one.table], one.column) for one in (option, *option.also) if one.table is not None]
        joined = with_sources(said, survey, told)
        return joined[0].change(patient=joined[1], prior=said.prior + 0.02) if joined else None
    made = with_table(said, survey, survey.tables[option.table])
    if made is None:
        return None
    draft, name = made
    field = _repeated(draft, said, option)
    if field:
        draft = draft.said("patient", f"{draft.says['patient']}, else by `{braces(field)}` in the names")
    also = Source(field=field) if field else None
    source = Source(table=name, column=option.column, part=option.part, otherwise=also)
    return draft.change(patient=source, prior=said.prior + 0.02)


def _repeated(draft: Draft, before: Draft, option: Option) -> str | None:
    """The field of the names that says what a column says, where the column has no value for some of the images; the
    option's values are those of the draft `before`."""
    if option.part or all(option.values):
        return None
    look = look_at(before)
    for name in before.pieces[0].fields:
        pairs = [(one, own) for one, own in zip(option.values, look.column(name), strict=True) if one]
        everywhere = all(name in one.fields for one in (*draft.pieces, *before.pieces))
        if everywhere and pairs and all(one == own for one, own in pairs):
            return name
    return None


def _has_visits(values: Sequence[str | None]) -> bool:
    """Whether some values are others with a visit behind them: `2212` and `2212_V2`."""
    known = {value for value in values if value}
    return any((found := _VISIT.fullmatch(value)) and found[1] in known for value in known)


def _by_names_of_folders(draft: Draft, taken: set[str]) -> Draft | None:
    """The draft with the patient that the names in each folder tell in their own way; None unless all do."""
    pieces = list(draft.pieces)
    folders: dict[str, list[int]] = defaultdict(list)
    for place, piece in enumerate(pieces):
        folders[piece.pattern.rpartition("/")[0]].append(place)
    channel = draft.channels[0]
    if len(folders) < 2 or len(draft.channels) > 1 or channel.inside:
        return None
    where = []
    for places in folders.values():
        part = draft.change(channels=(replace(channel, pieces=tuple(pieces[place] for place in places)),))
        look = look_at(part)
        options = [Option(_strength(one), one.where, one.values, one) for one in names(part, look, taken)]
        name = next((one.name for one in _chosen(options, len(look.units)) if one.name and not one.name.part), None)
        told = _by_name(part, name) if name and not part.used & set(part.pieces[0].fields) else None
        if name is None or told is None or told.patient is None or told.patient.field is None:
            return None
        for place, piece in zip(places, told.renamed({told.patient.field: "patient"}).pieces, strict=True):
            pieces[place] = piece
        where.append(name.where)
    said = f"the patient is told by {' and '.join(where[:2])}" + f" and {len(where) - 2} more" * (len(where) > 2)
    whole = draft.change(channels=(replace(channel, pieces=tuple(pieces)),), patient=Source(field="patient"))
    return whole.said("patient", said)


def _by_name(draft: Draft, name: Name) -> Draft | None:
    field = name.field
    if name.text != braces(field) and (whole := draft.replaced(name.text, "patient")) is not None:
        return whole.change(patient=Source(field="patient", part=name.part))
    if name.part:
        return draft.change(patient=Source(field=field, part=name.part)) if name.text == braces(field) else None
    if re.fullmatch(r"part\w+", field) and "patient" not in draft.pieces[0].fields:
        return draft.renamed({field: "patient"}).change(patient=Source(field="patient"))
    return draft.change(patient=Source(field=field))


def _options(draft: Draft, survey: Survey, look: Look, taken: set[str]) -> list[Option]:
    found = [one for one in (_header(draft, survey), *_columns(survey, look), *_inside(draft, survey)) if one]
    return [*found, *(Option(_strength(one), one.where, one.values, one) for one in names(draft, look, taken))]


def _strength(name: Name) -> int:
    return 2 if name.said else 0 if name.part else 1


def _header(draft: Draft, survey: Survey) -> Option | None:
    """PatientID, known of the few files whose headers were looked at."""
    family = draft.channels[0].pieces[0].family
    seen = [look.header.dicom.get("PatientID") for look in family.looks if look.header and look.header.kind == "dicom"]
    if not seen or not all(seen) or len(set(seen)) < 2:
        return None
    by_file = {look.file: look.header.dicom.get("PatientID") for look in family.looks if look.header}
    values = [by_file.get(file) for _, file in look_at(draft).units]
    return Option(3, "PatientID of the DICOM headers", values, header="PatientID")


def _columns(survey: Survey, look: Look) -> list[Option]:
    found = []
    for number, table in enumerate(survey.tables):
        for column in table.columns if table.key is not None else ():
            if column.name == table.key and "{" in table.key:
                continue
            words = re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", column.name)
            people = column.names_people
            numbers = column.kind in ("id", "category", "integer") and not ABOUT.search(words)
            several = numbers and bool(_GROUPS.search(words)) and not _HOW_MANY.search(words)
            unsaid = not (people or several) and numbers and label_likeness(column.name) > 0.1
            unsaid = unsaid and (_numbered_ids(column, table) or _in_blocks(column, table))
            if not (people or several or unsaid) or column.distinct < 2:
                continue
            values = look.of(cell_of(survey, table, column.name))
            if share(values) < (0.95 if unsaid else 0.01) or distinct(values) < 2:
                continue
            if unsaid and distinct(values) * 1.1 > len(values):
                continue
            if not people and (column.distinct < 5 or distinct(values) >= len(values)):
                continue
            sheet = (
                f" (sheet {table.sheet})"
                if table.sheet and len({t.sheet for t in survey.tables if t.file == table.file}) > 1
                else ""
            )
            where = f"column {column.name} of {table.many or table.file}{sheet}"
            part = _BEFORE_VIEW if _with_view([value for value in values if value]) else None
            values = [re.sub(rf"(?s){part}.*", r"\1", value) if value and part else value for value in values]
            found.append(
                Option(3 if people else 1, where, values, table=number, column=column.name, part=part, unsaid=unsaid)
            )
    return [*_united(found), *(one for one in found if share(one.values) >= 0.5)]


def _united(options: Sequence[Option]) -> list[Option]:
    """Columns that name people in different tables, of different images: those of sites."""
    people = [one for one in options if one.strength == 3 and not one.part]
    parts = [people[place] for place in apart([one.values for one in people], [one.table for one in people])]
    values = merged([one.values for one in parts])
    if len(parts) < 2 or share(values) < 0.5:
        return []
    where = ", else ".join(one.where for one in parts)
    return [replace(parts[0], where=where, values=values, also=tuple(parts[1:]))]


def _row(survey: Survey, look: Look) -> Option | None:
    """The row of a table that names several images, a few at the most: they belong together. A row of a site or a class
    holds many people."""
    for number, table in enumerate(survey.tables):
        if (
            table.key
            and "{" not in table.key
            and not table.pattern
            and table.column(table.key).distinct >= 0.95 * len(table.rows)
        ):
            values = look.of(cell_of(survey, table, table.key))
            if (
                share(values) > 0.95
                and distinct(values) >= 5
                and 1.1 <= len(values) / distinct(values) <= _MOST_OF_A_ROW
            ):
                return Option(1, f"the row of {table.file}, {table.key}", values, table=number, column=table.key)
    return None


def _with_view(values: list[str]) -> bool:
    """Whether each value goes on behind its number with how the image was taken: `Test_P_00043_RIGHT_CC_1`."""
    rests = [re.split(r"[\W_]+", re.sub(_BEFORE_VIEW, "", value).strip("-_ ")) for value in values]
    taken = [[word for word in rest if not (word.isdecimal() and len(word) < 3)] for rest in rests]
    return bool(taken) and all(words and acquired(" ".join(words)) for words in taken)


def _in_blocks(column: ColumnLook, table: TableLook) -> bool:
    """Whether many values stand for a few neighbouring rows each, as the rows of one person do: an age or a fold comes
    again further down."""
    cells = [row[column.name] for row in table.rows[:5000] if row[column.name]]
    blocks = sum(one != other for one, other in pairwise(cells)) + 1
    return max(6, 0.2 * len(cells)) <= blocks == len(set(cells)) <= 0.9 * len(cells)


def _numbered_ids(column: ColumnLook, table: TableLook) -> bool:
    """Whether cells of a column are numbers of something: one word with digits (`F141`), zeros before (`0042`) or five
    digits and more. Whose they are its header does not say in a language that is known."""
    cells = sorted({row[column.name] for row in table.rows[:5000] if row[column.name]})
    if len(cells) < max(6, 0.05 * min(len(table.rows), 5000)) or all(DAY.fullmatch(cell) for cell in cells):
        return False
    shapes = {re.sub(r"\d+", "#", cell.lower()) for cell in cells}
    if len(shapes) > 1:
        return False
    return ("#" in shapes and all(len(cell) >= 5 or cell[0] == "0" for cell in cells)) or bool(
        re.fullmatch(r"[^\W\d_]{1,12}[-_ ]?#", next(iter(shapes)))
    )


def person_of_all(survey: Survey) -> str | None:
    """The one person that all images are of, where names or a table say so."""
    found = one_person(survey, Look(tuple(survey.units.files), ()))
    return found[0].values[0] if found else None


def one_person(survey: Survey, look: Look) -> list[Option]:
    """What says that all images are of one person: a column, or a folder or name that is the same for all."""
    for number, table in enumerate(survey.tables):
        for column in table.columns if table.key and not table.pattern and len(table.rows) > 3 else ():
            one = next(iter(column.values), "")
            named = column.names_people and column.distinct == 1 and column.filled > 0.95 and _a_person(one)
            if named and share(look.of(cell_of(survey, table, column.name))) > 0.95:
                where = f"column {column.name} of {table.file}: all images are of {one}"
                return [Option(3, where, [one] * len(look.units), table=number, column=column.name)]
    said = {found[1].lower() if (found := _ONE_PERSON.search(file)) else "" for _, file in look.units}
    if len(said) == 1 and (person := said.pop()):
        return [Option(2, f"their paths: all images are of {person}", [person] * len(look.units), same=person)]
    return []


def _a_person(value: str) -> bool:
    """Whether a value is a number of someone, and no word for anybody."""
    return bool(re.search(r"[1-9]", value)) and not re.search(r"anon|unknown|dummy|test", value, re.I)


def _inside(draft: Draft, survey: Survey) -> list[Option]:
    """Values beside the images in their files, and columns that name what is inside."""
    found = []
    for one in inner_values(draft, survey):
        if says_people(one.name) and share(one.values) >= 0.5 and distinct(one.values) > 1:
            found.append(Option(3, one.where, one.values, inner=one))
    return found


def _chosen(options: list[Option], units: int) -> list[Option]:
    """The surest source; of sources that agree the coarser one. Two that are as sure and contradict: both."""
    if not options:
        return []
    for strength in (3, 2, 1, 0):
        ranked = [one for one in options if one.strength == strength and share(one.values) >= 0.5] or [
            one for one in options if one.strength == strength and one.header
        ]
        if not ranked:
            continue
        best = ranked[0]
        for one in ranked[1:]:
            if one.header or best.header:
                continue
            if one.groups < best.groups and falls_into(best.values, one.values) and share(one.values) >= 0.9:
                best = one
        if best.header:
            return [best]
        finer = best.groups >= units
        for one in options:
            # Names that say `patient` and hold several of what a column calls one: the coarser is safe.
            coarser = one.groups < best.groups and falls_into(best.values, one.values)
            if one.strength == 2 and strength == 3 and coarser and one.groups >= 3:
                return [one]
            # So is a column of numbers of a few of what names call a person.
            few = one.groups * 1.2 <= units if finer else one.table is not None and one.groups * 2 >= best.groups
            if one.strength == 1 and strength == 2 and coarser and few:
                best = one
        if best.unsaid:
            # Two columns of numbers that lie in each other: only a person knows which is the patient. Coarse is safe.
            return [best, *[one for one in ranked if one.unsaid and one is not best][:1]]
        rivals = [
            one for one in ranked
            if one is not best and share(one.values) >= 0.9 and not falls_into(one.values, best.values)
            and not falls_into(best.values, one.values) and strength == 3
        ]  # fmt: skip
        return [best, *rivals[:1]]
    return []
