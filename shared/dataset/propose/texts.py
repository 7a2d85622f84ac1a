"""Where the report of a case comes from: columns of a table, or a file a case; and what one examination is."""

import re
from collections import defaultdict
from collections.abc import Sequence

from shared.contracts.rules import TextRule
from shared.contracts.values import Source
from shared.dataset.files.patterns import compile
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.inner_values import inner_values
from shared.dataset.propose.tables import with_table
from shared.dataset.propose.values import cell_of, groups, look_at, share, table_of
from shared.dataset.survey.evidence import Evidence
from shared.dataset.survey.joins import TableLook, plain
from shared.dataset.survey.pieces import Piece
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.words import overlap, slug, words

_WHOLE = ("report", "text", "caption", "narrative")
_FINDINGS = ("finding", "befund", "hallazgo", "résultat")
_IMPRESSIONS = ("impression", "beurteilung", "impresión", "conclusion", "conclusión")
_PARTS = (*_FINDINGS, *_IMPRESSIONS)
"""In the order in which they stand."""
_WORDS = 4
"""Of a text beside an image, on average; fewer are a name or a class."""
_SINGLE = 0.95
"""Of the rows of a table, those whose keys differ, where each is of an examination."""
_OWN = 0.1
"""For a table that names each image rather than what several have in common."""
_BESIDE = ("indication", "history", "comparison", "technique", "examination", "procedure", "clinical", "problem",
           "mesh", "title", "reason", "recommendation", "note", "comment", "mrn", "tag", "keyword")  # fmt: skip


def text_drafts(draft: Draft, survey: Survey, target: str) -> list[Draft]:
    """The draft with each source of its reports, likely ones first."""
    by_table: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    for evidence in survey.texts:
        by_table[evidence.table or "", evidence.source.table or ""].append(evidence)
    found = []
    for some in by_table.values():
        table = table_of(survey, some[0])
        if table is None:
            continue
        joined = with_table(draft, survey, table)
        if joined is None:
            continue
        made, name = _examined(joined[0], survey, table, joined[1]), joined[1]
        names = [e.source.column or "" for e in some]
        for columns, likely in _columns([*names, *_short_parts(names, table)], table, target):
            rule = TextRule(sources=tuple(Source(table=name, column=column) for column in columns))
            said = " and ".join(columns)
            where = (
                f"{'columns' if len(columns) > 1 else 'column'} {said} of {table.pattern or table.many or table.file}"
            )
            share = max(e.share for e in some if e.source.column in columns)
            likely += _OWN * (table.by in ("stem", "path") or table.by.startswith("tail"))
            found.append(
                made.change(text=rule, prior=made.prior + likely + 0.4 * share)
                .said("target", f"its report is {where}")
                .decided("text", where)
            )
    return sorted([*found, *_inside(draft, survey)], key=lambda one: -one.prior)


def _inside(draft: Draft, survey: Survey) -> list[Draft]:
    """Texts beside the images in their files, or in a table that names what is inside."""
    found = []
    for one in inner_values(draft, survey):
        texts = [value for value in one.values if value]
        if not texts or sum(len(text.split()) for text in texts) < _WORDS * len(texts):
            continue
        said = 0.2 * any(word in (*_WHOLE, *_PARTS) for word in words(one.name))
        if (made := one.added(draft)) is not None:
            made = made.change(text=TextRule(sources=(one.source,)), prior=made.prior + said + 0.4 * share(one.values))
            found.append(made.said("target", f"its report is {one.where}").decided("text", one.where))
    return found


def _short_parts(names: Sequence[str], table: TableLook) -> list[str]:
    """Columns beside those of the findings that are parts of the report, though of a word or two: impressions."""
    if not any(word in _PARTS for name in names for word in words(name.rpartition("/")[2])):
        return []
    return [
        column.name
        for column in table.columns
        if column.name not in names
        and column.kind in ("text", "category", "id")
        and column.distinct > 1
        and any(word in _PARTS for word in words(column.name.rpartition("/")[2]))
    ]


def _columns(names: Sequence[str], table: TableLook, target: str) -> list[tuple[tuple[str, ...], float]]:
    """Which columns make the report: the whole one, or findings with impression; one part where it is asked for."""
    last = {name: words(name.rpartition("/")[2]) for name in names}
    whole = [name for name in names if any(word in _WHOLE for word in last[name])]
    parts = sorted(
        (name for name in names if any(word in _PARTS for word in last[name])), key=lambda n: _order(last[n])
    )
    parts = [name for name in parts if name not in whole]
    others = [name for name in names if name not in whole and name not in parts]
    others = [name for name in others if not any(word in _BESIDE for word in last[name])]
    wanted = {word for kind in (_FINDINGS, _IMPRESSIONS) if {*kind} & {*words(target)} for word in kind}
    asked = [
        name for name in (*parts, *others)
        if overlap(target, name.rpartition("/")[2]) >= 0.99 or (name in parts and wanted & {*last[name]})
    ]  # fmt: skip
    # What is asked for by name is not what others are beside it.
    less = 0.1 if asked and not any(overlap(target, name.rpartition("/")[2]) >= 0.99 for name in whole) else 0.0
    found: list[tuple[tuple[str, ...], float]] = []
    # A text file with headings: its whole holds also who wrote it, and when.
    headed = table.pattern is not None and parts and "text" in names
    if asked and set(asked) != set(parts):
        found.append((tuple(asked), 0.35))
    if parts:
        found.append((tuple(parts), (0.3 if headed or not whole else 0.2) - less * (set(asked) != set(parts))))
    found += [((name,), (0.22 if not headed else 0.1) - less) for name in whole]
    if not found:
        found += [((name,), 0.15) for name in others or names]
    return found


def _order(own: Sequence[str]) -> int:
    return min((_PARTS.index(word) for word in own if word in _PARTS), default=9)


def _examined(draft: Draft, survey: Survey, table: TableLook, name: str) -> Draft:
    """Cases for a table with a row an examination: a folder, or all files with one number."""
    image = draft.channels[0].pieces[0]
    if table.pattern:
        fields = compile(draft.tables[name].file).fields
        return _grouped(draft, image, [field for field in image.fields if field in fields])
    if table.by.startswith("folder"):
        part = image.level(int(table.by.removeprefix("folder")))
        names = re.findall(r"\{(\w+)\}", part)
        return _grouped(draft, image, names) if names else draft
    if table.by.startswith("header."):
        return _same_header(draft, survey, table)
    if table.by.startswith("field"):
        # The survey's fields may have other names by now: the one whose values are keys.
        keys = set(table.index)
        for field in image.fields:
            column = image.column(field)
            if sum(plain(value) in keys for value in column) >= 0.5 * len(column):
                return _grouped(draft, image, [field])
    made = _by_same_text(draft, survey, table)
    return made if made is not draft else _by_row(draft, survey, table, name)


def _by_row(draft: Draft, survey: Survey, table: TableLook, name: str) -> Draft:
    """Pictures that one row is about are views of one examination, whatever of their names leads to it."""
    column = table.key
    if not column or "{" in column or draft.case != "file" or draft.dimensions == 3:
        return draft
    rows = [value for value in look_at(draft).of(cell_of(survey, table, column)) if value]
    if table.column(column).distinct < _SINGLE * len(table.rows) or len(set(rows)) * 1.02 > len(rows):
        return draft
    field = slug(column.rpartition("/")[2], "examination")
    if any(field in piece.fields for piece in draft.pieces) or field in draft.fields:
        return draft
    what = f"a case is all pictures of a row of {table.many or table.file} (views of one examination)"
    fields = {**draft.fields, field: Source(table=name, column=column)}
    return draft.change(fields=fields, case=(field,), several="views").said("case", what)


def _same_header(draft: Draft, survey: Survey, table: TableLook) -> Draft:
    """Pictures with one accession number (or another header that a row is about) are views of one examination."""
    keyword = table.by.partition(".")[2]
    if draft.case != "file" or draft.dimensions == 3 or keyword in ("PatientID", "SOPInstanceUID"):
        return draft
    told = [survey.units.headers.get(file, {}).get(keyword) for _, file in look_at(draft).units]
    known = [value for value in told if value]
    if len(set(known)) * 1.02 > len(known):
        return draft
    what = f"a case is all pictures with the same {keyword} in their headers (views of one examination)"
    return draft.change(case=(table.by,), several="views").said("case", what)


def _by_same_text(draft: Draft, survey: Survey, table: TableLook) -> Draft:
    """Where each picture has a row: those with one number and one text are views of one examination."""
    texts = [one for one in survey.texts if one.source.table == table.name and one.table == table.file]
    look = look_at(draft)
    if not texts or draft.dimensions == 3 or draft.case != "file":
        return draft
    said = look.of(texts[0].of)
    image = draft.channels[0].pieces[0]
    for name in image.fields:
        held = [places for places in groups(look.column(name)).values() if len(places) > 1]
        same = sum(len({said[at] for at in places}) == 1 for places in held)
        many = len({said[places[0]] for places in held})
        if len(held) >= 3 and same >= 0.97 * len(held) and many * 2 > len(held):
            return _grouped(draft, image, [name])
    return draft


def _grouped(draft: Draft, image: Piece, keys: Sequence[str]) -> Draft:
    """Views of one examination where several pictures share a report."""
    if draft.case != "file" or draft.dimensions == 3 or not keys:
        return draft
    look = look_at(draft)
    several = len(look.rows) / max(1, len({tuple(row.get(key) for key in keys) for row in look.rows}))
    if several < 1.02:
        return draft
    if not all(key in piece.fields for key in keys for piece in draft.pieces):
        return draft
    what = f"a case is all pictures with the same {' and '.join(keys)} (views of one examination)"
    return draft.change(case=tuple(keys), several="views").said("case", what)
