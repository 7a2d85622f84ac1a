"""Results as the paper's Tables 1, 2 and 3, and a list of what was not useful."""

from collections.abc import Iterable, Sequence
from statistics import fmean, median

from scipy.stats import binomtest

from m3bench.results import UNSERVED, Result
from m3bench.tasks import tasks
from shared.contracts.base import AGENTS, TaskKind

KINDS: dict[TaskKind, str] = {
    "organ_segmentation": "Seg.", "anomaly_detection": "Det.", "diagnosis": "Diag.", "report_generation": "Gen.",
}  # fmt: skip
HEAD = (
    "Figures of the built-in expert on made-up replicas; the paper's are of language models on real data, so the two "
    "are not comparable."
)


def told(results: Sequence[Result]) -> str:
    """All tables as text."""
    served = [one for one in results if one.kind]
    parts = [table_1(served), table_2(served), table_3(served), below_useful(served)]
    if rest := [one for one in results if one.setting.task.startswith(UNSERVED)]:
        parts.append(of_unserved(rest))
    if any(one.setting.core == "playbook" and not one.setting.real for one in served):
        parts.insert(0, HEAD)
    return "\n\n".join(part for part in parts if part)


def share(found: Iterable[bool]) -> str:
    """Share in per cent with its Wilson interval of 95 %: `80 % [49, 94]`."""
    listed = list(found)
    if not listed:
        return "-"
    low, high = binomtest(sum(listed), len(listed)).proportion_ci(method="wilson")
    return f"{100 * sum(listed) / len(listed):.0f} % [{100 * low:.0f}, {100 * high:.0f}]"


def table_1(results: Sequence[Result]) -> str:
    """Completion by task and core: runs that ran, were valid, were useful, of all."""
    systems = list(dict.fromkeys(map(system_of, results)))
    order = list(tasks())
    names = sorted({one.setting.task for one in results}, key=order.index)
    rows = []
    for name in names:
        cells = []
        for system in systems:
            of = [one for one in results if one.setting.task == name and system_of(one) == system]
            counts = "/".join(str(sum(getattr(one, level) for one in of)) for level in ("ran", "valid", "useful"))
            cells.append(f"{counts} of {len(of)}" if of else "-")
        rows.append([KINDS[tasks()[name].kind], name, *cells])
    for level in ("ran", "valid", "useful"):
        shares = [share(getattr(one, level) for one in results if system_of(one) == system) for system in systems]
        rows.append(["", level, *shares])
    return _table("Table 1. Runs that ran / were valid / were useful", ["", "task", *systems], rows)


def table_2(results: Sequence[Result]) -> str:
    """Completion and effort by kind of task, for each core and each system with something switched off."""
    rows = []
    for system in dict.fromkeys(map(system_of, results)):
        of = [one for one in results if system_of(one) == system]
        by_kind = [[one for one in of if one.kind == kind] for kind in KINDS]
        rows.append(
            [system]
            + [f"{sum(one.useful for one in some)}({len(some)})" for some in by_kind]
            + [share(one.useful for one in of)]
            + [f"{fmean(x.actions for x in some):.1f}({fmean(x.iterations for x in some):.1f})" if some else "-(-)"
               for some in by_kind]
            + [f"{median(one.turns for one in of):g}", f"{fmean(one.tokens for one in of) / 1000:.0f}k"]
        )  # fmt: skip
    head = ["system", *KINDS.values(), "useful", *(f"act(it) {kind}" for kind in KINDS.values()), "turns", "tokens"]
    return _table("Table 2. Useful runs (of all), and average actions (iterations)", head, rows)


def table_3(results: Sequence[Result]) -> str:
    """Roles: runs in which each did its part, and its average actions, iterations and tokens."""
    parts = []
    for system in dict.fromkeys(map(system_of, results)):
        rows = []
        for kind, label in KINDS.items():
            of = [one for one in results if one.kind == kind and system_of(one) == system]
            if not of:
                continue
            row = [label]
            for role in AGENTS:
                some = [one.parts[role] for one in of if role in one.parts]
                row.append(f"{sum(part.done for part in some)}/{len(of)}")
                if some:
                    row += [
                        f"{fmean(part.actions for part in some):.1f}",
                        f"{fmean(part.iterations for part in some):.1f}",
                    ]
                    row.append(f"{fmean(part.tokens for part in some) / 1000:.1f}k")
                else:
                    row += ["-"] * 3
            rows.append(row)
        head = ["", *(f"{role.split('_')[1][:4]} {what}" for role in AGENTS for what in ("run", "act", "iter", "tkn"))]
        parts.append(_table(f"Table 3. Roles: {system}", head, rows))
    return "\n\n".join(parts)


def below_useful(results: Sequence[Result]) -> str:
    """Each run that was not useful, with its reason."""
    lines = []
    for one in results:
        if not one.useful:
            head = f"{one.setting.task} round {one.setting.round} {system_of(one)}"
            lines.append(f"{head}: {one.end}, {one.level}, {score(one)}; {why(one)}")
    return "\n".join(["Not useful:", *lines]) if lines else ""


def line(result: Result) -> str:
    """A run that has just ended."""
    setting = result.setting
    bar = f", floor {result.floor:g}" if result.floor is not None else ""
    head = f"{setting.task:14} {setting.round} {system_of(result):20} {result.end:12} {result.level:7}"
    took = f"{result.turns} turns, {result.seconds:.0f} s {'' if result.useful else why(result)}"
    return f"{head} {score(result)}{bar}; {took}".rstrip()


def of_unserved(results: Sequence[Result]) -> str:
    rows = [
        [one.setting.core, "right" if one.right else "WRONG", one.end, one.dataset or "-", one.request]
        for one in results
    ]
    title = f"Requests that no dataset serves: {share(one.right for one in results)} asked or said so"
    return _table(title, ["core", "", "end", "dataset", "request"], rows)


def score(result: Result) -> str:
    if result.value is None:
        return "no score"
    return f"{result.metric} {result.value:.3f} [{result.low:.3f}, {result.high:.3f}]"


def why(result: Result) -> str:
    gates = f"failed: {', '.join(result.failed_gates)}" if result.failed_gates else ""
    few = f"{result.patients} test patients" if result.patients else ""
    wrong = "" if result.right else f"took {result.dataset or 'no dataset'}"
    return "; ".join(part for part in (wrong, result.reason[:200], gates, few) if part)


def system_of(result: Result) -> str:
    """The core, and what was switched off."""
    return " ".join([result.setting.core, *(f"w/o {part}" for part in result.setting.without)])


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in [head, *rows]]  # fmt: skip
    return "\n".join([title, *lines])
