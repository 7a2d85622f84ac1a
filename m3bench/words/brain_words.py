"""What is said about a made-up brain lesion: one text a sequence, which names what that sequence shows."""

from collections.abc import Mapping

import numpy as np

from m3bench.phantoms.brain_lesions import SIDES, Lesion
from m3bench.words.reports import one_of, sentence

_WORDS: Mapping[str, tuple[str, str]] = {
    "t1n": ("with hypointense signal", "of low signal"), "t1c": ("with avid enhancement", "with contrast enhancement"),
    "t2w": ("with hyperintense signal", "of high signal"), "t2f": ("with hyperintense signal", "of high signal"),
    "dwi": ("with hyperintense signal", "with restricted diffusion"),
    "adc": ("with hypointense signal", "of low signal"),
    "T1": ("with hypointense signal", "of low signal"), "FLAIR": ("with hyperintense signal", "of high signal"),
}  # fmt: skip
DISEASE = {
    "gli": "glioma", "men": "meningioma", "met": "brain metastases", "isles": "ischemic stroke",
    "wmh": "white matter hyperintensities",
}  # fmt: skip
TUMOURS = ("gli", "men", "met")
"""These have edema around them, or there is an old scar elsewhere."""
_PLACES = {
    "frontal": ("{side} frontal lobe, anterior to the frontal horn", "{side} frontal lobe reaching the frontal pole"),
    "parietal": ("{side} parietal lobe close to the vertex", "{side} parietal lobe near the postcentral gyrus"),
    "temporal": ("{side} temporal lobe, lateral to the temporal horn", "{side} temporal lobe above the skull base"),
    "occipital": ("{side} occipital lobe near the calcarine cortex", "{side} occipital lobe behind the trigone"),
}
_SIZES = ("small circumscribed", "medium-sized", "large space-occupying")
_FORMS: Mapping[str, tuple[str, str]] = {
    "gli": (
        "a {size} infiltrative intra-axial mass {word} is centred in the {place}",
        "there is a {size} infiltrative intra-axial mass {word} in the {place}",
    ),
    "men": (
        "a {size} dural-based extra-axial mass {word} is attached to the convexity over the {place}",
        "there is a {size} extra-axial dural-based mass {word} at the convexity over the {place}",
    ),
    "met": (
        "{many} round nodules {word} are scattered at the corticomedullary junction of the {place}",
        "{many} nodular lesions {word} along the corticomedullary junction of the {place}",
    ),
    "isles": (
        "a {size} wedge-shaped cortical area {word} indicates an acute infarct of the {place}",
        "acute infarct seen as a {size} wedge-shaped cortical area {word} in the {place}",
    ),
    "wmh": (
        "{extent} foci {word} surround the lateral ventricles, predominantly on the {side}",
        "{extent} periventricular foci {word} are seen, predominantly on the {side}",
    ),
}
_HOLLOW: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # Without, with.
    "gli": (
        ("the tumor is solid throughout", "no cystic or necrotic parts", "homogeneous texture"),
        ("its center is necrotic with an irregular wall", "central necrosis bordered by an irregular wall"),
    ),
    "men": (
        ("its texture is homogeneous", "no calcified or cystic component", "uniformly solid"),
        ("a cystic component occupies its interior", "it contains a large cystic component in its interior"),
    ),
    "met": (
        ("all of them are compact", "no cavitation", "entirely solid"),
        ("each of them has a ring shape around a liquefied center", "they are ring-shaped around a liquefied center"),
    ),
    "isles": (
        ("the lesion is solitary", "no further diffusion abnormality", "elsewhere unremarkable"),
        (
            "a second smaller infarct lies in the mirrored position of the opposite hemisphere",
            "there is a second smaller infarct mirrored in the opposite hemisphere",
        ),
    ),
    "wmh": (
        ("deep gray nuclei are spared", "no lacune", "unremarkable basal ganglia"),
        ("an old lacunar cavity is seen in the {side} basal ganglia", "old lacunar cavity within {side} basal ganglia"),
    ),
}
_EDEMA = (
    (
        "old gliotic scar in the cerebellum without edema around the lesion",
        "cerebellar gliosis from an old insult, but no perifocal edema",
    ),
    (
        "extensive vasogenic edema spreads through adjacent white matter",
        "adjacent white matter shows extensive vasogenic edema",
        "pronounced perifocal swelling",
    ),
)
_SHIFT = (
    ("midline structures are central", "no mass effect", "falx in normal position"),
    (
        "the septum pellucidum is displaced towards the {other} by mass effect",
        "mass effect displaces the septum pellucidum towards the {other}",
    ),
)
_WIDE = (
    ("ventricular size is normal", "no hydrocephalus", "slender inner CSF spaces"),
    (
        "both lateral ventricles are markedly dilated with rounded frontal horns",
        "marked dilatation of both lateral ventricles with rounded frontal horns",
        "hydrocephalic enlargement of the ventricular system",
    ),
)


def finding(lesion: Lesion, sequence: str, rng: np.random.Generator) -> str:
    """What this one sequence shows."""
    side = SIDES[lesion.side]
    told = one_of(rng, *_FORMS[lesion.kind]).format(
        size=_SIZES[lesion.grade],
        many=("two", "several", "innumerable")[lesion.grade],
        extent=("a few punctate", "multiple patchy", "extensive confluent")[lesion.grade],
        word=one_of(rng, *_WORDS[sequence]),
        place=one_of(rng, *_PLACES[lesion.lobe]).format(side=side),
        side=side,
    )
    parts = [told, one_of(rng, *_HOLLOW[lesion.kind][lesion.hollow])]
    if lesion.kind in TUMOURS:
        parts.append(one_of(rng, *_EDEMA[lesion.edema]))
    if lesion.kind != "wmh":
        parts.append(one_of(rng, *_SHIFT[lesion.shift]))
    parts.append(one_of(rng, *_WIDE[lesion.wide]))
    return " ".join(sentence(part.format(side=side, other=SIDES[-lesion.side])) for part in parts)


def impression(lesion: Lesion, rng: np.random.Generator) -> str:
    name, place = DISEASE[lesion.kind], f"{SIDES[lesion.side]} {lesion.lobe} lobe"
    if lesion.kind == "wmh":
        return f"{('Mild', 'Moderate', 'Severe')[lesion.grade]} {name}, likely of vascular origin."
    return one_of(rng, f"Findings suggest {name} of the {place}.", f"{sentence(name)[:-1]} in the {place}.")
