"""An agent as a service: wake on events, work the order that is open, append the answer."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from shared.agent.asking import ask_for_budget
from shared.agent.brief import make_brief
from shared.agent.budget import OutOfBudget
from shared.agent.cards import current_cards
from shared.agent.desk import Desk, now
from shared.agent.loop import GaveUp, run_agent
from shared.agent.role import Role
from shared.agent.solo import alone
from shared.contracts.base import Event
from shared.contracts.flow import stage_of
from shared.contracts.questions import END, QuestionAsked
from shared.contracts.runs import DataCard, RoleFailed
from shared.contracts.state import RunState, order_for, out_of_turn
from shared.contracts.transcript import Waiting
from shared.contracts.weights import Offered
from shared.disclosure.public import public_words
from shared.errors import EndpointAway, GateFailed, M3Error, ReplayMismatch, ToolBroken, UserError
from shared.models import cores, make_core
from shared.models.endpoint import EndpointCore

if TYPE_CHECKING:
    from shared.service import Context

log = logging.getLogger(__name__)


class AgentService:
    """Handles a role's events. Level-triggered: any event makes it look at what the run's state asks of the role."""

    def __init__(self, role: Role, context: Context, team: Sequence[Role] = ()) -> None:
        """`team`: all four roles, for runs without collaboration."""
        self.role = role
        self.team = team
        self.bus = context.bus
        self.settings = context.settings
        self._busy: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waits: dict[str, Waiting] = {}

    async def handle(self, event: Event) -> None:
        async with self._busy[event.run_id]:
            state = await self.bus.state(event.run_id)
            order = order_for(self.role.name, state)
            if order is not None:
                await self._work(order, state)
            self._waits.pop(event.run_id, None)

    async def _cards(self, state: RunState) -> tuple[DataCard, ...]:
        if self.role.name == "task_manager":
            return await current_cards(self.bus, self.settings.profile_seconds)
        if self.role.name == "data_engineer" and state.planned:
            # The plan's copy of the card has only what the Task Manager was told.
            card = await self.bus.card(state.planned.plan.dataset_id)
            return (card,) if card else ()
        return ()

    async def _work(self, order: str, state: RunState) -> None:
        assert state.requested is not None
        name, role = self.role.name, self.role
        if "collaboration" in state.requested.without:
            role = alone(role, self.team)
        cards = await self._cards(state)
        dataset = state.planned.plan.dataset_id if state.planned and stage_of(name).area == "build" else ""
        shelf = tuple(Offered.of(weights) for weights in await self.bus.weights(dataset)) if dataset else ()
        brief = make_brief(name, order, state, cards, self.settings.train_seconds, shelf)
        whole = [card.profile for card in cards if card.profile and name == "data_engineer"]
        public = sorted(public_words(whole[0])) if whole else []
        outside = {"secret": await self.bus.secret(state.run_id), "public": tuple(public)}
        desk = Desk(self.bus, role, brief.model_copy(update=outside))
        try:
            its = cores(state.requested.core)[self.role.name]
            core = make_core(its, self.settings.models_file, self.settings.model_seconds)
            if isinstance(core, EndpointCore):
                core.on_record = self.bus.put_disclosed
                away = self._waits.get(state.run_id)
                desk.away_since = away.since if away else None
            accepted = await run_agent(desk, core)
        except OutOfBudget as error:
            await self._out_of_budget(desk, order, error)
            return
        except EndpointAway as error:
            await self._waits_for(desk, error)
            raise
        except (GaveUp, ReplayMismatch, ToolBroken, UserError) as error:
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

    async def _out_of_budget(self, desk: Desk, order: str, error: OutOfBudget) -> None:
        """Ask for more and keep the order: with a yes, work goes on at the turn where the transcript stops."""
        state = await self.bus.state(desk.brief.run_id)
        assert state.requested is not None
        again = getattr(state.requested.budget, error.bound)
        question = ask_for_budget(self.role.name, error.bound, error.used_up, again)
        if state.requested.unattended or state.answers.get(question.key) == END:
            await self._fail(desk, order, error)
            return
        # What was spent is told with the answer to the order, which is still to come.
        asked = QuestionAsked.make(
            run_id=state.run_id,
            sender=self.role.name,
            cause=order,
            salt=f"{question.key} {error.used_up:g}",
            question=question,
        )
        await self.bus.append(asked, unless=lambda now: order_for(self.role.name, now) != order)

    async def _waits_for(self, desk: Desk, away: EndpointAway) -> None:
        """Say so once an outage and cause: whoever looks at the run would see it stand still otherwise."""
        run_id, turn = desk.brief.run_id, desk.turns + 1
        before = self._waits.get(run_id)
        known = before if before and (before.turn, before.endpoint) == (turn, away.endpoint) else None
        if known and known.reason == away.reason:
            return
        since = known.since if known else now()
        waits = Waiting(
            run_id=run_id, role=self.role.name, turn=turn, endpoint=away.endpoint, since=since, reason=away.reason
        )
        await self.bus.say_waiting(waits)
        self._waits[run_id] = waits

    async def _fail(self, desk: Desk, order: str, error: M3Error) -> None:
        log.error("%s failed: %s", self.role.name, error)
        end: Literal["out_of_budget", "failed_gate", "crashed"] = "crashed"
        gate = None
        if isinstance(error, OutOfBudget):
            end = "out_of_budget"
        elif isinstance(error, GateFailed):
            end, gate = "failed_gate", error.gate
        await self._failed(
            desk.brief.run_id, order, end=end, gate=gate, reason=f"{self.role.name}: {error}", spent=desk.spent
        )

    async def dead(self, event: Event, error: BaseException) -> None:
        """What could not be handled after all deliveries ends the run instead of leaving it hanging."""
        reason = f"{self.role.name} could not handle {event.kind}: {type(error).__name__}: {error}"
        await self._failed(event.run_id, event, end="crashed", reason=reason)

    async def _failed(self, run_id: str, cause: Event | str, **fields: Any) -> None:
        failed = RoleFailed.make(run_id=run_id, sender=self.role.name, cause=cause, **fields)
        # Where the run goes on without this role, its failure is none of the run's.
        await self.bus.append(failed, unless=lambda now: not now.live or out_of_turn(now, failed))


async def run_role(role: Role, context: Context, team: Sequence[Role] = ()) -> None:
    """Serve one role until the context is stopped."""
    service = AgentService(role, context, team)
    await context.bus.listen(
        role.name, service.handle, context.settings.concurrency, context.stop, on_dead=service.dead
    )
