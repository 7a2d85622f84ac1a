"""METEOR 1.5 for English with its modules exact and stem; synonyms and paraphrases need tables that are not here.

Words of answer and reference are paired one to one, equal words or words with one stem, as many as there are and in few
chunks (runs that are adjacent and in one order on both sides): the longest run that is left is taken first, of equal
ones the one whose places are nearest. METEOR's own search, a beam, ends with a few chunks more where a text repeats
itself: there its figure is a little lower.

Weights and function words are those of METEOR 1.5 for English (task `rank`), and the figure of a test set comes from
sums over its cases, not from the mean of their scores, as in pycocoevalcap.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush

import numpy as np
from snowballstemmer.english_stemmer import EnglishStemmer

from services.scorer.patients import Floats
from services.scorer.texts.tokens import Words

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.2, 0.6, 0.75
EXACT, STEM = 1.0, 0.6

_FUNCTION = """the of to and a in that for is on it with was as said at he by be from have has are his but an this not i
will they who their had we which were been more or its would about new one after you also up when there than all out her
people she year two can if last first over other into some what so no time years could 's"""
FUNCTION_WORDS = frozenset(_FUNCTION.split())


def meteor_counts(answer: Words, reference: Words) -> list[float]:
    """Weighted matches and the weight of all words, of the answer and of the reference; chunks; matched words.

    Chunks are 0 where both are the same, which costs nothing then.
    """
    pairs = align(answer, reference)
    before = [(-2, -2), *pairs]
    chunks = sum(1 for one, other in zip(before, pairs, strict=False) if other != (one[0] + 1, one[1] + 1))
    weights = [EXACT if answer[here] == reference[there] else STEM for here, there in pairs]
    return [
        sum(w * _weight(answer[here]) for w, (here, _) in zip(weights, pairs, strict=True)),
        sum(map(_weight, answer)),
        sum(w * _weight(reference[there]) for w, (_, there) in zip(weights, pairs, strict=True)),
        sum(map(_weight, reference)),
        0.0 if answer == reference else float(chunks),
        float(len(pairs)),
    ]


def meteor(counts: Floats) -> Floats:
    """METEOR from sums of `meteor_counts` over cases: (..., 6) -> (...), 0 to 1."""
    hit, given, found, wanted, chunks, matched = np.moveaxis(counts, -1, 0)
    precision, recall = _share(hit, given), _share(found, wanted)
    mean = _share(precision * recall, ALPHA * precision + (1 - ALPHA) * recall)
    return np.asarray(mean * (1 - GAMMA * _share(chunks, matched) ** BETA))


def align(answer: Words, reference: Words) -> list[tuple[int, int]]:
    """Places of paired words, in the order of the answer."""
    ours, theirs = [stem(word) for word in answer], [stem(word) for word in reference]
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, root in enumerate(theirs):
        places[root].append(place)
    heap = [
        (-_run(ours, theirs, here, there), abs(here - there), here, there)
        for here, root in enumerate(ours)
        for there in places.get(root, ())
        if not (here and there and ours[here - 1] == theirs[there - 1])
    ]
    heapify(heap)
    paired: dict[int, int] = {}
    taken: set[int] = set()
    while heap:
        size, apart, here, there = heappop(heap)
        free = [step for step in range(-size) if here + step not in paired and there + step not in taken]
        if len(free) == -size:
            paired |= {here + step: there + step for step in free}
            taken |= {there + step for step in free}
        else:
            # What is left of a run that longer ones crossed waits for its turn.
            for first, length in _pieces(free):
                heappush(heap, (-length, apart, here + first, there + first))
    return sorted(paired.items())


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """What `effusions` and `effusion` share, by the Snowball stemmer for English that METEOR 1.5 brings; lower case."""
    # A stemmer holds the word that it works on, and cases are scored in threads: each call has its own.
    return str(EnglishStemmer().stemWord(word))


def _run(ours: Sequence[str], theirs: Sequence[str], here: int, there: int) -> int:
    """How many words agree from these places on."""
    size = 0
    for one, other in zip(ours[here:], theirs[there:], strict=False):
        if one != other:
            break
        size += 1
    return size


def _pieces(steps: Sequence[int]) -> list[tuple[int, int]]:
    """First member and length of each run of whole numbers that follow each other."""
    found: list[tuple[int, int]] = []
    for step in steps:
        if found and step == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((step, 1))
    return found


def _weight(word: str) -> float:
    return 1 - DELTA if word in FUNCTION_WORDS else DELTA


def _share(part: Floats, whole: Floats) -> Floats:
    shares: Floats = np.zeros(np.broadcast(part, whole).shape)
    np.divide(part, whole, out=shares, where=whole > 0)
    return shares
