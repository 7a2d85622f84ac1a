"""A column of a table: what kind of values it holds, and what its header says."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from shared.contracts.profile import ColumnKind
from shared.dataset.survey.naming import evenly
from shared.dataset.tables.column_words import label_likeness
from shared.dataset.tables.words import overlap

_PEOPLE = re.compile(
    r"patient|subject|participant|person|volunteer|\bpid\b(?!-\d)|\bptid\b|^rid$|\bmrn\b"
    r"|^(?:sub|subj|pat)[-_. ]*(?:id|no|nr)?\.?$|case[-_ ]?(?:id|no|nr)$"
    r"|(?:^|n[.º°]*\s*(?:de )?)historia(?:[ _]cl[ií]nica)?$|\bnhc\b|\bipp\b|^prontu[aá]rio$|^cartella(?:[ _]clinica)?$",
    re.IGNORECASE,
)
ABOUT = re.compile(
    r"sex|gender|geschlecht|genre|age(?![a-z])|alter\b|edad|name|birth|geburt|naissance|nacimiento|weight|height|size|race"
    r"|ethnic|position|orientation|comment|history|count"
    r"|number.of|status|date|time|type|group|class|label|level|grade|grading|severity|outcome|diagnos",
    re.IGNORECASE,
)
"""Words of columns that say something of people instead of naming them."""
_DATE = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?:[ T].*)?|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}")


@dataclass
class ColumnLook:
    name: str
    kind: ColumnKind
    filled: float
    distinct: int
    values: dict[str, int]
    """Value -> rows, where there are 60 at most."""
    names_files: float = 0.0
    """Share of the images that its values name."""
    by: str = ""
    """What of an image they name: see `keys_of`."""
    names_people: bool = False
    words: float = 0.0
    """Median number of words in a cell."""
    about: str = ""
    """What a data dictionary of the dataset says of it."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """Value -> its name there."""
    choice: str = ""
    """Of a check box: the answer that it stands for."""

    @property
    def likeness(self) -> float:
        """How much header or description sound like the class of a case."""
        return max(label_likeness(one) for one in (self.name, self.about or self.name))

    def asked(self, target: str) -> float:
        """Share of the words of header or description that stand in a request."""
        return overlap(target, self.name, self.about)


def column_look(name: str, rows: Sequence[dict[str, str]]) -> ColumnLook:
    """Of all cells of a column."""
    cells = [row[name] for row in rows if row[name]]
    counts = Counter(cells)
    few = dict(counts.most_common()) if len(counts) <= 60 else {}
    words = sorted(len(cell.split()) for cell in evenly(cells, 300))
    return ColumnLook(
        name,
        _column_kind(counts, len(cells)),
        len(cells) / max(1, len(rows)),
        len(counts),
        few,
        names_people=says_people(name),
        words=words[len(words) // 2] if words else 0,
    )


def says_people(name: str) -> bool:
    """Whether the name of a column or an array says that its values tell people apart."""
    worded = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return bool(_PEOPLE.search(worded)) and not ABOUT.search(worded)


def _column_kind(counts: Counter[str], filled: int) -> ColumnKind:
    looked = list(counts)[:500]
    if not looked:
        return "empty"

    def all_are(test: Callable[[str], object]) -> bool:
        return sum(bool(test(one)) for one in looked) >= 0.98 * len(looked)

    if all_are(lambda one: re.fullmatch(r"[-+]?\d+(?:\.0+)?", one)):
        return "integer"
    if all_are(_number):
        return "number"
    if all_are(_DATE.fullmatch):
        return "date"
    if sum(len(one.split()) for one in looked) / len(looked) > 5:
        return "text"
    if len(counts) <= 60 and len(counts) * 2 <= filled:
        return "category"
    return "id" if len(counts) * 3 >= filled else "category"


def _number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True
