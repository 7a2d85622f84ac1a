"""Choosing a dataset from what texts say."""

import json
from importlib.resources import files

import pytest

from bench import requests
from services.task_manager.choice import choose
from services.task_manager.facets import read_facets
from services.task_manager.keeper import keep
from services.task_manager.playbook import acceptable, caps, make_plan, named_metric, wanted_labels
from shared.agent.brief import Brief
from shared.contracts.profile import Candidate, Profile
from shared.contracts.runs import CancelRequested, DataCard, RoleFailed, RunRequested, TaskPlan
from shared.contracts.state import fold
from shared.contracts.values import Source


def card(name: str, description: str, here: bool = True) -> DataCard:
    return DataCard(dataset_id=name, name=name, description=description, path="/x" if here else None)


CARDS = (
    card("alpha", "alpha is a 3D MRI disease diagnosis dataset of the brain in .pt format."),
    card("beta", "beta is a 3D chest CT disease diagnosis dataset that contains sub-folders named after the class."),
    card("gamma", "gamma is a 2D CT disease diagnosis dataset of the kidney as JPG slices."),
    card("delta", "delta is a 3D CT organ segmentation dataset of the abdomen."),
    card("epsilon", "epsilon is a 2D chest X-ray report generation dataset."),
    card("zeta", "zeta is a 3D chest CT anomaly detection dataset: infection masks of covid-19."),
)


@pytest.mark.parametrize(
    ("requirement", "chosen"),
    [
        ("I want to train a model for disease diagnosis using 3D CT images.", "beta"),
        ("build a model for covid-19 / pneumonia classification from 3D chest CT", "beta"),
        ("Segment the abdominal organs in contrast CT.", "delta"),
        ("Learn all labelled anatomical structures of the abdomen in CT.", "delta"),
        ("Write the findings section of a radiology report from chest radiographs", "epsilon"),
        ("segment covid lesions in CT volumes", "zeta"),
        ("diagnose kidney disease from 2D CT slices", "gamma"),
        ("classify brain MRI volumes by stage of dementia", "alpha"),
        ("Grade skin lesions in dermatoscopy photographs.", None),
        ("Classify ultrasound images of the thyroid", None),
    ],
)
def test_the_card_that_says_what_is_asked_is_taken(requirement: str, chosen: str | None) -> None:
    found, refused, _ = choose(requirement, CARDS, {})
    assert (found.dataset_id if found else None) == chosen
    assert {item.dataset_id for item in refused} == {item.dataset_id for item in CARDS} - {chosen}
    assert all(item.reason for item in refused)


SPINES = (
    card("bones", "bones is a 3D spine CT organ segmentation dataset of vertebrae."),
    card("breaks", "breaks is a 3D spine CT anomaly detection dataset with masks of fractures."),
)


@pytest.mark.parametrize(
    ("requirement", "chosen"),
    [
        ("outline every vertebra in spine CT for our osteoporosis study", "bones"),
        ("outline fractures of vertebrae in spine CT for our osteoporosis study", "breaks"),
        ("which vertebra is broken in spine CT?", "breaks"),
    ],
)
def test_what_masks_are_for_is_not_what_they_show(requirement: str, chosen: str) -> None:
    found, _, why = choose(requirement, SPINES, {})
    assert found and found.dataset_id == chosen, why


OUTLINED = card("outlined", "Ultrasound stills of the spleen with label maps of every cyst.")
LABELLED = card("labelled", "Ultrasound stills of the spleen: cyst present or absent, taken from the signed report.")
LISTED = card("listed", "Ultrasound stills of the spleen. Haematoma, abscess, cyst.")
PICTURES = card("pictures", "Colour photographs of moles, taken on Tuesdays: benign or malignant.")


@pytest.mark.parametrize(
    ("requirement", "cards", "chosen"),
    [
        ("Spleen ultrasound: are there cysts? Nobody needs outlines.", (OUTLINED, LABELLED), LABELLED),
        ("Spleen ultrasound, cysts, pls no contours", (OUTLINED, LABELLED), LABELLED),
        ("Cysts of the spleen on ultrasound, pixelwise", (OUTLINED, LABELLED), OUTLINED),
        ("Cysts of the spleen on ultrasound, pixelwise", (LABELLED, LISTED), None),
        ("Tell abscess from cyst on spleen ultrasound", (OUTLINED, LISTED), LISTED),
        ("Write the report of a spleen ultrasound", (OUTLINED, LABELLED), None),
        ("Tell from a photo which dressings leak. We take them on Tuesdays.", (PICTURES,), None),
        ("Our porter likes photographs", (PICTURES,), None),
    ],
)
def test_what_is_to_be_done_settles_which_card(
    requirement: str, cards: tuple[DataCard, ...], chosen: DataCard | None
) -> None:
    assert choose(requirement, cards, {})[0] == chosen


ASKED = json.loads(files("m3bench").joinpath("requests.json").read_text(encoding="utf-8"))
SETS = requests.sets()
BENCHMARK, CROWD = SETS["benchmark, 14 cards"].cards, SETS["benchmark, 73 cards"].cards


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [("benchmark, 14 cards", 67, 0), ("benchmark, 73 cards", 57, 1), ("others", 29, 0), ("held-first", 18, 0)],
)
def test_a_card_is_taken_where_words_settle_it_and_a_person_asked_where_not(name: str, right: int, wrong: int) -> None:
    found = SETS[name].outcomes()
    assert found["wrong"] <= wrong and found["right"] >= right, found
    assert SETS[name].misread() == []


@pytest.mark.parametrize(
    "request_",
    [
        "Tell us from a photo who should see the dietician",
        "Our slides for the Monday talk should look nicer",
        "Which of our people will be late? The night nurse takes a photo every week.",
    ],
)
def test_everyday_words_take_no_card(request_: str) -> None:
    for one in SETS.values():
        assert choose(request_, one.cards, {})[0] is None


@pytest.mark.parametrize("name", ["CT-RATE", "BrainGenome", "IU-Xray"])
@pytest.mark.parametrize("cards", [BENCHMARK, CROWD], ids=["benchmark", "crowd"])
def test_reports_are_planned_as_reports(name: str, cards: tuple[DataCard, ...]) -> None:
    task = ASKED["tasks"][name]
    known = {"CT-RATE": (3, "CT"), "BrainGenome": (3, "MRI"), "IU-Xray": (2, "X-ray")}
    for request in task["requests"]:
        plan = planned(request["text"], cards)
        assert (plan.task, plan.dataset_id) == ("report_generation", task["card"]), request["text"]
        assert (plan.dimensions, plan.modality) == known[name]
        assert plan.metric == ("bleu_4" if "BLEU-4" in request["text"] else "rouge_l")
        assert plan.labels == () and plan.max_train is None


def planned(text: str, cards: tuple[DataCard, ...]) -> TaskPlan:
    asked = RunRequested.make(run_id="r1", sender="gateway", cause=None, requirement=text)
    (named,) = {
        task["card"] for task in ASKED["tasks"].values() for one in task["requests"] if one["text"] == text
    } or {None}
    found, refused, _ = choose(text, cards, {}, named)
    assert found is not None, text
    return make_plan(Brief(run_id="r1", role="task_manager", order="o", requested=asked, cards=cards), found, refused)


def test_a_figure_of_another_task_is_not_taken() -> None:
    card_ = card("epsilon", "epsilon is a 2D chest X-ray report generation dataset.")
    assert planned("Report generation from chest X-rays, with the best accuracy", (card_,)).metric == "rouge_l"
    assert planned("Report generation from chest X-rays, METEOR as the metric", (card_,)).metric == "meteor"


@pytest.mark.parametrize("request_", ASKED["unserved"], ids=lambda request: request["text"][:40])
def test_what_no_dataset_can_answer_is_told_so(request_: dict[str, str]) -> None:
    for cards in (BENCHMARK, CROWD):
        found, refused, _ = choose(request_["text"], cards, {})
        assert found is None
        assert {item.dataset_id for item in refused} == {card.dataset_id for card in cards}


def test_a_dataset_that_is_named_is_taken() -> None:
    found, _, _ = choose("train any classifier on cc ccii", BENCHMARK, {})
    assert found is not None and found.dataset_id == "cc-ccii"
    found, _, _ = choose("we have no words for it", BENCHMARK, {})
    assert found is None, "the card WORD is not named by the word `words`"


def seen(**fields: object) -> Profile:
    return Profile(digest="d", files=9, size=9, images=9, **fields)


def test_names_of_classes_say_what_a_card_does_not() -> None:
    classes = Candidate(
        source=Source(field="part1"), where="folder 1", distinct=3, share=1.0, values={"CP": 3, "NCP": 3, "Normal": 3}
    )
    one = card("one", "one is a 3D CT disease diagnosis dataset; folders are named after the classes.")
    told = one.model_copy(update={"profile": seen(dimensions={"3": 9}, tasks={"diagnosis": 1.0}, labels=(classes,))})
    request = "build a model for covid-19 / pneumonia classification from 3D chest CT"
    assert choose(request, (one,), {})[0] is None and choose(request, (told,), {})[0] == told


def test_what_files_hold_beats_what_cards_say() -> None:
    """A card of pictures whose files are volumes, one of masks whose files have none, and a header's modality."""
    wrong = card("one", "one is a 2D MRI disease diagnosis dataset of the brain.").model_copy(
        update={"profile": seen(dimensions={"3": 9}, modalities={"CT": 9}, tasks={"diagnosis": 1.0})}
    )
    found, _, _ = choose("classify brain CT volumes in 3D", (wrong,), {})
    assert found == wrong
    plan = planned("classify brain CT volumes in 3D", (wrong,))
    assert (plan.dimensions, plan.modality) == (3, "CT")
    empty = CARDS[3].model_copy(update={"profile": seen(dimensions={"3": 9}, tasks={"diagnosis": 1.0})})
    found, refused, _ = choose("Segment the abdominal organs in contrast CT.", (empty,), {})
    assert found is None and "hold targets for diagnosis, none for organ segmentation" in refused[0].reason


def test_classes_that_files_name_are_words_of_the_card() -> None:
    spots = card("spots", "spots are dermatoscopic images of one clinic.")
    label = Candidate(
        source=Source(field="class"), where="folder 1", distinct=2, share=1.0, values={"nevus": 5, "melanoma": 4}
    )
    measured = spots.model_copy(update={"profile": seen(labels=(label,), tasks={"diagnosis": 1.0})})
    request = "Classification : mélanome contre nævus"
    assert choose(request, (spots, *CARDS), {})[0] is None
    assert choose(request, (measured, *CARDS), {})[0] == measured


def test_a_card_without_data_is_named_but_not_taken() -> None:
    cards = (card("one", "one is a 3D CT disease diagnosis dataset", here=False), *CARDS[2:3])
    found, refused, _ = choose("disease diagnosis from 3D CT", cards, {})
    assert found is None
    assert "not on this system" in next(item.reason for item in refused if item.dataset_id == "one")


def test_caps_and_labels_are_read_from_free_text() -> None:
    text = "only samples with these labels should be used: ['AD','MCI','CN']! And you should use at most 1000 samples"
    assert wanted_labels(text) == ("AD", "MCI", "CN")
    assert caps(text + " for training and 200 for testing. keep classes balanced!") == (1000, 200)
    assert caps("<=80 train / 20 test") == (80, 20)
    assert caps("no caps here, 300 patients trained in 2 centres") == (None, None)


def test_a_floor_in_the_request_is_kept() -> None:
    given = acceptable("AUC of at least 0.9 please", CARDS[0], "auc_macro")
    assert given is not None and (given.floor, given.source) == (0.9, "request")
    percent = acceptable("accuracy over 85 %", CARDS[0], "accuracy")
    assert percent is not None and percent.floor == pytest.approx(0.85)
    cider = acceptable("reports with a CIDEr of at least 1.2", CARDS[0], "cider_d")
    assert cider is not None and cider.floor == 1.2


def test_stated_dimension_outweighs_an_implied_one() -> None:
    assert read_facets("a 2D MRI dataset with volumes").dimensions == {2}


def test_the_keeper_ends_what_nobody_else_ends() -> None:
    asked = RunRequested.make(run_id="r1", sender="gateway", cause=None, requirement="x")
    assert keep(fold("r1", [(1, asked)])) is None
    failed = RoleFailed.make(
        run_id="r1", sender="task_manager", cause=asked, end="failed_gate", gate="lock", reason="why"
    )
    end = keep(fold("r1", [(1, asked), (2, failed)]))
    assert end is not None and (end.end, end.gate, end.reason) == ("failed_gate", "lock", "why")
    cancelled = keep(fold("r1", [(1, asked), (2, CancelRequested.make(run_id="r1", sender="gateway", cause=asked))]))
    assert cancelled is not None and cancelled.end == "cancelled"
    assert keep(fold("r1", [(1, asked), (2, failed), (3, end)])) is None


@pytest.mark.parametrize(
    ("request_text", "metric"),
    [
        ("Generate findings from chest X-rays with the best BLEU-4.", "bleu_4"),
        ("A report generator, ROUGE-L at least 0.3", "rouge_l"),
        ("Reports judged by CIDEr", "cider_d"),
        ("A report generator scored with BLEU and the like", None),
        ("Grade arthrosis of the knee; quadratic weighted kappa counts, not accuracy", "quadratic_kappa"),
    ],
)
def test_a_figure_is_taken_by_its_name(request_text: str, metric: str | None) -> None:
    assert named_metric(request_text) == metric
