"""What something that looked at no test image would score on the same reports, in the plan's metric."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from services.scorer.patients import Floats, Ints, by_chance, dealt, orders_of
from services.scorer.texts.figures import Figure, figures
from services.scorer.texts.tokens import Words
from shared.contracts.scoring import Control

TRAIN_TEXTS = 50
"""Most training reports that are tried as an answer to every case."""
PAIRS = (300_000, 30_000)
"""About so many pairs of texts a control looks at: of figures that are cheap, and of those that are not."""
FEWEST_DRAWS = 99
COMMON = 0.05
"""Of the training rows have a report that counts as the usual one."""


def report_controls(
    name: str, figure: Figure, train: Sequence[Words], answers: Sequence[Words], truth: Sequence[Words], patients: Ints,
    draws: int, seed: int,
) -> tuple[tuple[Control, ...], float | None, dict[str, str]]:  # fmt: skip
    """The controls, the p-value of the permutation test, and the words of the controls that are a text.

    `train` are the training reports, one a row. What a report says is in no control: those travel in events.
    """
    found, said = [], {}
    times = Counter(text for text in train if text)
    if times:
        texts = _some(times, min(TRAIN_TEXTS, max(5, _budget(figure) // len(truth))))
        each = [_always(figure, text, truth) for text in texts]
        usual, why = _usual(name, times, texts)
        best = int(np.argmax(each))
        tried = "all" if len(texts) == len(times) else f"{len(texts)} of {len(times)}"
        found = [
            Control(name="majority", value=_always(figure, usual, truth), detail=f"always {why}"),
            Control(
                name="constant",
                value=each[best],
                detail=f"always the best single report of {tried} different in training",
            ),
        ]
        said = {"majority": " ".join(usual), "constant": " ".join(texts[best])}
    dealt_out, p = _permutation(figure, answers, truth, patients, draws, seed)
    return (*found, *dealt_out), p, said


def _usual(name: str, times: Counter[Words], texts: Sequence[Words]) -> tuple[Words, str]:
    """The most frequent training report; where none is common, the one of `texts` that scores best on the others."""
    usual, count = times.most_common(1)[0]
    if count > 1 and count >= COMMON * times.total():
        return usual, f"the report that {count} training rows have"
    others = figures(texts)[name]
    each = [_always(others, text, [other for other in texts if other != text] or texts) for text in texts]
    return texts[int(np.argmax(each))], f"the training report that is most like {len(texts)} of them"


def _some(times: Counter[Words], most: int) -> list[Words]:
    """Different texts, the most frequent among them and the others evenly from the rest."""
    texts = [text for text, _ in times.most_common()]
    places = np.unique(np.linspace(0, len(texts) - 1, min(most, len(texts))).round().astype(int))
    return [texts[place] for place in places]


def _always(figure: Figure, text: Words, truth: Sequence[Words]) -> float:
    return float(figure.value(figure.of([text] * len(truth), truth).sum(axis=0)))


def _permutation(
    figure: Figure, answers: Sequence[Words], truth: Sequence[Words], patients: Ints, draws: int, seed: int
) -> tuple[tuple[Control, ...], float | None]:
    """A model that ignores its images writes as well about other patients: its answers may be dealt anew."""
    draws = int(np.clip(_budget(figure) // len(truth), min(FEWEST_DRAWS, draws), draws))
    orders, how = orders_of(int(patients.max()) + 1, draws, seed)
    observed = float(figure.value(figure.of(answers, truth).sum(axis=0)))
    drawn = _dealt_values(figure, answers, truth, dealt(patients, orders)) if len(orders) else np.zeros(0)
    return by_chance(observed, drawn, how)


def _dealt_values(figure: Figure, answers: Sequence[Words], truth: Sequence[Words], taken: Ints) -> Floats:
    """The figure of each draw; `taken` is whose answer each case takes over, (draws, cases)."""
    cases = len(truth)
    pairs, places = np.unique(taken * cases + np.arange(cases), return_inverse=True)
    whose, about = np.divmod(pairs, cases)
    sums = figure.of([answers[a] for a in whose], [truth[t] for t in about])
    rows = places.reshape(taken.shape)
    return np.array([float(figure.value(sums[row].sum(axis=0))) for row in rows])


def _budget(figure: Figure) -> int:
    return PAIRS[0] if figure.cheap else PAIRS[1]
