"""What texts say by the vocabulary: four languages, what is left out, abbreviations, terms within longer ones."""

import re
from pathlib import Path

import pytest
import yaml

import shared.vocabulary
from services.task_manager.facets import cover
from shared.vocabulary.reading import read

TERMS = Path(shared.vocabulary.__file__).with_name("terms.yaml")


@pytest.mark.parametrize(
    ("text", "kind", "concepts"),
    [
        ("kidney stones", "anatomy", {"abdomen/kidney"}),
        ("Nierensteine im Ultraschall", "anatomy", {"abdomen/kidney"}),
        ("calculs du rein et foie", "anatomy", {"abdomen/liver"}),
        ("el hígado y los riñones", "anatomy", {"abdomen/liver", "abdomen/kidney"}),
        ("Gehirnblutung", "finding", {"bleeding"}),
        ("femoral heads and the optic nerve head", "anatomy", {"limb/hip", "eye/retina/optic disc"}),
        ("chest x-rays of kids", "who", {"child"}),
        ("kidneys", "who", set()),
        ("subtypes of ICH", "finding", {"bleeding"}),
        ("ich möchte ein Modell", "finding", set()),
        ("tell us more", "modality", set()),
        ("thyroid US", "modality", {"ultrasound"}),
        ("kneeMRI", "modality", {"MRI"}),
        ("volumes painted pixelwise", "task", {"mark"}),
        ("photographs of the fundus", "modality", {"photograph"}),
        ("the optic disc", "anatomy", {"eye/retina/optic disc"}),
        ("labels were taken from the signed reports", "task", {"source"}),
        ("goitre is there or is not there", "task", {"tell"}),
    ],
)
def test_terms_are_found(text: str, kind: str, concepts: set[str]) -> None:
    assert read(text).concepts(kind) == concepts


def test_what_is_not_wanted_does_not_count() -> None:
    seen = read("Segment the kidneys, no tumours needed; livers without cysts. Spleens with and without tears")
    assert seen.concepts("anatomy") == {"abdomen/kidney", "abdomen/liver", "abdomen/spleen"}
    assert seen.concepts("finding") == set()
    assert seen.left_out == ("no tumours needed", "without cysts")
    assert read("pneumonia, no pneumonia").concepts("finding") == {"infection/pneumonia"}


@pytest.mark.parametrize(
    ("text", "left", "denied"),
    [
        ("aneurysm y/n, pls no outlines", "aneurysm y n | pls", {"mark"}),
        ("Elbow fractures and no manual contours please", "Elbow fractures and", {"mark"}),
        ("Nobody on the ward needs it; no one needs masks of the spleen", "Nobody on the ward needs it", {"mark"}),
        ("Segment the spleen but no report", "Segment the spleen", {"text"}),
        ("Gallensteine ja oder nein, wir brauchen keine Konturen", "Gallensteine ja oder nein | wir", {"mark"}),
        ("pas de contours, la fracture seulement", "la fracture seulement", {"mark"}),
        ("There is no segmentation of the spleen yet", "There is no segmentation of the spleen yet", set()),
        ("sort hips with no fracture from others", "sort hips with no fracture from others", set()),
        ("stones yes/no classification", "stones yes no classification", set()),
        ("everything in the scan but the spleen", "everything in the scan", set()),
        ("with and without masks", "with and without masks", set()),
    ],
)
def test_a_task_that_is_denied_is_told_from_one_that_is_wanted(text: str, left: str, denied: set[str]) -> None:
    seen = read(text)
    assert seen.text == left
    assert seen.denied == denied
    assert not denied & seen.concepts("task")


def test_a_card_covers_a_whole_or_a_part_partly_and_another_part_not_at_all() -> None:
    assert cover("abdomen/liver", {"abdomen/liver"}) == 1
    assert cover("abdomen/liver", {"abdomen"}) == cover("abdomen", {"abdomen/liver"}) == 0.5
    assert cover("abdomen/liver", {"abdomen", "abdomen/spleen"}) == cover("abdomen/liver", {"chest"}) == 0


def test_terms_are_written_as_texts_are_compared() -> None:
    """An accent, or a word in capitals among others, would never be found."""
    for concepts in yaml.safe_load(TERMS.read_text(encoding="utf-8")).values():
        for concept, terms in concepts.items():
            for term in terms.split(", "):
                assert re.fullmatch(r"[A-Z]+|[a-z0-9* ]+", term), f"{concept}: {term}"
