"""Results as the paper's Tables 1, 2 and 3, and a list of what was not useful.

`useful` is the scorer's word: valid, and better than all controls by the interval of so few patients. `completed` is
the paper's: a valid model whose figure is in the benchmark's acceptable range.
"""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, median

from scipy.stats import binomtest

from m3bench.results import LACKING, UNSERVED, Part, Result
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
    parts = [table_1(served), table_2(served), table_3(served), asked_for(served), below_useful(served)]
    for kind, title in NOT_SERVED.items():
        if rest := [one for one in results if one.setting.task.startswith(kind)]:
            parts.append(of_not_served(title, rest))
    if any(one.setting.core == "playbook" and not one.setting.real for one in served):
        parts.insert(0, HEAD)
    return "\n\n".join(part for part in parts if part)


PAPER = "the paper's, Claude 3.7 Sonnet"
PAPER_2 = ["4(6)", "7(8)", "8(8)", "4(6)", "82%", "34.5(1.8)", "25.3(2.4)", "35.0(1.9)", "32.0(2.3)", "-", "225-402k"]
PAPER_3 = (
    "Seg. 6/6 1.3 1.0 4.3k 5/6 10.2 1.3 72k 5/6 10.5 2.3 74k 4/6 10.7 3.3 115k",
    "Det. 8/8 2.0 1.0 4.8k 8/8 10.0 1.4 92k 7/8 10.6 2.1 61k 7/8 9.3 2.1 67k",
    "Diag. 8/8 2.0 1.0 4.4k 8/8 8.9 1.4 116k 7/8 11.3 2.0 84k 8/8 9.3 2.0 198k",
    "Gen. 6/6 2.0 1.0 4.2k 6/6 8.7 1.3 66k 5/6 10.8 2.5 91k 5/6 11.2 2.2 70k",
)
"""Rows of its Tables 2 and 3 (arXiv 2502.20301), on real data."""
NOT_SERVED = {
    UNSERVED: "Requests that no dataset serves",
    LACKING: "Requests whose dataset lacks what it is asked for (labels, masks, reports, a second class)",
}
LEVELS = ("ran", "valid", "useful", "completed")


def share(found: Iterable[bool]) -> str:
    """Share in per cent with its Wilson interval of 95 %: `80 % [49, 94]`."""
    listed = list(found)
    if not listed:
        return "-"
    low, high = binomtest(sum(listed), len(listed)).proportion_ci(method="wilson")
    return f"{100 * sum(listed) / len(listed):.0f} % [{100 * low:.0f}, {100 * high:.0f}]"


def table_1(results: Sequence[Result]) -> str:
    """Completion by task and core: runs that ran, were valid, were useful, were in the acceptable range, of all."""
    named = systems_of(results)
    systems = list(dict.fromkeys(named(one) for one in results))
    order = list(tasks())
    names = sorted({one.setting.task for one in results}, key=order.index)
    rows = []
    for name in names:
        cells = []
        for system in systems:
            of = [one for one in results if one.setting.task == name and named(one) == system]
            counts = "/".join(str(sum(getattr(one, level) for one in of)) for level in LEVELS)
            cells.append(f"{counts} of {len(of)}" if of else "-")
        rows.append([KINDS[tasks()[name].kind], name, *cells])
    for level in LEVELS:
        shares = [share(getattr(one, level) for one in results if named(one) == system) for system in systems]
        rows.append(["", level, *shares])
    title = "Table 1. Runs that ran / were valid / were useful / were in the acceptable range"
    return _table(title, ["", "task", *systems], rows)


def table_2(results: Sequence[Result]) -> str:
    """Completion and effort by kind of task, for each core and each system with something switched off."""
    rows, named = [], systems_of(results)
    for system in dict.fromkeys(named(one) for one in results):
        of = [one for one in results if named(one) == system]
        told = [one for one in of if one.turns]  # what other systems did is not always known
        by_kind = [[one for one in of if one.kind == kind] for kind in KINDS]
        efforts = [[one for one in some if one.parts] for some in by_kind]
        rows.append(
            [system]
            + [f"{sum(one.completed for one in some)}({len(some)})" for some in by_kind]
            + [share(one.completed for one in of)]
            + [f"{fmean(x.actions for x in some):.1f}({fmean(x.iterations for x in some):.1f})" if some else "-(-)"
               for some in efforts]
            + [f"{median(one.turns for one in told):g}" if told else "-", tokens(of)]
        )  # fmt: skip
    if rows:
        rows.append([PAPER, *PAPER_2])
    head = ["system", *KINDS.values(), "completed", *(f"act(it) {kind}" for kind in KINDS.values()), "turns", "tokens"]
    return _table("Table 2. Completed runs (of all), and average actions (iterations) of all runs", head, rows)


def table_3(results: Sequence[Result]) -> str:
    """Roles: runs in which each did its part, and its average actions, iterations and tokens."""
    parts, named = [], systems_of(results)
    for system in dict.fromkeys(named(one) for one in results):
        rows = []
        for kind, label in KINDS.items():
            of = [one for one in results if one.kind == kind and named(one) == system]
            if not any(role in one.parts for role in AGENTS for one in of):
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
        rows += [[f"{line.split()[0]} {PAPER}", *line.split()[1:]] for line in PAPER_3 if rows]
        head = ["", *(f"{role.split('_')[1][:4]} {what}" for role in AGENTS for what in ("run", "act", "iter", "tkn"))]
        if rows:
            parts.append(_table(f"Table 3. Roles: {system}", head, rows))
    return "\n\n".join(parts)


def asked_for(results: Sequence[Result]) -> str:
    """Runs by whether the dataset was chosen unaided, and those that asked a person anything."""
    chose = [one for one in results if "task_manager" in one.parts]
    counts = {
        "chosen": sum(one.parts["task_manager"].done for one in chose),
        "asked": sum(any(each.startswith("dataset:") for each in one.asked) for one in chose),
        "wrong": sum(not one.right for one in chose),
    }
    if not chose:
        return ""
    lines = [f"Datasets: {', '.join(f'{many} {what}' for what, many in counts.items())}, of {len(chose)} runs"]
    for one in results:
        if other := [each for each in one.asked if not each.startswith("dataset:")]:
            lines.append(
                f"{one.setting.task} round {one.setting.round} {system_of(one)} asked {'; '.join(other)}"[:200]
            )
    return "\n".join(lines)


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
    return f"{head} {score(result)}{bar}{' completed' * result.completed}; {took}".rstrip()


def of_not_served(title: str, results: Sequence[Result]) -> str:
    rows = [
        [
            one.setting.core,
            "right" if one.right else "WRONG",
            one.end,
            one.dataset or "-",
            one.request,
            one.reason[:100],
        ]
        for one in results
    ]
    title = f"{title}: {share(one.right for one in results)} asked or said so"
    return _table(title, ["core", "", "end", "dataset", "request", "reason"], rows)


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


def systems_of(results: Sequence[Result]) -> Callable[[Result], str]:
    """Names systems with what differs among the results beside core and switches: unlike experiments are not pooled."""

    def words(result: Result) -> list[str]:
        setting = result.setting
        return ["real" if setting.real else setting.size, setting.layout, f"{setting.train_seconds:g} s"]

    differs = [len(set(column)) > 1 for column in zip(*map(words, results), strict=True)]

    def named(result: Result) -> str:
        more = [word for word, shown in zip(words(result), differs, strict=True) if shown]
        return " ".join([system_of(result), *([f"({', '.join(more)})"] if more else [])])

    return named


def tokens(results: Iterable[Result]) -> str:
    """Mean of a run, where it is known, with a mark where it is an estimate."""
    parts: list[list[Part]] = [[*one.parts.values()] for one in results if one.parts]
    # An estimate of nothing is none.
    parts = [some for some in parts if all(part.tokens or not part.estimated for part in some)]
    if not parts:
        return "-"
    mean = fmean(sum(part.tokens for part in one) for one in parts) / 1000
    return f"{mean:.0f}k{' estimated' * any(part.estimated for one in parts for part in one)}"


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
             for row in [head, *rows]]  # fmt: skip
    return "\n".join([title, *lines])
