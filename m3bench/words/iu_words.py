"""What is said about a made-up chest film: findings and impression that follow from the facts, in varying words."""

from collections.abc import Sequence

import numpy as np

from m3bench.words.reports import RIGHT_LEFT, Report, one_of, sentence

ZONES = ("upper", "mid", "lower")
Fact = tuple[str, int, int]
"""Name of the finding, side in the picture, zone 0 (upper) to 2."""
HEART = "Cardiomegaly"
MESH = {
    "Atelectasis": "Pulmonary Atelectasis", "Calcification": "Calcified Granuloma", "Consolidation": "Consolidation",
    "Effusion": "Pleural Effusion", "Emphysema": "Pulmonary Emphysema", "Fibrosis": "Pulmonary Fibrosis",
    "Fracture": "Fractures, Bone", "Mass": "Mass", "Nodule": "Nodule", "Pneumothorax": "Pneumothorax", HEART: HEART,
}  # fmt: skip
_PHRASES = {
    "Atelectasis": ("linear atelectasis in the {side} {zone} lung", "bandlike atelectasis of the {side} {zone} lung"),
    "Calcification": ("calcified granuloma in the {side} {zone} lung", "calcified granuloma of the {side} {zone} lung"),
    "Consolidation": ("consolidation in the {side} {zone} lung", "airspace consolidation of the {side} {zone} lung"),
    "Effusion": ("{side} pleural effusion", "pleural effusion on the {side}"),
    "Emphysema": ("hyperlucent {side} lung with bullae", "bullous emphysema of the {side} lung"),
    "Fibrosis": ("reticular scarring in the {side} {zone} lung", "reticular fibrosis of the {side} {zone} lung"),
    "Fracture": ("displaced fracture of a {side} rib", "{side} rib fracture"),
    "Mass": ("large mass in the {side} {zone} lung", "rounded mass of the {side} {zone} lung"),
    "Nodule": ("small nodule in the {side} {zone} lung", "pulmonary nodule of the {side} {zone} lung"),
    "Pneumothorax": ("{side} apical pneumothorax", "apical pneumothorax on the {side}"),
}


def mesh(facts: Sequence[Fact]) -> str:
    """`;` between terms and `/` within; `normal` where there is nothing."""
    terms = [
        MESH[name] if name == HEART else f"{MESH[name]}/lung/{ZONES[zone]}/{RIGHT_LEFT[side]}"
        for name, side, zone in facts
    ]
    return ";".join(terms) or "normal"


def report(facts: Sequence[Fact], rng: np.random.Generator) -> Report:
    named = {name: (side, zone) for name, side, zone in facts}
    parts = [_heart(HEART in named, rng), *(_seen(name, *place, rng) for name, place in named.items() if name != HEART)]
    if not named.keys() - {HEART, "Fracture"}:
        parts.append(
            one_of(rng, "The lungs are clear", "Lungs are clear bilaterally", "There is no focal consolidation")
        )
    absent = [name for name in ("pneumothorax", "pleural effusion") if name.split()[-1].capitalize() not in named]
    if absent:
        parts.append(one_of(rng, f"No {' or '.join(absent)}", f"There is no {' or '.join(absent)}"))
    if "Fracture" not in named:
        parts.append(
            one_of(rng, "The bony structures are intact", "No acute bony abnormality", "Osseous XXXX are intact")
        )
    return Report(" ".join(map(sentence, parts)), _impression(list(named.items()), rng))


def _heart(large: bool, rng: np.random.Generator) -> str:
    if large:
        return one_of(rng, "The heart is enlarged", "The cardiac silhouette is enlarged", "Heart size is enlarged")
    return one_of(
        rng, "The heart is normal in size", "The cardiac silhouette is within normal limits", "Heart size is normal"
    )


def _phrase(name: str, side: int, zone: int, rng: np.random.Generator) -> str:
    return one_of(rng, *_PHRASES[name]).format(side=RIGHT_LEFT[side], zone=ZONES[zone])


def _seen(name: str, side: int, zone: int, rng: np.random.Generator) -> str:
    return one_of(rng, "There is a {0}", "A {0} is present", "{0} is seen").format(_phrase(name, side, zone, rng))


def _impression(named: Sequence[tuple[str, tuple[int, int]]], rng: np.random.Generator) -> str:
    if not named:
        return one_of(rng, "Normal chest x-XXXX.", "No acute cardiopulmonary abnormality.", "No acute disease.")
    found = ["cardiomegaly" if name == HEART else _phrase(name, *place, rng) for name, place in named]
    return " ".join(f"{number}. {sentence(text)}" for number, text in enumerate(found, start=1))
