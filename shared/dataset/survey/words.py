"""Words of people against words of files: which value is meant, which column is likely to say what."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from shared.dataset.survey.overlap import ROLE
from shared.dataset.tables.cells import comparable, mark

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
    beidseits gauche droite droit izquierda derecha izq der sinistra destra pa ap lat cc mlo
"""
ACQUISITION = frozenset(_ACQUISITION_WORDS.split())
"""Words of how an image was taken or treated: no class of a case."""
LABEL = {
    **dict.fromkeys(("diagnosis", "diagnose", "diagnostic", "label", "class", "category", "dx", "finding", "pathology",
                     "target", "disease", "befund", "krankheit", "erkrankung", "diagnostico", "diagnostic", "diagnosi",
                     "abnormal", "abnormality", "abnormalitie", "histology", "subtype", "diag", "diagn", "bef",
                     "dignität", "dignitat", "dignity"), 1.0),
    **dict.fromkeys(("outcome", "grade", "grad", "grading", "severity", "stage", "group", "condition", "status",
                     "result", "ground", "gt", "truth", "malignant", "malignancy", "benign", "birad", "rad", "cancer",
                     "tumor", "research", "positive"), 0.9),
    **dict.fromkeys(("type", "level", "score", "lesion"), 0.65),
}  # fmt: skip
"""Words in headers of columns that tell classes, and how sure they are."""
_NOT_LABEL_WORDS = """
    sex gender age race ethnicity scanner manufacturer vendor site center centre hospital institution view position
    projection laterality split fold set subset date time visit session series sery weight height bmi localization
    location device kernel source file filename path image modality sequence plane orientation protocol spacing slice
    width row column x y z partition format quality follow education handedness side description usage number index
    version phase downloaded year month day zip thickness field strength dose kvp contrast roi lr no count model size
    rescale intercept slope window echo flip direction frame path method confirm user creator befunder geschlecht
    alter seite sexe sexo lado
"""
NOT_LABEL = frozenset(_NOT_LABEL_WORDS.split())
"""Words in headers of columns that tell something else of a case, unless they are asked for."""


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
    r"\b(?:excluded?|indetermin\w*|undetermin\w*|unknown|unclear|uncertain|unsure|equivocal|ungradable|unclassified"
    r"|not (?:available|applicable|assessable|evaluable|determined|classified|labell?ed)|to ?do|tbd|pending"
    r"|unklar|unbekannt|fraglich|inconnue?|indeterminado|desconocid[oa])\b", re.I)  # fmt: skip


_REFUSED = re.compile(
    r"[^.;!?()]*\b(?:not (?:want|need|meant|asked|to be used|count)|unwanted|nicht (?:gew[uü]nscht|ben[oö]tigt)"
    r"|no se quieren)[^.;!?()]*", re.I)  # fmt: skip
_WITHOUT = re.compile(r"\b(?:ignore|not?|without|except|excluding|ohne|nicht|sans|sin)\b[^.,;:!?()]*", re.I)


def wanted(target: str) -> tuple[str, str]:
    """What a request wants, and what it does not: `take the scaled ones; the raw are not wanted`, `without the old`."""
    refused = _REFUSED.findall(target)
    kept = _REFUSED.sub(" ", target)
    if refused and not re.search(r"\w", kept):  # `frontal films, lateral ones are not wanted`: one sentence says both
        kept, _, refused[0] = refused[0].partition(",")
    return _WITHOUT.sub(" ", kept), " . ".join([*refused, *_WITHOUT.findall(kept)])


def unsure(value: str) -> bool:
    """Whether a value says that nobody knows the class, or that the case does not count."""
    return bool(_UNSURE.search(re.sub(r"[_-]+", " ", value)))


def acquired(value: str) -> bool:
    """Whether a value says how an image was taken, such as its side or view."""
    own = [word for word in _plain(value) if not word.isdecimal()]
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


def usual_spellings(values: Mapping[str, int]) -> dict[str, str]:
    """Values that differ in case and blanks alone (`normal`, ` NORMAL`) -> how most are written."""
    forms: dict[str, str] = {}
    for value in sorted(values, key=lambda one: (-values[one], one.swapcase())):
        forms.setdefault(comparable(value), value.strip())
    return {value: forms[comparable(value)] for value in values}


def outcomes(values: Iterable[str]) -> bool:
    """Whether most values are words of what a case is: positive and negative, benign and malignant."""
    said = [bool(_OUTCOMES & set(_plain(value))) for value in values]
    return bool(said) and sum(said) * 2 > len(said)


@lru_cache(maxsize=8192)
def words(text: str) -> tuple[str, ...]:
    """Words of a name or a sentence: lower case, `kidneyLeft2` and `kidney_left-2` alike, singular."""
    return tuple(same for word in _plain(text) if (same := _SAME.get(word, word)))


def _plain(text: str) -> list[str]:
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
    parts = re.findall(r"[^\W\d_]+", long.replace("'s", ""))
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


def overlap(target: str, *texts: str) -> float:
    """Share of the words of `texts` that stand in `target`, 0 to 1: only the best text counts."""
    asked = stems(words(target))
    best = 0.0
    for text in texts:
        own = stems(words(text))
        if own:
            best = max(best, len(asked & own) / len(own))
    return best


def stems(found: Iterable[str]) -> set[str]:
    """Beginnings of words, without numbers and what every request says."""
    # `classification` and `class`, `pathological` and `pathology`: five letters tell.
    return {word[:5] for word in found if not word.isdecimal() and word not in ("image", "model", "build", "train")}


_OUT_WORDS = """
    exclude excluded excl exclusion reject rejected discard discarded drop remove removed unusable ungradable
    ungradeable unreadable nondiagnostic uninterpretable invalid fail failed ausschluss ausgeschlossen unbrauchbar
    excluir excluido excluida exclu exclue exclure escluso esclusa
"""
_FIT_WORDS = """
    use usable used include included inclusion keep gradable gradeable evaluable assessable readable interpretable
    acceptable accept accepted eligible pass passed ok sufficient adequate satisfactory good brauchbar verwendbar
    auswertbar beurteilbar einschluss eingeschlossen verwenden utilisable utilizable incluir incluido inclu
"""
_QUALITY_WORDS = """
    quality qc qa gradability gradeability readability usability adequacy evaluability interpretability qualitat qualite
    calidad qualita bildqualitat
"""
_BESIDE_WORDS = """
    control check assurance grade grading rating score level result category class label technical diagnostic
    image scan file case photo picture film serie sery series study exam frame is was be to from in for the of at do
    this reason final overall analysis dataset bild aufnahme imagen
"""
_OUT, _FIT, _QUALITY = (frozenset(one.split()) for one in (_OUT_WORDS, _FIT_WORDS, _QUALITY_WORDS))
_ONLY_OF_QUALITY = frozenset(
    ("good", "ok", "pass", "passed", "fail", "failed", "sufficient", "adequate", "satisfactory", "drop", "used")
)
"""Words that speak of use beside one of quality only: alone they may be an outcome."""
_BESIDE = frozenset(_BESIDE_WORDS.split())
"""Words that change nothing of what a header says of use."""
_REMARK_WORDS = "status remark comment note flag bemerkung kommentar remarque observacion estado etat stato zustand"
_REMARKS = frozenset(_REMARK_WORDS.split())
_FIT_FOR = "usable|diagnostic|grade?able|assessable|evaluable|readable|interpretable"
_NOT_USED = re.compile(
    r"(?<!not )(?<!non )(?<!nicht )\b(?:exclu(?:ded?|sion|id[ao]|s)?|reject(?:ed)?|discard(?:ed)?|invalid"
    rf"|(?:do not|don't|not to be) used?|(?:not |non ?|un)(?:{_FIT_FOR})|descartad[ao]"
    r"|ausgeschlossen|verworfen|unbrauchbar|nicht (?:verwend\w*|brauchbar|diagnostisch|auswertbar|beurteilbar)"
    r"|inutili[sz]able|no (?:diagn[oó]stic[ao]|utilizable|valorable))\b", re.I)  # fmt: skip
_BAD = re.compile(
    r"(?:very |too )?(?:poor|bad|fail(?:ed|ure)?|insufficient|inadequate|unacceptable|unsatisfactory"
    r"|not (?:ok|acceptable)|schlecht|mangelhaft|ungen[uü]gend|unzureichend|mauvaise?|insuffisante?|mal[ao]"
    r"|deficiente|insuficiente|scadente)(?: quality| image| scan)?", re.I)  # fmt: skip
_MOST_SAID = 12
"""Values of a column that says whether images are to be used."""


def _of_use(header: str) -> str:
    """What a header says of the use of images: `out`, `fit`, `quality`, `remark`, or nothing."""
    said = set(_plain(unicodedata.normalize("NFKD", header).encode("ascii", "ignore").decode()))
    own = said - _BESIDE - _QUALITY - _REMARKS - {"not", "non"}
    own -= {word for word in own if said & _QUALITY and (word in ACQUISITION or word.isdecimal())}  # `qc_t1w`
    turned = bool(said & {"not", "non"})
    if own and own <= _OUT | _FIT and (said & _QUALITY or not own <= _ONLY_OF_QUALITY):
        return "out" if (own <= _OUT) != turned else "fit" if own <= _FIT or turned else ""
    return "" if own else "quality" if said & _QUALITY else "remark" if said & _REMARKS else ""


def refused(header: str, values: Iterable[str]) -> tuple[str, ...]:
    """Values by which a column plainly says that an image is not to be used; none where that is unclear."""
    kind, known = _of_use(header), list(values)
    if not kind or len(known) > _MOST_SAID:
        return ()
    marks = {mark(value) for value in known}
    if marks <= {"0", "1"}:
        no = {"out": "1", "fit": "0"}.get(kind)
        return tuple(value for value in known if mark(value) == no)
    plain = {value: re.sub(r"[\s_-]+", " ", value) for value in known}
    if kind == "out" and "reason" in _plain(header):
        return tuple(value for value in known if mark(value) == "?" and any(map(str.isalpha, value)))
    said = tuple(value for value in known if _NOT_USED.search(plain[value]))
    return said or (() if kind == "remark" else tuple(value for value in known if _BAD.fullmatch(plain[value])))


_REDCAP = re.compile(r"^redcap_|_complete$|^complete\?", re.IGNORECASE)
"""Columns that REDCap adds itself: events, and whether a form was filled in."""
_UNNAMED = re.compile(r"column_\d+")
"""What tables call a column without a header."""


def label_likeness(header: str) -> float:
    """How much a header sounds like the class of a case: 1 sure, 0.5 nothing known, 0 like something else."""
    sure = max((LABEL[word] for word in _plain(header) if word in LABEL), default=0.5)
    last = _plain(header.rpartition("/")[2])
    if _of_use(header) in ("out", "fit", "quality") or _REDCAP.search(header):
        return 0.1
    if any(word in NOT_LABEL for word in last) and not _UNNAMED.fullmatch(header):
        return 0.45 if any(LABEL.get(word) == 1.0 for word in last) else 0.1
    return sure


def slug(text: str, usual: str) -> str:
    """A name for use as a field or table: letters, digits and `_`."""
    found = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").lower()
    return found[:30] if found and found[0].isalpha() else usual
