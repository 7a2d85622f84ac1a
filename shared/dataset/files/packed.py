"""Long sequences in little memory: of a million sorted paths, or of numbers, blocks of 500 are kept compressed.

Names(["a.png", "b.png", ...]), Numbers([5, 7, ...])    sequences that grow at their end
Picked(items, places)    some of a sequence, by their indices
"""

import zlib
from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar, overload

_BLOCK = 500
_OPEN = 16
"""Blocks that are held unpacked, the last ones that were asked for."""
Item = TypeVar("Item")


class _Indexed(Sequence[Item]):
    """What a sequence needs beside `_at` and its length."""

    @abstractmethod
    def _at(self, place: int) -> Item:
        """Of an index from 0."""

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        if isinstance(place, slice):
            return [self._at(at) for at in range(len(self))[place]]
        return self._at(range(len(self))[place])


class _Packed(_Indexed[Item], ABC):
    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._packed: list[bytes] = []
        self._firsts: list[Item] = []
        """Of each packed block."""
        self._last: list[Item] = []
        self._open: dict[int, list[Item]] = {}
        self.extend(items)

    def append(self, item: Item) -> None:
        self._last.append(item)
        self._pack()

    def extend(self, items: Iterable[Item]) -> None:
        rest = iter(items)
        while part := list(islice(rest, _BLOCK - len(self._last))):
            self._last += part
            self._pack()

    def _pack(self) -> None:
        if len(self._last) == _BLOCK:
            self._firsts.append(self._last[0])
            self._packed.append(zlib.compress(self._bytes(self._last), 1))
            self._last = []

    def __len__(self) -> int:
        return len(self._packed) * _BLOCK + len(self._last)

    def __iter__(self) -> Iterator[Item]:
        for packed in self._packed:
            yield from self._items(zlib.decompress(packed))
        yield from self._last

    def parts(self) -> Iterator[bytes]:
        """All items in bytes, a block at a time; sequences of one kind and of equal items have equal parts."""
        yield from map(zlib.decompress, self._packed)
        yield self._bytes(self._last)

    def pick(self, places: Iterable[int]) -> Iterator[Item]:
        """Items at indices from 0; fastest where these ascend."""
        held, block = -1, self._last
        for place in places:
            number = place // _BLOCK
            if number != held:
                held, block = number, self._block(number)
            yield block[place - number * _BLOCK]

    def _at(self, place: int) -> Item:
        number, place = divmod(place, _BLOCK)
        return self._block(number)[place]

    def _block(self, number: int) -> list[Item]:
        if number == len(self._packed):
            return self._last
        if number not in self._open:
            if len(self._open) == _OPEN:
                del self._open[next(iter(self._open))]
            self._open[number] = self._items(zlib.decompress(self._packed[number]))
        return self._open[number]

    @abstractmethod
    def _bytes(self, items: list[Item]) -> bytes: ...

    @abstractmethod
    def _items(self, packed: bytes) -> list[Item]: ...


class Names(_Packed[str]):
    """Texts in ascending order, none of them with a zero byte. About five bytes for a path that counts on."""

    def place(self, name: str) -> int | None:
        """Index of a name; None where it is not there."""
        number = bisect_right(self._firsts, name) - 1
        if self._last and name >= self._last[0]:
            number = len(self._packed)
        if number < 0:
            return None
        block = self._block(number)
        at = bisect_left(block, name)
        return number * _BLOCK + at if at < len(block) and block[at] == name else None

    def _bytes(self, items: list[str]) -> bytes:
        return "\0".join(items).encode()

    def _items(self, packed: bytes) -> list[str]:
        return packed.decode().split("\0")


class Numbers(_Packed[int]):
    """Whole numbers of 64 bits in any order."""

    def _bytes(self, items: list[int]) -> bytes:
        plain = array("q", items).tobytes()
        # All first bytes, all second bytes and so on: the upper ones are alike.
        return b"".join(plain[at::8] for at in range(8))

    def _items(self, packed: bytes) -> list[int]:
        plain = bytearray(len(packed))
        count = len(packed) // 8
        for at in range(8):
            plain[at::8] = packed[at * count : (at + 1) * count]
        return array("q", bytes(plain)).tolist()


class Picked(_Indexed[Item]):
    """Items of a sequence at some indices of it."""

    def __init__(self, items: _Packed[Item], places: Sequence[int]) -> None:
        self._of, self._places = items, places

    def __len__(self) -> int:
        return len(self._places)

    def _at(self, place: int) -> Item:
        return self._of[self._places[place]]

    def __iter__(self) -> Iterator[Item]:
        return self._of.pick(self._places)
