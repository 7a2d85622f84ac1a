"""Every name under which work is told: attributes, span names, metrics. A test refuses others.

The GenAI and messaging conventions are still in development, so we pin what we write: semantic-conventions-genai as of
2026-11 and core semantic conventions 1.42. What has no convention is called `m3builder.*`. Values are ids of ours,
kinds and counts, never a name or a text.
"""

from dataclasses import dataclass
from typing import Literal


class Name:
    """Attributes of spans and metrics."""

    OPERATION = "gen_ai.operation.name"
    AGENT = "gen_ai.agent.name"
    WORKFLOW = "gen_ai.workflow.name"
    CONVERSATION = "gen_ai.conversation.id"
    """The run's id. Of metrics only those of runs that go on have it."""
    PROVIDER = "gen_ai.provider.name"
    MODEL = "gen_ai.request.model"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    """Includes cached tokens."""
    CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
    TOKEN_TYPE = "gen_ai.token.type"
    TOOL = "gen_ai.tool.name"
    TOOL_CALL = "gen_ai.tool.call.id"
    ERROR = "error.type"
    MESSAGING_SYSTEM = "messaging.system"
    MESSAGING_OPERATION = "messaging.operation.type"
    MESSAGING_VERB = "messaging.operation.name"
    DESTINATION = "messaging.destination.template"
    MESSAGE_ID = "messaging.message.id"
    MESSAGE_SIZE = "messaging.message.body.size"
    CONSUMER_GROUP = "messaging.consumer.group.name"
    STREAM_SEQUENCE = "nats.stream_seq"
    DELIVERIES = "nats.num_delivered"
    GPU = "hw.id"
    OUTCOME = "m3builder.outcome"
    REDELIVERY = "m3builder.redelivery"
    """Of a message that came before: `handed_back` by this process, or `lost` with whoever had it."""
    TURN = "m3builder.turn"
    JOB = "m3builder.job.kind"
    JOB_ID = "m3builder.job.id"
    ATTEMPT = "m3builder.job.attempt"
    TASK = "m3builder.task"
    CORE = "m3builder.core"
    END = "m3builder.end"
    LEVEL = "m3builder.level"
    METRIC = "m3builder.metric"
    STAGE = "m3builder.stage"
    STATUS = "m3builder.status"
    ISOLATION = "m3builder.isolation"
    STREAM = "m3builder.stream"
    BUCKET = "m3builder.bucket"


SPANS = (
    "publish", "receive", "process", "attempt_lost", "invoke_agent", "chat", "execute_tool", "job", "lock", "score",
    "invoke_workflow",
)  # fmt: skip
"""First words of span names."""


@dataclass(frozen=True)
class Metric:
    """What is counted or measured; `bounds` are those of a histogram's buckets, in its unit."""

    name: str
    kind: Literal["counter", "level", "histogram", "gauge"]
    """A level goes up and down; a gauge is looked at when it is sent."""
    unit: str
    text: str
    bounds: tuple[float, ...] = ()


_WAIT = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 300, 1800, 7200)
_WORK = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_LONG = (10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 86400)
_TOKENS = tuple(4.0**power for power in range(14))


class Metrics:
    """Handoffs take milliseconds, tool calls seconds, jobs and runs minutes to hours."""

    # Of every service, about its own work.
    UPTIME = Metric("process.uptime", "gauge", "s", "Since the service was started.")
    WAIT = Metric("m3builder.queue.wait", "histogram", "s", "From publish to first delivery.", _WAIT)
    HANDLE = Metric("m3builder.handle.duration", "histogram", "s", "A delivery until it is settled.", _WORK + _LONG[8:])
    HANDLING = Metric("m3builder.handling", "level", "{message}", "Messages at work now.")
    AGAIN = Metric("m3builder.redeliveries", "counter", "{message}", "Deliveries of what came before.")
    # Of the agents.
    TURNS = Metric("m3builder.turns", "counter", "{turn}", "Turns that were decided and recorded.")
    TOKENS = Metric("gen_ai.client.token.usage", "histogram", "{token}", "Tokens of a turn.", _TOKENS)
    COST = Metric("m3builder.cost", "counter", "{usd}", "What turns cost, as far as there is a price.")
    CHAT = Metric("gen_ai.client.operation.duration", "histogram", "s", "A model's reply.", _WORK)
    # Of runners.
    TOOL = Metric("gen_ai.execute_tool.duration", "histogram", "s", "A tool call at the runner.", _WORK)
    JOB = Metric("m3builder.job.duration", "histogram", "s", "One attempt at a job.", _LONG)
    SANDBOX = Metric("m3builder.sandbox", "gauge", "{runner}", "1 with the isolation that a runner found.")
    GPU_BUSY = Metric("hw.gpu.utilization", "gauge", "1", "Share of the time in which a GPU computed.")
    GPU_USED = Metric("hw.gpu.memory.usage", "gauge", "By", "Memory of a GPU that is taken.")
    GPU_SIZE = Metric("hw.gpu.memory.limit", "gauge", "By", "Memory that a GPU has.")
    STORED = Metric("m3builder.store.size", "gauge", "By", "Objects of a bucket, looked at now and then.")
    # Of the keeper, at a run's end.
    RUN = Metric("m3builder.run.duration", "histogram", "s", "From request to end.", _LONG)
    # Of the gateway, about the whole system: with several gateways each tells the same.
    RUNS = Metric("m3builder.runs", "gauge", "{run}", "Runs that ended, by end, level, task and core.")
    SCORE = Metric("m3builder.score", "gauge", "1", "Mean headline figure of the last scored runs.")
    ACTIVE = Metric("m3builder.runs.active", "gauge", "{run}", "Runs that have not ended.")
    SILENCE = Metric("m3builder.run.silence", "gauge", "s", "Since an active run's last event, turn or progress.")
    PROGRESS = Metric("m3builder.job.progress", "gauge", "1", "Share of its epochs that a running job has done.")
    PENDING = Metric("m3builder.queue.depth", "gauge", "{message}", "Messages that nobody has taken.")
    TAKEN = Metric("m3builder.queue.taken", "gauge", "{message}", "Messages delivered and not settled.")
    IDLE = Metric("m3builder.queue.idle", "gauge", "{worker}", "Workers that wait for a message.")
    DEAD = Metric("m3builder.dlq.depth", "gauge", "{message}", "Messages that were given up, by consumer.")
    STREAM_SIZE = Metric("m3builder.stream.size", "gauge", "By", "What a stream holds.")


METRICS: tuple[Metric, ...] = tuple(found for found in vars(Metrics).values() if isinstance(found, Metric))
