"""From an option for the class of a case to a draft with its rule: which values are taken, what they are called."""

from collections.abc import Iterator, Mapping, Sequence

from shared.contracts.rules import Excluded, LabelRule
from shared.contracts.values import Source
from shared.dataset.propose.classes import MOST_CLASSES, Option
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.legend import Legend, named_values
from shared.dataset.propose.released import finished
from shared.dataset.propose.sides import sideless
from shared.dataset.propose.tables import with_table
from shared.dataset.propose.united import with_sources
from shared.dataset.propose.values import look_at, table_of
from shared.dataset.survey.joins import TableLook
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.cells import mark
from shared.dataset.tables.words import is_none, meant, normal_in_two_ways, unsure, usual_spellings


def with_option(
    draft: Draft,
    survey: Survey,
    option: Option,
    only: Sequence[str],
    hints: Mapping[str, str],
    legends: Sequence[Legend],
) -> Draft | None:
    """None where the option cannot be had, as its table cannot be joined."""
    counts = option.counts
    named = option.codes or named_values(counts, hints, legends)
    sure = [value for value in counts if not unsure(named.get(value, value))]
    held, missing = meant(only, counts, named)
    draft = draft.change(prior=draft.prior + option.likely)
    if only and missing and held:
        draft = draft.said("missing", f"asked for, but no value says so: {', '.join(missing)}")
    elif only and not held:
        draft = draft.said("missing", f"no class is called {', '.join(only)}; all classes are taken")
    usual = usual_spellings(counts)
    kept = tuple(dict.fromkeys(usual.get(name, name) for name in (named.get(value, value) for value in held)))
    several = option.separator is not None or _several(option)
    if len(kept) < (1 if several else 2):
        kept = ()
    if several and not kept and not (option.evidence and option.evidence.columns):
        # `No Finding` beside findings is none of them: what has nothing else has no class.
        findings = tuple(named.get(value, value) for value in sure if not is_none(named.get(value, value)))
        kept = findings if 0 < len(findings) < len(sure) else ()
    draft = draft.said("target", f"its class is told by {option.where}")
    classes: dict[str, str | None] = {} if all(value == name for value, name in named.items()) else dict(named)
    every = [*counts, *(option.evidence.values if option.evidence else ()), *_cells(survey, option)]
    if not classes and any(map(unsure, every)):
        classes = {value: value for value in every}
    classes = {value: None if name and unsure(name) else name for value, name in classes.items()}
    if option.separator:  # what is not listed leaves its case out
        classes = {value: name for value, name in classes.items() if name}
    if not several and not classes.keys() - set(counts) and (same := normal_in_two_ways(counts)):
        classes = {value: same.get(value, classes.get(value, value)) for value in counts}
    classes = {value: usual.get(name, name) if name else name for value, name in classes.items()}
    if option.field or option.literal:
        return _by_name(draft, option, LabelRule(source=Source(field="label"), classes=classes, only=kept))
    if option.inner:
        rule = LabelRule(source=option.inner.source, separator=option.separator, classes=classes, only=kept,
                         missing="none" if option.separator else "leave_out")  # fmt: skip
        named_so = option.inner.added(draft)
        return named_so.change(label=rule) if named_so else None
    table = survey.tables[option.table] if option.table is not None else None
    if table is None and option.evidence:
        table = table_of(survey, option.evidence)
    if option.also:
        told = [(table_of(survey, one.evidence), one.column) for one in (option, *option.also) if one.evidence]
        joined = with_sources(draft, survey, [(look, column) for look, column in told if look])
        return joined[0].change(label=LabelRule(source=joined[1], classes=classes, only=kept)) if joined else None
    made = with_table(draft, survey, table) if table else None
    if made is None or table is None:
        return None
    columns = option.evidence.columns if option.evidence and option.evidence.columns else (option.column,)
    draft, name = _of_person(*made, table, columns)
    draft = _finished(draft, survey, table, name, columns)
    if option.evidence and option.evidence.columns:
        flags = {column: (option.codes or {}).get(column, sideless(column)) for column in option.evidence.columns}
        kept = tuple(map(sideless, kept))
        missing_means = "none" if several else "leave_out"
        exclude = (*draft.exclude, *_unfit(table, name, option))
        label = LabelRule(table=name, columns=flags, several=several, only=kept, missing=missing_means)
        return draft.change(label=label, exclude=exclude)
    mark = option.evidence.separator if option.evidence else None
    source = Source(table=name, column=option.column)
    return draft.change(label=LabelRule(source=source, separator=mark, classes=classes, only=kept))


def _of_person(draft: Draft, name: str, look: TableLook, columns: Sequence[str]) -> tuple[Draft, str]:
    """With a table of the same rows by person, and its name, where a row of each visit tells images and columns are
    filled at one visit of a person alone, such as the first."""
    person = next((one.name for one in look.columns if one.names_people), "")
    filled = [row[person] for row in look.rows if person and any(row.get(column) for column in columns)]
    if not person or "{" not in (look.key or "") or len(set(filled)) < len(filled) or len(filled) == len(look.rows):
        return draft, name
    told = draft.tables[name].model_copy(update={"key": person, "names": f"{name}.{person}"})
    return draft.change(tables={**draft.tables, f"{name}_people": told}), f"{name}_people"


def _finished(draft: Draft, survey: Survey, look: TableLook, name: str, columns: Sequence[str]) -> Draft:
    """With the rows alone in which the form that tells the class is complete."""
    rows = [row for unit in look_at(draft).units for row in look.rows_of(survey.units, unit)]
    only = finished(look, columns, rows)
    if not only or draft.tables[name].key is None:
        return draft
    table = draft.tables[name].model_copy(update={"only": {**draft.tables[name].only, **only}})
    told = f"{draft.says['target']}, of forms that are complete"
    return draft.change(tables={**draft.tables, name: table}).said("target", told)


def _unfit(look: TableLook, name: str, option: Option) -> Iterator[Excluded]:
    """Cases of which a column of yes and no says that they are not to be used."""
    for column in map(look.column, option.unfit):
        yes = tuple(value for value in column.values if mark(value) == "1")
        reason = f"{column.choice or column.name} in {look.said}"
        yield Excluded(source=Source(table=name, column=column.name), values=yes, reason=reason)


def _cells(survey: Survey, option: Option) -> list[str]:
    """Values of the option's column, those of rows that no image looked at has, too; none where they are many."""
    table = survey.tables[option.table] if option.table is not None else None
    table = table_of(survey, option.evidence) if option.evidence and table is None else table
    column = next((one for one in table.columns if one.name == option.column), None) if table else None
    return [value for value in column.values if value] if column and len(column.values) <= MOST_CLASSES else []


def _several(option: Option) -> bool:
    """Of one-hot columns: whether some images have none or more than one."""
    mark = option.evidence.separator if option.evidence else None
    if not option.evidence or not option.evidence.columns or mark is None:
        return False
    return any(value is not None and len([one for one in value.split(mark) if one]) != 1 for value in option.values)


def _by_name(draft: Draft, option: Option, rule: LabelRule) -> Draft | None:
    if option.literal:
        assert option.depth is not None
        return draft.with_level(option.depth, "label").change(label=rule)
    assert option.field is not None
    return draft.renamed({option.field: "label"}).change(label=rule)
