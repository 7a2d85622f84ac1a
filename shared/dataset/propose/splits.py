"""The split that a dataset brings: folders, parts of names, a column, or lists of files."""

import re

from shared.contracts.rules import SplitRule
from shared.contracts.values import Source, Table
from shared.dataset.files.patterns import compile
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.inner_values import inner_values
from shared.dataset.propose.tables import files_of, shared_ends, sheets_of, with_table
from shared.dataset.propose.values import cell_of, look_at, share, table_of
from shared.dataset.survey.evidence import Evidence
from shared.dataset.survey.splits import split_of
from shared.dataset.survey.survey import Survey

_ENOUGH = 0.6


def with_split(draft: Draft, survey: Survey) -> Draft:
    """The draft with its split; unchanged where none has two sides and most images."""
    look = look_at(draft)
    for name in draft.channels[0].pieces[0].fields:
        if not all(name in piece.fields for piece in draft.channels[0].pieces):
            continue
        values = look.column(name)
        rule = _rule(values, Source(field=name))
        if (
            rule
            and share([value for value in values if value and split_of(value)]) >= _ENOUGH
            and len(set(values)) <= 8
        ):
            return draft.change(split=rule).said("split", f"the split is told by `{{{name}}}` in the path")
    for one in inner_values(draft, survey):
        rule = _rule(one.values, one.source)
        named = (
            one.added(draft) if rule and share([value and split_of(value) for value in one.values]) >= _ENOUGH else None
        )
        if named is not None:
            return named.change(split=rule).said("split", f"the split is told by {one.where}")
    for evidence in survey.splits:
        if evidence.table is None or (table := table_of(survey, evidence)) is None or evidence.source.column is None:
            continue
        values = look.of(cell_of(survey, table, evidence.source.column))
        if share(values) < _ENOUGH:
            continue
        made = with_table(draft, survey, table)
        if made is None:
            continue
        rule = _rule(values, Source(table=made[1], column=evidence.source.column))
        if rule:
            return made[0].change(split=rule).said("split", f"the split is told by {_where(evidence)}")
    return _by_files(draft, survey) or _by_lists(draft, survey) or draft


def _by_files(draft: Draft, survey: Survey) -> Draft | None:
    """A table that comes in a file or a sheet a side, such as train.csv and test.csv with the same columns."""
    for look in survey.tables:
        parts = (look.sheet or "", *look.sheets) if look.sheets else (look.file, *look.also)
        pattern = sheets_of(look) if look.sheets else files_of(look)
        if look.key is None or look.share < _ENOUGH or not pattern or "{side}" not in pattern:
            continue
        read = compile(pattern)
        told = {field: [(read.match(part) or {}).get(field) for part in parts] for field in read.fields}
        field = next((one for one, values in told.items() if all(value and split_of(value) for value in values)), None)
        made = with_table(draft, survey, look) if field else None
        if made is None or field is None:
            continue
        rule = _rule(told[field], Source(table=made[1], column=field))
        if rule:
            said = f"the split is told by {' and '.join(parts)}" + f" of {look.file}" * bool(look.sheets)
            return made[0].change(split=rule).said("split", said)
    return None


def _where(evidence: Evidence) -> str:
    return evidence.where


def _rule(values: list[str | None], source: Source) -> SplitRule | None:
    sides: dict[str, list[str]] = {"train": [], "val": [], "test": []}
    for value in dict.fromkeys(values):
        if value and (side := split_of(value, source.column or "")):
            sides[side].append(value)
    if not sides["train"] or not (sides["val"] or sides["test"]):
        return None
    return SplitRule(source=source, train=tuple(sides["train"]), val=tuple(sides["val"]), test=tuple(sides["test"]))


def _by_lists(draft: Draft, survey: Survey) -> Draft | None:
    """Lists of images, one file a side, such as train_list.txt and test_list.txt."""
    lists = [table for table in survey.tables if table.key and table.share > 0 and not table.pattern
             and split_of(table.file.rpartition("/")[2].rpartition(".")[0]) and len(table.columns) <= 2]  # fmt: skip
    sides = {split_of(table.file.rpartition("/")[2].rpartition(".")[0]) for table in lists}
    if len(sides) < 2 or "train" not in sides or len({table.key for table in lists}) > 1:
        return None
    if sum(table.share for table in lists) < _ENOUGH:
        return None
    names = [table.file for table in lists]
    head, tail = shared_ends(names)
    middles = [name[len(head) : len(name) - len(tail)] for name in names]
    if any("/" in middle or not middle for middle in middles):
        return None
    rule = _rule(list(middles), Source(table="sides", column="side"))
    if rule is None or "sides" in draft.tables:
        return None
    table = Table(file=f"{re.sub(r'[{}*]', '*', head)}{{side}}{re.sub(r'[{}*]', '*', tail)}", key=lists[0].key)
    made = draft.change(tables={**draft.tables, "sides": table}, split=rule)
    return made.said("split", f"the split is told by {', '.join(names)}")
