"""Words of people against words of files: which value is meant, and what a value says."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from shared.dataset.tables.cells import comparable

_SAME = {
    "tumour": "tumor",
    "oedema": "edema",
    "haemorrhage": "hemorrhage",
    "oesophagus": "esophagus",
    "healthy": "normal",
    "control": "normal",
    "cancer": "malignant",
    "disease": "",
    "the": "",
    "of": "",
    "and": "",
    "a": "",
    "an": "",
}
"""Spellings and words that say nothing. Kept short: a dictionary would guess."""

_ACQUISITION_WORDS = """
    mprage mp rage localizer scout survey plane spgr fspgr tse se fse gre epi bravo vibe haste space swan ax axial
    func anat task brain scan film photo photograph slide picture ultrasound xray dermoscopy
    sag sagittal cor coronal repeat raw original processed scaled corrected native contrast pre post t w flair dwi
    adc swi pd bold rest ct mr mri pet us xr cr dx mg left right frontal lateral l r lt rt od os ou li re links rechts
    beidseits gauche droite droit izquierda derecha izq der sinistra destra pa ap lat cc mlo plain thin thick std mm
    recon nativ
"""
ACQUISITION = frozenset(_ACQUISITION_WORDS.split())
"""Words of how an image was taken or treated: no class of a case."""
ROLE = re.compile(
    r"img|images?|ims?|pictures?|scans?|vol(?:ume)?s?|raw(?:data)?|orig(?:inals?)?|source|input|cta?|cbct|mra?|mri|t[12]"
    r"(?:w|ce|gd|c|n|f|km|map)?|flair|dwi|adc|pet|pd|pdw|swi|suv|bold|us|masks?|msk|seg(?:m|s|mentations?)?|labels?|lbl"
    r"|gt|groundtruth|truth|annot(?:ation)?s?|roi|contours?|lesions?|frontal|lateral|ap|pa|mlo|cc|axial|sagittal|coronal"
    r"|pre|post|phase|arterial|venous|portal|left|right",
)
"""Words of files that belong to one case. A hint only: names must repeat for the same cases, too."""


_NONE = re.compile(
    r"no(?:ne|thing)?|no[ _-]?(?:findings?|abnormalit(?:y|ies)|disease|patholog(?:y|ies)|labels?)|keine?[ _-]befunde?"
    r"|o\. ?b\.?|ohne befund",
    re.I,
)
_NORMAL = re.compile(
    "normal|healthy|negative|unremarkable|good|ok|non_defect|no_defect|defect_free|controls?|benign_normal", re.I
)
_OUTCOME_WORDS = """
    negative positive neg pos yes no normal abnormal healthy sick benign malignant control none present absent true
    false disease tumor covid pneumonia cancer gutartig bosartig
"""
_OUTCOMES = frozenset(_OUTCOME_WORDS.split())


_UNSURE = re.compile(
    r"\b(?:excluded?|indetermin\w*|undetermin\w*|unknown|unclear|uncertain|unsure|equivocal|ungradable"
    r"|unclassif(?:ied|iable)|to ?do|tbd|pending|not for (?:evaluation|analysis|use)"
    r"|not (?:available|applicable|assessable|evaluable|determined|classified|labell?ed)"
    r"|(?:unable to|can(?:not|'t| ?not)|could not)(?: be)? (?:assess|determin|evaluat|grad|judg|read|tell|say)\w*"
    r"|nicht (?:beurteilbar|auswertbar|bestimmbar)|no (?:valorable|evaluable)|non (?:valutabil[ei]|[eé]valuable)"
    r"|niet (?:beoordeelbaar|te beoordelen)|n[aã]o avali[aá]vel|sin acuerdo"
    r"|unklar|unbekannt|fraglich|inconnue?|indeterminado|desconocid[oa])\b", re.I)  # fmt: skip


_REFUSED = re.compile(
    r"[^.;!?()]*\b(?:not (?:want|need|meant|asked|to be used|count)|unwanted|nicht (?:gew[uü]nscht|ben[oö]tigt)"
    r"|no se quieren)[^.;!?()]*", re.I)  # fmt: skip
_ASIDE = r"ignor(?:e|ing)|except|exclud(?:e|ing)|leav(?:e|ing)(?=[^.,;:!?()]*\b(?:aside|out)\b)"
_WITHOUT = re.compile(rf"\b(?:{_ASIDE}|not?|without|ohne|nicht|sans|sin)\b[^.,;:!?()]*", re.I)


def wanted(target: str) -> tuple[str, str]:
    """What a request wants, and what it does not: `take the scaled ones; the raw are not wanted`, `without the old`."""
    refused = _REFUSED.findall(target)
    kept = _REFUSED.sub(" ", target)
    if refused and not re.search(r"\w", kept):  # `frontal films, lateral ones are not wanted`: one sentence says both
        kept, _, refused[0] = refused[0].partition(",")
    return _WITHOUT.sub(" ", kept), " . ".join([*refused, *_WITHOUT.findall(kept)])


def set_aside(target: str) -> str:
    """What a request wants left out. `Tumour or no tumour` leaves nothing out."""
    return " . ".join([*_REFUSED.findall(target), *re.findall(rf"\b(?:{_ASIDE})\b[^.,;:!?()]*", target, re.I)])


_SHORT_UNSURE = re.compile(r"n\. ?[abdv]\.|n/[ad]|k\. ?a\.", re.I)
"""Not assessable, not done, not available, nothing said."""


def unsure(value: str) -> bool:
    """Whether a value says that nobody knows the class, or that the case does not count."""
    return bool(_UNSURE.search(re.sub(r"[_-]+", " ", value)) or _SHORT_UNSURE.fullmatch(value.strip()))


def acquired(value: str) -> bool:
    """Whether a value says how an image was taken, such as its side or view."""
    own = [word for word in split_words(value) if not word.isdecimal()]
    return bool(own) and all(word in ACQUISITION or ROLE.fullmatch(word) for word in own)


def is_none(value: str) -> bool:
    """Whether a value beside findings is none of them: `No Finding`. `normal` is a class that somebody gave."""
    return bool(_NONE.fullmatch(value.strip()))


def says_nothing(value: str) -> bool:
    """Whether a value says that there is nothing to be found: `No Finding`, `normal`."""
    return is_none(value) or bool(_NORMAL.fullmatch(value.strip()))


def normal_in_two_ways(values: Mapping[str, int]) -> dict[str, str]:
    """Of the values of a column those that say that nothing was found (`normal`, `No Finding`, `o.B.`) -> the word for
    it; empty where it is written in one way."""
    plain = {text: many for text, many in values.items() if re.fullmatch("normal|unremarkable", text.strip(), re.I)}
    none = [value for value in values if is_none(value)]
    word = max(plain, key=lambda value: plain[value], default="")
    return dict.fromkeys([*plain, *none], word) if plain and none else {}


_INITIALS = re.compile("[A-Z]{3,6}")


def usual_spellings(values: Mapping[str, int]) -> dict[str, str]:
    """Values that differ in case and blanks (`normal`, ` NORMAL`), in the order of words without numbers (`dry AMD`,
    `AMD (dry)`), or as initials do (`DME`, `diabetic macular edema`) -> how most are written."""
    forms: dict[str, str] = {}
    for value in sorted(values, key=lambda one: (-values[one], one.swapcase())):
        forms.setdefault(_spelled(value, values), value.strip())
    return {value: forms[_spelled(value, values)] for value in values}


def _spelled(value: str, values: Iterable[str]) -> str:
    """What is the same of all ways to write a value."""
    if _INITIALS.fullmatch(value.strip()):
        meant = {_spelled(one, ()) for one in values if _initials(one, value)}
        value = meant.pop() if len(meant) == 1 else value
    found = split_words(value)
    return " ".join(sorted(found)) if found and all(map(str.isalpha, found)) else comparable(value)


def outcomes(values: Iterable[str]) -> bool:
    """Whether most values are words of what a case is: positive and negative, benign and malignant."""
    said = [bool(_OUTCOMES & set(split_words(value))) for value in values]
    return bool(said) and sum(said) * 2 > len(said)


@lru_cache(maxsize=8192)
def words(text: str) -> tuple[str, ...]:
    """Words of a name or a sentence: lower case, `kidneyLeft2` and `kidney_left-2` alike, singular."""
    return tuple(same for word in split_words(text) if (same := _SAME.get(word, word)))


def split_words(text: str) -> list[str]:
    """As `words`, but each as it is spelled, and those that say nothing, too."""
    text = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    return [_singular(word) for word in re.findall(r"[^\W\d_]+|\d+", text.lower().replace("'s", ""))]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "is", "us")) else word


def close(asked: str, value: str) -> float:
    """How sure it is that `asked` means `value`: 1 the same words, 0.8 more exact than asked (`kidneys` and
    `left kidney`), 0.6 less exact or initials (`Alzheimer's disease` and `AD`), 0 not at all."""
    first, second = words(asked), words(value)
    if not first or not second:
        return float(asked.strip().lower() == value.strip().lower())
    if sorted(first) == sorted(second) or "".join(first) == "".join(second):
        return 1.0
    if set(first) < set(second):
        return 0.8
    if set(second) < set(first) or _initials(asked, value) or _initials(value, asked):
        return 0.6
    return 0.0


def _initials(long: str, short: str) -> bool:
    # `DME` of `diabetic macular oedema`, too.
    parts = re.findall(r"[^\W\d_]+", re.sub(r"\boe", "e", long.replace("'s", ""), flags=re.I))
    return len(parts) > 1 and "".join(part[0] for part in parts).lower() == short.strip().lower()


def meant(
    only: Sequence[str], values: Iterable[str], names: Mapping[str, str] | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Values that were asked for, and words for which no value is there. `names` tells what values are called."""
    called = {value: (value, *((names[value],) if names and value in names else ())) for value in values}
    found: dict[str, None] = {}
    missing = []
    for asked in only:
        sure = {value: max(close(asked, name) for name in own) for value, own in called.items()}
        best = max(sure.values(), default=0.0)
        if not best:
            missing.append(asked)
        found.update(dict.fromkeys(value for value, one in sure.items() if one == best > 0))
    return tuple(found), tuple(missing)


COMPOUND = 10
"""Letters from which on a word may be made of others: `Lebermetastasen`."""


def overlap(target: str, *texts: str) -> float:
    """Share of the words of `texts` that stand in `target`, 0 to 1: only the best text counts."""
    asked = stems(words(target))
    best = 0.0
    for text in texts:
        own = stems(words(text))
        if own:
            parts = [one for one in asked if len(one) == 5]
            inside = {word[:5] for word in words(text) if len(word) >= COMPOUND and any(one in word for one in parts)}
            best = max(best, len(own & (asked | inside)) / len(own))
    return best


def distinctive(texts: Sequence[str]) -> list[str]:
    """The words of each text that do not stand in all of them; whole where one text would have none left."""
    parts = [words(text) for text in texts]
    common = set.intersection(*map(set, parts)) if len(parts) > 1 else set()
    left = [" ".join(word for word in part if word not in common) for part in parts]
    return left if all(left) else list(texts)


_FILE = re.compile(r"\.\w?[a-z]\w{1,2}$", re.IGNORECASE)
"""How a file's name ends."""


def are_files(values: Collection[str]) -> bool:
    """Whether the values name files of one kind, such as archives: they say where something came from."""
    found = [_FILE.search(value) for value in values]
    return all(found) and len({one.group().lower() for one in found if one}) == 1


def stems(found: Iterable[str]) -> set[str]:
    """Beginnings of words, without numbers and what every request says."""
    # `classification` and `class`, `pathological` and `pathology`: five letters tell.
    return {word[:5] for word in found if not word.isdecimal() and word not in ("image", "model", "build", "train")}


def slug(text: str, usual: str) -> str:
    """A name for use as a field or table: letters, digits and `_`."""
    found = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()
    return found[:30] if found and found[0].isalpha() else usual
