"""ROUGE-L: the longest common subsequence of words, as an F-measure with beta 1.2 (pycocoevalcap 1.2)."""

from collections import defaultdict
from collections.abc import Sequence

BETA = 1.2


def rouge_l(answer: Sequence[str], reference: Sequence[str]) -> float:
    """0 to 1; 0 where either has no word."""
    common = longest_common(answer, reference)
    if not common:
        return 0.0
    precision, recall = common / len(answer), common / len(reference)
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def longest_common(left: Sequence[str], right: Sequence[str]) -> int:
    """Length of the longest common subsequence, a row of the usual table at a time as the bits of one number."""
    places: defaultdict[str, int] = defaultdict(int)
    for place, word in enumerate(right):
        places[word] |= 1 << place
    full = (1 << len(right)) - 1
    row = full
    for word in left:
        taken = row & places.get(word, 0)
        row = ((row + taken) | (row - taken)) & full
    return len(right) - row.bit_count()
