"""Texts as they may leave, and what the model says with the surrogates put back."""

import re
from collections.abc import Collection, Iterable

from shared.disclosure.judge import SHORT, Judge
from shared.disclosure.known import known
from shared.disclosure.pieces import Piece, pieces, plain
from shared.disclosure.surrogates import Surrogates

_COMPOUND = re.compile(r"[\w-]+")
_CODE = re.compile(r"[=(]")


class Guard:
    """Of one conversation. Texts have to come in its order: what was said and shown decides on what comes later."""

    def __init__(
        self,
        secret: str,
        public: Iterable[str] = (),
        written: Iterable[str] = (),
        *,
        raw: bool = True,
        card: bool = False,
    ) -> None:
        """`public` are words of the data that may be told (classes, columns); `written` texts of persons whose
        sentences may be told without their names. Without `raw` data words of trainings pass, too; where only a `card`
        is read, all words of ours in lower case."""
        words = known()
        self._frequent, self._common = words.frequent, words.common
        self._judge = Judge(public, written, raw, card)
        self._surrogates = Surrogates(secret, words.terms | words.code)
        self._given: dict[str, str] = {}
        """Real -> surrogate: of words, and of what they are part of."""
        self._real: dict[str, str] = {}
        self.counts = self._judge.hidden
        """Rule -> how often it hid something."""

    @property
    def surrogates(self) -> int:
        return len(self._given)

    def hide(self, text: str, raw: bool = True, measured: Collection[str] | None = None) -> str:
        """A text of ours or of the data. Where it holds no `raw` data it leaves as it is, but for what was hidden
        before. `measured`, of what is told before a first turn: the numbers that programs of ours measured, which pass
        however long they are."""
        found = pieces(text)
        if raw:
            self._judge.judge(found, measured)
        else:
            for one in found:
                # Sentences of the data are hidden whole; in ours, their small words are nothing of theirs.
                told = one.kind == "gap" or one.text in self._frequent or not self._was_hidden(plain(one.text))
                one.shown = told and one.kind not in ("uid", "date")
        return self._told(found)

    def said(self, text: str, hidden: Iterable[str]) -> str:
        """What the model said, as it said it: `hidden` is what `back` found in it."""
        own = text
        if longest := sorted(set(hidden), key=lambda one: (-len(one), one)):
            there = rf"(?:(?<![^\W_])|(?<=\\[a-z]))(?:{'|'.join(map(re.escape, longest))})(?![^\W_])"
            own = re.sub(there, "\n\n", text)
            text = re.sub(there, lambda found: self._surrogate(found[0]), text)
        self._judge.heard(own)
        return text

    def back(self, text: str) -> tuple[str, set[str]]:
        """A text of the model with what its surrogates stand for, and what that was."""
        hidden: set[str] = set()

        def told(real: str) -> str:
            hidden.add(real)
            return real

        def compound(found: re.Match[str]) -> str:
            one, start = found[0], found.start()
            if start and text[start - 1] == "\\" and len(one) > 1 and not self._knows(one):
                return one[0] + _COMPOUND.sub(lambda rest: whole(rest[0], start + 1), one[1:])  # `\n` and a name
            return whole(one, start)

        def whole(one: str, start: int) -> str:
            if (core := one.strip("-_")) != one and not self._knows(one):
                before, after = one[: one.find(core)], one[one.find(core) + len(core) :]
                return before + (whole(core, start + len(before)) if core else "") + after
            if (real := self._real.get(one)) and (not one.isdecimal() or _is_name(text, start, start + len(one))):
                return told(real)
            parts = re.split(r"([_-])", one)
            reals = [self._real.get(part) or self._surrogates.real(part) if _letters(part) else None for part in parts]
            if not any(reals):
                return one
            return "".join(
                told(real) if real else told(self._real[part]) if _is_code(part) and part in self._real else part
                for part, real in zip(parts, reals, strict=True)
            )

        # In one pass: what is put back may look like another's surrogate.
        spread = sorted((one for one in self._real if not _COMPOUND.fullmatch(one)), key=len, reverse=True)
        there = rf"(?<![\w.])(?P<spread>{'|'.join(map(re.escape, spread))})(?!\w)|" if spread else "(?P<spread>(?!))|"
        return re.sub(
            there + _COMPOUND.pattern,
            lambda found: told(self._real[found[0]]) if found["spread"] else compound(found),
            text,
        ), hidden

    def _was_hidden(self, word: str) -> bool:
        """Whether a word, or one that it is made of or was cut from, was hidden before: in whatever case."""
        if len(word) <= SHORT or (word.isdecimal() and len(word) == SHORT + 1):
            return word in self._given and not word.isdecimal()
        if word in self._given or self._surrogates.knows(word):
            return True
        low = word.lower()
        return not self._common(low) and any(
            one in low or one.startswith(low) or one.endswith(low)
            for one in self._surrogates.words
            if len(one) > SHORT + 1
        )

    def _knows(self, made: str) -> bool:
        return made in self._real or self._surrogates.real(made) is not None

    def _surrogate(self, real: str) -> str:
        if real in self._given:
            return self._given[real]
        found = pieces(real)
        for one in found:
            one.shown = one.kind == "gap" or not (one.text in self._given or self._surrogates.knows(one.text))
        return self._told(found)

    def _told(self, found: list[Piece]) -> str:
        """The text, with each surrogate learned for the way back: by itself, and in what it is part of."""
        text: list[str] = []
        real = made = ""
        for one in found:
            shown = one.text
            if not one.shown:
                shown = self._replaced(one)
                self.counts[one.kind] += 1
            text.append(shown)
            if one.kind == "gap" and not _COMPOUND.fullmatch(one.text):
                self._learn(real, made)
                real = made = ""
            else:
                real, made = real + (one.text if one.shown else plain(one.text)), made + shown
        self._learn(real, made)
        return "".join(text)

    def _replaced(self, one: Piece) -> str:
        real = plain(one.text)
        if real not in self._given:
            make = {"digits": self._surrogates.number, "date": self._surrogates.date}.get(one.kind)
            if make is None:
                make = self._surrogates.word if real.isalpha() else self._surrogates.mixed
            self._learn(real, make(real))
        return self._given.get(real, real)

    def _learn(self, real: str, made: str) -> None:
        for one, other in ((real, made), (real.strip("-_"), made.strip("-_"))):
            if one != other:
                self._given.setdefault(one, other)
                self._real.setdefault(other, one)


def _letters(part: str) -> bool:
    return any(sign.isalpha() for sign in part)


def _is_code(part: str) -> bool:
    """Digits that nobody counts with."""
    return part.isdecimal() and len(part) > SHORT


def _is_name(text: str, start: int, end: int) -> bool:
    """Whether digits by themselves are a name there, by what `Judge` shows of them: long, with leading zeros, part of a
    path; all of a text, or in quotation marks."""
    digits, before, after = text[start:end], text[max(0, start - 1) : start], text[end : end + 1]
    if len(digits) <= SHORT:
        return False
    if len(digits) <= 4 and re.search(r"(?<![\d.])\d+\.$", text[:start][-8:]):
        return False  # a fraction
    if len(digits) > 4 or (digits[0] == "0" and len(digits) > 1):
        return True
    ending = after == "." and text[end + 1 : end + 2].isalpha()
    quoted = not before + after or (before == after and before in ("'", '"'))
    return ("/" in (before, after) and not _divides(text, start, end)) or ending or quoted


def _divides(text: str, start: int, end: int) -> bool:
    """Whether a slash beside digits means a division: in a line of code, outside of its strings."""
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    line, before = text[first : last if last >= 0 else None], text[first:start]
    in_string = any(before.count(mark) % 2 for mark in ("'", '"')) and before.rfind("{") <= before.rfind("}")
    return bool(_CODE.search(line)) and not in_string
