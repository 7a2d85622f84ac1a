"""Everything that must exist on the server, as data, and the provisioner that brings it about."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import get_args

from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    RetentionPolicy,
    StorageType,
    StreamConfig,
)
from nats.js.errors import APIError

from shared.bus.connection import Connection
from shared.contracts.base import AGENTS, Event, Service
from shared.contracts.flow import STAGES, answered_by
from shared.contracts.questions import QuestionAnswered, QuestionAsked
from shared.contracts.tools import ToolClass
from shared.errors import ServerUnfit, Unavailable

EVENTS, LOG, TOOLS, DLQ, ADVISORIES, FENCE = "EVENTS", "LOG", "TOOLS", "DLQ", "ADVISORIES", "FENCE"
CARDS, WORKSPACES, DESIRED, INTAKE, ERASED = "CARDS", "WORKSPACES", "DESIRED", "INTAKE", "ERASED"
WEIGHTS, SECRETS = "WEIGHTS", "SECRETS"


def turns_stream(role: str) -> str:
    """A role's transcripts have a stream of their own: who may read a stream may read all of it."""
    return f"TURNS_{role}"


def turn_subject(run_id: str, role: str) -> str:
    return f"turns.{role}.{run_id}"


def disclosed_subject(run_id: str, role: str) -> str:
    """In LOG: what left for language models outside of the hospital."""
    return f"log.{run_id}.disclosed.{role}"


def results_bucket(asker: str) -> str:
    """Results tell what a role saw, so each has a bucket of its own."""
    return f"RESULTS_{asker}"


CALLERS = (*AGENTS, "gateway", "tool_runner")
"""Who makes calls: the roles, the gateway (profiles, pictures of a report), and a runner that shares an intake out."""
BUCKETS = (*map(results_bucket, CALLERS), CARDS, WORKSPACES, DESIRED, INTAKE, ERASED, WEIGHTS, SECRETS)

DAY = 86_400.0
_KEPT = dict.fromkeys((*map(results_bucket, CALLERS), DESIRED), 30 * DAY)
"""Transcripts hold the results for good."""
_STREAM_EXISTS, _SINGLE, _TOO_FEW = 10058, 10074, 10005
"""Error codes of JetStream."""


@dataclass(frozen=True)
class Durable:
    """A pull consumer that replicas of one service share. Its filters must not overlap."""

    stream: str
    name: str
    service: Service
    filters: tuple[str, ...]


def _filters(consumer: str) -> tuple[str, ...]:
    """What wakes it: facts that begin its stages, whatever is addressed to it, and answers where it asks persons, since
    after an approval whoever comes next goes on."""
    own = [stage for stage in STAGES if stage.name == consumer]
    begins = {stage.wakes: answered_by(stage.wakes) for stage in own if stage.wakes}
    if Event in begins:
        return ("evt.>",)
    subjects = [f"evt.*.{before.service}.{kind.__name__}.all" for kind, before in begins.items() if before]
    answers = [f"evt.*.*.{QuestionAnswered.__name__}.all" for stage in own if QuestionAsked in stage.also]
    return (*subjects, f"evt.*.*.*.{consumer}", *answers)


_WOKEN = {stage.name: stage.service for stage in STAGES if stage.wakes}

DURABLES: tuple[Durable, ...] = (
    *(Durable(EVENTS, name, service, _filters(name)) for name, service in _WOKEN.items()),
    *(Durable(TOOLS, kind, "tool_runner", (f"tool.{kind}.>",)) for kind in get_args(ToolClass)),
)


def tool_subject(tool_class: str, asker: str, run_id: str, call_id: str) -> str:
    """Says who asks, so that the server can refuse a call in another's name."""
    return f"tool.{tool_class}.{asker}.{run_id}.{call_id}"


def kv_stream(bucket: str) -> str:
    """The stream behind a key-value bucket."""
    return f"KV_{bucket}"


def kv_subject(bucket: str, key: str) -> str:
    return f"$KV.{bucket}.{key}"


ERASABLE = (
    EVENTS, *map(turns_stream, AGENTS), LOG, TOOLS, DLQ, *(kv_stream(bucket) for bucket in BUCKETS if bucket != ERASED),
)  # fmt: skip
"""Streams whose messages belong to a run or a dataset."""


def stream_configs(replicas: int = 1) -> list[StreamConfig]:
    def stream(name: str, subjects: list[str], **fields: object) -> StreamConfig:
        defaults: dict[str, object] = {
            "retention": RetentionPolicy.LIMITS,
            "storage": StorageType.FILE,
            "num_replicas": replicas,
            "duplicate_window": 600.0,
        }
        return StreamConfig(name=name, subjects=subjects, **(defaults | fields))

    advisories = ["MAX_DELIVERIES", "MSG_TERMINATED"]
    return [
        # A message can be deleted, so that a run can be erased; only the gateway's user may (`shared.bus.rights`).
        stream(EVENTS, ["evt.>"], deny_purge=True),
        *(stream(turns_stream(role), [turn_subject("*", role)]) for role in AGENTS),
        stream(LOG, ["log.>"], max_msgs_per_subject=1000, max_age=90 * DAY),
        # A full queue refuses new work; discarding the oldest would lose calls that nobody has read.
        # Each call has a subject, by which its caller can look whether it is still there (`allow_direct`).
        stream(
            TOOLS,
            [tool_subject("*", "*", "*", "*")],
            retention=RetentionPolicy.WORK_QUEUE,
            discard=DiscardPolicy.NEW,
            max_bytes=1 << 30,
            allow_direct=True,
        ),
        stream(DLQ, ["dlq.>"], max_bytes=1 << 30),
        stream(ADVISORIES, [f"$JS.EVENT.ADVISORY.CONSUMER.{kind}.>" for kind in advisories], max_age=7 * DAY),
        # Everybody may write there, so it must not fill the server's memory.
        stream(
            FENCE,
            ["fence.>"],
            storage=StorageType.MEMORY,
            max_age=60.0,
            duplicate_window=60.0,
            max_bytes=1 << 20,
            max_msgs=4096,
            max_msg_size=1024,
        ),
        *(
            # The layout that the key-value clients of all languages expect.
            stream(
                kv_stream(bucket),
                [f"$KV.{bucket}.>"],
                max_msgs_per_subject=1,
                discard=DiscardPolicy.NEW,
                allow_rollup_hdrs=True,
                allow_direct=True,
                duplicate_window=120.0,
                max_age=_KEPT.get(bucket, 0.0),
            )
            for bucket in BUCKETS
        ),
    ]


def consumer_config(durable: Durable, ack_wait: float) -> ConsumerConfig:
    """No `backoff`, since it would override ack_wait.

    The server never gives up by itself (`max_deliver`), since what it gives up on stays in the stream unseen; the bus
    counts and moves a message to the DLQ.
    """
    one = len(durable.filters) == 1
    return ConsumerConfig(
        durable_name=durable.name,
        deliver_policy=DeliverPolicy.ALL,
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=ack_wait,
        max_deliver=-1,
        filter_subject=durable.filters[0] if one else None,
        filter_subjects=None if one else list(durable.filters),
        max_ack_pending=10_000,
    )


async def provision(connection: Connection, *, ack_wait: float, replicas: int = 1) -> None:
    """Create what is missing and bring what exists into line. Idempotent; several may run it at once.

    Raises ServerUnfit when the server cannot hold it, naming what.
    """
    for config in stream_configs(replicas):
        await _make(connection, f"stream {config.name}", replicas, partial(_stream, connection.js, config))
    for durable in DURABLES:
        ask = partial(connection.js.add_consumer, durable.stream, consumer_config(durable, ack_wait))
        await _make(connection, f"consumer {durable.name} on {durable.stream}", replicas, ask)


async def _make(connection: Connection, what: str, replicas: int, ask: Callable[[], Awaitable[object]]) -> None:
    try:
        await connection.insist(ask, f"the {what}", 15.0)
    except (APIError, Unavailable) as error:
        code = getattr(error.__cause__ if isinstance(error, Unavailable) else error, "err_code", None)
        if code in (_SINGLE, _TOO_FEW):
            there = "is a single server" if code == _SINGLE else "has fewer servers just now"
            raise ServerUnfit(
                f"NATS at {connection.url} {there}, so it cannot keep {replicas} copies of the {what}: set "
                "M3_NATS_REPLICAS to as many servers as there are (1 or 3), or M3_NATS_URL to a cluster of three"
            ) from error
        version = connection.client.connected_server_version
        raise ServerUnfit(
            f"the NATS server ({version}) refused the {what}: {error}; 2.11 or newer is needed"
        ) from error


async def _stream(js: JetStreamContext, config: StreamConfig) -> None:
    try:
        await js.add_stream(config)
    except APIError as error:
        if error.err_code != _STREAM_EXISTS:
            raise
        # The server never takes a prohibition back; in a stream that has it nothing can be erased.
        config.deny_delete = (await js.stream_info(str(config.name))).config.deny_delete
        await js.update_stream(config)
