"""What is said about a made-up chest CT: sentences per organ that follow from the labels, in varying words."""

from collections.abc import Mapping

import numpy as np

from m3bench.phantoms.chest_findings import LABELS, SIDED
from m3bench.words.reports import RIGHT_LEFT, Report, one_of, sentence

Sides = Mapping[str, int]
"""Labels that are present -> side in the picture; 0 where there is none."""
CLINICAL = (
    "Cough.",
    "Dyspnea, control.",
    "Not given.",
    "Fever, suspected pneumonia.",
    "Chest pain",
    "Preoperative examination.",
)
TECHNIQUE = (
    "1.5 mm thick non-contrast sections were taken in the axial plane.",
    "Non-contrast images were taken in the axial plane with a section thickness of 1.5 mm.",
)
_PRESENT: Mapping[str, tuple[str, ...]] = {
    "Medical material": (
        "there is a port catheter on the chest wall",
        "a port with its catheter is observed on the chest wall",
    ),
    "Arterial wall calcification": (
        "calcific plaques are observed in the wall of the aorta",
        "there is wall calcification in the aorta",
    ),
    "Cardiomegaly": ("heart size has increased", "the heart is larger than normal"),
    "Pericardial effusion": ("pericardial effusion is observed", "there is effusion in the pericardial space"),
    "Coronary artery wall calcification": (
        "calcific plaques are observed in the coronary arteries",
        "there is calcification in the coronary artery walls",
    ),
    "Hiatal hernia": ("hiatal hernia is observed at the lower end of the esophagus", "there is a hiatal hernia"),
    "Lymphadenopathy": (
        "enlarged lymph nodes are observed in the mediastinum",
        "there are mediastinal lymphadenopathies",
    ),
    "Emphysema": ("emphysematous changes are observed in both lungs", "there are emphysematous areas in both lungs"),
    "Atelectasis": (
        "linear atelectasis is observed in the lower lobe of the {side} lung",
        "there is bandlike atelectasis in the {side} lower lobe",
    ),
    "Lung nodule": ("a nodule is observed in the {side} lung", "there is a nodule in the {side} lung"),
    "Lung opacity": (
        "ground-glass opacities are observed in the {side} lung",
        "there are ground-glass densities in the {side} lung",
    ),
    "Pulmonary fibrotic sequela": (
        "fibrotic sequela changes are observed at the apex of the {side} lung",
        "there are sequela fibrotic strands in the {side} upper lobe",
    ),
    "Pleural effusion": ("pleural effusion is observed on the {side}", "there is effusion in the {side} pleural space"),
    "Mosaic attenuation pattern": (
        "a mosaic attenuation pattern is observed in both lungs",
        "both lungs show mosaic attenuation",
    ),
    "Peribronchial thickening": ("peribronchial thickening is observed", "there is thickening of the bronchial walls"),
    "Consolidation": (
        "a consolidation with air bronchograms is observed in the {side} lung",
        "there is an area of consolidation in the {side} lung",
    ),
    "Bronchiectasis": (
        "bronchiectatic changes are observed in the lower lobes",
        "there is bronchiectasis in both lower lobes",
    ),
    "Interlobular septal thickening": (
        "interlobular septal thickening is observed",
        "there are thickened interlobular septa",
    ),
}
_ABSENT: Mapping[str, tuple[str, ...]] = {
    "Cardiomegaly": ("heart contour and size are normal", "heart size is within normal limits"),
    "Pericardial effusion": ("pericardial effusion was not detected", "no pericardial effusion is observed"),
    "Lymphadenopathy": (
        "no enlarged lymph nodes were detected in the mediastinum",
        "mediastinal lymph nodes are not enlarged",
    ),
    "Pleural effusion": ("pleural effusion was not detected", "no pleural effusion is observed"),
    "Consolidation": ("no consolidation was detected", "there is no consolidation in either lung"),
    "Lung nodule": ("no nodule was detected in either lung", "no mass or nodule is observed in both lungs"),
}
ORDER = (
    "Medical material", "Cardiomegaly", "Pericardial effusion", "Arterial wall calcification",
    "Coronary artery wall calcification", "Lymphadenopathy", "Hiatal hernia", "Pleural effusion", "Consolidation",
    "Lung opacity", "Lung nodule", "Atelectasis", "Pulmonary fibrotic sequela", "Emphysema", "Bronchiectasis",
    "Peribronchial thickening", "Interlobular septal thickening", "Mosaic attenuation pattern",
)  # fmt: skip
"""From the middle outwards, as reports go."""


def report(present: Sides, rng: np.random.Generator) -> Report:
    first = one_of(
        rng, "Trachea and both main bronchi are open.", "Trachea, both main bronchi are open and in the midline."
    )
    parts = [first]
    for label in ORDER:
        if label in present:
            parts.append(sentence(_say(label, present[label], rng)))
        elif label in _ABSENT:
            parts.append(sentence(one_of(rng, *_ABSENT[label])))
    parts.append(
        one_of(rng, "No lytic or destructive lesion was detected in the bones.", "Bone structures are natural.")
    )
    if not present:
        return Report(" ".join(parts), one_of(rng, "Findings within normal limits.", "No pathology was detected."))
    return Report(" ".join(parts), " ".join(_short(label, present[label]) for label in ORDER if label in present))


def _say(label: str, side: int, rng: np.random.Generator) -> str:
    return one_of(rng, *_PRESENT[label]).format(side=RIGHT_LEFT.get(side, ""))


def _short(label: str, side: int) -> str:
    return sentence(f"{label}, {RIGHT_LEFT[side]}" if label in SIDED else label)


def labels_in(text: str) -> frozenset[str]:
    """Which of the 18 a text affirms, exactly, for any text of this grammar."""
    said = {part.strip(" .").lower() for part in text.split(". ")}
    sides = (*RIGHT_LEFT.values(), "")
    return frozenset(
        label for label in LABELS if said & {option.format(side=side) for option in _PRESENT[label] for side in sides}
    )
