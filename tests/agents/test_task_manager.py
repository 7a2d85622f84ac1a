"""Choosing a dataset from what texts say."""

import json
from importlib.resources import files

import pytest

from m3bench import cards as bench_cards
from services.task_manager.facets import read_facets
from services.task_manager.keeper import keep
from services.task_manager.playbook import acceptable, caps, choose, make_plan, named_metric, wanted_labels
from shared.agent.brief import Brief
from shared.contracts.cards import parse_card
from shared.contracts.runs import CancelRequested, DataCard, RoleFailed, RunRequested, TaskPlan
from shared.contracts.state import fold


def card(name: str, description: str, here: bool = True) -> DataCard:
    return DataCard(dataset_id=name, name=name, description=description, path="/x" if here else None)


CARDS = (
    card("alpha", "alpha is a 3D MRI disease diagnosis dataset of the brain in .pt format."),
    card("beta", "beta is a 3D CT disease diagnosis dataset that contains sub-folders named after the class."),
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
        ("Write the findings section of a radiology report from chest radiographs", "epsilon"),
        ("segment covid lesions in CT volumes", "zeta"),
        ("diagnose kidney disease from 2D CT slices", "gamma"),
        ("classify brain MRI volumes by stage of dementia", "alpha"),
        ("Grade skin lesions in dermatoscopy photographs.", None),
        ("Classify ultrasound images of the thyroid", None),
    ],
)
def test_the_card_that_says_what_is_asked_is_taken(requirement: str, chosen: str | None) -> None:
    found, refused = choose(requirement, CARDS, {})
    assert (found.dataset_id if found else None) == chosen
    assert {item.dataset_id for item in refused} == {item.dataset_id for item in CARDS} - {chosen}
    assert all(item.reason for item in refused)


ASKED = json.loads(files("m3bench").joinpath("requests.json").read_text(encoding="utf-8"))
BENCHMARK = tuple(parse_card(path.read_text(encoding="utf-8"))[0] for path in bench_cards.paths())
CROWD = BENCHMARK + tuple(parse_card(path.read_text(encoding="utf-8"))[0] for path in bench_cards.distractors())


@pytest.mark.parametrize("name", sorted(ASKED["tasks"]))
def test_each_task_of_the_benchmark_gets_its_own_dataset(name: str) -> None:
    task = ASKED["tasks"][name]
    for request in task["requests"]:
        found, _ = choose(request["text"], BENCHMARK, {})
        assert found is not None and found.dataset_id == task["card"], request["text"]


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
    found, refused = choose(text, cards, {})
    assert found is not None, text
    return make_plan(Brief(run_id="r1", role="task_manager", order="o", requested=asked, cards=cards), found, refused)


def test_a_figure_of_another_task_is_not_taken() -> None:
    card_ = card("epsilon", "epsilon is a 2D chest X-ray report generation dataset.")
    assert planned("Report generation from chest X-rays, with the best accuracy", (card_,)).metric == "rouge_l"
    assert planned("Report generation from chest X-rays, METEOR as the metric", (card_,)).metric == "meteor"


def test_near_misses_in_the_catalogue_seldom_mislead() -> None:
    wrong = [
        (request["text"], found and found.dataset_id)
        for task in ASKED["tasks"].values()
        for request in task["requests"]
        for found, _ in [choose(request["text"], CROWD, {})]
        if found is None or found.dataset_id != task["card"]
    ]
    assert len(wrong) <= 4, wrong


@pytest.mark.parametrize("request_", ASKED["unserved"], ids=lambda request: request["text"][:40])
def test_what_no_dataset_can_answer_is_told_so(request_: dict[str, str]) -> None:
    for cards in (BENCHMARK, CROWD):
        found, refused = choose(request_["text"], cards, {})
        assert found is None
        assert {item.dataset_id for item in refused} == {card.dataset_id for card in cards}


def test_a_dataset_that_is_named_is_taken() -> None:
    found, _ = choose("train any classifier on cc ccii", BENCHMARK, {})
    assert found is not None and found.dataset_id == "cc-ccii"
    found, _ = choose("we have no words for it", BENCHMARK, {})
    assert found is None, "the card WORD is not named by the word `words`"


def test_a_card_without_data_is_named_but_not_taken() -> None:
    cards = (card("one", "one is a 3D CT disease diagnosis dataset", here=False), *CARDS[2:3])
    found, refused = choose("disease diagnosis from 3D CT", cards, {})
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
    failed = RoleFailed.make(run_id="r1", sender="scorer", cause=asked, end="failed_gate", gate="lock", reason="why")
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
    ],
)
def test_a_figure_of_texts_is_taken_by_its_name(request_text: str, metric: str | None) -> None:
    assert named_metric(request_text) == metric
