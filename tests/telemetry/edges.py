"""Who calls whom in a run: what the table of stages allows and asks for, and what a trace shows."""

from fnmatch import fnmatchcase
from itertools import product

from shared.bus.streams import DURABLES, EVENTS
from shared.contracts.base import SERVICES
from shared.contracts.flow import ASKS, KEEPER, SAYS, STAGES, answered_by
from tests.telemetry.receiver import Receiver, Seen, orphans

Edge = tuple[str, str, str]
"""Who says it, kind of fact or class of work, the consumer that hears it."""


def allowed() -> set[Edge]:
    """Every edge that the server lets through."""
    heard: set[Edge] = {(asker, kind, kind) for asker, kinds in ASKS.items() for kind in kinds}
    for one in (durable for durable in DURABLES if durable.stream == EVENTS):
        filters = [pattern.replace(">", "*") for pattern in one.filters]
        for sender, to in product(SERVICES, ("all", *SERVICES)):
            for kind in SAYS[sender]:
                if any(fnmatchcase(f"evt.r.{sender}.{kind}.{to}", pattern) for pattern in filters):
                    heard.add((sender, kind, one.name))
    return heard


def needed() -> set[Edge]:
    """The edges of every run that goes from its request to its end: each stage is begun by the one before it, asks for
    what it may, and the keeper hears each answer and the end."""
    edges: set[Edge] = set()
    for stage in STAGES:
        before = answered_by(stage.wakes) if stage.wakes else None
        if stage.wakes and before:
            edges.add((before.service, stage.wakes.__name__, stage.name))
        if stage.answer:
            edges.add((stage.service, stage.answer.__name__, KEEPER.name))
        if stage.area or stage.service == "scorer":
            # Tries of the Module Architect are its choice.
            kinds = stage.asks[:1] if stage.service == "module_architect" else stage.asks
            edges |= {(stage.service, kind, kind) for kind in kinds}
    finished = {("tool_runner", "JobFinished", asker) for asker in ("scorer", "model_trainer")}
    return edges | finished


def seen(spans: list[Seen]) -> set[Edge]:
    """The edges between a publish and the delivery that follows it."""
    by_id = {span.id: span for span in spans}
    edges = set()
    for span in spans:
        sent = by_id.get(span.parent)
        if span.name.startswith("receive ") and sent and sent.name.startswith("publish "):
            tokens = sent.name.split(" ")[1].split(".")
            what = tokens[1] if tokens[0] == "tool" else tokens[3]
            edges.add((sent.service, what, span.attributes["messaging.consumer.group.name"]))
    return edges


def check_edges(receiver: Receiver | None, run_id: str) -> None:
    """Assert that the trace of a whole run shows every edge that it needs, and none that is not allowed."""
    assert receiver is not None
    receiver.until(lambda: needed() <= seen(receiver.of_run(run_id)) and not orphans(receiver.of_run(run_id)))
    assert seen(receiver.of_run(run_id)) <= allowed()
