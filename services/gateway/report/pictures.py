"""Pictures of the chosen test cases: drawn by a runner in its sandbox, once for each score, and fetched as PNGs.

Nothing is decoded here: an image of a stranger's has been drawn anew elsewhere, and what comes back goes to a browser.
"""

import asyncio
import hashlib
from collections.abc import Sequence

from pydantic import ValidationError

from services.gateway.parts import Parts
from services.gateway.report.chosen import Chosen, chosen
from services.gateway.report.facts import Facts, Picture, Pictures
from shared import telemetry
from shared.bus.streams import EVENTS
from shared.contracts.pictures import MAX_PNG, CasePicture, CasePictures, RenderCases
from shared.contracts.tools import ToolCall, ToolResult
from shared.errors import NotFound, ToolBroken, Unavailable

_TRIES = 3
"""What failed once may have been the disk; a recorded failure is asked for again, but not for ever."""


async def pictures(parts: Parts, facts: Facts, seconds: float) -> Pictures:
    """Waits at most `seconds` for a runner; what it draws later is there for the next report."""
    wanted = chosen(facts)
    if not wanted:
        return Pictures()
    if not seconds:
        return Pictures(missing="They were not asked for.")
    try:
        result = await _drawn(parts, facts, wanted, seconds)
        found = CasePictures.model_validate(result.data) if result.ok else None
    except (ToolBroken, TimeoutError):
        return Pictures(
            missing=f"No tool runner drew them within {seconds:.0f} s. Make the report again: what was drawn is kept."
        )
    except ValidationError:
        return Pictures(missing="The tool runner's answer cannot be read.")
    if found is None:
        return Pictures(missing=f"The tool runner: {result.summary[:300]}.")
    fetched = await asyncio.gather(*(asyncio.to_thread(_fetch, parts, one) for one in found.pictures))
    return Pictures(
        {one.sample_id: picture for one, picture in zip(found.pictures, fetched, strict=True)}, found.colours
    )


async def _drawn(parts: Parts, facts: Facts, wanted: Sequence[Chosen], seconds: float) -> ToolResult:
    """The same score asks under the same id, so that asking twice draws once."""
    scored = facts.state.scored
    assert scored is not None
    samples = [one.case.sample_id for one in wanted]
    digest = hashlib.sha256("\0".join([scored.event_id, *samples]).encode()).hexdigest()[:20]
    call_id = f"pictures-{digest}-1"
    for number in range(1, _TRIES + 1):
        call_id = f"pictures-{digest}-{number}"
        known = await parts.bus.result("gateway", call_id)
        if known is None or known.ok:
            break
    call = ToolCall(
        call_id=call_id,
        run_id=facts.state.run_id,
        role="gateway",
        tool=RenderCases.tool,
        arguments=RenderCases(samples=tuple(samples)).model_dump(mode="json"),
        reply="",
    )
    newest = await parts.bus.connection.last(EVENTS, f"evt.{facts.state.run_id}.>")
    with telemetry.continued(newest.headers if newest else None):
        return await parts.bus.call("data", call, seconds)


def _fetch(parts: Parts, told: CasePicture) -> Picture:
    if told.png is None:
        return Picture(problem=told.problem or "it was not drawn")
    if told.png.bucket != "pictures" or told.png.size > MAX_PNG:
        return Picture(problem="what was drawn is no picture of a bounded size")
    try:
        png = parts.store.get_bytes(told.png)
    except (NotFound, ToolBroken, Unavailable):
        return Picture(problem="the picture cannot be read from the store")
    return Picture(png, told.width, told.height, notes=told.notes)
