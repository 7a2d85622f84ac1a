"""Surrogates: words, numbers and dates of the same form, made with a secret, and what they stand for."""

import hmac
import random
import re
from collections.abc import Collection, Iterator
from datetime import date, timedelta

_CONSONANTS, _VOWELS = "bdfghklmnprstvwz", "aeiou"
DATE = re.compile(
    r"(?<!\d)(?:(?P<y>(?:19|20)\d\d)(?P<s>[-/._]?)(?P<m>0[1-9]|1[0-2])(?P=s)(?P<d>0[1-9]|[12]\d|3[01])"
    r"|(?P<d2>0?[1-9]|[12]\d|3[01])(?P<s2>[-/.])(?P<m2>0?[1-9]|1[0-2])(?P=s2)(?P<y2>(?:19|20)\d\d))(?!\d)"
)
"""`1957-02-03`, `19570203`, `3.2.1957`."""


class Surrogates:
    """Of one secret. The same word gets the same surrogate, whatever its case; two words never get one.

    Where a small space makes two meet, who comes first decides: the same conversation always gives the same.
    """

    def __init__(self, secret: str, taken: Collection[str] = ()) -> None:
        self._secret = bytes.fromhex(secret)
        self._taken = taken
        """Words, in lower case, that no surrogate may be."""
        self._made: dict[str, str] = {}
        """Real -> surrogate, in lower case; of mixed ones and numbers as they are."""
        self._real: dict[str, str] = {}
        self._days = timedelta(days=int.from_bytes(self._bytes("days")[:4]) % 3000 + 400)

    def word(self, real: str) -> str:
        """Letters only: a made-up word of the same case and, from five letters on, length (twelve at most)."""
        low = real.lower()
        return _cased(self._once(low, self._spoken), real) if _cased(low, real) == real else self.mixed(real)

    def mixed(self, real: str) -> str:
        """Letters and digits: a letter for a letter, a digit for a digit."""
        return self._once(real, self._signs)

    def number(self, real: str) -> str:
        """Digits: as many, as many leading zeros."""
        rest = real.lstrip("0")
        if not rest:
            return real
        low, high = 10 ** (len(rest) - 1), 10 ** len(rest)
        if len(rest) > 3:
            return self._once(real, lambda one, n: real[: -len(rest)] + str(low + self._seed(one, n) % (high - low)))
        order = list(range(low, high))
        random.Random(self._seed(f"digits{len(rest)}", 0)).shuffle(order)
        return real[: -len(rest)] + str(order[int(rest) - low])

    def date(self, real: str) -> str:
        """Another day in the same way of writing: all of a run move by as many days."""
        found = DATE.fullmatch(real)
        if not found:
            return self.mixed(real)
        first = found["y"] is not None
        try:
            day = date(*(int(found[name]) for name in (("y", "m", "d") if first else ("y2", "m2", "d2"))))
        except ValueError:  # 31 February
            return self.mixed(real)
        day -= self._days
        year, month, number = f"{day.year:04d}", f"{day.month:02d}", f"{day.day:02d}"
        return found["s"].join((year, month, number)) if first else found["s2"].join((number, month, year))

    def real(self, surrogate: str) -> str | None:
        """What a word stands for, in the case of the surrogate; None for one that is no surrogate of ours."""
        if found := self._real.get(surrogate):
            return found
        base = self._real.get(surrogate.lower()) if surrogate.isalpha() else None
        return _cased(base, surrogate) if base else None

    def knows(self, real: str) -> bool:
        """Whether a word has a surrogate, in whatever case."""
        return real in self._made or real.lower() in self._made

    @property
    def words(self) -> Iterator[str]:
        """Those that have a surrogate, in lower case."""
        return (one for one in self._made if one.isalpha() and one.islower())

    def _once(self, real: str, make: object) -> str:
        if real not in self._made:
            for n in range(1000):
                made: str = make(real, n)  # type: ignore[operator]
                if made != real and made not in self._real and made.lower() not in self._taken:
                    break
            self._made[real] = made
            self._real[made] = real
        return self._made[real]

    def _spoken(self, real: str, n: int) -> str:
        draw = random.Random(self._seed(real, n))
        return "".join(draw.choice(_VOWELS if at % 2 else _CONSONANTS) for at in range(min(12, max(5, len(real)))))

    def _signs(self, real: str, n: int) -> str:
        draw = random.Random(self._seed(real, n))

        def other(sign: str) -> str:
            if sign.isdecimal():
                return str(draw.randrange(10))
            letter = chr(ord("a") + draw.randrange(26))
            return (letter.upper() if sign.isupper() else letter) if sign.isalpha() else sign

        return "".join(map(other, real))

    def _seed(self, what: str, n: int) -> int:
        return int.from_bytes(self._bytes(f"{n}:{what}"))

    def _bytes(self, what: str) -> bytes:
        return hmac.digest(self._secret, what.encode("utf-8", "replace"), "sha256")


def _cased(word: str, like: str) -> str:
    if like.isupper() and len(like) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word
