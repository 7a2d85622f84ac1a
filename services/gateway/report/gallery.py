"""The chosen test cases as tiles of the HTML page: the picture, why it is here, and what was answered."""

import base64
from collections.abc import Iterable
from html import escape

from services.gateway.report.blocks import clean, labelled, number
from services.gateway.report.chosen import Chosen, chosen, measure
from services.gateway.report.facts import Case, Facts, Picture

STYLE = """
.cases { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); gap: 1.2rem; }
.case { border: 1px solid #ddd; border-radius: .4rem; overflow: hidden; }
.case img { display: block; width: 100%; height: auto; max-height: 22rem; object-fit: contain; background: #000; }
.case figcaption, .unseen { padding: .5rem .7rem; }
.unseen { background: #f4f4f4; }
.why { border-radius: .8rem; padding: .05rem .55rem; margin-left: .4rem; font-size: .8rem; color: #fff;
  background: #555; }
.worst { background: #b34700; } .best { background: #007a5a; }
.structures { display: flex; flex-wrap: wrap; gap: .1rem .9rem; list-style: none; margin: .35rem 0; padding: 0; }
.structures i { display: inline-block; width: .75rem; height: .75rem; margin-right: .3rem; border: 1px solid #777; }
.bars { display: grid; grid-template-columns: max-content 1fr max-content; gap: .15rem .6rem; margin: .35rem 0;
  align-items: center; font-variant-numeric: tabular-nums; }
.bars .bar { background: #eee; height: .7rem; } .bars .bar i { display: block; height: 100%; background: #0072b2; }
.texts { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; margin: .35rem 0; }
.note { color: #555; font-size: .8rem; }
"""
_MASKS = "Lines are the truth, filled areas the prediction, in the colour of the structure."
_PLANES = (
    "Axial, coronal and sagittal plane through the largest area of the truth (else the middle), seen as radiologists "
    "do: R is the patient's right, A the front, S the head."
)
_NUMBERS = "Cases have numbers here; the tables of this section give their names."
_LONGEST = 1500
"""Characters of a report's text."""


def gallery(facts: Facts) -> str:
    """Empty for a report that has no cases; without pictures it says why."""
    tiles = chosen(facts)
    if not tiles or facts.pictures is None:
        return ""
    if facts.pictures.missing:
        return f"<p>There are no pictures of test cases. {escape(clean(facts.pictures.missing))}</p>"
    locked = facts.state.locked
    planes = locked is not None and locked.facts.dimensions == 3
    told = " ".join([_MASKS] * facts.segmentation + [_PLANES] * planes + [_NUMBERS])
    return f"<p>{escape(told)}</p>" + f'<div class="cases">{"".join(_tile(facts, one) for one in tiles)}</div>'


def _tile(facts: Facts, one: Chosen) -> str:
    assert facts.pictures is not None
    picture = facts.pictures.found.get(one.case.sample_id, Picture(problem="it was not drawn"))
    head = f'<b>Case {one.number}</b><span class="why {one.why}">{one.why}</span> '
    known = "does not count" if one.merit is None else f"{measure(facts)} {number(one.merit)}"
    if one.case.failed:
        known += f"; no usable answer: {one.case.failed}"
    body = "".join(_answer(facts, one.case))
    notes = f'<div class="note">{escape(clean("; ".join(picture.notes)))}</div>' if picture.notes else ""
    return (
        f'<figure class="case">{_image(picture, one)}<figcaption>{head}{escape(clean(known))}{body}{notes}'
        "</figcaption></figure>"
    )


def _image(picture: Picture, one: Chosen) -> str:
    if not picture.png:
        return f'<div class="unseen">No picture: {escape(clean(picture.problem))}</div>'
    data = base64.b64encode(picture.png).decode()
    return (
        f'<img alt="Case {one.number}" width="{picture.width}" height="{picture.height}" '
        f'src="data:image/png;base64,{data}">'
    )


def _answer(facts: Facts, case: Case) -> Iterable[str]:
    if facts.segmentation:
        yield _structures(facts, case)
    elif case.label is not None:
        yield _bars(case)
    elif case.reference or case.report:
        yield _texts(case)


def _structures(facts: Facts, case: Case) -> str:
    """The lowest first; what neither mask holds is left out."""
    assert facts.pictures is not None
    found = sorted((dice, name) for name, dice in case.structures.items() if dice is not None)
    items = []
    for dice, name in found:
        colour = facts.pictures.colours.get(name)
        swatch = f'<i style="background:{escape(colour)}"></i>' if colour else ""
        items.append(f"<li>{swatch}{escape(clean(name))} {number(dice)}</li>")
    return f'<ul class="structures">{"".join(items)}</ul>' if items else ""


def _bars(case: Case) -> str:
    rows = []
    for label, share in sorted(case.probabilities.items(), key=lambda item: -item[1]):
        name = escape(clean(label))
        told = f"<b>{name} (truth)</b>" if case.holds(label) else name
        width = 100 * min(1.0, max(0.0, share))
        bar = f'<span class="bar"><i style="width:{width:.1f}%"></i></span>'
        rows.append(f"<span>{told}</span>{bar}<span>{number(share)}</span>")
    if not rows:
        return f"<div>truth {escape(clean(labelled(case.label)))}</div>"
    return f'<div class="bars">{"".join(rows)}</div>'


def _texts(case: Case) -> str:
    columns = (("Reference", case.reference), ("Report of the model", case.report))
    return (
        '<div class="texts">'
        + "".join(f"<div><b>{head}</b><br>{escape(clean(words)[:_LONGEST])}</div>" for head, words in columns)
        + "</div>"
    )
