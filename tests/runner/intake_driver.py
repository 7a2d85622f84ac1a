"""Intake jobs by the real runner code, one after the other, as an ordinary user: SETTINGS CASES JOB..., all JSON.

CASES is how many a batch holds. Without a JOB only batches of others are taken, until the process is ended. A process
of its own, since the sandbox refuses to run as root.
"""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from services.tool_runner.sandbox import detect, drop_root
from shared.contracts.training import JobSpec
from shared.settings import Settings


async def main(settings: Settings, cases: int, specs: list[JobSpec]) -> None:
    # Not before root is dropped: numpy starts threads.
    from services.tool_runner.intake import job
    from services.tool_runner.jobs import Jobs
    from services.tool_runner.mounts import Mounts
    from services.tool_runner.workspaces import Workspaces
    from shared.bus import Bus
    from shared.service import Context

    job.MAX_CASES = cases
    bus = await Bus.connect(settings, "tool_runner")
    context = Context(name="tool_runner", settings=settings, bus=bus)
    mounts = Mounts(settings, context.store)
    jobs = Jobs(context, detect(settings.isolation), Workspaces(settings.home, context.store, bus), mounts)
    stop = asyncio.Event()
    serving = asyncio.create_task(bus.serve_tools("intake", jobs.on_batch, jobs.on_job, 1, stop))
    try:
        for spec in specs:
            await jobs.on_job(spec, 1)
        if specs:
            stop.set()
        await serving
    finally:
        await bus.close()


if __name__ == "__main__":
    given = Settings(**json.loads(sys.argv[1]))
    drop_root(given.runner_uid, [given.home / "runner", *given.data_roots])
    asyncio.run(main(given, int(sys.argv[2]), [JobSpec.model_validate_json(word) for word in sys.argv[3:]]))
