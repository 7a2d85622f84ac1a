"""What is said about a made-up chest film: findings and impression that follow from the facts, in varying words."""

from collections.abc import Mapping, Sequence

import numpy as np

from m3bench.phantoms.film_signs import DEVICES, HIGH, LOW
from m3bench.words.reports import RIGHT_LEFT, Report, one_of, sentence

ZONES = ("upper", "mid", "lower")
Fact = tuple[str, int, int]
"""Name of the finding; side in the picture, 0 where it has none; zone 0 (upper) to 2."""
HEART, AORTA = "Cardiomegaly", "Tortuous aorta"
LUNGS = ("Atelectasis", "Calcification", "Consolidation", "Emphysema", "Fibrosis", "Mass", "Nodule")
PLEURA = {"Pneumothorax": "pneumothorax", "Effusion": "pleural effusion"}
BONES = ("Fracture", "Scoliosis")
MESH = {
    "Atelectasis": "Pulmonary Atelectasis", "Calcification": "Calcified Granuloma", "Consolidation": "Consolidation",
    "Effusion": "Pleural Effusion", "Emphysema": "Pulmonary Emphysema", "Fibrosis": "Pulmonary Fibrosis",
    "Fracture": "Fractures, Bone", "Mass": "Mass", "Nodule": "Nodule", "Pneumothorax": "Pneumothorax", HEART: HEART,
    AORTA: "Aorta, Thoracic/tortuous", LOW: "Lung/hypoinflation", HIGH: "Lung/hyperdistention",
    "Scoliosis": "Scoliosis/thoracic vertebrae", "Hiatal hernia": "Hernia, Hiatal",
    "Pacemaker": "Implanted Medical Device", "Port": "Catheters, Indwelling", "Sternal wires": "Surgical Instruments",
}  # fmt: skip
_IN_LUNG = (*LUNGS, *PLEURA, "Fracture")
_SAID: Mapping[str, tuple[str, str, str]] = {
    # In a sentence, in other words, in the impression.
    HEART: (
        "the heart is enlarged with a prominent left ventricular contour",
        "the heart is markedly enlarged with a wide left ventricular contour",
        "cardiomegaly",
    ),
    AORTA: (
        "the thoracic aorta is tortuous and ectatic with widening of the knob",
        "the descending aorta is tortuous and ectatic with a wide knob",
        "tortuous thoracic aorta",
    ),
    "Hiatal hernia": (
        "a large hiatal hernia with an air-fluid level projects behind the cardiac silhouette",
        "a hiatal hernia containing an air-fluid level is seen behind the cardiac silhouette",
        "hiatal hernia",
    ),
    LOW: (
        "low lung volumes with elevated hemidiaphragms and crowding of bronchovascular markings",
        "lung volumes are low with elevated hemidiaphragms and bronchovascular crowding",
        "low lung volumes",
    ),
    HIGH: (
        "lungs are hyperexpanded with flattened diaphragms, consistent with chronic obstructive disease",
        "hyperexpanded lungs with flattening of the diaphragms, suggesting chronic obstructive disease",
        "hyperexpanded lungs",
    ),
    "Atelectasis": (
        "linear bandlike opacity in the {side} {zone} lung compatible with subsegmental atelectasis",
        "bandlike opacity across the {side} {zone} lung compatible with discoid atelectasis",
        "{side} {zone} lung atelectasis",
    ),
    "Calcification": (
        "cluster of calcified granulomas in the {side} {zone} lung from prior histoplasmosis",
        "clustered calcified granulomas of the {side} {zone} lung from prior histoplasmosis",
        "calcified granulomas, {side} {zone} lung",
    ),
    "Consolidation": (
        "patchy airspace consolidation involving the {side} {zone} lobe, suspicious for pneumonia",
        "dense airspace consolidation involving the {side} {zone} lobe, worrisome for pneumonia",
        "{side} {zone} lobe pneumonia",
    ),
    "Emphysema": (
        "hyperlucent {side} apex containing several thin-walled bullae, as in bullous emphysema",
        "hyperlucent {side} apex with multiple thin-walled bullae of bullous emphysema",
        "bullous emphysema on the {side}",
    ),
    "Fibrosis": (
        "coarse reticular interstitial markings in the {side} {zone} lung representing fibrosis or scarring",
        "coarsened reticular interstitial markings of the {side} {zone} lung representing chronic scarring",
        "{side} {zone} lung scarring",
    ),
    "Mass": (
        "large rounded mass overlying the {side} {zone} lung; XXXX is recommended for further evaluation",
        "large spherical mass over the {side} {zone} lung; XXXX recommended to evaluate further",
        "{side} {zone} lung mass, neoplasm not excluded",
    ),
    "Nodule": (
        "solitary well-circumscribed pulmonary nodule measuring about one centimeter in the {side} {zone} lung",
        "solitary pulmonary nodule of about one centimeter in the {side} {zone} lung",
        "{side} {zone} lung nodule",
    ),
    "Effusion": (
        "{side}-sided pleural effusion blunting the costophrenic sulcus, with fluid tracking up laterally",
        "moderate {side}-sided pleural effusion blunting the costophrenic sulcus, with fluid along the lateral wall",
        "{side}-sided pleural effusion",
    ),
    "Pneumothorax": (
        "{side} apical pneumothorax with visible pleural line and partial collapse",
        "{side} apical pneumothorax with displaced pleural line and partial collapse",
        "{side} apical pneumothorax",
    ),
    "Fracture": (
        "displaced fracture through the lateral aspect of a {side} {zone} rib with offset margins",
        "displaced fracture of the lateral aspect of a {side} {zone} rib, margins offset",
        "{side} {zone} rib fracture",
    ),
    "Scoliosis": (
        "moderate scoliosis of the thoracic spine, convex to the {side}",
        "moderate curvature of the thoracic spine convex to the {side}",
        "scoliosis, convex {side}",
    ),
    "Pacemaker": (
        "{side} chest wall pacemaker generator with its lead terminating over the right ventricle",
        "{side} subclavian pacemaker generator, lead terminating over the right ventricle",
        "{side} pacemaker in place",
    ),
    "Port": (
        "{side} internal jugular XXXX-a-cath, catheter tip overlying the superior vena cava",
        "{side} XXXX-a-cath with catheter tip overlying the superior vena cava",
        "{side} XXXX-a-cath in place",
    ),
    "Sternal wires": (
        "median sternotomy wires are intact and aligned after prior bypass surgery",
        "intact median sternotomy wires from prior bypass surgery",
        "prior sternotomy",
    ),
}

_NORMAL_HEART = (
    "heart size is normal",
    "cardiomediastinal silhouette within normal limits",
    "normal heart and mediastinum",
)
_CLEAR = ("lungs are clear bilaterally", "no focal airspace disease", "clear lungs without infiltrate")
_ABSENT = ("no {0}", "there is no evidence of {0}", "negative for {0}")
_INTACT = ("bony structures are intact", "no acute osseous abnormality", "visualized XXXX unremarkable")


def mesh(facts: Sequence[Fact]) -> str:
    """`;` between terms and `/` within; `normal` where there is nothing."""
    return ";".join(_term(*fact) for fact in facts) or "normal"


def _term(name: str, side: int, zone: int) -> str:
    parts = [MESH[name], *(("lung", ZONES[zone]) if name in _IN_LUNG else ())]
    return "/".join([*parts, *([RIGHT_LEFT[side]] if side else [])])


def report(facts: Sequence[Fact], rng: np.random.Generator) -> Report:
    named = {name: (side, zone) for name, side, zone in facts}

    def seen(*names: str) -> list[str]:
        return [_seen(name, *named[name], rng) for name in names if name in named]

    middle = seen(HEART, AORTA, "Hiatal hernia")
    lungs = seen(LOW, HIGH, *(name for name in named if name in LUNGS))
    pleura, bones = seen(*PLEURA), seen(*BONES)
    parts = middle or [one_of(rng, *_NORMAL_HEART)]
    parts += lungs or [one_of(rng, *_CLEAR)]
    absent = " or ".join(word for name, word in PLEURA.items() if name not in named)
    parts += [*pleura, *([one_of(rng, *_ABSENT).format(absent)] if absent else [])]
    parts += [*(bones or [one_of(rng, *_INTACT)]), *seen(*DEVICES)]
    return Report(" ".join(map(sentence, parts)), _impression(named, rng))


def _seen(name: str, side: int, zone: int, rng: np.random.Generator) -> str:
    return one_of(rng, *_SAID[name][:2]).format(side=RIGHT_LEFT.get(side, ""), zone=ZONES[zone])


def _impression(named: Mapping[str, tuple[int, int]], rng: np.random.Generator) -> str:
    if not named:
        return one_of(rng, "Normal chest x-XXXX.", "No acute cardiopulmonary abnormality.", "No acute disease.")
    found = [
        _SAID[name][2].format(side=RIGHT_LEFT.get(side, ""), zone=ZONES[zone]) for name, (side, zone) in named.items()
    ]
    return " ".join(f"{number}. {sentence(text)}" for number, text in enumerate(found, start=1))
