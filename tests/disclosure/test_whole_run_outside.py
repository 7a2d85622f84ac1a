"""A whole run whose roles all work with a model outside: from a sentence with names in it to a score."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from services.team import TEAM
from shared.agent.prompt import system_prompt
from shared.agent.solo import alone
from shared.bus import Bus
from shared.contracts.runs import Budget
from shared.contracts.state import RunState, fold
from shared.contracts.transcript import Observation
from shared.settings import Settings
from tests.disclosure.stand_in import StandIn, steps
from tests.disclosure.ward import BORN, CARD, CLASSES, CLINIC, MRN, PHONE, REQUEST, fill, leaks
from tests.e2e.conftest import Running
from tests.e2e.systems import Watch, apart
from tests.models.model_endpoints import serving
from tests.models.protocols import Anthropic, OpenAI

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SYSTEMS = {system_prompt(role, outside=True): role.name for role in TEAM}
ALONE = {system_prompt(alone(TEAM[0], TEAM), ("collaboration",), outside=True): "solo"}
ANSWERS = {
    "contact": f"Dr. Wozniacki, Ulysse, {CLINIC}, phone {PHONE}. Not young Grace, MRN {MRN[1]}, born {BORN[1]}.",
    "column": f"diagnosis; of Käthe Brückner ({MRN[3]}) we are not sure",
}


@dataclass
class Run:
    state: RunState
    server: StandIn
    seen: dict[str, str]
    """Role -> what it was told, as its transcript has it: real."""
    again: list[str]
    """What left, made again from the transcript."""


def carried(system: Running, server: StandIn, core: str, task: str, seconds: int, solo: bool) -> Run:
    run_id = system.gateway.request_run(
        REQUEST.format(task=task), core=core, budget=Budget(train_seconds=seconds + 10),
        without=("collaboration",) if solo else (),
    )  # fmt: skip
    watch = Watch(system, run_id)
    for key, value in ANSWERS.items():
        watch.until("QuestionAsked", f'"{key}"')
        system.gateway.answer(run_id, key, value)
    watch.end()
    state = fold(run_id, enumerate(watch.events, 1))
    seen = asyncio.run(told(system.system.settings, run_id))
    again = [system.gateway.disclosed_text(run_id, n) for n in range(1, len(system.gateway.disclosure(run_id)) + 1)]
    return Run(state, server, seen, again)


async def told(settings: Settings, run_id: str) -> dict[str, str]:
    """Role -> briefs and results."""
    bus = await Bus.connect(settings, "gateway")
    try:
        entries = {role.name: (await bus.entries(run_id, role.name))[0] for role in TEAM}
    finally:
        await bus.close()
    return {
        role: "".join(one.model_dump_json() for one in found if isinstance(one, Observation))
        for role, found in entries.items()
    }


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[StandIn, StandIn]]:
    with serving(StandIn(Anthropic(), SYSTEMS | ALONE)) as one, serving(StandIn(OpenAI(), SYSTEMS | ALONE)) as other:
        yield one, other


@pytest.fixture(scope="module")
def system(servers: tuple[StandIn, StandIn], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    one, other = (server.url for server in servers)
    told = {"ANTHROPIC_BASE_URL": one, "OPENAI_BASE_URL": other, "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
    with apart(tmp_path_factory.mktemp("ward"), empty=True, **told) as system:
        folder = system.replica.parent / "quistorp"
        folder.mkdir()
        fill(folder)
        system.gateway.add_dataset(json.dumps(CARD), folder)
        yield system


RUNS = {
    "team": ("anthropic", "diagnosis", "auc_macro", 20, False),
    "alone": ("openai", "diagnosis", "auc_macro", 20, True),
    "reports": ("openai", "report_generation", "rouge_l", 60, False),
}


@pytest.fixture(scope="module", params=list(RUNS))
def run(request: pytest.FixtureRequest, system: Running, servers: tuple[StandIn, StandIn]) -> Run:
    name, task, metric, seconds, solo = RUNS[request.param]
    server = next(one for one in servers if one.protocol.name == name)
    server.play(steps(task, metric, seconds))
    return carried(system, server, f"{name}:a-model", task.replace("_", " "), seconds, solo)


def test_the_roles_do_their_work(run: Run) -> None:
    assert run.state.finished and run.state.finished.end == "succeeded", run.state.finished
    assert run.state.scored and run.state.scored.level in ("valid", "useful")
    assert {role: len(sent) for role, sent in run.server.sent.items()} == {
        role: len(steps) for role, steps in run.server.steps.items()
    }


def test_no_canary_left(run: Run) -> None:
    assert {role: found for role, sent in run.server.sent.items() if (found := leaks(" ".join(sent)))} == {}


def test_what_was_hidden_was_there(run: Run) -> None:
    found = {role: leaks(seen) for role, seen in run.seen.items()}
    assert len(found["data_engineer"]) > 60 and len(found["task_manager"]) > 10, found
    assert CLINIC in found["module_architect"] and CLINIC in found["model_trainer"]


def test_classes_are_shown(run: Run) -> None:
    if run.state.planned and run.state.planned.plan.task == "diagnosis":
        for role, sent in list(run.server.sent.items())[1:]:
            assert all(name in sent[-1] for name in CLASSES), role


def test_what_left_is_on_record(run: Run) -> None:
    assert len(run.again) == sum(map(len, run.server.sent.values()))
    assert [found for text in run.again if (found := leaks(text))] == []
