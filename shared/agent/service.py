"""An agent as a service: wake on events, work the order that is open, append the answer."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TYPE_CHECKING, Literal

from shared.agent.brief import make_brief, order_for
from shared.agent.desk import Desk
from shared.agent.loop import GaveUp, OutOfBudget, run_agent, spent_in
from shared.agent.role import Role
from shared.contracts.base import Event
from shared.contracts.runs import RoleFailed
from shared.contracts.state import RunState
from shared.errors import DataUnusable, M3Error, ReplayMismatch, ToolBroken, UserError
from shared.models import make_core

if TYPE_CHECKING:
    from shared.service import Context

log = logging.getLogger(__name__)


class AgentService:
    """Handles a role's events. Level-triggered: any event makes it look at what the run's state asks of the role."""

    def __init__(self, role: Role, context: Context) -> None:
        self.role = role
        self.bus = context.bus
        self.settings = context.settings
        self._busy: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def handle(self, event: Event) -> None:
        async with self._busy[event.run_id]:
            state = await self.bus.state(event.run_id)
            order = order_for(self.role.name, state)
            if order is not None:
                await self._work(order, state)

    async def _work(self, order: str, state: RunState) -> None:
        cards = tuple(await self.bus.cards()) if self.role.name == "task_manager" else ()
        desk = Desk(self.bus, self.role, make_brief(self.role.name, order, state, cards, self.settings.train_seconds))
        assert state.requested is not None
        try:
            accepted = await run_agent(desk, make_core(state.requested.core))
        except (OutOfBudget, GaveUp, ReplayMismatch, ToolBroken, UserError) as error:
            await self._fail(desk, order, error)
            return
        if accepted is None:
            return  # asleep until its job ends
        submission = self.role.submission(accepted.tool)
        assert submission is not None
        answer = submission.answer.model_validate(accepted.answer)
        state = await self.bus.state(desk.brief.run_id)
        event = submission.event(answer, accepted.facts, desk.brief, state, accepted.spent)
        await self.bus.append(event, unless=lambda now: order_for(self.role.name, now) != order)
        log.info("%s answered with %s", self.role.name, event.kind)

    async def _fail(self, desk: Desk, order: str, error: M3Error) -> None:
        log.error("%s failed: %s", self.role.name, error)
        end: Literal["out_of_budget", "failed_gate", "crashed"] = "crashed"
        if isinstance(error, OutOfBudget):
            end = "out_of_budget"
        elif isinstance(error, DataUnusable):
            end = "failed_gate"
        await self.bus.append(
            RoleFailed.make(
                run_id=desk.brief.run_id,
                sender=self.role.name,
                cause=order,
                end=end,
                gate="dataset_available" if end == "failed_gate" else None,
                reason=f"{self.role.name}: {error}",
                spent=spent_in(desk),
            ),
            unless=lambda now: not now.live,
        )

    async def dead(self, event: Event, error: BaseException) -> None:
        """What could not be handled after all deliveries ends the run instead of leaving it hanging."""
        await self.bus.append(
            RoleFailed.make(
                run_id=event.run_id,
                sender=self.role.name,
                cause=event,
                end="crashed",
                reason=f"{self.role.name} could not handle {event.kind}: {type(error).__name__}: {error}",
            ),
            unless=lambda now: not now.live,
        )


async def run_role(role: Role, context: Context) -> None:
    """Serve one role until the context is stopped."""
    service = AgentService(role, context)
    await context.bus.listen(
        role.name, service.handle, context.settings.concurrency, context.stop, on_dead=service.dead
    )
