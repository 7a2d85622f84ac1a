"""What is said about a made-up chest CT: sentences per organ that follow from the labels, in varying words."""

from collections.abc import Mapping
from itertools import product

import numpy as np

from m3bench.phantoms.chest_findings import LABELS, SIDED, Place
from m3bench.words.reports import RIGHT_LEFT, Report, one_of, sentence

Places = Mapping[str, Place]
"""Labels that are present -> where."""
LEVELS = ("upper", "middle", "lower")
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
_PRESENT: Mapping[str, tuple[str, str]] = {
    "Medical material": (
        "a port chamber is observed under the skin of the {side} chest wall, its catheter in the superior vena cava",
        "there is a port in the {side} chest wall, its catheter ends in the superior vena cava",
    ),
    "Cardiomegaly": (
        "heart size has increased and the cardiothoracic ratio is above normal",
        "the heart is larger than normal with an increased cardiothoracic ratio",
    ),
    "Pericardial effusion": (
        "there is an effusion surrounding the heart between the pericardial leaves",
        "effusion surrounding the heart is observed between the pericardial leaves",
    ),
    "Arterial wall calcification": (
        "calcified atherosclerotic plaques are observed in the wall of the descending aorta",
        "the wall of the descending aorta shows calcified atherosclerotic plaques",
    ),
    "Coronary artery wall calcification": (
        "dense calcifications follow the course of the left anterior descending and circumflex coronary arteries",
        "dense calcifications along the left anterior descending and circumflex coronary arteries are noted",
    ),
    "Lymphadenopathy": (
        "partly calcified lymph nodes at paratracheal and subcarinal stations are above one centimeter in short axis",
        "partly calcified lymph nodes in paratracheal and subcarinal stations, exceeding one centimeter in short axis",
    ),
    "Hiatal hernia": (
        "a sliding type hiatal hernia containing air is observed at the esophagogastric junction",
        "sliding type hiatal hernia with air content at the esophagogastric junction",
    ),
    "Pleural effusion": (
        "pleural effusion reaching several centimeters in thickness is observed in the {side} hemithorax posteriorly",
        "free pleural effusion of several centimeters thickness fills the {side} hemithorax posteriorly",
    ),
    "Consolidation": (
        "a consolidation with air bronchograms is observed in the {side} lung {level} zone, suggesting lobar pneumonia",
        "consolidation including air bronchograms in the {side} lung {level} zone, in favor of lobar pneumonia",
    ),
    "Lung opacity": (
        "patchy ground-glass densities without sharp borders in the {side} lung {level} zone, possibly viral infection",
        "patchy ground-glass opacities with indistinct borders in the {side} lung {level} zone may be viral infection",
    ),
    "Lung nodule": (
        "a solid nodule with smooth contours is observed in the {side} lung {level} zone; follow-up is recommended",
        "solid nodule with regular contours in the {side} lung {level} zone, for which follow-up is recommended",
    ),
    "Atelectasis": (
        "a plate-like linear atelectasis crosses the {side} lower lobe basal segments",
        "plate-like linear atelectasis is present across the basal segments of the {side} lower lobe",
    ),
    "Pulmonary fibrotic sequela": (
        "sequela fibrotic strands radiating from the pleura with volume loss are present at the {side} apex",
        "fibrotic sequela strands radiating from the pleura with volume loss at the {side} apex",
    ),
    "Emphysema": (
        "bullous emphysema with thin-walled air cysts occupies the {side} upper lobe apical segment",
        "thin-walled air cysts of bullous emphysema occupy the apical segment of the {side} upper lobe",
    ),
    "Bronchiectasis": (
        "cylindrical bronchiectasis with signet ring appearance is noted in the {side} basal bronchi",
        "dilated {side} basal bronchi with signet ring appearance are consistent with cylindrical bronchiectasis",
    ),
    "Peribronchial thickening": (
        "central bronchial walls are diffusely thickened bilaterally, consistent with bronchitis",
        "diffuse bilateral thickening of central bronchial walls consistent with bronchitis",
    ),
    "Interlobular septal thickening": (
        "polygonal reticulation due to thickened interlobular septa is seen under the pleura of both lungs",
        "thickened interlobular septa form polygonal reticulation under the pleura of both lungs",
    ),
    "Mosaic attenuation pattern": (
        "mosaic perfusion with alternating light and dark areas is remarkable, small airway disease is considered",
        "both lungs show mosaic perfusion with alternating light and dark areas, possibly small airway disease",
    ),
}  # fmt: skip
ORDER = tuple(_PRESENT)
"""From the middle outwards, as reports go."""
_NORMAL: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ORDER[1:5]: (
        "heart contour and size are normal",
        "cardiac structures are natural",
        "mediastinal main vascular structures are of regular caliber",
    ),
    ORDER[5:7]: (
        "no enlarged lymph nodes were detected",
        "mediastinal and hilar nodes do not reach pathological size",
        "esophagus is unremarkable",
    ),
    ORDER[7:8]: ("pleural effusion was not detected", "pleural spaces are free", "no pleural thickening or effusion"),
    ORDER[8:]: (
        "aeration of both lungs is normal",
        "no active infiltration or mass lesion",
        "lung parenchyma shows no pathology",
    ),
}
"""What is said of an organ that has none of these."""
_AIRWAY = (
    "trachea and main bronchi are open",
    "no obstruction in the lumen of the airways",
    "tracheal calibration is in the midline",
)


def report(present: Places, rng: np.random.Generator) -> Report:
    parts = [one_of(rng, *_AIRWAY)]
    for labels, normal in {ORDER[:1]: (), **_NORMAL}.items():
        found = [_say(label, present[label], rng) for label in labels if label in present]
        parts += found or ([one_of(rng, *normal)] if normal else [])
    findings = " ".join(map(sentence, parts))
    if not present:
        return Report(findings, one_of(rng, "Findings within normal limits.", "No pathology was detected."))
    return Report(findings, " ".join(_short(label, present[label]) for label in ORDER if label in present))


def _say(label: str, place: Place, rng: np.random.Generator) -> str:
    return _placed(one_of(rng, *_PRESENT[label]), place)


def _placed(text: str, place: Place) -> str:
    return text.format(side=RIGHT_LEFT.get(place.side, ""), level=LEVELS[place.level])


def _short(label: str, place: Place) -> str:
    return sentence(f"{label}, {RIGHT_LEFT[place.side]}" if label in SIDED else label)


_AFFIRMED = {
    _placed(option, Place(side, level)): label
    for label, options in _PRESENT.items()
    for option, side, level in product(options, RIGHT_LEFT, range(len(LEVELS)))
}


def labels_in(text: str) -> frozenset[str]:
    """Which of the 18 a text affirms, exactly, for any text of this grammar."""
    said = {part.strip(" .").lower() for part in text.split(". ")}
    return frozenset(_AFFIRMED[part] for part in said if part in _AFFIRMED)


assert set(ORDER) == set(LABELS)
