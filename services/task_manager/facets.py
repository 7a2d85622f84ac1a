"""What a sentence or a datacard is about: task, modality, dimension, anatomy, and the words that are left.

Vocabulary of radiology, not of datasets. Pure functions.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from shared.contracts.base import TaskKind

_EXPLICIT: dict[TaskKind, str] = {
    "report_generation": r"report generation|generat\w* (?:\w+ ){0,4}reports?|radiology reports?|findings generation",
    "organ_segmentation": r"organ segmentation|anatom\w+ (?:segmentation|parcellation)|parcellation",
    "anomaly_detection": (
        r"(?:anomaly|abnormality) detection"
        r"|(?:lesion|tumou?r|h[ae]+morrhage|infection|anomaly) (?:segmentation|detection)"
        r"|(?:voxel|pixel)-?wise detection"
    ),
    "diagnosis": r"disease diagnosis|diagnosis|classification",
}
_LESION = (
    r"lesion|tumou?r|h[ae]+morrhage|bleed|nodule|anomal|abnormal|infection|metasta|polyp|fracture|stroke|plaque"
    r"|opacit|effusion|patholog"
)
_ORGAN = (
    r"organ|liver|kidney|spleen|pancrea|vertebra|aorta|stomach|brain structure|lobe|bladder|prostate|heart|ventric"
    r"|muscle|bone|lung|structure|anatom"
)
_DIAGNOSE = (
    r"diagnos|classif|distinguish|differentiat|grade|grading|staging|screen|tells? \w+(?: \w+){0,4} apart|tell apart"
    r"|recogni|whether|predict|\bsorts?\b|sorted by|hint at"
)
_REPORT = (
    r"\breports?\b(?! (?:the )?(?:dice|auc|accuracy|balanced|bleu|f1|score|metric))(?! is)|impression|caption|in words"
)

MODALITIES: dict[str, str] = {
    "CT": r"\bct\b|\bcts\b|ct[- ]scan|computed tomograph|\bhrct\b|\bcbct\b|\bncct\b|\bcta\b|hounsfield",
    "MRI": r"\bmri\b|\bmris\b|\bmr\b|magnetic resonance|\bflair\b|\bt1\b|\bt2\b|\bdwi\b|t1-?weighted|t2-?weighted",
    "X-ray": r"x-?rays?\b|\bx rays?\b|radiograph|\bcxr\b|\bfilms?\b",
    "mammography": r"mammogra",
    "ultrasound": r"ultraso|sonogra|echocardi",
    "PET": r"\bpet\b|positron",
    "dermatoscopy": r"dermato|dermosc|skin photo",
    "fundus": r"fundus|retina|ophthalm",
    "OCT": r"\boct\b|optical coherence",
    "histology": r"histolog|histopath|whole[- ]slide|cytolog|microscop",
    "endoscopy": r"endoscop|colonoscop",
    "photograph": r"photograph",
    "signal": r"electrocardio|\becg\b|\beeg\b|electroenceph|visual field|spirometr",
    "text": r"\bletters?\b|clinical notes|free[- ]text notes|discharge",
}

FINDINGS: dict[str, str] = {
    "pneumonia": r"pneumon|covid|\bncp\b|ground[- ]glass|sars|lung infection|infected lung",
    "nodule": r"nodule|malignan|lung cancer",
    "pneumothorax": r"pneumothora",
    "tuberculosis": r"tubercul",
    "emphysema": r"emphysem|\bcopd\b",
    "bleeding": r"h[ae]+morrhag|bleed|h[ae]+matom",
    "stroke": r"stroke|isch[ae]+m",
    "white matter": r"white matter",
    "dementia": r"dementia|alzheimer|\bmci\b|cognitive",
    "parkinson": r"parkinson",
    "autism": r"autis",
    "fracture": r"fractur",
    "ligament": r"ligament|\bacl|cruciate",
    "meniscus": r"menisc",
    "arthrosis": r"arthr|kellgren|degenerat",
    "scoliosis": r"scolio",
    "stone": r"\bstones?\b|calculus|calculi",
    "tumour": r"tumou?r|glioma|meningioma|carcinom|cancer|neoplas|\bmass(?:es)?\b|polyp|metasta",
    "retinopathy": r"retinopath",
    "glaucoma": r"glaucom",
    "macula": r"macula|drusen|\bcnv\b",
    "skin lesion": r"skin lesion|melanom|nevus|naevus",
    "caries": r"caries",
    "implant": r"pacemaker|implant",
}
"""What is looked for in the images; of two texts that both name something they have to share one."""

ANATOMY: dict[str, str] = {
    "chest": r"chest|lung|pulmon|thora|pneumon|covid|\bcxr\b|cardiomegal|pleura|respirat|airway",
    "head": (
        r"brain|head|cereb|crani|neuro|alzheimer|dementia|hippocamp|glioma|stroke|skull|mild cognitive|\bmci\b"
        r"|memory clinic"
    ),
    "abdomen": r"abdom|pelvi|liver|hepat|kidney|renal|spleen|pancrea|stomach|gallbladder|bowel|colon|adrenal",
    "kidney": r"kidney|renal|nephro",
    "pancreas": r"pancrea",
    "liver": r"liver|hepat",
    "spine": r"spine|spinal|vertebra|lumbar|cervical",
    "knee": r"knee|cruciate|menisc|\bacl\b",
    "limb": r"limb|knee|\bhip\b|shoulder|wrist|ankle|elbow|\bacl\b|cruciate|femur|tibia|hand\b|finger",
    "heart": r"heart|cardiac|coronary|myocard|(?:left|right) ventric",
    "breast": r"breast|mammogra",
    "prostate": r"prostat",
    "skin": r"skin|dermato|dermosc|melanom|nevus",
    "eye": r"\beye|retina|fundus|glaucoma|macula",
    "thyroid": r"thyroid",
    "thigh": r"thigh|quadriceps|hamstring",
    "fetus": r"f[eo]+tal|f[eo]+tus|pregnan",
    "teeth": r"dental|teeth|tooth|caries|panoramic",
    "pelvis": r"pelvi[cs]",
    "vessels": r"coronary|angiograph|vessel",
    "colon": r"colon(?!oscop)|rectum|rectal|bowel",
}
_PARTS_OF: dict[str, str] = {"kidney": "abdomen", "pancreas": "abdomen", "liver": "abdomen", "knee": "limb"}

_NAMED_PARTS = frozenset({"vessels", "thigh", "teeth", "fetus"})
"""Parts that an image of the surrounding region shows too, and that its masks and labels seldom cover."""

_BEYOND = r"surviv|prognos|mortality|\bregister\b|registration|summari[sz]e|retriev|super-?resolution|denois"
"""What none of the four tasks is."""

_STOP = frozenset(
    re.findall(
        r"\w+",
        """
        a an and any are as at be build by can each for from get give have hospital i images image in is it
        like me model models need of on or our please scan scans should so system that the their them this
        to train trained use used using want we which with would you dataset data contains sub folder
        folders file files format task
        """,
    )
)


@dataclass(frozen=True)
class Facets:
    tasks: frozenset[TaskKind]
    modalities: frozenset[str]
    dimensions: frozenset[int]
    anatomy: frozenset[str]
    findings: frozenset[str]
    beyond: str
    """What is asked for that no task of this system is; empty as a rule."""
    words: Counter[str]


def read_facets(text: str) -> Facets:
    """Facets of a request or of a card's free text; an empty set means that the text does not say."""
    low = text.lower()
    anatomy = _matches(ANATOMY, low)
    return Facets(
        tasks=_tasks(low),
        modalities=_matches(MODALITIES, low),
        dimensions=_dimensions(low),
        anatomy=anatomy | {_PARTS_OF[part] for part in anatomy if part in _PARTS_OF},
        findings=_matches(FINDINGS, low),
        beyond=(re.findall(_BEYOND, low) or [""])[0],
        words=Counter(_singular(word) for word in re.findall(r"[a-z][a-z0-9]{2,}", low) if word not in _STOP),
    )


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 4 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _matches(table: dict[str, str], low: str) -> frozenset[str]:
    return frozenset(name for name, pattern in table.items() if re.search(pattern, low))


def _dimensions(low: str) -> frozenset[int]:
    found = set()
    if re.search(r"\b3-?d\b|three[- ]dimension|volum", low):
        found.add(3)
    if re.search(r"\b2-?d\b|two[- ]dimension|radiograph|x-?ray|photograph|single slices?", low):
        found.add(2)
    # A stated dimension outweighs one that is only implied by the modality.
    stated = {int(number) for number in re.findall(r"\b([23])-?d\b", low)}
    return frozenset(stated or found)


def _tasks(low: str) -> frozenset[TaskKind]:
    """Named tasks win; else the verbs and what they act on decide."""
    named = {task: match.start() for task, pattern in _EXPLICIT.items() if (match := re.search(pattern, low))}
    if named:
        # "lesion segmentation ... for diagnosis": what is named first is the task, the rest its purpose.
        return frozenset({min(named, key=lambda task: named[task])})
    if re.search(_REPORT, low):
        return frozenset({"report_generation"})
    if re.search(r"segment|delineat|contour|outline|\bmasks?\b", low):
        if re.search(_LESION, low):
            return frozenset({"anomaly_detection"})
        return (
            frozenset({"organ_segmentation"})
            if re.search(_ORGAN, low)
            else frozenset({"organ_segmentation", "anomaly_detection"})
        )
    if re.search(_DIAGNOSE, low):
        return frozenset({"diagnosis"})
    if re.search(r"detect|localis|localiz|find|locate", low):
        return (
            frozenset({"anomaly_detection"})
            if re.search(_LESION, low)
            else frozenset({"diagnosis", "anomaly_detection"})
        )
    return frozenset()


def conflict(request: Facets, card: Facets) -> str | None:
    """Why the card cannot serve the request, or None. Only what both texts state can conflict."""
    if request.beyond:
        return f"the request is about something ({request.beyond}...) that is none of this system's tasks"
    if missing := (request.anatomy & _NAMED_PARTS) - card.anatomy:
        return f"its card does not name the {_join(missing)}"
    pairs: list[tuple[str, Iterable[object], Iterable[object]]] = [
        ("task", request.tasks, card.tasks),
        ("modality", request.modalities, card.modalities),
        ("dimension", request.dimensions, card.dimensions),
        ("anatomy", request.anatomy, card.anatomy),
    ]
    if "organ_segmentation" not in request.tasks:  # healthy anatomy is the same whatever else the images show
        pairs.append(("what it shows", request.findings, card.findings))
    for name, wanted, offered in pairs:
        wanted, offered = set(wanted), set(offered)
        if wanted and offered and not wanted & offered:
            return f"{name} is {_join(offered)}, wanted is {_join(wanted)}"
    return None


def _join(values: Iterable[object]) -> str:
    return " or ".join(
        sorted(f"{value}D" if isinstance(value, int) else str(value).replace("_", " ") for value in values)
    )


def affinity(request: Facets, card: Facets, rarity: dict[str, float]) -> float:
    """How well a card without conflict fits: shared facets first, then shared words weighted by their rarity."""
    agreed = 4.0 * bool(request.tasks & card.tasks)
    agreed += 2 * bool(request.modalities & card.modalities) + 2 * bool(request.dimensions & card.dimensions)
    if not request.dimensions and card.dimensions == {3} and request.modalities & {"CT", "MRI"}:
        agreed += 1.0  # scans are volumes unless somebody says otherwise
    agreed += sum(1.5 for part in request.anatomy & card.anatomy)
    agreed += 2.0 * bool(request.findings & card.findings)
    # A card about one part of what is asked for, or about something more special, fits less well than a plain one.
    agreed -= 0.75 * len(card.anatomy - request.anatomy) + 1.0 * len(card.findings - request.findings)
    if card.anatomy & _PARTS_OF.keys():  # a card about one organ does not cover the others that are asked for
        agreed -= 2.0 * len((request.anatomy & _PARTS_OF.keys()) - card.anatomy)
    shared = sum(rarity.get(word, 0.0) for word in request.words if word in card.words)
    return agreed + shared / (1.0 + shared) * 3.0


def rarity(cards: Iterable[Facets]) -> dict[str, float]:
    """Inverse document frequency of each word over the cards."""
    documents = list(cards)
    seen = Counter(word for facets in documents for word in facets.words)
    return {word: math.log((1 + len(documents)) / (1 + count)) + 0.1 for word, count in seen.items()}
