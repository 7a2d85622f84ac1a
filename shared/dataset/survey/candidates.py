"""Which names, columns and headers may tell classes, patients and splits apart: measured over all image files."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from shared.contracts.values import Source
from shared.dataset.survey.column_looks import ColumnLook
from shared.dataset.survey.evidence import Evidence, Units, measured
from shared.dataset.survey.names import Named, folder_levels, name_fields
from shared.dataset.survey.onehot import FEW, onehot_evidence
from shared.dataset.survey.overlap import dense
from shared.dataset.survey.splits import split_of
from shared.dataset.survey.table_looks import TableLook
from shared.dataset.tables.column_words import label_likeness, verdict
from shared.dataset.tables.words import ROLE

MOST_CLASSES = 60
_MOST_FINDINGS = 400
"""Of cells that are lists beyond doubt: a large archive has hundreds."""
_GRADES = 6
"""Numbers of a column, such as 0, 0.5 and 1, that may still be grades."""


def split_evidence(units: Units, tables: Sequence[TableLook]) -> list[Evidence]:
    """Names and columns whose values mean train, val or test."""
    found = []
    for _, one in of_names(units):
        sides = {split_of(value) for value in one.values}
        known = sum(count for value, count in one.values.items() if split_of(value))
        if (
            len(sides - {None}) > 1
            and one.distinct <= min(12, len(units.files) / 2)
            and known >= 0.8 * sum(one.values.values())
        ):
            found.append(scored(one, one.share))
    for table in tables:
        for column in table.columns:
            told = [split_of(value, column.name) for value in column.values]
            if not 2 <= column.distinct <= 8 or len({*told} - {None}) < 2:
                continue
            if sum(side is not None for side in told) * 2 > column.distinct and table.key:
                one = of_column(units, table, column)
                found.append(scored(one, one.share + 0.1))
    return best_of([one for one in found if one.share > 0])


def label_evidence(units: Units, tables: Sequence[TableLook], splits: Sequence[Evidence]) -> list[Evidence]:
    """Names, columns and one-hot columns with few values that have several images each."""
    found = []
    if not units.files:
        return []
    deep = {named.level: one.distinct for named, one in of_names(units)}
    for named, one in of_names(units):
        if not _is_label(one, units):
            continue
        words = sum(bool(re.search(r"[^\W\d]{2,}", value)) for value in one.values) / len(one.values)
        roles = sum(
            bool(ROLE.fullmatch(piece)) for value in one.values for piece in re.findall(r"[a-z]+", value.lower())
        )
        if any(split_of(value) for value in one.values) or roles * 2 > len(one.values):
            continue
        if _numbered(one, named.hint) or _repeated(one, units):
            continue
        # A class is a word, and more often a folder than a part of a name.
        score = one.share * (0.6 * words + 0.25 * named.folder + 0.1) * _balance(one)
        hinted = label_likeness(named.hint) > 0.5
        score += 0.3 * hinted
        if named.level and any(deep.get(level, 0) > max(12, one.distinct) for level in range(named.level)):
            score *= 0.5  # below the folders of patients there are examinations and series
        if words or hinted or named.folder:
            found.append(scored(one, score))
    for table in tables:
        if table.key is None:
            continue
        sets = onehot_evidence(units, table)
        found += sets
        flags = {name for one in sets for name in one.columns if len(one.columns) > FEW}
        told = {table.key, *(one.column for one in table.apart if one.placed)}
        for column in table.columns:
            if column.name in flags or column.name in told or column.names_people or not column.distinct >= 2:
                continue
            coded = _coded(column, table)
            if not coded and all(map(_digits, column.values)) and any(map(_NUMBERS.fullmatch, column.values)):
                continue  # boxes and run-length codes
            separator = " " if coded else _separator(column, table)
            few = column.distinct <= MOST_CLASSES and column.kind in ("category", "integer", "text", "id", "number")
            if not separator and (not few or _splits(column)):
                continue
            one = of_column(units, table, column, separator)
            if not _is_label(one, units):
                continue
            likely = column.likeness
            sentences = median(len(value.split()) for value in one.values) > 6
            hinted, clear, against = likely > 0.5, likely >= 0.9 and not sentences, likely <= 0.1
            # Classes may have long names, but then each has several images, and the header says what they are.
            if sentences and not (hinted and one.distinct * 4 <= sum(one.values.values())):
                continue
            wordy = column.kind in ("category", "text", "id") and not sentences
            score = one.share * (0.35 + 0.25 * hinted + 0.1 * clear + 0.2 * wordy - 0.4 * against) * _balance(one)
            score += 0.25 * verdict(column.name)
            if column.kind != "number" or hinted or column.distinct <= _GRADES:
                found.append(scored(one, score))
    found = [one for one in found if one.score > 0.05]
    taken = [one for one in splits if one.share > 0.5]
    return best_of([one for one in found if all(one.where != split.where for split in taken)])


def of_names(units: Units) -> list[tuple[Named, Evidence]]:
    """All parts of names, measured once."""
    if not units.named:
        units.named = [(named, _named(units, named)) for named in (*folder_levels(units), *name_fields(units))]
    return units.named


def _named(units: Units, named: Named) -> Evidence:
    def of(number: int, file: str) -> str | None:
        return named.of(units, number, file)

    values, share, distinct = measured(units, of)
    return Evidence(named.source, named.where, distinct, share, values, of, named.fields,
                    {one: text for one, text in named.patterns.items() if text != units.families[one].pattern},
                    named.literals, named.level)  # fmt: skip


def of_column(
    units: Units, table: TableLook, column: ColumnLook, separator: str | None = None, together: str | None = None
) -> Evidence:
    """A column as evidence. Of an image with several rows: all values with `separator` or `together` between them, else
    the first."""
    between = separator or together

    def of(number: int, file: str) -> str | None:
        rows = table.rows_of(units, (number, file))
        cells = dict.fromkeys(row[column.name] for row in rows if row[column.name])
        return (between.join(cells) if between else next(iter(cells), None)) or None

    values, share, distinct = measured(units, of, separator)
    if not values and not between:
        distinct = column.distinct if share else 0
    return Evidence(
        Source(table=table.name, column=column.name),
        f"column {table.spoken(column.name)} of {table.said}",
        distinct, share, values if together is None else {}, of, table=table.file, separator=separator,
    )  # fmt: skip


def _is_label(one: Evidence, units: Units) -> bool:
    if (
        not 2 <= one.distinct <= (_MOST_FINDINGS if one.separator else MOST_CLASSES)
        or one.share < 0.1
        or not one.values
    ):
        return False
    # A class has several images; one with a single image now and then is no reason against the others.
    return median(one.values.values()) >= 2 and one.distinct * 3 <= sum(one.values.values())


def _numbered(one: Evidence, before: str) -> bool:
    """Whether values are one word with other numbers, as patients and visits are called; grades are classes."""
    words = {re.sub(r"\d+", "#", before.strip("-_ ") + value.lower()) for value in one.values}
    if len(words) > 1 or not any(re.search(r"\d", value) for value in one.values):
        return False
    word = words.pop()
    if word == "#":
        return any(int(value[:9]) >= 20 for value in one.values)
    return label_likeness(word) <= 0.5


def _repeated(one: Evidence, units: Units) -> bool:
    """Whether most images stand under several values by the rest of their names, as channels and views do."""
    keys: dict[str, set[str]] = defaultdict(set)
    for number, file in units.files[:5000]:
        value = one.of(number, file)
        if value:
            keys[_NAME.sub("", file.lower().replace(value.lower(), " "))].add(value)
    return sum(len(found) > 1 for found in keys.values()) * 2 > len(keys) and not dense(set(keys))


_CODE = 3
"""Digits that the code of a class has at most."""
_NUMBERS = re.compile(r"[\[({]*[-\d.]+(?:[\s,;\[\](){}]+[-\d.]+)+[\])}]*")
_NAME = re.compile(r"\.[a-z0-9.]{2,7}$")


def _balance(one: Evidence) -> float:
    """1 where classes have several images each; less where a value is a rare exception of one."""
    counts = sorted(one.values.values(), reverse=True)
    return 1.0 if len(counts) > 1 and counts[1] * 50 >= counts[0] else 0.5


def _splits(column: ColumnLook) -> bool:
    return sum(split_of(value, column.name) is not None for value in column.values) * 2 > max(1, len(column.values))


def _coded(column: ColumnLook, table: TableLook) -> bool:
    """Whether cells list codes of classes with blanks between them (`9 21`), now one and now several."""
    cells = [row[column.name].split() for row in table.rows[:20_000] if row[column.name]]
    codes = {code for cell in cells for code in cell}
    short = all(code.isdecimal() and len(code) <= _CODE for code in codes)
    return column.likeness > 0.5 and short and len(codes) <= MOST_CLASSES and len(set(map(len, cells))) > 1


def _separator(column: ColumnLook, table: TableLook) -> str | None:
    """What divides a cell with several classes: its parts are fewer than the cells."""
    cells = [row[column.name] for row in table.rows[:20_000] if row[column.name]]
    for mark in ("\n", "|", ";", ",", "，", "、", "+"):
        joined = [cell for cell in cells if mark in cell]
        if len(joined) * 50 < len(cells) or not joined:
            continue
        parts = {part.strip() for cell in cells for part in cell.split(mark)}
        few = 2 <= len(parts) <= min(_MOST_FINDINGS if mark in ("\n", "|") else MOST_CLASSES, len(set(cells)))
        if few and all(len(part) < 60 for part in parts) and not all(map(_digits, parts)):
            return mark
    return None


def _digits(text: str) -> bool:
    return bool(re.fullmatch(r"[-\d.,;\s\[\](){}]+", text))


def scored(one: Evidence, score: float) -> Evidence:
    return replace(one, score=round(score, 3))


def best_of(found: Sequence[Evidence], most: int = 8) -> list[Evidence]:
    """Best first; of names that tell the same images apart (a folder `sub-01` and its number), the first."""
    kept: list[Evidence] = []
    seen: set[object] = set()
    for one in sorted(found, key=lambda one: (-one.score, one.level is not None, one.where)):
        told = (one.distinct, round(one.share, 3), tuple(sorted(one.values.values())))
        if one.source.field and told in seen:
            continue
        if one.source.field:
            seen.add(told)
        kept.append(one)
    return kept[:most]
