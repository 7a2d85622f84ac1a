"""The score in each subgroup, and the worst of them."""

from services.gateway.blocks import Section, Table, counted, number, section
from services.gateway.report.facts import Facts, Subgroup

TITLE = "Subgroups"
_CHANCE = (
    "The lowest of several groups is low by chance, too: compare intervals before names. Groups of fewer than 10 "
    "patients have no figures."
)


def subgroups(facts: Facts) -> Section | None:
    rows = tuple(
        (one.by, one.group, *_figures(one), str(one.cases or ""), str(one.patients or "fewer than 10"))
        for one in facts.details.subgroups
    )
    metric = facts.state.scored.metric if facts.state.scored else None
    head = ("by", "group", metric.name if metric else "", "95 % interval", "cases", "patients")
    return section(TITLE, Table(rows, head), _CHANCE) if rows else None


def worst(facts: Facts) -> str:
    """The group with the lowest figure, in a line; empty where no group has any."""
    told = [one for one in facts.details.subgroups if one.value is not None]
    if not told:
        return ""
    lowest = min(told, key=lambda one: one.value or 0.0)
    value, interval = _figures(lowest)
    best = max(one.value or 0.0 for one in told if one.by == lowest.by)
    others = f"; the best by {lowest.by} {number(best)}" if best != lowest.value else ""
    return f"{lowest.by} {lowest.group}: {value} ({interval}), {counted(lowest.patients or 0, 'patient')}{others}"


def _figures(one: Subgroup) -> tuple[str, str]:
    if one.value is None or one.low is None or one.high is None:
        return "-", "-"
    return number(one.value), f"{number(one.low)} to {number(one.high)}"
