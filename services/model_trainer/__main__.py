from services.model_trainer.role import ROLE
from services.team import TEAM
from shared.agent.service import run_role
from shared.service import serve
from shared.settings import Settings

if __name__ == "__main__":
    raise SystemExit(serve(ROLE.name, Settings(), lambda context: run_role(ROLE, context, TEAM)))
