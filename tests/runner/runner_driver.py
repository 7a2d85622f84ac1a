"""A whole tool runner as an ordinary user, until the process is ended: runner_driver.py SETTINGS, as JSON."""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from services.tool_runner.sandbox import drop_root
from shared.settings import Settings


async def main(settings: Settings) -> None:
    # Not before root is dropped: numpy starts threads.
    from services.tool_runner.runner import run
    from shared.bus import Bus
    from shared.service import Context

    bus = await Bus.connect(settings, "tool_runner")
    await run(Context(name="tool_runner", settings=settings, bus=bus))


if __name__ == "__main__":
    given = Settings(**json.loads(sys.argv[1]))
    drop_root(given.runner_uid, [given.home / "runner", *given.data_roots])
    asyncio.run(main(given))
