"""What turns cost, by role and model."""

from typing import TYPE_CHECKING

from shared.telemetry.export import Attributes, record
from shared.telemetry.names import Metrics, Name
from shared.telemetry.spans import core_of

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from shared.contracts.base import Spent


def used(turn: "Span", agent: str, core: str, spent: "Spent") -> None:
    """Tell what a turn took, in its span and in the metrics."""
    tokens = {"input": spent.input_tokens, "output": spent.output_tokens}
    turn.set_attribute(Name.INPUT_TOKENS, spent.input_tokens)
    turn.set_attribute(Name.CACHED_TOKENS, spent.cached_tokens)
    turn.set_attribute(Name.OUTPUT_TOKENS, spent.output_tokens)
    mine: Attributes = {Name.AGENT: agent, **core_of(core)}
    record(Metrics.TURNS, 1, mine)
    for kind, many in tokens.items():
        if many:
            record(Metrics.TOKENS, many, mine | {Name.OPERATION: "chat", Name.TOKEN_TYPE: kind})
    record(Metrics.COST, spent.usd, mine)


def core_label(core: str) -> str:
    """The cores of a run as one label."""
    return "scripted" if "scripted:" in core else core
