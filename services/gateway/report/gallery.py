"""The chosen test cases as the HTML page shows them: the picture, why it is here, and what was answered."""

import base64
from dataclasses import dataclass
from typing import Any

from services.gateway.blocks import clean, labelled, number
from services.gateway.report.chosen import Chosen, Why, chosen, measure
from services.gateway.report.facts import Case, Facts, Picture, Pictures

_MASKS = "Lines are the truth, filled areas the prediction, in the colour of the structure."
_PLANES = (
    "Axial, coronal and sagittal plane through the largest area of the truth (else the middle), seen as radiologists "
    "do: R is the patient's right, A the front, S the head."
)
_NUMBERS = "Cases have numbers here; the tables of this section give their names."
_LONGEST = 1500
"""Characters of a report's text."""


@dataclass(frozen=True)
class Tile:
    number: int
    why: Why
    told: str
    picture: Picture
    png: str
    """The picture in base64."""
    structures: tuple[tuple[str, float, str], ...] = ()
    """Name, Dice and colour, the lowest first; what neither mask holds is left out."""
    shares: tuple[tuple[str, float, bool], ...] = ()
    """Label, probability and whether it is true, the likeliest first."""
    truth: str = ""
    """Of a diagnosis without probabilities."""
    texts: tuple[tuple[str, str], ...] = ()
    """Headings and texts."""


@dataclass(frozen=True)
class Gallery:
    told: str = ""
    tiles: tuple[Tile, ...] = ()


def gallery(facts: Facts) -> Gallery:
    """Empty for a report that has no cases; without pictures it says why."""
    shown, pictures = chosen(facts), facts.pictures
    if not shown or pictures is None:
        return Gallery()
    if pictures.missing:
        return Gallery(f"There are no pictures of test cases. {pictures.missing}")
    locked = facts.state.locked
    planes = locked is not None and locked.facts.dimensions == 3
    told = " ".join([_MASKS] * facts.segmentation + [_PLANES] * planes + [_NUMBERS])
    return Gallery(told, tuple(_tile(facts, pictures, one) for one in shown))


def _tile(facts: Facts, pictures: Pictures, one: Chosen) -> Tile:
    picture = pictures.found.get(one.case.sample_id, Picture(problem="it was not drawn"))
    known = "does not count" if one.merit is None else f"{measure(facts)} {number(one.merit)}"
    if one.case.failed:
        known += f"; no usable answer: {one.case.failed}"
    png = base64.b64encode(picture.png).decode()
    return Tile(one.number, one.why, known, picture, png, **_answer(facts, pictures, one.case))


def _answer(facts: Facts, pictures: Pictures, case: Case) -> dict[str, Any]:
    """The fields of a tile that its task has."""
    if facts.segmentation:
        found = sorted((dice, name) for name, dice in case.structures.items() if dice is not None)
        return {"structures": tuple((name, dice, pictures.colours.get(name, "")) for dice, name in found)}
    if case.label is not None:
        likeliest = sorted(case.probabilities.items(), key=lambda item: -item[1])
        shares = tuple((label, share, case.holds(label)) for label, share in likeliest)
        return {"shares": shares} if shares else {"truth": labelled(case.label)}
    if case.reference or case.report:
        texts = (("Reference", case.reference), ("Report of the model", case.report))
        return {"texts": tuple((head, clean(words)[:_LONGEST]) for head, words in texts)}
    return {}
