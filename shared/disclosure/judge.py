"""Which pieces of a text may leave."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import pairwise
from string import ascii_letters

from shared.disclosure.known import CAMEL, WORD, known, medical, pairs
from shared.disclosure.pieces import LINK, Piece, beside, in_one

_NUMBER = re.compile(
    r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?:[/x-]\d+(?:\.\d+)?)*(?:mm|cm|ms|[smhkdx]|[kMGT]i?B|th|st|nd|rd|D)?", re.IGNORECASE
)
_ROMAN = re.compile("[IVX]{2,4}")
_AXES = re.compile("(?=.*[RL])(?=.*[AP])(?=.*[SI])[RLAPSI]{3}")
SHORT = 3
"""Digits that are no name of anybody, wherever they stand: in code they are numbers that somebody reckons with."""
_LONGEST = 4
"""Digits of a number in a result that stands by itself; a longer one may be an id, as one in quotation marks may."""
_LIKELY = 0.66
"""Share of supported words that makes a sentence one of ours. Of the replicas' reports 1 in 100 has more than 0.6."""
_SPELLED, _BETWEEN_LETTERS = 4, 6
"""Letters in a row that are a word, and the signs between two of them."""
_BETWEEN_NAMES = re.compile(r"[ ,.^_-]{1,2}")


class Judge:
    """Of one conversation."""

    def __init__(self, public: Iterable[str], written: Iterable[str], raw: bool, card: bool) -> None:
        """As `Guard`."""
        self._words = known()
        self._card, self._raw = card, raw
        self._plain = False
        self._public = {part.lower() for one in public for part in re.findall(r"[^\W_]+", one)}
        self._terms = self._words.terms if raw else self._words.terms | self._words.code
        self._written = set(pairs(written))
        self._pairs: set[tuple[str, str]] = set()
        self._said: set[str] = set()
        self.hidden: Counter[str] = Counter()

    def heard(self, text: str) -> None:
        """What the endpoint itself said, it may hear again."""
        self._said.update(word.lower() for word in re.findall(r"[^\W_]+", text))
        self._said.update(part.lower() for word in WORD.findall(text) for part in CAMEL.findall(word))
        self._pairs.update(pairs([text]))

    def judge(self, found: list[Piece], measured: Collection[str] | None) -> None:
        """Say of each piece whether it is shown."""
        # Behind the lock, what is told before a first turn is ours, other roles' and a card's.
        self._plain = self._card or (measured is not None and not self._raw)
        for number, one in enumerate(found):
            low = one.text.lower()
            if one.kind == "word":
                one.public = low in self._public
                one.supported = self._follows(found, number, self._words.pairs, self._pairs) or (
                    self._words.common(one.text) and self._follows(found, number, self._written)
                )
                one.shown = one.public or one.supported or self._passes(one.text)
            elif one.kind == "mixed":
                one.shown = one.text in self._words.exact or low in self._public or low in self._said
            elif one.kind != "gap":
                one.shown = False  # digits: until they are found to be a number
        for places in in_one(found):
            self._number(found, places, measured or ())
        self._sentences(found)
        _spelled(found)
        _names(found)

    def _passes(self, word: str) -> bool:
        """Whether a word may stand anywhere, as it says nothing of a person."""
        low = word.lower()
        if word in ascii_letters or _AXES.fullmatch(word) or _ROMAN.fullmatch(word) or low in self._said:
            return True
        if word == low and (low in self._terms or low in self._words.frequent):
            return True
        if self._plain and self._words.common(word):
            return True
        if word in self._words.exact or medical(word):
            return True  # capitals are those of a name, unless we write it so
        parts = CAMEL.findall(word)
        return len(parts) > 1 and "".join(parts) == word and all(len(one) > 1 and self._passes(one) for one in parts)

    @staticmethod
    def _follows(found: list[Piece], number: int, *told: Iterable[tuple[str, str]]) -> bool:
        here = found[number].text.lower()
        both = ((beside(found, number, -1), here), (here, beside(found, number, 1)))
        return any(pair in one for pair in both for one in told)

    def _number(self, found: list[Piece], places: list[int], measured: Collection[str]) -> None:
        """Digits pass in a number that stands by itself, is short or measured, and has no leading zeros."""
        whole = "".join(found[at].text for at in places)
        if whole.lower() in self._words.exact:
            for at in places:
                found[at].shown = True
            return
        if not any(found[at].kind in ("digits", "mixed") for at in places):
            return
        before = found[places[0] - 1].text[-1:] if places[0] else ""
        after = found[places[-1] + 1].text[:1] if places[-1] + 1 < len(found) else ""
        quoted = before == after and before in ("'", '"')
        longest = _LONGEST // 2 if quoted else _LONGEST
        number = _NUMBER.fullmatch(whole) and not any(
            (len(one) > longest and (quoted or one not in measured)) or (len(one) > 1 and one[0] == "0")
            for one in re.findall(r"(?<![\d.])\d+", whole)
        )
        for at in places:
            one = found[at]
            if one.kind == "digits":
                led = len(one.text) == 1 and at > places[0] and found[at - 1].kind == "word" and found[at - 1].shown
                one.shown = bool(number) or led or len(one.text) <= SHORT or one.text in self._public
            elif one.kind == "mixed" and number:
                one.shown = True

    def _sentences(self, found: list[Piece]) -> None:
        """Sentences of others are hidden as a whole: of a report no word may leave."""
        spelled = {one.of for one in found if one.of >= 0 and one.kind != "word" and one.text != "-"}
        run: list[int] = []
        for at, one in enumerate(found):
            key = one.text in self._terms and at + 1 < len(found) and found[at + 1].text.startswith(":")
            if one.kind == "word" and one.of not in spelled and not key:
                run.append(at)
            elif one.kind != "gap" or one.of in spelled or not (one.text == "-" or LINK.fullmatch(one.text)):
                self._sentence(found, run)
                run = []
        self._sentence(found, run)

    def _sentence(self, found: list[Piece], run: list[int]) -> None:
        own = [at for at in run if not found[at].public and len(found[at].text) > 1]
        joined = any(b - a == 2 and found[b - 1].text == " " for a, b in pairwise(run))
        if len(run) < 3 or not joined:
            return
        ours = sum(found[at].supported or self._follows(found, at, self._written) for at in own)
        if ours < _LIKELY * len(own):
            self.hidden["prose"] += len(run)
            for at in run:
                found[at].shown = False


def _spelled(found: list[Piece]) -> None:
    """`['Y', 'o', 'u', 'n', 'g']`: letters in a row are a word, as where a program took a text for a list."""
    run: list[int] = []
    for at, one in enumerate([*found, Piece("", "word", -1)]):
        if one.kind == "word" and len(one.text) == 1 and not one.public:
            run.append(at)
        elif one.kind != "gap" or len(one.text) > _BETWEEN_LETTERS:
            for each in run if len(run) >= _SPELLED else ():
                found[each].shown = False
            run = []


def _names(found: list[Piece]) -> None:
    """`Grace Young`: a capitalised word beside a hidden one is part of a name, whatever else it means."""
    for order in (range(len(found)), range(len(found) - 1, -1, -1)):
        words = [found[at] for at in order]
        for one, gap, other in zip(words, words[1:], words[2:], strict=False):
            if one.kind == other.kind == "word" and not one.shown and other.shown and not other.public:
                capitals = one.text[:1].isupper() and other.text[:1].isupper() and len(other.text) > 1
                if capitals and _BETWEEN_NAMES.fullmatch(gap.text):
                    other.shown = False
