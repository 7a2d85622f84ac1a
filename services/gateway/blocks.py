"""Sections of words and tables: what a report says, before anybody decides how it looks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shared.pages import printable

Row = tuple[str, ...]
_COUNTS = frozenset({"n", "missed", "invented"})


@dataclass(frozen=True)
class Table:
    """Without a head the first column is a label of the second."""

    rows: tuple[Row, ...]
    head: Row = ()


@dataclass(frozen=True)
class Section:
    title: str
    blocks: tuple[Table | str, ...]


def clean(text: str) -> str:
    """One line without control characters."""
    return printable(" ".join(text.split()))


def section(title: str, *blocks: Table | str) -> Section | None:
    """Cleaned, and without what is empty; None when nothing is left."""
    kept: list[Table | str] = []
    for block in blocks:
        if isinstance(block, str):
            kept += [clean(block)] if block.strip() else []
        elif block.rows:
            rows = tuple(tuple(clean(cell) for cell in row) for row in block.rows)
            kept.append(Table(rows, tuple(clean(cell) for cell in block.head)))
    return Section(title, tuple(kept)) if kept else None


def pairs(*found: tuple[str, str]) -> Table:
    """Label and text; without those that have no text."""
    return Table(tuple((label, text) for label, text in found if text))


def number(value: float) -> str:
    return f"{value:.3f}"


def figure(name: str, value: float) -> str:
    return f"{value:.0f}" if name in _COUNTS else number(value)


def figures_table(what: str, table: Mapping[str, Mapping[str, float]]) -> Table:
    """A row a class or structure, a column for each figure that any of them has."""
    columns = tuple(dict.fromkeys(key for row in table.values() for key in row))
    rows = tuple(
        (name, *(figure(key, row[key]) if key in row else "-" for key in columns)) for name, row in table.items()
    )
    return Table(rows, (what, *columns))


def counted(many: int, word: str) -> str:
    return f"{many:,} {word}{'' if many == 1 else 's'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first of them, and how many more there are."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def labelled(label: str | Sequence[str] | None) -> str:
    """A class by its name; several labels in a row, or that there is none."""
    return label if isinstance(label, str) else ", ".join(label or ()) or "none"


def values(found: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_value(value)}" for name, value in _flat(found))


def _flat(found: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", deeper) for inner, deeper in _flat(value))
        else:
            yield name, value


def _value(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
