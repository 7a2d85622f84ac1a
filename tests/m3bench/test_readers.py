"""What grey values alone are worth on each replica, beside the ideal reader, and that a network sees more."""

import json
import pickle
from collections import Counter
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from m3bench.readers.arrays import read
from m3bench.readers.choice import Choice
from m3bench.readers.intensity import Intensity
from m3bench.readers.network import Network
from m3bench.readers.protocol import by_patient, score
from m3bench.readers.samples import samples, truth_of
from m3bench.replicas import GENERATORS
from m3bench.words.reports import agreement, rouge_l, usual

Tiny = Callable[[str], Path]
METRICS = {
    task["card"]: task["real"]["metric"]
    for task in json.loads(files("m3bench").joinpath("requests.json").read_text(encoding="utf-8"))["tasks"].values()
}


def greys(folder: Path, folds: int) -> float:
    """The better of two kinds of statistics."""
    values = list(truth_of(folder).get("label_values", {}).values())
    metric = METRICS[folder.name]
    return max(score(Intensity(kind), samples(folder), values, folds)[metric] for kind in (False, True))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_grey_values_alone_stay_far_from_the_ideal_reader(tiny: Tiny, name: str) -> None:
    truth, metric = truth_of(tiny(name)), METRICS[name]
    reached, ideal = greys(tiny(name), folds=1), truth["ideal"].get(metric, 1.0)
    # What nobody needs an image for: chance, the most frequent class, one report for everybody.
    blind = truth["trivial"].get(metric, 0.0)
    assert (reached - blind) / (ideal - blind) < 0.55
    assert truth["trivial"].get("mean_mask_dice", 0.0) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("adni", 80), ("covid19", 60)])
def test_a_small_network_sees_what_grey_values_do_not_say(tiny: Tiny, name: str, steps: int) -> None:
    values = list(truth_of(tiny(name)).get("label_values", {}).values())
    seen = score(Network(steps), samples(tiny(name)), values, folds=1)[METRICS[name]]
    assert seen > greys(tiny(name), folds=1) + 0.05


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_small_network_sees_facts_of_reports_that_grey_values_do_not_say(tiny: Tiny) -> None:
    found = samples(tiny("iu-xray"))
    seen, *blind = (score(reader, found, folds=1) for reader in (Network(600), Intensity(False), Intensity(True)))
    assert seen["auc of facts"] > max(each["auc of facts"] for each in blind) + 0.05
    assert seen["rouge_l"] > max(seen["constant"], *(each["rouge_l"] for each in blind))


@pytest.mark.parametrize("name", ["braingenome", "ct-rate", "iu-xray"])
def test_most_of_a_report_follows_from_its_image(tiny: Tiny, name: str) -> None:
    truth = truth_of(tiny(name))
    trivial, ideal = (truth[which]["rouge_l"] for which in ("trivial", "ideal"))
    assert ideal > 0.65 and ideal - trivial > 0.25


def test_agreement_of_reports_is_the_longest_common_subsequence_of_words_as_the_scorer_counts_it() -> None:
    # Of six words four are right and none is missed; a word with a hyphen is one.
    precision, recall = 4 / 6, 1.0
    expected = (1 + 1.2**2) * precision * recall / (recall + 1.2**2 * precision)
    assert rouge_l("The heart is well-formed.", "The heart is not so well-formed!") == pytest.approx(expected)
    assert agreement(["a b c d", ""], ["d c b a", "a b c d", "x", ""]) == [[0.25, 1, 0, 0], [0, 0, 0, 0]]
    assert usual(["", "no effusion", "no effusion seen", "no effusion", "mass"]) == "no effusion"


def test_the_report_that_is_chosen_follows_the_facts_and_without_any_it_is_the_usual_one() -> None:
    texts = ["Lungs are clear.", "A mass on the left.", "A mass on the right.", "Lungs are clear now."] * 3
    facts = np.array([[0, 0], [1, 0], [0, 1], [0, 0]] * 3, float)
    choice = Choice(texts, facts)
    left, right, none = choice.best(np.array([[1.0, 0], [0, 1], [0.1, 0.1]]))
    assert [left, right] == texts[1:3]
    for usual_one in (none, *choice.best(facts.mean(axis=0, keepdims=True))):
        assert usual_one in ("Lungs are clear.", "Lungs are clear now.")


def test_nobody_is_on_both_sides_of_a_fold_and_everybody_is_asked_once(tiny: Tiny) -> None:
    found = samples(tiny("adni"))
    asked: Counter[str] = Counter()
    for known, others in by_patient(found):
        assert not {sample.group for sample in known} & {sample.group for sample in others}
        asked.update(str(sample.files) for sample in others)
    assert len(asked) == len(found) and set(asked.values()) == {1}


def test_a_pickle_that_is_no_array_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pck").write_bytes(pickle.dumps(np.arange(6, dtype=np.uint16).reshape(1, 2, 3), protocol=3))
    assert read([tmp_path / "a.pck"]).tolist() == [[[0, 1, 2], [3, 4, 5]]]
    (tmp_path / "b.pck").write_bytes(pickle.dumps(Path.cwd))
    with pytest.raises(ValueError, match="not the pickle of an array"):
        read([tmp_path / "b.pck"])
