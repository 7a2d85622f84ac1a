"""What the header of a column says: classes, something else of a case, or which images are not to be used."""

import re
import unicodedata
from collections.abc import Iterable

from shared.dataset.tables.cells import mark
from shared.dataset.tables.words import ACQUISITION, split_words

_VERDICTS = ("consensus", "adjudicated", "adjudication", "konsens", "consenso")
LABEL = {
    **dict.fromkeys(("diagnosis", "diagnose", "diagnostic", "label", "class", "category", "dx", "finding", "pathology",
                     "target", "disease", "befund", "krankheit", "erkrankung", "diagnostico", "diagnostic", "diagnosi",
                     "abnormal", "abnormality", "abnormalitie", "histology", "subtype", "diag", "diagn", "bef",
                     "dignität", "dignitat", "dignity"), 1.0),
    **dict.fromkeys(_VERDICTS, 1.0),
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
_PICKED = frozenset(("selected", "select", "selection", "chosen", "picked", "auswahl", "ausgewählt", "seleccionado"))
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
    r"|inutili[sz]able|no (?:diagn[oó]stic[ao]|utilizable|valorable)"
    # Nobody has read it yet, or nobody will.
    r"|pending|unread|not (?:yet )?(?:read|reported|reviewed)|cancell?ed|ausstehend|ungelesen|(?:noch )?nicht befundet"
    r"|storniert|pendientes?|pendentes?|no le[ií]d[ao]s?|anulad[ao]s?|en attente|non lue?s?|annul[eé]e?s?|in attesa"
    r"|non refertat[ao]|annullat[ao])\b", re.I)  # fmt: skip
_BAD = re.compile(
    r"(?:very |too )?(?:poor|bad|fail(?:ed|ure)?|insufficient|inadequate|unacceptable|unsatisfactory"
    r"|not (?:ok|acceptable)|schlecht|mangelhaft|ungen[uü]gend|unzureichend|mauvaise?|insuffisante?|mal[ao]"
    r"|deficiente|insuficiente|scadente)(?: quality| image| scan)?", re.I)  # fmt: skip
_MOST_SAID = 12
"""Values of a column that says whether images are to be used."""


def _of_use(header: str) -> str:
    """What a header says of the use of images: `out`, `fit`, `quality`, `remark`, or nothing."""
    said = set(split_words(unicodedata.normalize("NFKD", header).encode("ascii", "ignore").decode()))
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
    if kind == "out" and "reason" in split_words(header):
        return tuple(value for value in known if mark(value) == "?" and any(map(str.isalpha, value)))
    said = tuple(value for value in known if _NOT_USED.search(plain[value]))
    return said or (() if kind == "remark" else tuple(value for value in known if _BAD.fullmatch(plain[value])))


def verdict(header: str) -> bool:
    """Whether a column has what several readers agreed upon."""
    return any(word in _VERDICTS for word in split_words(header))


def picked(header: str, values: Iterable[str]) -> tuple[str, ...]:
    """Values of a column in which what is to be used has a mark (`selected` x), and all else nothing."""
    known = list(values)
    said = set(split_words(header))
    return (
        tuple(known) if said and said <= _FIT | _PICKED and known and {mark(value) for value in known} == {"1"} else ()
    )


_REDCAP = re.compile(r"^redcap_|_complete$|^complete\?", re.IGNORECASE)
"""Columns that REDCap adds itself: events, and whether a form was filled in."""
_UNNAMED = re.compile(r"column_\d+")
"""What tables call a column without a header."""


def label_likeness(header: str) -> float:
    """How much a header sounds like the class of a case: 1 sure, 0.5 nothing known, 0 like something else."""
    sure = max((LABEL[word] for word in split_words(header) if word in LABEL), default=0.5)
    last = split_words(header.rpartition("/")[2])
    if _of_use(header) in ("out", "fit", "quality") or _REDCAP.search(header):
        return 0.1
    if any(word in NOT_LABEL for word in last) and not _UNNAMED.fullmatch(header):
        return 0.45 if any(LABEL.get(word) == 1.0 for word in last) else 0.1
    return sure
