"""A raw dataset in a folder, and the Data Engineer's playbook driven over it with the real tools and probes.

The tools run as plain subprocesses, as in tests/tools: what is tested here is the role, not the sandbox.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.data_engineer.role import ROLE
from services.tool_runner.mounts import PROBES, library
from services.tool_runner.runner import last_json
from services.tool_runner.tools import Executed, Roots, run_tool
from shared.agent.brief import Brief
from shared.agent.role import Facts
from shared.contracts.profile import Profile
from shared.contracts.runs import DataCard, RunRequested, TaskPlan, TaskPlanned, WorkReturned
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call, Observation
from shared.disclosure.public import public_words


def brief(
    returned: dict[str, Any] | None = None,
    answers: dict[str, str] | None = None,
    profile: Profile | None = None,
    requirement: str = "x",
    **plan: Any,
) -> Brief:
    asked = RunRequested.make(run_id="r1", sender="gateway", cause=None, requirement=requirement)
    fields = {
        "task": "diagnosis",
        "dataset_id": "d",
        "reason": "r",
        "dimensions": 2,
        "modality": "CT",
        "metric": "auc_macro",
    }
    planned = TaskPlanned.make(
        run_id="r1", sender="task_manager", cause=asked, plan=TaskPlan(**(fields | plan)),
        card=DataCard(dataset_id="d", name="d", description="films", path="/d", profile=profile),
    )  # fmt: skip
    back = None
    if returned is not None:
        back = WorkReturned.make(
            run_id="r1", sender="model_trainer", cause=planned, target="data_engineer", reason="unusable samples",
            evidence=returned,
        )  # fmt: skip
    return Brief(
        run_id="r1",
        role="data_engineer",
        order="o",
        requested=asked,
        public=tuple(public_words(profile)) if profile else (),
        planned=planned,
        handed_back=back,
        answers=answers or {},
    )


@dataclass
class End:
    """How the playbook ended: the accepted submission, and what its probe found."""

    tool: str
    answer: Any
    facts: Facts
    calls: list[Call]
    refused: list[str]


@dataclass
class Bench:
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data, self.work = self.folder / "data", self.folder / "work"
        self.data.mkdir()
        self.work.mkdir()
        self.env = {"M3_DATA": str(self.data), "M3_WORKSPACE": str(self.work), "PYTHONPATH": str(library(self.folder))}

    def probe_argv(self, script: str, *args: str) -> list[str]:
        return [sys.executable, str(PROBES / script), *args]

    async def __call__(
        self, argv: Sequence[str], *, seconds: float, stdin: bytes = b"", probe: bool = False
    ) -> Executed:
        env = {**os.environ, **self.env, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        done = await asyncio.to_thread(
            subprocess.run, argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.work, env=env,
            timeout=seconds,
        )  # fmt: skip
        return Executed("ok" if done.returncode == 0 else "failed", done.returncode, 0.1, "none", done.stdout)

    def probe(self, script: str, *arguments: str) -> dict[str, Any]:
        done = asyncio.run(self(self.probe_argv(script, *arguments), seconds=300))
        facts = last_json(done.output)
        assert facts is not None, done.output.decode()
        return facts

    def run(self, given: Brief) -> End:
        """Drive the playbook until a submission is accepted. Raises the UserError that it ends with."""
        script = ROLE.playbook(given)
        calls = next(script)
        made: list[Call] = []
        refused: list[str] = []
        for number in range(1, 20):
            results, notes = [], []
            for call in calls:
                made.append(call)
                submission = ROLE.submission(call.name)
                if submission is None:
                    roots = Roots(self.work, self.data)
                    results.append(asyncio.run(run_tool(call.name, call.arguments, roots, self, f"c{len(made)}")))
                    continue
                answer = submission.answer.model_validate(call.arguments)
                probe = submission.probe(answer, given)
                facts: Any = self.probe(f"{probe.name}.py", *probe.arguments) if probe else {}
                problems = submission.check(answer, facts, given)
                if not problems:
                    return End(call.name, answer, facts, made, refused)
                notes += problems
                refused += problems
                results.append(ToolResult(call_id="c", tool=call.name, ok=False, summary="; ".join(problems)))
            seen = Observation(
                run_id="r1", role="data_engineer", number=number, results=tuple(results), notes=tuple(notes)
            )
            calls = script.send(seen)
        raise AssertionError("the playbook did not end")

    def profile(self) -> Profile:
        return Profile.model_validate(self.probe("profile_dataset.py")["data"])
