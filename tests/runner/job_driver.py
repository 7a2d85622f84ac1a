"""Jobs by the real runner code, one after the other, as an ordinary user: job_driver.py SETTINGS JOB..., all JSON.

A process of its own, since the sandbox refuses to run as root. Prints the most memory that it had itself, in MB.
"""

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from services.tool_runner.sandbox import detect, drop_root
from shared.contracts.training import JobSpec
from shared.settings import Settings


async def main(settings: Settings, specs: list[JobSpec]) -> None:
    # Not before root is dropped: numpy starts threads.
    from services.tool_runner.jobs import Jobs
    from services.tool_runner.mounts import Mounts
    from services.tool_runner.workspaces import Workspaces
    from shared.bus import Bus
    from shared.service import Context

    bus = await Bus.connect(settings, "tool_runner")
    context = Context(name="tool_runner", settings=settings, bus=bus)
    mounts = Mounts(settings, context.store)
    jobs = Jobs(context, detect(settings.isolation), Workspaces(settings.home, context.store, bus), mounts)
    try:
        for spec in specs:
            await jobs.on_job(spec, 1)
    finally:
        await bus.close()


if __name__ == "__main__":
    given = Settings(**json.loads(sys.argv[1]))
    drop_root(given.runner_uid, [given.home / "runner", *given.data_roots])
    asyncio.run(main(given, [JobSpec.model_validate_json(word) for word in sys.argv[2:]]))
    # Not ru_maxrss: that begins with what the process held that started this one.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(int(peak.split()[1]) // 1024)
