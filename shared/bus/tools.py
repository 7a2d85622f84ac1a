"""Tool calls and jobs: a work queue to the runners, and results that are recorded once."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Literal

import pydantic
from nats.aio.msg import Msg
from pydantic import Field, TypeAdapter

from shared.bus.connection import Connection
from shared.bus.consume import RETRY_DELAYS, STOP_SECONDS, Consumer, Delivery, Policy, Unreadable
from shared.bus.kv import kv_create, kv_get
from shared.bus.log import RunLog
from shared.bus.streams import TOOLS, results_bucket, tool_subject
from shared.contracts.base import MAX_MESSAGE_BYTES, Contract, RunId, Service, Token
from shared.contracts.tools import ToolCall, ToolClass, ToolResult
from shared.contracts.training import JobSpec
from shared.errors import HandedBack, NotFound, ToolBroken, Unavailable
from shared.settings import Settings

log = logging.getLogger(__name__)

OFFERED = 2
"""How often a call is left to others by runners that do not have its workspace; then whoever gets it brings it here."""
POLL_SECONDS = 2.0
"""How often a waiting caller looks for a result whose announcement it may have missed."""


class CallMessage(Contract):
    type: Literal["call"] = "call"
    call: ToolCall


class JobMessage(Contract):
    type: Literal["job"] = "job"
    job: JobSpec


_messages: TypeAdapter[CallMessage | JobMessage] = TypeAdapter(
    Annotated[CallMessage | JobMessage, Field(discriminator="type")]
)


class Tools(RunLog):
    def __init__(
        self, connection: Connection, settings: Settings, retry_delays: Sequence[float] = RETRY_DELAYS
    ) -> None:
        super().__init__(connection, settings, retry_delays)
        self._awaited: dict[str, list[asyncio.Future[ToolResult]]] = {}
        self._subscribing: asyncio.Task[object] | None = None

    async def call(self, tool_class: ToolClass, call: ToolCall, timeout: float) -> ToolResult:
        """Have a runner carry the call out and return its result; a call that has a result already returns that.

        `reply` is set here, whatever the call says. Raises ToolBroken when there is no result after `timeout`
        seconds; the call stays in the queue, and calling again with the same id goes on waiting for it.
        """
        if found := await self.result(call.role, call.call_id):
            return found
        await self._subscribe()
        call = call.model_copy(update={"reply": f"{self.connection.inbox}.reply.{call.call_id}"})
        answer: asyncio.Future[ToolResult] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(call.call_id, []).append(answer)
        try:
            return await self._wait(tool_class, call, answer, time.monotonic() + timeout, timeout)
        finally:
            self._awaited[call.call_id].remove(answer)
            if not self._awaited[call.call_id]:
                del self._awaited[call.call_id]

    async def result(self, role: str, call_id: str) -> ToolResult | None:
        """The recorded result of a role's call, or None while there is none."""
        found = await kv_get(self.connection, results_bucket(role), call_id)
        return ToolResult.model_validate_json(found) if found else None

    async def record_result(self, result: ToolResult, call: ToolCall) -> ToolResult:
        """Record the result and announce it to the caller. The first result of a call wins; the winner is returned."""
        bucket = results_bucket(call.role)
        if not await kv_create(self.connection, bucket, call.call_id, result.model_dump_json().encode()):
            result = await self.result(call.role, call.call_id) or result
        await self._announce(result, call.reply)
        return result

    async def submit_job(self, tool_class: ToolClass, job: JobSpec) -> None:
        """Queue a job and return at once. Submitting a job_id again does nothing while the first is known."""
        await self._enqueue(tool_class, JobMessage(job=job), job.job_id)

    async def serve_tools(
        self,
        tool_class: ToolClass,
        on_call: Callable[[ToolCall], Awaitable[ToolResult]],
        on_job: Callable[[JobSpec, int], Awaitable[None]],
        concurrency: int,
        stop: asyncio.Event,
        *,
        once: float | None = None,
        stop_seconds: float = STOP_SECONDS,
        at_home: Callable[[ToolCall], Awaitable[bool]] | None = None,
        on_dead: Callable[[ToolCall | JobSpec, BaseException], Awaitable[None]] | None = None,
    ) -> None:
        """Carry out calls and jobs of a class until `stop`; with `once` one, or none where none comes for so many
        seconds. A handler that is at work when `stop` is set gets `stop_seconds`, and may raise HandedBack. A call for
        which `at_home(call)` is false is offered to other replicas first.

        `on_call` may run twice for one call after a crash; the first recorded result counts. `on_job(job, attempt)`
        appends JobFinished itself; it is not called for a job that has one. Messages are kept alive while handlers run.
        A call whose handler raised five times gets a failed result with data {"error": "ToolBroken"}, so that nobody
        waits for ever; a job goes to the DLQ after `on_dead`. Messages of the class `train` are never given up.
        """

        async def handle(delivery: Delivery) -> None:
            message = _decode(delivery)
            if isinstance(message, CallMessage):
                if at_home and delivery.attempt <= OFFERED and not await at_home(message.call):
                    raise HandedBack("it is not at home here")
                await self._serve_call(message.call, on_call)
            elif not await self._job_is_done(message.job):
                await on_job(message.job, delivery.attempt)

        async def dead(delivery: Delivery, error: BaseException) -> None:
            if isinstance(error, Unreadable):
                return
            message = _decode(delivery)
            if isinstance(message, CallMessage):
                await self.record_result(_broken(message.call, error), message.call)
            if on_dead:
                await on_dead(message.call if isinstance(message, CallMessage) else message.job, error)

        policy = Policy(handle, dead, self.retry_delays, gives_up=tool_class != "train", stop_seconds=stop_seconds)
        consumer = Consumer(self.connection, TOOLS, tool_class, policy, self.settings.ack_wait_seconds)
        await consumer.run(concurrency, stop, once)

    async def _serve_call(self, call: ToolCall, on_call: Callable[[ToolCall], Awaitable[ToolResult]]) -> None:
        if found := await self.result(call.role, call.call_id):
            await self._announce(found, call.reply)
        else:
            await self.record_result(await on_call(call), call)

    async def _job_is_done(self, job: JobSpec) -> bool:
        try:
            return job.job_id in (await self.state(job.run_id)).jobs_done
        except NotFound:
            return False

    async def _wait(
        self,
        tool_class: ToolClass,
        call: ToolCall,
        answer: asyncio.Future[ToolResult],
        deadline: float,
        timeout: float,
    ) -> ToolResult:
        message_id, repeats, missing = call.call_id, 0, 0
        subject = await self._enqueue(tool_class, CallMessage(call=call), message_id)
        while (left := deadline - time.monotonic()) > 0:
            try:
                return await asyncio.wait_for(asyncio.shield(answer), min(POLL_SECONDS, left))
            except TimeoutError:
                pass
            try:
                if found := await self.result(call.role, call.call_id):
                    return found
                # Neither queued nor answered: the publish was taken for a duplicate of a message that is gone.
                missing = 0 if await self.connection.newest(TOOLS, subject) else missing + 1
            except Unavailable as error:
                log.warning("%s; a call waits for the server", error)
            if missing >= 2:
                repeats += 1
                log.warning("a %s call was in no queue and had no result; queued again", tool_class)
                await self._enqueue(tool_class, CallMessage(call=call), f"{message_id}.{repeats}")
                missing = 0
        raise ToolBroken(f"no tool_runner of class {tool_class} answered {call.tool} within {timeout:.0f} s")

    async def _enqueue(self, tool_class: ToolClass, message: CallMessage | JobMessage, message_id: str) -> str:
        """Returns the subject under which it is queued."""
        data = message.model_dump_json().encode()
        if len(data) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a {message.type} of {len(data)} bytes; put the payload into the store")
        asker, run_id, own_id = _asked(message)
        subject = tool_subject(tool_class, asker, run_id, own_id)
        template = tool_subject(tool_class, asker, "{run}", "{id}")
        await self.connection.publish(subject, data, message_id=message_id, template=template)
        return subject

    async def _announce(self, result: ToolResult, reply: str) -> None:
        await self.connection.announce(reply, result.model_dump_json().encode())

    async def _subscribe(self) -> None:
        # One subscription for all calls of this process; it is in force before the first call is published.
        if self._subscribing is None:
            client = self.connection.client
            self._subscribing = asyncio.ensure_future(
                client.subscribe(f"{self.connection.inbox}.reply.*", cb=self._on_reply)
            )
        await asyncio.shield(self._subscribing)

    async def _on_reply(self, message: Msg) -> None:
        waiting = self._awaited.get(message.subject.rsplit(".", 1)[-1], [])
        for answer in waiting:
            if not answer.done():
                answer.set_result(ToolResult.model_validate_json(message.data))


def _decode(delivery: Delivery) -> CallMessage | JobMessage:
    try:
        message = _messages.validate_json(delivery.data)
    except pydantic.ValidationError as error:
        raise Unreadable(f"{error.error_count()} problems, first: {error.errors()[0]['msg']}") from error
    # The server checked who may publish on this subject; what the payload says of itself counts for nothing.
    if delivery.subject.split(".")[2:] != list(_asked(message)):
        raise Unreadable(f"a {message.type} that says it comes from somebody else")
    return message


def _asked(message: CallMessage | JobMessage) -> tuple[Service, RunId, Token]:
    """Who asks, for which run, under which id."""
    if isinstance(message, CallMessage):
        return message.call.role, message.call.run_id, message.call.call_id
    return message.job.asked_by, message.job.run_id, message.job.job_id


def _broken(call: ToolCall, error: BaseException) -> ToolResult:
    return ToolResult(
        call_id=call.call_id,
        tool=call.tool,
        ok=False,
        summary=f"The runner could not carry this out, although it tried several times: {error}"[:2000],
        data={"error": "ToolBroken"},
    )
