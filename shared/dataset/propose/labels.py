"""Where the class of a case comes from: folders and names, columns of tables, one-hot columns."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from shared.dataset.propose.classes import (
    MOST_CLASSES,
    Option,
    classes_in_names,
    numbers,
    told_by_a_column,
    without_places,
)
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.grades import from_least
from shared.dataset.propose.inner_values import Inner, inner_values
from shared.dataset.propose.label_rule import with_option
from shared.dataset.propose.legend import Legend, named_values, of_codes
from shared.dataset.propose.meant import classes_beside, unasked
from shared.dataset.propose.sides import sideless
from shared.dataset.propose.united import apart, merged
from shared.dataset.propose.uploads import of_another_form
from shared.dataset.propose.values import Look, cell_of, distinct, falls_into, look_at, share, table_of
from shared.dataset.survey.column_looks import ColumnLook
from shared.dataset.survey.evidence import Evidence
from shared.dataset.survey.joins import TableLook
from shared.dataset.survey.onehot import FEW
from shared.dataset.survey.pieces import Piece
from shared.dataset.survey.sides import are_visits
from shared.dataset.survey.splits import split_of
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.boxes import box, complete
from shared.dataset.tables.cells import comparable
from shared.dataset.tables.column_words import label_likeness, refused
from shared.dataset.tables.narrowing import listed
from shared.dataset.tables.words import (
    acquired,
    are_files,
    distinctive,
    is_none,
    meant,
    outcomes,
    overlap,
    set_aside,
    unsure,
    words,
)

_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")
_ANOTHER_FORM = 0.3
"""What a column loses that is of another form than the images."""
_EXPLAINED = 0.3
"""For values of which the dataset says what they stand for."""


def with_label(
    draft: Draft, survey: Survey, only: Sequence[str], target: str, hints: Mapping[str, str], legends: Sequence[Legend]
) -> list[tuple[Draft, set[str]]]:
    """Drafts with a label, likely ones first, each with the fields that the label takes."""
    look = look_at(draft)
    options = [told_by_a_column(one, survey, look) for one in classes_in_names(draft, look, target)]
    if classes_beside(survey.tables, target):
        options = [one for one in options if any(overlap(target, value or "") for value in one.values)]
    aside = set_aside(target)
    options = [one for one in options if sum(overlap(aside, value) < 1 for value in one.counts) > 1]
    visits = [set(apart.called.values()) for table in survey.tables for apart in table.apart if apart.placed]
    visits += [set(columns) for table in survey.tables for _, columns in table.sides.values()]
    options = [one for one in options if not any(set(filter(None, one.values)) <= some for some in visits)]
    options += _columns(survey, look, target)
    options = [one for one in options if not are_visits(set(filter(None, one.values)), survey.tables)]
    options += [option for one in inner_values(draft, survey) if (option := _inner(one))]
    options += _united(options, survey, hints, legends)
    options = [_asked(option, only, target, hints, _legends(option, survey, legends)) for option in options]
    pieces = draft.channels[0].pieces
    options = [_of_form(option, pieces, survey) for option in options]
    whole = any(piece.family.kind == "slices" for piece in pieces)  # whose files are folders
    few = not whole and 2 * sum(len(piece.files) for piece in pieces) < len(survey.listing.images)
    options = without_places(options, only, target, hints, lambda one: _legends(one, survey, legends), few)
    options = _without_doubles(sorted(options, key=lambda one: -one.likely))
    found = []
    for option in options[:8]:
        made = with_option(draft, survey, option, only, hints, _legends(option, survey, legends))
        if made:
            made = _graded(made, option, _column(option, survey), target)
            found.append((made.decided("label", option.where), {"label"} if option.field or option.literal else set()))
    return found


def _of_form(option: Option, pieces: Sequence[Piece], survey: Survey) -> Option:
    """Less likely where its column is of another form than that into which the images were uploaded."""
    table = _table(option, survey)
    columns = option.evidence.columns if option.evidence and option.evidence.columns else (option.column,)
    apart = table is not None and of_another_form(pieces, table, columns)
    return replace(option, likely=option.likely - _ANOTHER_FORM * apart)


def _legends(option: Option, survey: Survey, legends: Sequence[Legend]) -> Sequence[Legend]:
    """With what a data dictionary says of the option's own column first."""
    column = _column(option, survey)
    return [*(of_codes(column.codes, option.counts) if column else ()), *legends]


def _table(option: Option, survey: Survey) -> TableLook | None:
    if option.table is not None:
        return survey.tables[option.table]
    return table_of(survey, option.evidence) if option.evidence else None


def _column(option: Option, survey: Survey) -> ColumnLook | None:
    table = _table(option, survey)
    return next((one for one in table.columns if one.name == option.column), None) if table else None


def _graded(draft: Draft, option: Option, column: ColumnLook | None, target: str) -> Draft:
    """With the order of classes that are grades."""
    rule = draft.label
    assert rule is not None
    flags = {name: name for name in rule.columns.values()}
    classes = (
        {value: name for value, name in rule.classes.items() if name} or flags or {one: one for one in option.counts}
    )
    held = {value: name for value, name in classes.items() if not rule.only or name in rule.only}
    order = from_least(held, " ".join([option.column, option.where, column.about if column else "", target]))
    if not order or rule.several or rule.separator is not None:
        return draft
    told = f"{draft.says['target']}, as grades from {order[0]} to {order[-1]}"
    return draft.change(label=rule.model_copy(update={"order": order})).said("target", told)


def _asked(
    option: Option, only: Sequence[str], target: str, hints: Mapping[str, str], legends: Sequence[Legend]
) -> Option:
    """Weighed by the request: classes that were asked for are among the values, words stand in header or values."""
    counts = option.counts
    named = option.codes or named_values(counts, hints, legends)
    likely = option.likely
    if only:
        held, missing = meant(only, counts, named)
        likely += 0.5 * (len(only) - len(missing)) / len(only) if held else -0.1
    likely += 0.35 * overlap(target, option.column)
    likely += _EXPLAINED * bool(named and not any(name.isdecimal() for name in counts))
    pairs = [pair for texts in ([*counts], [*named.values()]) for pair in zip(texts, distinctive(texts), strict=True)]
    # Words that all values have tell no class.
    asked = [min(overlap(target, one) for one in pair) for pair in pairs if not pair[0].isdecimal()]
    # A request for `benign or malignant` names two classes; one word may be there by chance.
    likely += 0.2 * sum(sorted(asked)[-2:]) if len(counts) <= 12 else 0
    # `a stage from 0 to 4` is no column of two types.
    stages = {name for name in counts if name.isdecimal()}
    likely += 0.5 * (len(stages) > 2 and stages <= set(_NUMBER.findall(listed(target))))
    return replace(option, likely=likely)


def _united(
    options: Sequence[Option], survey: Survey, hints: Mapping[str, str], legends: Sequence[Legend]
) -> list[Option]:
    """Columns of different tables that tell the same classes of different images, as those of sites. Bare numbers mean
    the same only below the same header."""
    plain = [one for one in options if one.evidence and not one.evidence.columns and not one.separator and one.column]
    named = {one.where: _classes(one, survey, hints, legends) for one in plain}
    found: dict[frozenset[str], Option] = {}
    for first in plain:
        own = set(map(comparable, named[first.where].values()))
        called = dict(named)
        for one in (one for one in plain if _same_header(first, one)):
            names = {value: name for value, name in named[one.where].items() if value != name}
            called[one.where] = {value: named[first.where].get(value, value) for value in named[one.where]} | names
        alike = [
            one for one in plain
            if len(own & (other := set(map(comparable, called[one.where].values())))) > 1
            and (other <= own or own <= other)
            and (_same_header(first, one) or not any(name.isdecimal() for name in other))
        ]  # fmt: skip
        tables = [(one.evidence.table, one.evidence.source.table) for one in alike if one.evidence]
        parts = [alike[place] for place in apart([one.values for one in alike], tables)]
        codes: dict[str, str] = {}
        told = [pair for one in parts for pair in called[one.where].items()]
        # A value that means something else in the other table cannot be told apart.
        if len(parts) < 2 or first not in parts or any(codes.setdefault(value, name) != name for value, name in told):
            continue
        values, wheres = merged([one.values for one in parts]), [one.where for one in parts]
        gain = 0.35 * (share(values) - share(parts[0].values))
        found[frozenset(wheres)] = replace(
            parts[0], where=", else ".join(wheres), values=values, also=tuple(parts[1:]), codes=codes,
            likely=max(one.likely for one in parts) + gain,
        )  # fmt: skip
    return list(found.values())


def _same_header(first: Option, other: Option) -> bool:
    """Whether two columns have one header; that of a side says more than the header of a table with a row an image:
    `DR Levels` beside `{side}_eye_DR_Level`."""
    sided, plain = set(words(sideless(first.column))), set(words(other.column))
    return comparable(first.column) == comparable(other.column) or (
        sideless(first.column) != first.column and bool(plain) and plain <= sided
    )


def _classes(option: Option, survey: Survey, hints: Mapping[str, str], legends: Sequence[Legend]) -> Mapping[str, str]:
    """Each value with what it is called."""
    counts = option.counts
    return named_values(counts, hints, _legends(option, survey, legends)) or {value: value for value in counts}


def _inner(inner: Inner) -> Option | None:
    """A value beside the images in their files, or of a table that names what is inside."""
    option = Option(inner.where, inner.values, 0.0, column=inner.name, inner=inner)
    counts = option.counts
    if not 2 <= len(counts) <= MOST_CLASSES or len(counts) * 3 > sum(counts.values()) or any(map(split_of, counts)):
        return None
    return replace(option, likely=inner.likely - 0.25 * _rare(inner.values))


def _columns(survey: Survey, look: Look, target: str) -> list[Option]:
    found = []
    together: set[str] = set()
    for evidence in survey.labels:
        if evidence.table is None or evidence.source.column is None:
            continue
        if evidence.columns:
            table = table_of(survey, evidence)
            columns = [table.column(name) for name in evidence.columns] if table else []
            flags = [one for one in columns if label_likeness(one.choice or one.name) > 0.2 or _unfit(one)]
            if len(flags) < 2:
                continue
            found.append(_flags(evidence, flags, look.of(evidence.of), target))
            together |= {one.name for one in flags} if found[-1].likely > 0.5 else set()
            if (one := _summary(evidence, survey, look, target)) is not None:
                found.append(one)
            continue
        table, column = table_of(survey, evidence), evidence.source.column
        if table is None or column is None or are_files(evidence.values) or complete(column, evidence.values):
            continue
        known = table.column(column)
        if known.likeness <= 0.5 and numbers(evidence.values) and not known.asked(target):
            continue
        values = look.of(evidence.of if evidence.separator else cell_of(survey, table, column))
        likely = 0.35 * known.likeness + 0.35 * min(1.0, share(values))
        likely += 0.35 * max(0.0, known.asked(target) - overlap(target, column))  # what its name says comes later
        likely += 0.05 * (evidence.score > 0.6) - 0.25 * _rare(values) + 0.1 * outcomes(evidence.values)
        taken = all(map(acquired, evidence.values)) or unasked(column, tuple(evidence.values), target)
        likely -= 0.5 * bool(taken)
        found.append(Option(evidence.where, values, likely, evidence=evidence, column=column))
    return [*(one for one in found if one.table is not None or one.column not in together), *_unjoined(survey, look)]


def _flags(evidence: Evidence, columns: Sequence[ColumnLook], values: Sequence[str | None], target: str) -> Option:
    """Columns of yes and no as findings, one or several of a case. Check boxes of one question are findings together.
    Other columns, if a few that overlap, are where one says `No Finding`, or where the request names several and none
    implies another; else each is a target of its own, and which is meant is a question."""
    called = {one.name: one.choice or one.name for one in columns}
    unfit = tuple(one.name for one in columns if _unfit(one))
    kept = [None if value is None or set(unfit) & set(value.split("|")) else value for value in values]
    held = [set(value.split("|")) - {""} for value in kept if value is not None]
    findings = tuple(name for name in called if name not in unfit)
    asked = any(box(name)[0] for name in findings)
    codes = called if asked else None
    evidence = replace(evidence, columns=findings)
    likely = 0.62 + 0.35 * asked * max(one.asked(target) for one in columns)
    option = Option(evidence.where, kept, likely, evidence=evidence, codes=codes, unfit=unfit)
    if all(len(one) == 1 for one in held):
        return option
    worded = tuple(name for name in findings if not is_none(called[name]))
    if len(worded) > 1:
        option = replace(option, evidence=replace(evidence, columns=worded))
    if asked or len(worded) > FEW or len(worded) < len(findings):
        return option
    places = [{at for at, one in enumerate(held) if name in one} for name in worded]
    nested = any(one <= other for one, other in permutations(places, 2))
    named = [name for name in worded if overlap(target, name) > 0]
    return option if len(named) > 1 and not nested else replace(option, likely=0.3)


def _unfit(column: ColumnLook) -> bool:
    """Whether a yes in a column says that nobody knows: `not assessable`, beside the findings of a question."""
    return unsure(column.choice or column.name) or bool(column.choice and refused(column.choice, column.values))


def _summary(evidence: Evidence, survey: Survey, look: Look, target: str) -> Option | None:
    """Of columns of yes and no the one that the request names and that says yes wherever another does."""
    held = [set(value.split("|")) for value in look.of(evidence.of) if value]
    for name in evidence.columns:
        table = table_of(survey, evidence)
        if table and overlap(target, name) >= 0.99 and all(name in one for one in held):
            values = look.of(cell_of(survey, table, name))
            return Option(f"column {name} of {table.said}", values, 0.7, column=name, table=survey.tables.index(table))
    return None


def _rare(values: Sequence[str | None]) -> float:
    counts = sorted(Counter(value for value in values if value).values())
    return float(bool(counts) and counts[-1] > 0.97 * sum(counts))


def _unjoined(survey: Survey, look: Look) -> list[Option]:
    """Columns of tables that name images by whole paths or by way of another table; the trial shows what they hold."""
    found = []
    for number, table in enumerate(survey.tables):
        if table.key or table.pattern or not table.rows or len(table.rows) < 4:
            continue
        for column in table.columns:
            if (
                column.values
                and 2 <= column.distinct <= 20
                and column.filled > 0.5
                and column.distinct * 3 <= len(table.rows)
            ):
                likely = 0.35 * label_likeness(column.name) + 0.3
                where = f"column {column.name} of {table.file}"
                values: list[str | None] = list(column.values)
                if not any(split_of(value) for value in column.values):
                    found.append(Option(where, values, likely, column=column.name, table=number))
    return found


def _without_doubles(options: Sequence[Option]) -> list[Option]:
    """Without what says the same as a likelier one, and columns that are about another (`dx_type` beside `dx`)."""
    kept: list[Option] = []
    for option in options:
        # Every part counts here: `reader_b` is not about a `reader` that is really `reader_a`.
        own = _parts(option.column)
        about = any(
            _parts(one.column) < own for one in options if one.column and one is not option and one.likely > 0.5
        )
        same = any(
            len(one.values) == len(option.values)
            and distinct(one.values) == distinct(option.values)
            and falls_into(one.values, option.values)
            and falls_into(option.values, one.values)
            for one in kept
        )
        if same:
            continue
        kept.append(replace(option, likely=option.likely - 0.2) if about and option.column else option)
    return sorted(kept, key=lambda one: -one.likely)


def _parts(name: str) -> set[str]:
    return set(re.findall(r"[^\W_]+", name.casefold()))
