"""Datacards with a profile of their files as they are now."""

import asyncio
import logging
import secrets
from datetime import UTC, datetime

from shared.bus import Bus
from shared.contracts.base import Service
from shared.contracts.profile import Profile
from shared.contracts.runs import DataCard
from shared.contracts.tools import ProfileDataset, ToolCall
from shared.errors import DataUnusable, ToolBroken

log = logging.getLogger(__name__)


async def profiled(card: DataCard, bus: Bus, asker: Service, seconds: float) -> DataCard:
    """The card with what a runner sees in its files; the same one where they are as they were.

    Raises DataUnusable where the runner says that the files cannot be had, ToolBroken where none answers in time.
    """
    call = ToolCall(
        call_id=f"profile-{secrets.token_hex(8)}",
        run_id=card.dataset_id,
        role=asker,
        tool=ProfileDataset.tool,
        arguments=ProfileDataset(card=card).model_dump(mode="json"),
        reply="",
    )
    result = await bus.call("data", call, seconds)
    if not result.ok:
        raise DataUnusable(result.summary)
    if not result.data:
        return card
    return card.model_copy(update={"profile": Profile.model_validate(result.data), "looked_at": datetime.now(UTC)})


async def current_cards(bus: Bus, seconds: float) -> tuple[DataCard, ...]:
    """All registered cards. Files that have changed since they were looked at are looked at again, and registered so.

    A dataset whose files cannot be looked at now, or not in `seconds`, loses its profile: an old one would be relied
    on. With 0 seconds nothing is looked at.
    """

    async def current(card: DataCard) -> DataCard:
        # What was uploaded does not change.
        if not seconds or not card.here or (card.archive and card.profile):
            return card
        try:
            fresh = await profiled(card, bus, "task_manager", seconds)
        except (ToolBroken, DataUnusable):
            log.warning("the files of %s cannot be looked at; planning goes without their profile", card.dataset_id)
            fresh = card.model_copy(update={"profile": None, "looked_at": None})
        # Whoever has registered it anew meanwhile has had it looked at.
        if fresh != card and await bus.card(card.dataset_id) == card:
            await bus.put_card(fresh)
        return fresh

    return tuple(await asyncio.gather(*map(current, await bus.cards())))
