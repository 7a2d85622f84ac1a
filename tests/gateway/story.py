"""A run told to a real bus fact by fact, each with its second, for those who look at what is told of it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import JsonValue

from services.gateway.trace import trace
from services.gateway.trace_model import Trace
from shared.bus import Bus
from shared.contracts.base import AGENTS, AgentName, Event, Ref, Spent, new_run_id
from shared.contracts.data import DatasetLocked, DatasetPrepared
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.runs import Candidate, DataCard, RunFinished, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.scoring import Control, Gate, Metric, RunScored
from shared.contracts.tools import ToolResult
from shared.contracts.training import JobFinished, JobStarted, TrainingFinished
from shared.contracts.transcript import Call, Observation, Turn
from tests.cases import coverage, lock_fields

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
REF = Ref(bucket="packages", key="sha256/00/0", sha256="0" * 64, size=1, media_type="application/json")
SCRIPT = "print('find everything')"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Story:
    """Tells a run to the bus, one fact or turn after the other, each with its second."""

    def __init__(self, bus: Bus) -> None:
        self.bus, self.run_id = bus, new_run_id()
        self.heads: dict[str, int] = {}
        self.numbers: dict[str, int] = {}

    async def fact(self, kind: type[Event], second: float, sender: Any, cause: Event | None, **fields: Any) -> Any:
        made = kind.make(run_id=self.run_id, sender=sender, cause=cause, **fields)
        event = made.model_copy(update={"at": at(second)})
        await self.bus.append(event)
        return event

    async def woken(self, role: AgentName, by: Event) -> None:
        await self._entry(
            Observation(run_id=self.run_id, role=role, number=self.numbers.get(role, 0), event_id=by.event_id, event={})
        )

    async def turn(self, role: AgentName, second: float, *calls: tuple[str, dict[str, JsonValue]]) -> None:
        self.numbers[role] = self.numbers.get(role, 0) + 1
        await self._entry(
            Turn(
                run_id=self.run_id,
                role=role,
                number=self.numbers[role],
                at=at(second),
                core="playbook",
                calls=tuple(Call(name=name, arguments=arguments) for name, arguments in calls),
                spent=Spent(turns=1, actions=len(calls), input_tokens=100, output_tokens=10),
            )
        )

    async def results(self, role: AgentName, *results: dict[str, Any], notes: Sequence[str] = ()) -> None:
        number = self.numbers[role]
        told = tuple(
            ToolResult(call_id=self.call_id(role, position), **({"ok": True, "summary": "done"} | result))
            for position, result in enumerate(results)
        )
        await self._entry(Observation(run_id=self.run_id, role=role, number=number, results=told, notes=tuple(notes)))

    def call_id(self, role: str, position: int) -> str:
        return f"{self.run_id}-{role}-{self.numbers[role]}-{position}"

    async def _entry(self, entry: Turn | Observation) -> None:
        self.heads[entry.role] = await self.bus.append_entry(entry, after=self.heads.get(entry.role, 0))

    async def trace(self, now: float) -> Trace:
        entries = {role: (await self.bus.entries(self.run_id, role))[0] for role in AGENTS}
        return trace(await self.bus.events(self.run_id), entries, at(now))

    async def planned(self) -> TaskPlanned:
        asked = await self.fact(RunRequested, 0, "gateway", None, requirement="classify chest CT")
        await self.woken("task_manager", asked)
        await self.turn("task_manager", 1, ("read_files", {"paths": ["datacards.json"]}), ("list_files", {}))
        await self.results(
            "task_manager", {"tool": "read_files", "seconds": 0.5}, {"tool": "list_files", "seconds": 1.5}
        )
        await self.turn("task_manager", 4, ("submit_plan", {"task": "diagnosis"}))
        plan = TaskPlan(
            task="diagnosis", dataset_id="one", reason="fits", refused=(Candidate(dataset_id="two", reason="is MRI"),),
            dimensions=3, modality="CT", metric="auc_macro",
        )  # fmt: skip
        card = DataCard(dataset_id="one", name="One", description="chest CT")
        return await self.fact(TaskPlanned, 5, "task_manager", asked, plan=plan, card=card)

    async def assembled(self) -> ModuleAssembled:
        planned = await self.planned()
        await self.woken("data_engineer", planned)
        await self.turn("data_engineer", 6, ("run_script", {"script": SCRIPT}), ("read_files", {"paths": ["nowhere"]}))
        refused = {"tool": "read_files", "ok": False, "summary": "there is no\nnowhere", "seconds": 0.25}
        script = {"tool": "run_script", "seconds": 3, "isolation": "landlock", "exit_code": 0, "summary": "case_17"}
        await self.results("data_engineer", script, refused, notes=["case_17 is odd"])
        await self.turn("data_engineer", 12, ("submit_dataset", {}))
        counts, patients = {"train": {"a": 6}, "test": {"a": 3}}, {"train": 4, "test": 2}
        found = coverage(cases=9, grouping_from="a column")
        prepared = await self.fact(DatasetPrepared, 15, "data_engineer", planned, rules=REF, coverage=found)
        pack = {"job_id": f"{self.run_id}-intake", "job": "intake"}
        await self.fact(JobStarted, 16, "tool_runner", prepared, **pack)
        await self.fact(JobFinished, 18, "tool_runner", prepared, **pack, asked_by="scorer", outcome="ok", seconds=2)
        locked = await self.fact(
            DatasetLocked, 20, "scorer", prepared, **lock_fields(view=REF, counts=counts, patients=patients)
        )
        await self.woken("module_architect", locked)
        await self.turn("module_architect", 21, ("submit_module", {}))
        module = AssembledModule(template="diagnosis", model="resnet", loss="ce", input_shape=(1, 8, 8, 8))
        return await self.fact(
            ModuleAssembled, 30, "module_architect", locked, module=module, batch_shapes={}, workspace_sha256="2" * 64
        )

    async def training(self) -> tuple[ModuleAssembled, dict[str, Any]]:
        """Up to a queued training job."""
        order = await self.assembled()
        await self.woken("model_trainer", order)
        await self.turn("model_trainer", 31, ("edit_files", {"path": "c"}), ("start_training", {"command": ["python"]}))
        job_id = self.call_id("model_trainer", 1)
        queued = {"tool": "start_training", "data": {"jobs": [job_id]}}
        await self.results("model_trainer", {"tool": "edit_files", "seconds": 1}, queued)
        return order, {"job_id": job_id, "job": "train"}

    async def finished(self) -> None:
        order, job = await self.training()
        for attempt, second in ((1, 36), (2, 50)):
            await self.fact(JobStarted, second, "tool_runner", order, salt=str(attempt), attempt=attempt, **job)
        ended = await self.fact(
            JobFinished, 80, "tool_runner", order, **job, asked_by="model_trainer", outcome="ok", attempts=2,
            seconds=30, isolation="landlock", metrics={"auc": 0.9},
        )  # fmt: skip
        await self.woken("model_trainer", ended)
        await self.turn("model_trainer", 82, ("submit_training", {"job_id": job["job_id"]}))
        trained = await self.fact(
            TrainingFinished, 85, "model_trainer", order, package=REF, validation={"auc": 0.9},
            hyper_parameters={"lr": 0.001}, attempts=2, seconds=30,
        )  # fmt: skip
        scored = await self.fact(
            RunScored, 95, "scorer", trained, level="useful", locks=1, scorings=1,
            metric=Metric(name="auc_macro", value=0.9, low=0.8, high=1, n=3, patients=2),
            controls=(Control(name="majority", value=0.5),),
            gates=(Gate(name="patients_apart", passed=True, evidence="none shared"),),
        )  # fmt: skip
        await self.fact(
            RunFinished, 100, "task_manager", scored, end="succeeded", level="useful", package=REF, spent=Spent(turns=6)
        )
