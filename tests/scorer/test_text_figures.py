"""Figures of texts against values of pycocoevalcap 1.2 and METEOR 1.5, and against slow ways to compute them."""

import itertools
import random
from collections import Counter

import numpy as np
import pytest

from services.scorer.names import METRICS, canonical
from services.scorer.texts.figures import figures
from services.scorer.texts.meteor import align, stem
from services.scorer.texts.tokens import MOST, words
from shared.bleu import bleu, bleu_counts
from shared.rouge import longest_common, rouge_l

PAIRS = (
    (
        "The heart size is normal. The lungs are clear without focal consolidation, effusion or pneumothorax.",
        "Heart size and mediastinal contours are within normal limits. The lungs are clear. "
        "No pneumothorax or effusion.",
    ),
    (
        "There is a 12-mm nodule in the right upper lobe; follow-up CT is recommended.",
        "A nodule of 12-mm is seen in the left upper lobe. Follow-up in 3 months was recommended.",
    ),
    (
        "Moderate cardiomegaly with bilateral pleural effusions (larger on the left).",
        "Cardiomegaly is moderate. There is a bilateral pleural effusion, larger on the left.",
    ),
    ("No acute cardiopulmonary abnormality.", "No acute cardiopulmonary abnormality."),
    ("Normal chest.", "Status post sternotomy. The patient's aorta isn't dilated, measuring 3.5 cm."),
    ("Degenerative changes are noted in the thoracic spine.", "Calcified granulomas are noted in both lungs."),
)
"""Answer and reference."""
PUBLISHED = {
    "bleu_1": (0.470214, (0.583449, 0.576513, 0.592655, 1, 0, 0.375)),
    "bleu_2": (0.337607, (0.381957, 0.327689, 0.441739, 1, 0, 0.327327)),
    "bleu_3": (0.251118, (0.269817, 0.193298, 0.330619, 1, 0, 0.261379)),
    "bleu_4": (0.175081, (0.194550, 0.000027, 0.248685, 1, 0, 0.000043)),
    "rouge_l": (0.500213, (0.494428, 0.507277, 0.594708, 1, 0, 0.404867)),
    "meteor": (0.255049, (0.286420, 0.270065, 0.425617, 1, 0, 0.151124)),
    "cider_d": (3.298824, (2.645076, 1.999252, 3.145794, 10, 0, 2.002822)),
}
"""Of the test set and of each case, as those programs print them for these pairs (METEOR with -m "exact stem")."""

ANSWERS, TRUTH = ([words(text) for text in side] for side in zip(*PAIRS, strict=True))


@pytest.mark.parametrize("name", METRICS["report_generation"])
def test_figures_are_those_of_the_programs_that_papers_use(name: str) -> None:
    figure = figures(TRUTH)[name]
    sums = figure.of(ANSWERS, TRUTH)
    whole, each = PUBLISHED[name]
    assert float(figure.value(sums.sum(axis=0))) == pytest.approx(whole, abs=1e-6)
    assert figure.value(sums) == pytest.approx(np.array(each), abs=1e-6)


@pytest.mark.parametrize("name", METRICS["report_generation"])
def test_a_draw_of_cases_is_the_figure_of_those_cases(name: str) -> None:
    figure = figures(TRUTH)[name]
    weights = np.array([2.0, 0, 1, 0, 3, 1])
    drawn = [number for number, times in enumerate(weights) for _ in range(int(times))]
    again = figure.of([ANSWERS[n] for n in drawn], [TRUTH[n] for n in drawn]).sum(axis=0)
    by_weights = figure.value(weights[None, :] @ figure.of(ANSWERS, TRUTH))
    assert by_weights == pytest.approx(np.array([figure.value(again)]), rel=1e-9)


@pytest.mark.parametrize("name", METRICS["report_generation"])
def test_nothing_said_earns_nothing_and_costs(name: str) -> None:
    figure = figures(TRUTH)[name]
    silent = [(), *ANSWERS[1:]]
    sums = figure.of(silent, TRUTH)
    assert figure.value(sums)[0] == pytest.approx(0, abs=1e-9)
    assert figure.value(sums.sum(axis=0)) < figure.value(figure.of(ANSWERS, TRUTH).sum(axis=0))
    assert figure.value(figure.of([()], [()]).sum(axis=0)) <= 1.0  # defined, whatever it says


def test_bleu_by_hand() -> None:
    # The example of Papineni et al. 2002: seven times "the", of which the reference has two.
    counts = np.array(bleu_counts(("the",) * 7, words("The cat is on the mat.")))
    assert float(bleu(counts, 1)) == pytest.approx(2 / 7)
    # Three of three words right, but the answer is half as long: exp(1 - 6/3).
    short = np.array(bleu_counts(words("the cat is"), words("The cat is on the mat.")))
    assert float(bleu(short, 1)) == pytest.approx(np.exp(-1))


def test_rouge_by_hand_and_by_the_usual_table() -> None:
    # Lin 2004: the longest common subsequence of the first pair is "police the gunman", of the second "the gunman".
    truth = words("police killed the gunman")
    assert rouge_l(words("police kill the gunman"), truth) == pytest.approx(3 / 4)
    assert rouge_l(words("the gunman kill police"), truth) == pytest.approx(2 / 4)
    rng = random.Random(3)
    for _ in range(200):
        left, right = (tuple(rng.choices("abcd", k=rng.randint(0, 12))) for _ in range(2))
        assert longest_common(left, right) == table(left, right)


def table(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    row = [0] * (len(right) + 1)
    for one in left:
        before = row[:]
        for place, other in enumerate(right, 1):
            row[place] = before[place - 1] + 1 if one == other else max(before[place], row[place - 1])
    return row[-1]


def test_words_are_paired_one_to_one_as_many_as_can_be_and_in_few_chunks() -> None:
    rng = random.Random(4)
    for _ in range(60):
        left, right = (tuple(rng.choices("abcde", k=rng.randint(1, 6))) for _ in range(2))
        pairs = align(left, right)
        assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs)
        assert all(left[a] == right[b] for a, b in pairs)
        assert len(pairs) == (Counter(left) & Counter(right)).total()
        # Taking the longest run first is no search for the fewest chunks, but never far from it.
        assert fewest(left, right) <= chunks(pairs) <= fewest(left, right) + 1


def chunks(pairs: list[tuple[int, int]]) -> int:
    return sum((a - 1, b - 1) not in pairs for a, b in pairs)


def fewest(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    """By trying every pairing of the most words."""
    options = [[None, *(b for b, word in enumerate(right) if word == one)] for one in left]
    most = (Counter(left) & Counter(right)).total()
    found = []
    for choice in itertools.product(*options):
        pairs = [(a, b) for a, b in enumerate(choice) if b is not None]
        if len(pairs) == most and len({b for _, b in pairs}) == most:
            found.append(chunks(pairs))
    return min(found)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The heart is normal. Lungs: clear!", "the heart is normal lungs clear"),
        ("Patient's cannot isn't", "patient 's can not is n't"),
        ("3.5 cm x 2.1-cm, T2/FLAIR (see 1,200)", "3.5 cm x 2.1-cm t2/flair see 1,200"),
        ("10% <5 mm at 12:30 p.m. by Dr. Smith", "10 % < 5 mm at 12:30 p.m. by dr smith"),
        ("XXXX-XXXX “quoted” – it’s -- [done]...", "xxxx-xxxx quoted it 's done"),
        (" .,;:?! -- () \n", ""),
    ],
)
def test_words(text: str, found: str) -> None:
    assert " ".join(words(text)) == found


def test_a_text_without_end_is_cut() -> None:
    assert len(words("the " * 5000)) == MOST


def test_stems_are_those_of_the_published_table() -> None:
    # From the description of the stemmer, snowballstem.org/algorithms/english.
    told = {
        "consign consigned consigning consignment": "consign",
        "consist consisted consists consisting": "consist",
        "consistency": "consist",
        "consolation": "consol",
        "consolatory": "consolatori",
        "consoling": "consol",
        "consolingly": "consol",
        "conspicuously": "conspicu",
        "conspirator": "conspir",
        "constable": "constabl",
        "constancy": "constanc",
        "knackeries": "knackeri",
        "knightly": "knight",
        "knitting": "knit",
        "knives": "knive",
        "knotted": "knot",
        "skies": "sky",
        "dying": "die",
        "proceed": "proceed",
        "generously": "generous",
        "effusions": "effus",
        # As METEOR 1.5 has them; later versions of the stemmer do not.
        "radiologist": "radiologist",
        "lateral": "later",
    }
    assert {given: {stem(word) for word in given.split()} for given in told} == {k: {v} for k, v in told.items()}


def test_papers_spell_figures_in_many_ways() -> None:
    said = {"BLEU-4": "bleu_4", "bleu": "bleu_4", "BLEU1": "bleu_1", "ROUGE-L": "rouge_l", "Rouge": "rouge_l"}
    said |= {"CIDEr": "cider_d", "CIDEr-D": "cider_d", "METEOR": "meteor"}
    assert {name: canonical(name, "report_generation") for name in said} == said
    assert canonical("dice", "report_generation") is None and canonical("BLEU-4", "diagnosis") is None
