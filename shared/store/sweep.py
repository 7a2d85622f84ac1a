"""Removing what nothing names: the store holds content, and only messages and manifests say whose it is."""

import json
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from pydantic import ValidationError

from shared.contracts.base import Ref
from shared.contracts.erasure import Amount
from shared.errors import NotFound
from shared.store.client import BUCKETS, THREADS, Store
from shared.store.trying import EMPTY_KEY

_LISTS = ("application/json", "application/x-ndjson")
"""Media types of the objects of ours that name others: manifests, case tables, splits, views, indices."""
_LARGEST = 1 << 30
"""Bytes of such an object; what is larger is a stranger's who calls it so."""
Place = tuple[str, str]
"""Bucket and key."""


def unnamed(store: Store, kept: Iterable[Ref]) -> dict[Place, int]:
    """Every object that cannot be reached from `kept`, with its bytes, but for empty ones; blocks.

    Raises ToolBroken where an object that names others cannot be read.
    """
    stay = _reached(store, kept)
    there = {(bucket, key): size for bucket in BUCKETS for key, size in store.listed(bucket)}
    return {place: size for place, size in there.items() if place not in stay and place[1] != EMPTY_KEY}


def shared(store: Store, gone: Iterable[Ref], lost: Collection[Place]) -> Amount:
    """What can be reached from `gone` and is not `lost`, since something else names it, too; blocks."""
    sizes = {place: ref.size for place, ref in _reached(store, gone).items()}
    stay = [size for place, size in sizes.items() if place not in lost]
    return Amount(count=len(stay), bytes=sum(stay))


def remove(store: Store, places: Collection[Place]) -> None:
    """Blocks. What was interrupted is finished by removing again what is then unnamed."""
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda place: store.remove(*place), places))


def references_in(content: bytes) -> Iterator[Ref]:
    """Every `Ref` that JSON, or JSON Lines, hold at any depth; none of what is neither."""
    waiting: list[Any] = []
    with suppress(ValueError):
        waiting = [json.loads(content)]
    if not waiting:
        with suppress(ValueError):
            waiting = [json.loads(line) for line in content.splitlines()]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
            if {"bucket", "key", "sha256", "size"} <= item.keys():
                with suppress(ValidationError):
                    yield Ref.model_validate(item)


def _reached(store: Store, roots: Iterable[Ref]) -> dict[Place, Ref]:
    """The objects named by `roots` and by what these name."""
    reached: dict[Place, Ref] = {}
    waiting = list(roots)
    while waiting:
        ref = waiting.pop()
        place = (ref.bucket, ref.key)
        if place in reached:
            continue
        reached[place] = ref
        if ref.media_type in _LISTS and ref.size <= _LARGEST:
            waiting += _named_by(store, ref)
    return reached


def _named_by(store: Store, ref: Ref) -> list[Ref]:
    try:
        return list(references_in(store.get_bytes(ref)))
    except NotFound:
        return []  # named, but removed by an earlier sweep: nothing below it can be wanted
