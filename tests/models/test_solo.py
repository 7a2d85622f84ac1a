"""A run without collaboration: two services, one conversation."""

import pytest

from services.agent import AgentService
from services.task_manager.role import ROLE as TASK_MANAGER
from shared.agent.role import Role
from shared.bus import Bus
from shared.contracts.base import new_run_id
from shared.contracts.runs import DataCard, RunRequested
from shared.service import Context
from shared.settings import Settings
from tests.models.at_work import SUBMIT, Runner, endpoint_of
from tests.models.protocols import Protocol
from tests.serving import serving as serving_runner

PLAN = {
    "task": "diagnosis", "dataset_id": "solo-ct", "reason": "it fits", "dimensions": 3, "modality": "CT",
    "metric": "auc_macro",
}  # fmt: skip


async def test_the_data_engineer_goes_on_where_the_task_manager_ended(
    bus: Bus, bus_settings: Settings, role: Role, protocol: Protocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bus.put_card(DataCard(dataset_id="solo-ct", name="CT", description="chest CT", path="/d"))
    run_id, team = new_run_id(), (TASK_MANAGER, role)
    asked = RunRequested.make(
        run_id=run_id, sender="gateway", cause=None, requirement="a model", core=f"{protocol.name}:a-model",
        without=("collaboration",),
    )  # fmt: skip
    await bus.append(asked)
    settings = bus_settings.model_copy(update={"profile_seconds": 0.0})
    # The endpoint sees to it that what was said and what is static stay as they are from one request to the next.
    with endpoint_of(monkeypatch, protocol, protocol.reply(("p1", "submit_plan", PLAN)), protocol.reply(SUBMIT)) as one:
        async with serving_runner(bus, Runner()):
            for name, its in (("task_manager", TASK_MANAGER), ("data_engineer", role)):
                service = AgentService(its, Context(name, settings, bus), team)  # type: ignore[arg-type]
                await service.handle((await bus.events(run_id))[-1][1])
    assert [one.role for one in await bus.disclosed(run_id)] == ["task_manager", "data_engineer"], "each says its own"
    state = await bus.state(run_id)
    assert state.planned and state.planned.sender == "task_manager"
    assert state.infeasible and state.infeasible.sender == "data_engineer", "each service says its own facts only"
    _, spoke, told = one.heard
    assert spoke.calls["p1"][0] == "submit_plan" and told.results["p1"] == (True, "accepted")
    assert "Your work goes on as data_engineer" in told.words and "# Card of the dataset" in told.words
    assert "you do the work of all four roles" in protocol.system(one.bodies[0])
