"""What each service may say and hear on NATS: its own subjects, and no transcript or result of another role.

What it may say follows from the stages of a run (`shared.contracts.flow`). The embedded server's users are made from
these rights, and `python -m shared.bus --rights` prints them for another server's configuration. Who may read a stream
may read all of it, which is why transcripts and results have a stream a role. All services read EVENTS, whose facts
name a test sample where the scorer hands a dataset back; no core is shown these but that of the role that has to mend
it (`shared.agent.brief`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from shared.bus.connection import inbox_of
from shared.bus.streams import (
    CALLERS,
    CARDS,
    DESIRED,
    DURABLES,
    ERASABLE,
    ERASED,
    EVENTS,
    INTAKE,
    SECRETS,
    TOOLS,
    WEIGHTS,
    WORKSPACES,
    disclosed_subject,
    kv_stream,
    kv_subject,
    results_bucket,
    tool_subject,
    turn_subject,
    turns_stream,
)
from shared.bus.watching import SIZED
from shared.contracts.base import AGENTS, Service
from shared.contracts.flow import ASKS, GOES_ON, SAYS


@dataclass(frozen=True)
class Rights:
    """Subjects that a user may publish to and subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def rights(service: Service) -> Rights:
    own = [durable for durable in DURABLES if durable.service == service]
    says = ["fence.>", *(f"evt.*.{service}.{kind}.*" for kind in SAYS[service])]
    says += [tool_subject(kind, service, "*", "*") for kind in ASKS[service]]
    for durable in own:
        says += [
            f"$JS.API.CONSUMER.MSG.NEXT.{durable.stream}.{durable.name}",
            f"$JS.ACK.{durable.stream}.{durable.name}.>",
            f"dlq.{durable.stream}.{durable.name}.*",
        ]
    reads, hears = [EVENTS, kv_stream(ERASED)], [f"{inbox_of(service)}.>"]
    if service in CALLERS:
        reads.append(kv_stream(results_bucket(service)))
        says += [f"$JS.API.DIRECT.GET.{TOOLS}.{tool_subject(kind, service, '*', '*')}" for kind in ASKS[service]]
    if service in AGENTS:
        reads += [turns_stream(service), kv_stream(SECRETS)]
        says += [turn_subject("*", service), f"log.*.{service}"]
        says += [kv_subject(SECRETS, "*"), disclosed_subject("*", service)]
    if service in GOES_ON:
        reads.append(turns_stream(GOES_ON[service]))
    if service in ("module_architect", "model_trainer"):
        reads.append(kv_stream(WEIGHTS))
    if service == "task_manager":
        # It registers a card anew where the files have changed since they were looked at.
        reads.append(kv_stream(CARDS))
        says.append(kv_subject(CARDS, "*"))
    elif service == "data_engineer":
        # What was seen in the files stands with the card; the plan's copy has only what may be told behind the lock.
        reads.append(kv_stream(CARDS))
    elif service == "gateway":
        # It erases runs and datasets, and so finds what is theirs, and what others still name, in every stream.
        reads += [stream for stream in ERASABLE if stream not in reads]
        says += [kv_subject(bucket, "*") for bucket in (CARDS, DESIRED, ERASED, WEIGHTS)]
        says += [f"$JS.API.STREAM.MSG.DELETE.{stream}" for stream in ERASABLE]
        # It tells how the bus is doing.
        says += [f"$JS.API.STREAM.INFO.{stream}" for stream in SIZED]
        says += [f"$JS.API.CONSUMER.INFO.{durable.stream}.{durable.name}" for durable in DURABLES]
        hears += ["evt.>", "log.>"]
    elif service == "tool_runner":
        results = [results_bucket(caller) for caller in CALLERS]
        reads += map(kv_stream, (*results, CARDS, WORKSPACES, DESIRED, INTAKE, WEIGHTS))
        says += [
            "log.*.*",
            kv_subject(WORKSPACES, ">"),
            kv_subject(INTAKE, "*"),
            *(kv_subject(bucket, "*") for bucket in results),
        ]
        says += [f"{inbox_of(caller)}.reply.*" for caller in CALLERS]
        hears.append(kv_subject(DESIRED, "*"))
    says += [f"$JS.API.STREAM.MSG.GET.{stream}" for stream in reads]
    return Rights(tuple(says), tuple(hears))


def users(operator: tuple[str, str], passwords: Mapping[Service, str]) -> str:
    """The `authorization` block of a nats-server: the operator, who may do everything, and a user a service."""
    name, password = operator
    entries = [{"user": name, "password": password}]
    for service, secret in passwords.items():
        found = rights(service)
        allowed = {"publish": {"allow": found.publish}, "subscribe": {"allow": found.subscribe}}
        entries.append({"user": service, "password": secret, "permissions": allowed})  # type: ignore[dict-item]
    # The server's configuration language is a superset of JSON.
    return f"authorization {json.dumps({'users': entries}, indent=1)}\n"
