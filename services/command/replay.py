"""A run by a recorded transcript: asked on the bus, by who has the operator's credentials.

Never over HTTP, where the name of a file would be an order to read it, and its calls an order to make them.
"""

import asyncio

from services.gateway import checks
from services.gateway.bodies import NewRun
from services.gateway.identity import user
from shared.bus import Bus
from shared.models import make_core
from shared.settings import Settings


def replay(settings: Settings, body: NewRun) -> str:
    """The id of the new run, whose core is `scripted:<file>`. Blocks; no event loop may run.

    Raises UserError for a file that is no transcript, PermissionDenied without the operator's credentials.
    """
    make_core(body.core)
    return asyncio.run(_ask(settings, body))


async def _ask(settings: Settings, body: NewRun) -> str:
    bus = await Bus.connect(settings, "gateway")
    try:
        event = checks.request(body, body.core, user(), await bus.cards())
        await bus.append(event)
    finally:
        await bus.close()
    return event.run_id
