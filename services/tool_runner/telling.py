"""What a finished training tells: its metrics.json, progress and worst cases, as text that a core reads at once.

All of it was written by code of a core: it is bounded and made plain here, and counts for nothing but advice.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from services.tool_runner.training import in_line

MOST = 1500
"""Characters, about."""
POINTS = 8
TOLD_IN_WORDS = ("cases", "confusion")
"""Entries of metrics.json that become words, and are not sent beside them."""
MEANT = {"dice_healthy": " (1 a case rightly left empty, which `dice` leaves out; patient by patient it counts)"}
"""Of a figure, what its name does not say."""
_CLASSES, _CASES, _WORDS = 8, 8, 160


def curve(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`metric` and `loss` at a few even places, with the best metric; empty without progress."""
    found: dict[str, Any] = {}
    for name in ("metric", "loss"):
        # The closing line repeats the figure of the chosen weights, which is no point of the curve.
        told = [float(line[name]) for line in lines if _number(line.get(name)) and line.get("text") != "done"]
        if told:
            places = {round(place * (len(told) - 1) / (POINTS - 1)) for place in range(POINTS)}
            found[name] = [round(told[place], 4) for place in sorted(places)]
        if told and name == "metric":
            found["best"] = round(max(told), 4)
    return found


def in_words(metrics: Mapping[str, Any], curve: Mapping[str, Any], changed: str) -> str:
    """The figures, the curve, errors by class or by case, and what differs from the training before."""
    parts = [figures(metrics), curve_line(curve), *confusion(metrics.get("confusion")), *cases(metrics.get("cases"))]
    parts += bounds(metrics.get("pieces_tried"))
    parts += [f"Changed since the last training: {in_line(changed, 300)}"] if changed else []
    return "\n".join(part for part in parts if part)[:MOST]


def figures(metrics: Mapping[str, Any]) -> str:
    """`auc_macro 0.812 ± 0.041 (23 patients), accuracy 0.7, 12 epochs in 54 s, weights of best_epoch 7.5`."""
    name, listed = str(metrics.get("metric_name") or "metric"), metrics.get("metrics")
    parts = [f"{in_line(name, 40)} {_shown(metrics.get('metric'))}{spread(metrics)}"]
    for key, value in list(listed.items())[:12] if isinstance(listed, dict) else []:
        if key != name and _number(value):
            parts.append(f"{in_line(key, 60)} {_shown(value)}{MEANT.get(key, '')}")
    epochs, seconds = metrics.get("epochs"), metrics.get("seconds")
    if _number(epochs) and _number(seconds):
        parts.append(f"{epochs:g} epochs in {seconds:.0f} s")
    if _number(best := metrics.get("best_epoch")):
        parts.append(f"weights of best_epoch {best:g}")
    mm3, sure = (metrics.get(f"min_component_{name}") or 0 for name in ("mm3", "score"))
    if _number(mm3) and _number(sure) and max(mm3, sure) > 0:
        parts.append(f"pieces below {_shown(mm3)} mm3 or probability {_shown(sure)} left out (not yet in the curve)")
    last = metrics.get("last_fit")
    if isinstance(last, dict) and _number(last.get("seconds")):
        parts.append(f"then {last['seconds']:.0f} s with the validation cases, too: these weights are delivered")
    return "Validation: " + ", ".join(parts)


def spread(metrics: Mapping[str, Any]) -> str:
    found, patients = metrics.get("spread"), metrics.get("patients")
    many = patients.get("val") if isinstance(patients, dict) else None
    by = f" ({many} patients)" if isinstance(many, int) else ""
    if isinstance(found, int | float) and found < 0.0005:
        return f"{by} (all alike: how far chance goes cannot be told from them)"
    return (f" ± {found:.3f}" if _number(found) else "") + by


def curve_line(found: Mapping[str, Any]) -> str:
    parts = []
    if found.get("metric"):
        parts.append(f"metric {' '.join(map(_shown, found['metric']))} (best {_shown(found['best'])})")
    if found.get("loss"):
        parts.append(f"loss {_shown(found['loss'][0])} to {_shown(found['loss'][-1])}")
    return "Curve: " + ", ".join(parts) if parts else ""


def bounds(found: Any) -> list[str]:
    """`{"mm3": {"0": 0.4, "3": 0.41}, ...}`: what leaving out smaller or less probable pieces came to."""
    lines = []
    for name, tried in found.items() if isinstance(found, dict) else ():
        figures = [value for value in tried.values() if _number(value)] if isinstance(tried, dict) else []
        if len(set(figures)) > 1:
            told = ", ".join(f"{in_line(bound, 10)} {_shown(value)}" for bound, value in list(tried.items())[:10])
            lines.append(f"Dice over all cases by the least {in_line(name, 20)} of a piece: {told}")
    return lines


def confusion(found: Any) -> list[str]:
    """`{"names": [...], "counts": [[...]]}`: rows are what is true, columns what was said."""
    names, counts = (found.get(key) for key in ("names", "counts")) if isinstance(found, dict) else (None, None)
    if not isinstance(names, list) or not isinstance(counts, list):
        return []
    rows = [row for row in counts if isinstance(row, list) and all(_number(count) for count in row)]
    short = [in_line(name, 24) for name in names[:_CLASSES]]
    lines = [f"Truth by row, answer by column ({', '.join(short)}):"]
    for name, row in zip(short, rows, strict=False):
        lines.append(f"  {name}: {' '.join(f'{count:g}' for count in row[:_CLASSES])}")
    return [*lines, f"  {len(names) - _CLASSES} more classes"] if len(names) > _CLASSES else lines


def cases(found: Any) -> list[str]:
    """`[{"id", "figure", ...}]`, worst first: a line with the figures of all, and what else is said of the worst."""
    listed = worst_first(found)
    if not listed:
        return []
    if listed[0]["figure"] == listed[-1]["figure"]:
        return [f"Each of the {len(listed)} cases has {_shown(listed[0]['figure'])}"]
    shown = [f"{in_line(one['id'], 40)} {_shown(one['figure'])}" for one in listed[:_CASES]]
    more = f", ... best {_shown(listed[-1]['figure'])}" if len(listed) > _CASES else ""
    lines = [f"Worst cases: {', '.join(shown)}{more}"]
    false = [one for one in listed if isinstance(one.get("false_parts"), int) and one["false_parts"] > 0]
    if false:
        parts = sum(one["false_parts"] for one in false)
        told = [_false(one) for one in sorted(false, key=lambda one: -_or_zero(one.get("false_mm3")))[:4]]
        lines.append(f"False parts: {parts} in {len(false)} of {len(listed)} cases; {'; '.join(told)}")
    for one in listed[:2]:
        if one.get("truth") is not None and one.get("answer") is not None:
            truth, answer = (in_line(one[key], _WORDS) for key in ("truth", "answer"))
            lines.append(f"  {in_line(one['id'], 40)}: true {truth!r}, said {answer!r}")
    return lines


def worst_first(found: Any) -> list[Mapping[str, Any]]:
    listed = found[:40] if isinstance(found, list) else []
    usable = [
        one for one in listed if isinstance(one, dict) and isinstance(one.get("id"), str) and _number(one.get("figure"))
    ]
    return sorted(usable, key=lambda one: one["figure"])


def _false(one: Mapping[str, Any]) -> str:
    size, score = one.get("false_mm3"), one.get("false_score")
    told = f"{in_line(one['id'], 40)} {one['false_parts']} parts"
    told += f", largest {size:.0f} mm3" if _number(size) else ""
    return told + (f" (score {score:.2f})" if _number(score) else "")


def _or_zero(value: Any) -> float:
    return float(value) if _number(value) else 0.0


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _shown(value: Any) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if _number(value) else "undefined"
