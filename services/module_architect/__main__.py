from services.agent import run_role
from services.module_architect.role import ROLE
from services.team import TEAM
from shared.service import serve
from shared.settings import from_environment

if __name__ == "__main__":
    raise SystemExit(serve(ROLE.name, from_environment(), lambda context: run_role(ROLE, context, TEAM)))
