"""The trainer's search: changes that the template offers, and weights of the shelf, trained beside the module as it is
for a short time and compared on the validation part."""

import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from pydantic import JsonValue

from shared.agent.brief import Brief
from shared.agent.calls import call
from shared.agent.tries import figure
from shared.contracts.starting import Try, TryConfigs
from shared.contracts.transcript import Call, Observation
from shared.contracts.weights import Fit, Offered

Config = Mapping[str, Any]
Changes = dict[str, JsonValue]
FILE = "/workspace/search.yaml"
LEAST_SECONDS = 1800.0
"""Of a training: in less, tries are shorter than 90 s, and short ones were no gain (`bench.search`). Whoever asks for a
run may say otherwise."""
PART = 0.4
"""Of the time, that the search gets; what its winner used of it is not lost, since that try is gone on with."""
MOST = 0.8
"""Of the time, whatever was asked for."""
ROUNDS = 2
"""Each gets the same time; the better half of the first goes on into the next, with twice the seconds."""
WIDTH, TRY_SECONDS = 4, 30.0
"""Tries of the first round at most, and the least of each: few of them long enough to show what a full training would,
which favours what starts fast the less."""
SURE = 1.5
"""Standard errors by which a try has to be ahead of the module as it is, patient by patient."""
PLAIN = "as-it-is"


@dataclass(frozen=True)
class Found:
    """What the search came to: nothing where there was none."""

    changes: Changes = field(default_factory=dict)
    job: str = ""
    """Name of the try that is gone on with."""
    seconds: float = 0.0
    """What it used."""
    notes: str = ""


@dataclass(frozen=True)
class Judged:
    value: float
    spread: float | None
    ahead: tuple[float, float] | None = None
    """Of the module as it is, on the same patients: mean and standard error."""

    def beats(self, plain: "Judged") -> bool:
        """By more than chance among so few patients may give; where that is not known, never."""
        return self.ahead is not None and self.value > plain.value and self.ahead[0] > SURE * self.ahead[1]


def search(brief: Brief, config: Config, offered: str) -> Generator[tuple[Call, ...], Observation, Found]:
    """Successive halving over `alternatives`, where there is time for them; the module as it is always stays in.

    A try that fails says nothing for its change. Where the module itself fails, mending it comes first.
    """
    seconds = seconds_for(brief)
    first = min(WIDTH, int(seconds / ROUNDS / TRY_SECONDS))
    seed = _changes(config, {"set": {"training.seed": brief.requested.seed}}, {})
    tried = list(alternatives(brief, config, offered).items())[: max(0, first - 1)]
    left = {PLAIN: seed} | {name: seed | changes for name, changes in tried}
    if len(left) < 2:
        return Found()
    used, latest, judged, told = 0.0, dict.fromkeys(left, ""), dict[str, Judged](), []
    for number in range(1, ROUNDS + 1):
        each = int(seconds / ROUNDS / len(left))
        tries = {name: _try(name, number, change, latest[name]) for name, change in left.items()}
        ended = yield (call(TryConfigs(tries=tuple(tries.values()), seconds=each)),)
        used += each * len(left) if ended.event else 0.0
        figures = judged_of(ended)
        judged = {name: figures[one.name] for name, one in tries.items() if one.name in figures}
        latest |= {name: tries[name].name for name in judged}
        told.append(", ".join(f"{name} {_shown(judged.get(name))}" for name in left) + f" after {each} s")
        if PLAIN not in judged:
            return Found(seconds=used, notes=f"compared: {'; then '.join(told)}; the module itself has no figure")
        better = sorted((name for name in judged if name != PLAIN), key=lambda name: -judged[name].value)
        left = {PLAIN: left[PLAIN]} | {name: left[name] for name in better[: (len(left) - 1) // 2 or 1]}
        if len(left) < 2:
            break
    best = max(judged, key=lambda name: judged[name].value)
    chosen = best if judged[best].beats(judged[PLAIN]) else PLAIN
    why = f"{chosen} is taken" if chosen != PLAIN else "nothing is ahead by more than chance, and nothing is changed"
    notes = f"validation figures: {'; then '.join(told)}; {why}"
    return Found(left.get(chosen, {}), latest[chosen], used, notes)


def seconds_for(brief: Brief) -> float:
    """Of the training's seconds, what the search may take."""
    if brief.search_seconds is not None:
        return min(brief.search_seconds, MOST * brief.train_seconds)
    return PART * brief.train_seconds if brief.train_seconds >= LEAST_SECONDS else 0.0


def alternatives(brief: Brief, config: Config, offered: str) -> dict[str, Changes]:
    """Name -> changes of keys that the configuration has, most promising first: weights that fit, then what the
    template's search.yaml offers. What changes nothing is none."""
    found = {"weights": weights(brief, config)}
    settled = brief.assembled.config if brief.assembled else {}
    for name, one in _parsed(offered).items():
        if isinstance(one, dict) and re.fullmatch(r"[A-Za-z0-9_-]{1,36}", str(name)) and name not in (PLAIN, "weights"):
            found[name] = _changes(config, one, settled)
    return {name: changes for name, changes in found.items() if changes}


def weights(brief: Brief, config: Config) -> Changes:
    """What the configuration needs to begin with those weights of the shelf that fit best: the template's own network
    before another one, the smaller before the larger."""
    model = config.get("model")
    if not isinstance(model, dict) or "weights" not in model or brief.locked is None:
        return {}
    dimensions = brief.locked.facts.dimensions

    def order(found: tuple[Offered, Fit]) -> tuple[bool, int]:
        own = (found[1].backbone, found[1].width) == (model.get("backbone"), model.get("width"))
        return not own, found[0].parameters

    fitting = [(one, fit) for one in brief.weights for fit in one.fits[:1] if fit.dimensions == dimensions]
    if not fitting:
        return {}
    best, fit = min(fitting, key=order)
    return {"model.backbone": fit.backbone, "model.width": fit.width, "model.weights": best.path}


def _changes(config: Config, one: Mapping[str, Any], settled: Mapping[str, JsonValue]) -> Changes:
    """Of an entry of search.yaml; nothing where it does not fit the configuration. `settled`: what became of `auto`."""

    def now(key: str) -> Any:
        there = _at(config, key)
        return settled.get(key, there) if there == "auto" else there

    sets, times, where = (part if isinstance(part := one.get(key), dict) else {} for key in ("set", "times", "where"))
    if any(_at(config, key) not in (value if isinstance(value, list) else [value]) for key, value in where.items()):
        return {}
    wanted = dict(sets) | {key: _times(now(key), factor) for key, factor in times.items()}
    if any(value is None or _at(config, key) is _ABSENT for key, value in wanted.items()):
        return {}
    return {key: value for key, value in wanted.items() if value not in (_at(config, key), now(key))}


def _times(value: object, factor: object) -> JsonValue:
    """A number, or the edges of a shape in multiples of eight, short ones as they are; None for what is neither."""
    if not isinstance(factor, int | float) or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return max(1, round(value * factor))
    if isinstance(value, float):
        return value * factor
    if isinstance(value, list) and value and all(isinstance(edge, int) for edge in value):
        return [max(16, round(edge * factor / 8) * 8) if edge > 16 else edge for edge in value]
    return None


_ABSENT = object()


def _at(config: Config, key: str) -> Any:
    inside: Any = config
    for part in str(key).split("."):
        inside = inside.get(part, _ABSENT) if isinstance(inside, Mapping) else _ABSENT
    return inside


def _parsed(text: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}


def _try(name: str, number: int, changes: Changes, before: str) -> Try:
    return Try(name=f"{name}-{number}", continues=before) if before else Try(name=f"{name}-{number}", changes=changes)


def judged_of(ended: Observation) -> dict[str, Judged]:
    """Name of a try -> how it did, of those that have a figure."""
    event: Mapping[str, Any] = ended.event or {}
    found = {}
    for job in event.get("jobs", ()):
        if (value := figure(job)) is not None:
            spread, paired = job["metrics"].get("spread"), job["metrics"].get("ahead")
            found[str(job["tried"]["name"])] = Judged(
                value,
                spread if isinstance(spread, float | int) else None,
                (float(paired["mean"]), float(paired["error"])) if isinstance(paired, dict) else None,
            )
    return found


def _shown(one: Judged | None) -> str:
    if one is None:
        return "no figure"
    paired = f" ({one.ahead[0]:+.3f} ± {one.ahead[1]:.3f} by patient)" if one.ahead else ""
    return f"{one.value:.3f}" + (f" ± {one.spread:.3f}" if one.spread is not None else "") + paired
