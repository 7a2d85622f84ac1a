"""What the columns of a dataset's tables say: the report, whose it is, where it belongs. Runs in the sandbox."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import median

from shared.trainkit.patients import COLUMN as PATIENT
from shared.trainkit.reports.tables import FOLDER, NAME, Table
from shared.trainkit.reports.texts import Section, tidy, words_in

STUDY = re.compile(
    r"(?:^|[ _.-])(?:study|exam(?:ination)?|accession|case|report|visit|episode|scan|session|series|uid|uId)"
    r"(?:[ _.-]?(?:id|uid|nr|no|number|name|key|identifier|instance[ _-]?uid))?$",
    re.IGNORECASE,
)
"""Says which examination something is of."""
SLOPE = re.compile(r"rescale[ _-]?slope", re.IGNORECASE)
INTERCEPT = re.compile(r"rescale[ _-]?intercept", re.IGNORECASE)
_SPLIT = re.compile(r"(?:data)?(?:split|set|subset|partition|phase)|fold[ _-]?type", re.IGNORECASE)
_VIEW = re.compile(r"projection|view|position|orientation|plane", re.IGNORECASE)
_VIEWS = {
    "frontal": r"frontal|front|pa|ap|posteroanterior|anteroposterior|p\.a\.|a\.p\.",
    "lateral": r"lateral|lat|ll|rl|l|left lateral|right lateral",
    "other": r"oblique|axial|coronal|sagittal|decubitus|lordotic",
}
_PARTS = {"train": r"train(?:ing)?|tr", "val": r"val(?:id(?:ation)?)?|dev", "test": r"test(?:ing)?|ts"}
_SECTIONS: dict[Section, str] = {
    "findings": r"findings?", "impression": r"impressions?|conclusions?", "report": r"reports?|captions?|narrative",
}  # fmt: skip
_NO_TEXT = re.compile(
    r"(?:^|[ _.-])(?:id|uid|path|file(?:name)?|date|time|labels?|count|n|num|number|score|length|url|prob\w*)$", re.I
)
_OTHER_TEXT = re.compile(
    r"indication|history|clinical|reason|technique|comparison|protocol|procedure|comment|title|abstract|url|mesh|problem"
    r"|question|answer|keyword|author|license|licence|copyright|name|path",
    re.IGNORECASE,
)
_LOOKED_AT = 400
LEAST_WORDS = 3
"""Median of the words of a column that holds a part of reports."""
LONG = 8
"""Median of the words of a column that is taken for the report though its name does not say so."""


def sections_of(tables: Sequence[Table], hints: str) -> dict[str, dict[Section, str]]:
    """Table -> section -> its column, of all tables with one. Where no column is named so, the longest texts count."""
    named = {table.name: found for table in tables if (found := _named(table, hints))}
    if named:
        return named
    longest = [(words, table.name, column) for table in tables for column, words in _long(table).items()]
    if not longest:
        return {}
    _, name, column = max(longest)
    return {name: {"report": column}}


def _named(table: Table, hints: str) -> dict[Section, str]:
    found: dict[Section, str] = {}
    for section, pattern in _SECTIONS.items():
        fitting = [
            column
            for column in table.columns
            if column not in (NAME, FOLDER)
            and any(re.fullmatch(pattern, token, re.IGNORECASE) for token in _tokens(column))
            and not _NO_TEXT.search(column)
            and _median_words(table, column) >= LEAST_WORDS
        ]
        if fitting:
            # The card's word counts most, then English, which most others are a translation of; then the table's order.
            found[section] = min(
                fitting,
                key=lambda column: (column.lower() not in hints.lower(), "en" not in _tokens(column)),
            )
    return found


def _long(table: Table) -> dict[str, float]:
    """Columns of different, long texts that are not named as something else."""
    found = {}
    for column in table.columns:
        texts = table.cells(column)
        if column in (NAME, FOLDER) or _OTHER_TEXT.search(column) or len(set(texts)) < 0.5 * len(texts):
            continue
        if (words := _median_words(table, column)) >= LONG:
            found[column] = words
    return found


def _median_words(table: Table, column: str) -> float:
    texts = table.cells(column)
    counts = [words_in(said) for text in texts[:: -(-len(texts) // _LOOKED_AT) or 1] if (said := tidy(text))]
    return median(counts) if counts else 0.0


def _tokens(column: str) -> list[str]:
    """`Findings_EN` -> findings, en; `modalWiseFinding` -> modal, wise, finding."""
    return [token.lower() for token in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", column)]


def column_of(table: Table, pattern: re.Pattern[str]) -> str | None:
    return next((column for column in table.columns if pattern.search(column) and table.cells(column)), None)


def patient_column(table: Table) -> str | None:
    return column_of(table, PATIENT)


def split_column(table: Table) -> str | None:
    """A column in which every value names a part of a split."""
    for column in table.columns:
        if _SPLIT.fullmatch(column) and (cells := table.cells(column)) and all(map(split_named, cells)):
            return column
    return None


def view_column(table: Table) -> str | None:
    """A column in which most values name a projection."""
    for column in table.columns:
        cells = table.cells(column) if _VIEW.search(column) else []
        if cells and sum(view_named(cell) != "" for cell in cells) >= 0.5 * len(cells):
            return column
    return None


def view_named(value: str) -> str:
    """frontal, lateral, other, or empty when the value names no projection."""
    said = value.strip().lower()
    return next((view for view, pattern in _VIEWS.items() if re.fullmatch(pattern, said)), "")


def study_column(table: Table, text_columns: Sequence[str]) -> str | None:
    """A column that says which examination a record is of: each value has one text, and some have several records."""
    best: tuple[int, str] | None = None
    for column in table.columns:
        if not STUDY.search(column) or column in text_columns:
            continue
        texts: dict[str, set[str]] = defaultdict(set)
        times: Counter[str] = Counter()
        for record in table.records:
            if isinstance(value := record.get(column), str) and value.strip():
                texts[value].add("\n".join(str(record.get(name, "")) for name in text_columns))
                times[value] += 1
        if times and max(times.values()) > 1 and all(len(said) == 1 for said in texts.values()):
            best = max(best or (0, ""), (len(times), column))
    return best[1] if best else None


def split_named(value: str) -> str:
    """train, val or test; empty when the value names no part of a split."""
    said = value.strip()
    return next((part for part, pattern in _PARTS.items() if re.fullmatch(pattern, said, re.IGNORECASE)), "")


def place_of(name: str) -> str:
    """The part of a split that a table's name speaks of (`reports_train.json`, `annotation.json#train`); else empty."""
    *_, last = re.split(r"[/#]", name)
    said = {part for token in re.split(r"[^A-Za-z]+", last) if (part := split_named(token))}
    return said.pop() if len(said) == 1 else ""
