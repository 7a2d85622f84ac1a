"""A run's trace for a reader: a tree of hand-offs with turns and jobs below, and a table of who took how long."""

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from services.gateway.summary import duration
from services.gateway.trace import PERSON
from services.gateway.trace_model import CallTrace, JobTrace, Open, Share, Trace, TurnTrace, Work

_NUMBERS = ("turns", "actions", "tokens", "working", "waiting", "share")
_PROBLEM = 80


def render(trace: Trace) -> RenderableType:
    """For a terminal; `plain` is the same for a pipe."""
    tree = Tree(Text(_head(trace), style="bold"))
    for title, work in _nodes(trace):
        branch = tree.add(Text(title))
        for line, fine in _below(work):
            branch.add(Text(line, style="" if fine else "yellow"))
    table = Table(box=None, pad_edge=False)
    table.add_column("role")
    for name in _NUMBERS:
        table.add_column(name, justify="right")
    for share in trace.roles:
        table.add_row(share.role, *_figures(share))
    return Group(tree, Text(""), table)


def plain(trace: Trace) -> str:
    """Two blanks a level, whole lines, no colour."""
    lines = [_head(trace)]
    for title, work in _nodes(trace):
        lines += [f"  {title}", *(f"    {line}" for line, _ in _below(work))]
    lines += ["", _row("role", _NUMBERS), *(_row(share.role, _figures(share)) for share in trace.roles)]
    return "\n".join(lines)


def _head(trace: Trace) -> str:
    level = f", level {trace.level}" if trace.level != "none" else ""
    return f"{trace.run_id}: {trace.status}{level}, {_time(trace.seconds)}: {trace.requirement}"


def _nodes(trace: Trace) -> Iterable[tuple[str, Work]]:
    for one in trace.handoffs:
        after = f", after {_time(one.held)}" if one.held is not None else ""
        yield f"+{_time(one.at)}  {one.kind}: {one.sender} -> {one.recipient}{after}", one
    for work in trace.open:
        yield _open(work), work


def _open(work: Open) -> str:
    if work.held is None:
        return f"{work.role} was stopped"
    if work.role == PERSON:
        return f"waiting for a person, for {_time(work.held)}"
    return f"{work.role} has the run, for {_time(work.held)}"


def _below(work: Work) -> Iterable[tuple[str, bool]]:
    """Lines of turns and jobs in the order of their times, and whether all went well."""
    found = [(turn.at, line, fine) for turn in work.turns for line, fine in [_turn(turn)]]
    found += [(job.at, _job(job), job.outcome in ("ok", "running", "queued")) for job in work.jobs]
    for _, line, fine in sorted(found, key=lambda one: one[0]):
        yield line, fine


def _turn(turn: TurnTrace) -> tuple[str, bool]:
    calls = "; ".join(_call(call) for call in turn.calls) or "no call"
    return f"+{_time(turn.at)}  turn {turn.number}: {calls}", all(call.ok is not False for call in turn.calls)


def _call(call: CallTrace) -> str:
    # The calls beside an accepted submission leave no result in the transcript.
    words = [call.tool, *({True: ["ok"], False: ["refused"], None: []}[call.ok])]
    if call.seconds:
        words.append(_time(call.seconds))
    if call.isolation:
        words.append(call.isolation)
    if call.problem:
        text = call.problem
        words.append(f"[{text if len(text) <= _PROBLEM else text[: _PROBLEM - 1] + '…'}]")
    return " ".join(words)


def _job(job: JobTrace) -> str:
    words = [f"queued {_time(job.queued)}"]
    if job.attempts:
        words += [f"ran {_time(job.ran)}", f"{job.attempts} attempt{'' if job.attempts == 1 else 's'}"]
    words += [job.outcome, *([job.isolation] if job.isolation else [])]
    return f"+{_time(job.at)}  job {job.job}: {', '.join(words)}"


def _figures(share: Share) -> tuple[str, ...]:
    return (
        str(share.turns),
        str(share.actions),
        f"{'~' if share.estimated and share.tokens else ''}{share.tokens:,}",
        _time(share.working),
        _time(share.waiting),
        f"{share.share:.0%}",
    )


def _row(role: str, figures: Iterable[str]) -> str:
    return f"{role:<18}" + "".join(f"{figure:>14}" for figure in figures)


def _time(seconds: float) -> str:
    """Tenths below a minute: most of what is told here is short."""
    return f"{seconds:.1f} s" if seconds < 59.95 else duration(seconds)
