"""Each protocol in turn, with a key that must not be told, and a small role."""

from pathlib import Path

import pytest

from shared.agent.desk import Desk
from shared.agent.role import Probe, Role, Submission
from shared.bus import Bus
from shared.contracts.runs import Infeasibility
from shared.contracts.starting import StartTraining
from shared.contracts.tools import ReadFiles, RunScript, ViewImage
from tests.models.at_work import check, desk_for, said
from tests.models.protocols import Anthropic, OpenAI, Protocol


@pytest.fixture(params=[Anthropic(), OpenAI()], ids=["anthropic", "openai"])
def protocol(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Protocol:
    for name in ("ANTHROPIC", "OPENAI"):
        for variable in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "ADMIN_KEY"):
            monkeypatch.delenv(f"{name}_{variable}", raising=False)
    # Without it an SDK would look for a login of the person who runs the tests.
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path / "none"))
    result: Protocol = request.param
    monkeypatch.setenv(f"{result.name.upper()}_API_KEY", "secret-key")
    return result


@pytest.fixture
def role(tmp_path: Path) -> Role:
    prompt = tmp_path / "prompt.md"
    prompt.write_text("You prepare datasets – carefully.\n", encoding="utf-8")
    probe = Probe("resolve_rules", ())
    return Role(
        name="data_engineer",
        tools=(ReadFiles, RunScript, StartTraining, ViewImage),
        submissions=(Submission("declare_infeasible", Infeasibility, check, said, lambda answer, brief: probe),),
        prompt=prompt,
        playbook=lambda brief: iter(()),  # type: ignore[arg-type,return-value]
    )


@pytest.fixture
async def desk(bus: Bus, role: Role) -> Desk:
    return await desk_for(bus, role)
