"""What is said about a made-up brain lesion: one text a sequence, which names what that sequence shows."""

from collections.abc import Mapping

import numpy as np

from m3bench.phantoms.brain_lesions import SIDES, Lesion
from m3bench.words.reports import Report, one_of, sentence

_WORDS: Mapping[str, tuple[str, ...]] = {
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


def finding(lesion: Lesion, sequence: str, rng: np.random.Generator) -> str:
    """What this one sequence shows."""
    word = one_of(rng, *_WORDS[sequence])
    if lesion.kind == "wmh":
        extent = ("a few punctate", "several", "confluent")[lesion.grade]
        text = one_of(
            rng,
            f"{extent} foci {word} are seen in the periventricular white matter, mainly on the {SIDES[lesion.side]}",
            f"{extent} periventricular white matter lesions {word}, more on the {SIDES[lesion.side]} side",
        )
        return f"{sentence(text)} {one_of(rng, 'No mass effect.', 'There is no mass effect.')}"
    size = ("small", "medium-sized", "large")[lesion.grade]
    if lesion.kind == "met":
        many = ("two", "several", "multiple")[lesion.grade]
        text = one_of(
            rng,
            f"{many} nodules {word} in the {lesion.place}",
            f"{many} nodular lesions {word} are seen in the {lesion.place}",
        )
    elif lesion.kind == "isles":
        text = one_of(
            rng,
            f"a {size} area {word} in the {lesion.place}",
            f"a {size} wedge-shaped lesion {word} is seen in the {lesion.place}",
        )
    else:
        form = "intra-axial" if lesion.kind == "gli" else "dural-based extra-axial"
        text = one_of(
            rng,
            f"a {size} {form} mass {word} in the {lesion.place}",
            f"there is a {size} {form} mass {word} of the {lesion.place}",
        )
        if lesion.kind == "gli" and sequence == "t1c":
            text += " with a nonenhancing necrotic core"
    more = [sentence(text)]
    if sequence in ("t2w", "t2f"):
        edema = ("Surrounding edema is present.", "There is perilesional edema.")
        none = ("No surrounding edema.", "There is no perilesional edema.")
        more.append(one_of(rng, *(edema if lesion.edema and lesion.kind != "isles" else none)))
    more.append(one_of(rng, "The midline is not shifted.", "No midline shift.", "There is no midline shift."))
    return " ".join(more)


def impression(lesion: Lesion, rng: np.random.Generator) -> str:
    name = DISEASE[lesion.kind]
    if lesion.kind == "wmh":
        return f"{('Mild', 'Moderate', 'Severe')[lesion.grade]} {name}, likely of vascular origin."
    return one_of(
        rng, f"Findings suggest {name} of the {lesion.place}.", f"{sentence(name)[:-1]} in the {lesion.place}."
    )


def report(lesion: Lesion, sequence: str, rng: np.random.Generator) -> Report:
    return Report(finding(lesion, sequence, rng), impression(lesion, rng))
