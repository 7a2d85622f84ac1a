"""How requests find their dataset by the cards' words alone: python -m bench.requests [SET ...] [--list]

`right`: the card that is meant is taken. `asked`: a person is asked where the words would have settled it. `open`: a
person is asked where no card serves the request, or two serve it alike. `wrong`: any other card is taken.
`limits read`: of requests whose dataset's classes or structures are known, those that limit themselves as is meant.
`--list` prints what went wrong, and what was asked without need.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from m3bench import cards as bench_cards
from services.task_manager.choice import choose
from services.task_manager.facets import read_facets
from shared.contracts.base import SEGMENTATIONS
from shared.contracts.cards import dataset_id, parse_card
from shared.contracts.runs import DataCard
from shared.dataset.tables.narrowing import narrowed

FAMILIES = Path(__file__).parents[1] / "tests" / "families"


@dataclass(frozen=True)
class RequestSet:
    """Requests with the card that each means, and the cards to choose from."""

    requests: Sequence[tuple[str, str | list[str] | None]]
    """A list of cards, or None, where a person has to say."""
    cards: tuple[DataCard, ...]
    limits: Sequence[tuple[str, bool, Sequence[str], Sequence[str]]] = ()
    """Request, whether it wants masks, classes or structures of its dataset, and those that it limits itself to."""

    def judged(self) -> Iterator[tuple[str, str, str]]:
        """Request, how it went, and the card taken or the reason why none was."""
        for text, meant in self.requests:
            found, _, why = choose(text, self.cards, {})
            settled = isinstance(meant, str)
            if found is None:
                yield text, "asked" if settled else "open", why or "none fits"
            else:
                right = settled and found.dataset_id == dataset_id(str(meant))
                yield text, "right" if right else "wrong", found.name

    def misread(self) -> list[str]:
        """Requests whose limits are read otherwise than they are meant."""
        return [text for text, masks, names, meant in self.limits if set(narrowed(text, names, masks)) != set(meant)]

    def outcomes(self) -> Counter[str]:
        return Counter(how for _, how, _ in self.judged())


def sets() -> dict[str, RequestSet]:
    """`held-first` are the 1st, 3rd, 5th ... of the held-out requests; `held-second`, for a last figure, the others.

    `held-third` are requests and cards of another hand, `fourth` and `fifth` requests of two more for the 73 cards.
    """
    asked = json.loads(files("m3bench").joinpath("requests.json").read_text(encoding="utf-8"))
    bench = [(one["text"], task["card"]) for task in asked["tasks"].values() for one in task["requests"]]
    few = tuple(parse_card(path.read_text(encoding="utf-8"))[0] for path in bench_cards.paths())
    many = few + tuple(parse_card(path.read_text(encoding="utf-8"))[0] for path in bench_cards.distractors())
    return {
        "benchmark, 14 cards": RequestSet(bench, few),
        "benchmark, 73 cards": RequestSet(bench, many),
        "others": _read("requests.json", slice(None)),
        "held-first": _read("requests_held.json", slice(0, None, 2)),
        "held-second": _read("requests_held.json", slice(1, None, 2)),
        "held-third": _read("requests_held_third.json", slice(None)),
        **{f"{name}, 73 cards": _of_bench(f"requests_{name}.json", many) for name in ("fourth", "fifth", "sixth")},
    }


def _read(name: str, part: slice) -> RequestSet:
    found: dict[str, Any] = json.loads((FAMILIES / name).read_text(encoding="utf-8"))
    cards = tuple(parse_card(json.dumps(one), path="/x")[0] for one in found["cards"])
    names = {one["dataset name"]: one["names"] for one in found["cards"] if "names" in one}
    requests = found["requests"][part]
    known = [(one["text"], names[one["card"]], one) for one in requests if str(one["card"]) in names]
    return RequestSet(
        [(one["text"], one["card"]) for one in requests],
        cards,
        [
            (text, frozenset() < read_facets(text).tasks <= SEGMENTATIONS, held, one.get("only", held))
            for text, held, one in known
        ],
    )


def _of_bench(name: str, cards: tuple[DataCard, ...]) -> RequestSet:
    """Requests that name cards by the stems of their files; limits stand apart, each with names of its own."""
    found: dict[str, Any] = json.loads((FAMILIES / name).read_text(encoding="utf-8"))
    paths = [*bench_cards.paths(), *bench_cards.distractors()]
    names = {path.stem: card.dataset_id for path, card in zip(paths, cards, strict=True)}
    return RequestSet(
        [(one["text"], names.get(str(one["card"]), one["card"])) for one in found["requests"]],
        cards,
        [
            (one["text"], one["task"] == "segmentation", one["names"], one["meant"] or one["names"])
            for one in found["limits"]
        ],
    )


def main() -> None:
    listed = "--list" in sys.argv
    wanted = [word for word in sys.argv[1:] if word != "--list"]
    print(f"{'requests':<22} {'number':>6} {'right':>6} {'asked':>6} {'open':>6} {'wrong':>6}   limits read")
    for name, one in sets().items():
        if wanted and not any(name.startswith(word) for word in wanted):
            continue
        judged = list(one.judged())
        count = Counter(how for _, how, _ in judged)
        figures = " ".join(f"{count[how]:>6}" for how in ("right", "asked", "open", "wrong"))
        limits = f"   {len(one.limits) - len(one.misread())} of {len(one.limits)}" if one.limits else ""
        print(f"{name:<22} {len(judged):>6} {figures}{limits}")
        if listed:
            for text, how, why in judged:
                if how in ("asked", "wrong"):
                    print(f"    {how}: {text}\n        {why}")
            for text in one.misread():
                print(f"    limits misread: {text}")


if __name__ == "__main__":
    main()
