"""Classes that stand in names: folders and parts of file names."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from shared.dataset.propose.draft import Draft
from shared.dataset.propose.inner_values import Inner
from shared.dataset.propose.legend import Legend, named_values
from shared.dataset.propose.values import Look, befores, cell_of, segment_of, share
from shared.dataset.survey.evidence import Evidence
from shared.dataset.survey.pieces import braces
from shared.dataset.survey.splits import split_of
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.column_words import label_likeness
from shared.dataset.tables.words import acquired, meant, overlap, words

MOST_CLASSES = 60
"""Values beyond which a source tells no classes."""
_MOST_GRADE = 100
"""Number from which on a bare number is an id and no class."""
_FEW_GRADES = 6
_NO_CLASS_WORDS = """
    session ses visit scan fold batch part image img set sery slice patient subject sub case person p s day week
    month year im frame study exam participant view subj pat id data dataset dir folder archive vol volume chunk
    split timepoint tp run rec acq
    site center centre zentrum centro institute hospital klinik klinikum clinic clinica hopital ospedale scanner
    vendor machine
"""
_NO_CLASS = frozenset(_NO_CLASS_WORDS.split())
_HOLDER_WORDS = "img im image picture photo foto bild bilder imagen imagene dicom dcm nifti png jpg jpeg tif"
_HOLDERS = frozenset(_HOLDER_WORDS.split())
"""Singular, as `words` gives them: names of folders of images. Beside one of them no folder is a class."""


@dataclass(frozen=True)
class Option:
    """One source of classes with how likely it is."""

    where: str
    values: list[str | None]
    likely: float
    field: str | None = None
    depth: int | None = None
    literal: bool = False
    """Whether each family has its value as a literal folder."""
    unlike: bool = False
    """Whether files of each value, or of each part of a name's values, have forms and folders of their own, as those of
    several places do."""
    evidence: Evidence | None = None
    column: str = ""
    table: int | None = None
    inner: Inner | None = None
    also: "tuple[Option, ...]" = ()
    """Columns of other tables, of the images of which this one says nothing."""
    codes: Mapping[str, str] | None = None
    """Value -> class, where that is known; of `also`, too."""
    unfit: tuple[str, ...] = ()
    """Of columns of yes and no those by which a case is not to be used, such as `not assessable`."""

    @property
    def separator(self) -> str | None:
        """Of cells with several classes."""
        if self.inner:
            return "|" if any("|" in (value or "") for value in self.values) else None
        return self.evidence.separator if self.evidence else None

    @property
    def counts(self) -> Counter[str]:
        """Each class with how often it occurs."""
        mark = self.separator
        found: Counter[str] = Counter()
        for value in self.values:
            if value:
                found.update({part.strip() for part in value.split(mark)} if mark else (value,))
        return found


def classes_in_names(draft: Draft, look: Look, target: str = "") -> list[Option]:
    """Fields of the names, and folders that are literal in each family but differ between families. Of numbers at the
    end of names those are grades that the request (`target`) lists: `normal (0) or tuberculosis (1)`."""
    asked = set(re.findall(r"(?<![\w.])\d+(?![\w.])", target))
    found = []
    pieces = draft.channels[0].pieces
    for name in pieces[0].fields:
        if not all(name in piece.fields for piece in pieces) or (draft.case == "entry" and name == "entry"):
            continue
        if pieces[0].pattern.endswith("." + braces(name)):
            continue  # the format of the file
        values = look.column(name)
        folder = braces(name) in pieces[0].pattern.rpartition("/")[0]
        likely = _plausible(values, befores(draft, name), segment_of(draft, name) == braces(name), folder)
        known = {value for value in values if value}
        last = pieces[0].pattern.endswith(f"_{braces(name)}{pieces[0].family.suffix}")
        if not likely and last and 2 <= len(known) <= _FEW_GRADES and known <= asked:
            likely = 0.5
        if likely:
            said = f"folder `{segment_of(draft, name)}`" if folder else f"`{{{name}}}` in the file name"
            unlike = _apart([piece.column(name) for piece in pieces])
            found.append(Option(said, values, likely, field=name, unlike=unlike))
    deepest = min(piece.pattern.count("/") for piece in pieces)
    for depth in range(deepest):
        segments = [piece.level(depth) for piece in pieces]
        if len(set(segments)) < 2 or not all(
            ("{" not in one) or (one.startswith("{") and one.endswith("}")) for one in segments
        ):
            continue
        if all(one.startswith("{") for one in segments):
            continue
        values = [file.split("/")[depth] for _, file in look.units]
        if likely := _plausible(values, [], True, True):
            forms = {(file.split("/")[depth], PurePath(file).suffix, file.count("/")) for _, file in look.units}
            unlike = len({(suffix, deep) for _, suffix, deep in forms}) == len(forms)
            found.append(Option(f"folder {depth + 1}", values, likely, depth=depth, literal=True, unlike=unlike))
    return found


def _apart(columns: Sequence[Sequence[str]]) -> bool:
    """Whether a form of names shares no value with the others, and has several, or they have: then the same place in
    them says different things."""
    own = [set(column) for column in columns]
    rests = [set[str]().union(*own[:at], *own[at + 1 :]) for at in range(len(own))]
    return any(rest and one.isdisjoint(rest) and len(one) + len(rest) > 2 for one, rest in zip(own, rests, strict=True))


def numbers(values: Iterable[str]) -> bool:
    """Whether some values are numbers that are too large for grades: they number something."""
    whole = (value.removesuffix(".0") for value in values)
    return any(value.isdecimal() and int(value[:9]) >= _MOST_GRADE for value in whole)


def told_by_a_column(option: Option, survey: Survey, look: Look) -> Option:
    """A folder that repeats a column of a table is what the column's header says: a description is no class."""
    mine = [_bare(value) for value in option.values]
    for table in survey.tables:
        if table.key is None or table.pattern:
            continue
        for column in table.columns:
            if label_likeness(column.name) > 0.4 or not 2 <= column.distinct <= 4 * MOST_CLASSES:
                continue
            theirs = [_bare(value) for value in look.of(cell_of(survey, table, column.name))]
            pairs = [one == other for one, other in zip(mine, theirs, strict=True) if other]
            if len(pairs) >= 0.5 * len(mine) and sum(pairs) >= 0.8 * len(pairs):
                return replace(option, likely=0.35 * label_likeness(column.name) + 0.1)
    return option


def without_places(
    options: Sequence[Option], only: Sequence[str], target: str, hints: Mapping[str, str],
    legends: Callable[[Option], Sequence[Legend]], few: bool,
) -> list[Option]:  # fmt: skip
    """Without parts of names of which none was asked for, where a column has a class that was asked for, and without
    such folders of `few` of the images or of files that are `unlike`: they say where the images came from."""

    def asked(option: Option) -> bool:
        counts = option.counts
        named = option.codes or named_values(counts, hints, legends(option))
        texts = {text for text in (*counts, *named.values()) if not text.isdecimal()}
        said = sum(overlap(target, text) >= 1 for text in texts)
        # In a place that says different things one word of the request is no sign.
        return bool(meant(only, counts, named)[0]) or said > bool(option.unlike and option.field)

    columns = [one for one in options if one.column and label_likeness(one.column) > 0 and asked(one)]
    named = [one for one in options if one.field or one.literal]
    places = [one for one in named if one.unlike or (few and one.where.startswith("folder "))]
    gone = [one for one in (named if columns else places) if not asked(one)]
    return [one for one in options if one not in gone]


def _bare(value: str | None) -> str:
    return "".join(c for c in (value or "").lower() if c.isalnum())


def _plausible(values: Sequence[str | None], leads: Sequence[str], whole: bool, folder: bool) -> float:
    """How likely a part of names is the class, 0 where it is none; `leads` stand before it, wherever it stands."""
    counts = Counter(value for value in values if value)
    many = len(counts)
    if (
        not 2 <= many <= MOST_CLASSES
        or share(values) < 0.95
        or sum(split_of(value) is not None for value in counts) * 2 > many
    ):
        return 0.0
    if sorted(counts.values())[many // 2] < 2 or many * 3 > sum(counts.values()):
        return 0.0
    last = [own[-1] for text in leads if (own := words(text))]
    if any(word in _NO_CLASS for word in last):
        return 0.0
    wordy = [value for value in counts if any(c.isalpha() for c in value)]
    if any((own := words(value)) and _HOLDERS.issuperset(own) for value in wordy):
        return 0.0
    starts = [words(value)[0] for value in wordy if words(value)]
    if starts and sum(start in _NO_CLASS for start in starts) * 2 > len(starts):
        return 0.0
    if sum(map(acquired, wordy)) * 2 > many:
        return 0.0
    if len(wordy) * 2 >= many:
        # Folders of letters and digits are ids: P12a, 00A4.
        ids = sum(sum(c.isdigit() for c in value) * 2 > len(value) for value in wordy)
        return 0.0 if ids * 2 > many else 0.75 if folder else 0.6
    said = any(label_likeness(word) > 0.8 for word in last)
    if not said and numbers(counts):
        return 0.0
    return 0.6 if said else 0.35 if folder and whole and many <= 10 else 0.0
