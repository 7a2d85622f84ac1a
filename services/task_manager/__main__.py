import asyncio

from services.agent import run_role
from services.task_manager.keeper import run_keeper
from services.task_manager.role import ROLE
from services.team import TEAM
from shared.service import Context, serve
from shared.settings import from_environment


async def run(context: Context) -> None:
    await asyncio.gather(run_role(ROLE, context, TEAM), run_keeper(context))


if __name__ == "__main__":
    raise SystemExit(serve(ROLE.name, from_environment(), run))
