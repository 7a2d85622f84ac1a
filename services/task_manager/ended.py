"""What is told of a run once it is over: one span from its request to its end, and how long that took."""

from shared import telemetry
from shared.bus import Bus
from shared.bus.streams import EVENTS
from shared.contracts.state import RunState
from shared.telemetry import Attributes, Metrics, Name


async def tell_end(bus: Bus, state: RunState) -> None:
    """`state` is that of a run that has ended."""
    assert state.requested and state.finished
    end: Attributes = {
        Name.END: state.finished.end,
        Name.LEVEL: state.finished.level,
        Name.TASK: state.planned.plan.task if state.planned else "none",
        Name.CORE: telemetry.core_label(state.requested.core),
    }
    seconds = state.finished.at.timestamp() - state.first_at
    telemetry.record(Metrics.RUN, seconds, {name: end[name] for name in (Name.TASK, Name.END)})
    first = await bus.connection.after(EVENTS, f"evt.{state.run_id}.>", 0)
    spent: Attributes = {
        Name.CONVERSATION: state.run_id,
        Name.INPUT_TOKENS: state.spent.input_tokens,
        Name.OUTPUT_TOKENS: state.spent.output_tokens,
    }
    telemetry.run_span(first.headers if first else None, state.first_at, state.first_at + seconds, end | spent)
