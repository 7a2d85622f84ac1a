"""What may stand in a text that leaves: each word is judged, and those that may not pass get surrogates."""

import re
import urllib.parse
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from shared.disclosure.known import CAMEL, WORD, known, medical, pairs
from shared.disclosure.surrogates import DATE, Surrogates

_ESCAPED = r"\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|%[0-9a-fA-F]{2}|&\#?\w{1,8};"
_JOINED = re.compile(rf"\\(?!u[0-9a-fA-F]{{4}}|x[0-9a-fA-F]{{2}})[A-Za-z]|(?P<joined>(?:\w|{_ESCAPED}|(?<=\w)[./+^\-](?=[\w\\%]))+)")
"""What is written in one: a path, a name with its ending, an identifier, a number. `\\n` and `\\d` are none."""
_UID = r"(?<![\d.])\d+(?:\.\d+){3,}(?![\d.])"
_PIECE = re.compile(rf"(?P<date>{DATE.pattern})|(?P<uid>{_UID})|(?P<word>(?:[^\W_]|{_ESCAPED})+)|(?P<gap>.)", re.DOTALL)
_NUMBER = re.compile(
    r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?:[/x-]\d+(?:\.\d+)?)*(?:mm|cm|ms|[smhkdx]|[kMGT]i?B|th|st|nd|rd|D)?", re.IGNORECASE
)
_COMPOUND = re.compile(r"[\w-]+")
_LINK = re.compile(r"[,.;]?(?: |\n|\\n)+")
_AXES = re.compile("(?=.*[RL])(?=.*[AP])(?=.*[SI])[RLAPSI]{3}")
_LONGEST = 4
"""Digits of a number in a result that stands by itself; a longer one may be an id. In quotation marks half of them."""
_LIKELY = 0.66
"""Share of words, beside a word that follows them in our own texts too, that makes a sentence one of ours."""


@dataclass
class _Piece:
    text: str
    kind: str
    """word, digits, mixed, date, uid, or gap: what stands between."""
    of: int
    """Number of the joined text that it stands in; gaps between those have -1."""
    shown: bool = True
    supported: bool = False
    public: bool = False


class Guard:
    """Of one conversation. Texts have to come in its order: what was said and shown decides on what comes later."""

    def __init__(self, secret: str, public: Iterable[str] = (), written: Iterable[str] = (), raw: bool = True, card: bool = False) -> None:
        """`public` are words of the data that may be told (classes, columns); `written` texts of persons whose
        sentences may be told without their names. Without `raw` data words of trainings pass, too; where only a `card` is read,
        all words of ours in lower case."""
        words = known()
        self._words = words
        self._common = words.common if card else frozenset()
        self._public = {part.lower() for one in public for part in re.findall(r"[^\W_]+", one)}
        self._terms = words.terms if raw else words.terms | words.code
        self._pairs: set[tuple[str, str]] = set()
        self._written = set(pairs(written))
        self._said: set[str] = set()
        self._surrogates = Surrogates(secret, words.terms | words.code)
        self._given: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self.counts: Counter[str] = Counter()
        """Rule -> how often it hid something."""

    @property
    def surrogates(self) -> int:
        return len(self._given)

    def hide(self, text: str, raw: bool = True, measured: bool = False) -> str:
        """A text of ours or of the data as it may leave. `measured`: what stands there as a number was measured by
        programs of ours, however long it is."""
        pieces = _pieces(text)
        if raw:
            self._judge(pieces, measured)
        else:
            for one in pieces:
                one.shown = one.kind not in ("uid", "date") and _plain(one.text) not in self._given
        return self._told(pieces)

    def said(self, text: str, hidden: Iterable[str]) -> str:
        """What the model said, as it said it: `hidden` is what `back` found in it."""
        hidden = sorted(set(hidden), key=len, reverse=True)
        if hidden:
            there = rf"(?<![^\W_])(?:{'|'.join(map(re.escape, hidden))})(?![^\W_])"
            own = re.sub(there, "\n\n", text)
            text = re.sub(there, lambda found: self._surrogate(found[0]), text)
        else:
            own = text
        self._said.update(word.lower() for word in re.findall(r"[^\W_]+", own))
        self._said.update(part.lower() for word in WORD.findall(own) for part in CAMEL.findall(word))
        self._pairs.update(pairs([own]))
        return text

    def back(self, text: str) -> tuple[str, set[str]]:
        """A text of the model with what its surrogates stand for, and what that was."""
        hidden: set[str] = set()

        def told(real: str) -> str:
            hidden.add(real)
            return real

        def compound(found: re.Match[str]) -> str:
            one = found[0]
            if (real := self._real.get(one)) and (not one.isdecimal() or _named(text, *found.span())):
                return told(real)
            parts = re.split(r"([_-])", one)
            reals = [self._real.get(part) or self._surrogates.real(part) if _letters(part) else None for part in parts]
            if not any(reals):
                return one
            return "".join(
                told(real) if real else told(self._real[part]) if part.isdecimal() and part in self._real else part
                for part, real in zip(parts, reals, strict=True)
            )

        if spread := [one for one in self._real if not _COMPOUND.fullmatch(one)]:
            there = "|".join(map(re.escape, sorted(spread, key=len, reverse=True)))
            text = re.sub(rf"(?<![\w.])(?:{there})(?![\w])", lambda found: told(self._real[found[0]]), text)
        return _COMPOUND.sub(compound, text), hidden

    def _judge(self, pieces: list[_Piece], measured: bool) -> None:
        for number, one in enumerate(pieces):
            if one.kind in ("date", "uid"):
                one.shown = False
            elif one.kind == "digits":
                one.shown = False  # until its whole is found to be a number
            elif one.kind == "mixed":
                low = one.text.lower()
                one.shown = one.text in self._words.exact or low in self._public or low in self._said
            elif one.kind == "word":
                one.public = one.text.lower() in self._public
                one.supported = self._is_supported(pieces, number)
                one.shown = one.public or one.supported or self._passes(one.text)
        self._numbers(pieces, measured)
        self._prose(pieces)
        self._names(pieces)

    def _passes(self, word: str) -> bool:
        low = word.lower()
        if _AXES.fullmatch(word) or word in self._common or len(word) == 1 or low in self._said or low in self._terms or word in self._words.exact or medical(word):
            return True
        parts = CAMEL.findall(word)
        return len(parts) > 1 and "".join(parts) == word and all(len(one) > 1 and self._passes(one) for one in parts)

    def _is_supported(self, pieces: list[_Piece], number: int) -> bool:
        here = pieces[number].text.lower()
        before, after = _beside(pieces, number, -1), _beside(pieces, number, 1)
        return any(pair in told for pair in ((before, here), (here, after)) for told in (self._words.pairs, self._pairs))

    def _is_written(self, pieces: list[_Piece], number: int) -> bool:
        here = pieces[number].text.lower()
        return any(
            pair in self._written
            for pair in ((_beside(pieces, number, -1), here), (here, _beside(pieces, number, 1)))
        )

    def _numbers(self, pieces: list[_Piece], measured: bool) -> None:
        """Digits pass in a number that stands by itself, is short and has no leading zeros."""
        wholes: dict[int, list[int]] = {}
        for at, one in enumerate(pieces):
            if one.of >= 0:
                wholes.setdefault(one.of, []).append(at)
        for places in wholes.values():
            whole = "".join(pieces[at].text for at in places)
            if whole.lower() in self._words.exact:
                for at in places:
                    pieces[at].shown = True
                continue
            if not any(sign.isdecimal() for sign in whole) or any(pieces[at].kind in ("date", "uid") for at in places):
                continue
            before = pieces[places[0] - 1].text[-1:] if places[0] else ""
            after = pieces[places[-1] + 1].text[:1] if places[-1] + 1 < len(pieces) else ""
            integers = re.findall(r"(?<![\d.])\d+", whole)
            quoted = before == after and before in ("'", '"')
            longest = _LONGEST // 2 if quoted else 99 if measured else _LONGEST
            plain = _NUMBER.fullmatch(whole) and not any(
                len(one) > longest or (len(one) > 1 and one[0] == "0") for one in integers
            )
            for at in places:
                if pieces[at].kind == "digits":
                    led = len(pieces[at].text) == 1 and pieces[at - 1].kind == "word" and pieces[at - 1].shown
                    pieces[at].shown = bool(plain) or led or pieces[at].text in self._public
                elif plain and pieces[at].kind == "mixed":
                    pieces[at].shown = True

    def _prose(self, pieces: list[_Piece]) -> None:
        """Sentences of others are hidden as a whole: of a report no word may leave."""
        run: list[int] = []

        def judge() -> None:
            joined = any(pieces[b - 1].text == " " and b - a == 2 for a, b in zip(run, run[1:], strict=False))
            own = [at for at in run if not pieces[at].public and len(pieces[at].text) > 1]
            ours = sum(pieces[at].supported or self._is_written(pieces, at) for at in own)
            if len(run) > 2 and joined and ours < _LIKELY * len(own):
                for at in run:
                    self.counts["prose"] += pieces[at].shown
                    pieces[at].shown = False
            run.clear()

        spelled = {one.of for one in pieces if one.of >= 0 and one.kind != "word" and one.text != "-"}
        for at, one in enumerate(pieces):
            if one.kind == "word" and one.of not in spelled:
                run.append(at)
            elif one.text == "-" and one.of not in spelled:
                continue
            elif one.kind != "gap" or not _LINK.fullmatch(one.text):
                judge()
        judge()

    def _names(self, pieces: list[_Piece]) -> None:
        """`Grace Young`: a capitalised word beside a hidden one is part of a name, whatever else it means."""
        changed = True
        while changed:
            changed = False
            words = [at for at, one in enumerate(pieces) if one.kind == "word"]
            for a, b in zip(words, words[1:], strict=False):
                between = "".join(one.text for one in pieces[a + 1 : b])
                if len(between) > 2 or "\n" in between or not re.fullmatch(r"[ ,.^_-]*", between):
                    continue
                for one, other in ((pieces[a], pieces[b]), (pieces[b], pieces[a])):
                    if one.shown and not other.shown and not one.public and one.text[:1].isupper() and len(one.text) > 1:
                        if other.text[:1].isupper():
                            one.shown, changed = False, True

    def _surrogate(self, real: str) -> str:
        if real not in self._given:
            real_pieces = _pieces(real)
            for one in real_pieces:
                one.shown = one.kind == "gap" or _plain(one.text) not in self._given
            return self._told(real_pieces)
        return self._given[real]

    def _told(self, pieces: list[_Piece]) -> str:
        """The text, with each surrogate learned for the way back: by itself, and in what it is part of."""
        text: list[str] = []
        real = made = ""
        for one in pieces:
            shown = one.text
            if not one.shown:
                shown = self._replaced(one)
                self.counts[one.kind] += 1
            text.append(shown)
            if one.kind == "gap" and not _COMPOUND.fullmatch(one.text):
                self._learn(real, made)
                real = made = ""
            else:
                real, made = real + (one.text if one.shown else _plain(one.text)), made + shown
        self._learn(real, made)
        return "".join(text)

    def _replaced(self, one: _Piece) -> str:
        real = _plain(one.text)
        if real not in self._given:
            make = {"digits": self._surrogates.number, "date": self._surrogates.date}.get(one.kind)
            if make is None:
                make = self._surrogates.word if real.isalpha() else self._surrogates.mixed
            self._learn(real, make(real))
        return self._given.get(real, real)

    def _learn(self, real: str, made: str) -> None:
        if real != made:
            self._given.setdefault(real, made)
            self._real.setdefault(made, real)


def _pieces(text: str) -> list[_Piece]:
    found: list[_Piece] = []
    end = 0
    for number, joined in enumerate(one for one in _JOINED.finditer(text) if one["joined"]):
        if joined.start() > end:
            found.append(_Piece(text[end : joined.start()], "gap", -1))
        for piece in _PIECE.finditer(joined[0]):
            kind, one = piece.lastgroup or "gap", piece[0]
            if piece["date"]:
                kind = "date"
            elif piece["uid"]:
                kind = "uid"
            elif piece["word"]:
                real = _plain(one)
                kind = "digits" if real.isdecimal() else "word" if real.isalpha() and real == one else "mixed"
                if one not in known().exact and (led := re.fullmatch(r"([^\W\d_]{2,})(\d+)", one)):
                    found.append(_Piece(led[1], "word", number))
                    kind, one = "digits", led[2]
            found.append(_Piece(one, kind, number))
        end = joined.end()
    if end < len(text):
        found.append(_Piece(text[end:], "gap", -1))
    return found


def _plain(text: str) -> str:
    """Without escapes."""
    if "\\" in text:
        text = re.sub(r"\\(?:u(.{4})|x(.{2}))", lambda found: chr(int(found[1] or found[2], 16)), text)
    return urllib.parse.unquote(text) if "%" in text else text


def _beside(pieces: list[_Piece], number: int, step: int) -> str:
    """The word next to a piece, in lower case; empty where something else stands there."""
    gap, word = number + step, number + 2 * step
    if 0 <= word < len(pieces) and pieces[word].kind == "word" and _LINK.fullmatch(pieces[gap].text):
        return pieces[word].text.lower()
    return ""


def _letters(part: str) -> bool:
    return any(sign.isalpha() for sign in part)


def _named(text: str, start: int, end: int) -> bool:
    """Whether digits are a name there: part of a path, in quotation marks, with an ending, or all that there is."""
    before, after = text[start - 1 : start], text[end : end + 1]
    ending = after == "." and text[end + 1 : end + 2].isalpha()
    return not before + after or before in ("/", '"', "'") or after in ("/", '"', "'") or ending
