"""How much the store holds. Only runners may list it, so those that serve the class `data` tell, now and then."""

import asyncio
import logging

from shared import telemetry
from shared.errors import M3Error
from shared.service import Context
from shared.store import BUCKETS, Store
from shared.telemetry import Metrics, Name

log = logging.getLogger(__name__)

LOOK_SECONDS = 900.0
"""A listing is a request for each thousand objects."""


async def tell_store(context: Context) -> None:
    """Have the size of each bucket in the metrics, until the service stops."""
    if not context.settings.otlp_endpoint or "data" not in context.settings.runner_classes:
        return
    sizes: dict[str, int] = {}
    telemetry.observe(Metrics.STORED, lambda: [(size, {Name.BUCKET: name}) for name, size in list(sizes.items())])
    while not context.stop.is_set():
        try:
            sizes |= await asyncio.to_thread(_sizes, context.store)
        except M3Error as error:
            log.warning("the store could not be looked at: %s", error)
        try:
            await asyncio.wait_for(context.stop.wait(), LOOK_SECONDS)
        except TimeoutError:
            continue


def _sizes(store: Store) -> dict[str, int]:
    return {name: sum(size for _, size in store.listed(name)) for name in BUCKETS}
