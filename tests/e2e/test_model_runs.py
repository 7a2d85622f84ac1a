"""Whole runs by a language model's protocol: both SDKs, each against a server that plays a recorded conversation."""

import contextlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from services.data_engineer.role import ROLE as DATA_ENGINEER
from services.model_trainer.role import ROLE as MODEL_TRAINER
from services.module_architect.role import ROLE as MODULE_ARCHITECT
from services.task_manager.role import ROLE as TASK_MANAGER
from shared.agent.prompt import system_prompt
from shared.contracts.state import RunState, fold
from shared.contracts.transcript import Turn
from shared.models.scripted import read_transcript
from tests.e2e.conftest import Running
from tests.e2e.systems import Watch, apart, recorded
from tests.models.model_endpoints import serving
from tests.models.protocols import Anthropic, OpenAI
from tests.models.recorded_endpoints import Recording
from tests.telemetry.receiver import receiving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

KEYS = ("sk-canary-one-7f3a", "sk-canary-two-91bc")
KEPT = re.compile(b"sk-canary-(one|two)")
TEAM = (TASK_MANAGER, DATA_ENGINEER, MODULE_ARCHITECT, MODEL_TRAINER)
SYSTEMS = {role.name: system_prompt(role, outside=True) for role in TEAM}


def test_both_protocols_carry_a_whole_run(running: Running, main_job: Mapping[str, Any], tmp_path: Path) -> None:
    transcript = tmp_path / "turns.jsonl"
    transcript.write_text(recorded(running, main_job["run_id"], epochs=3))
    entries = read_transcript(transcript)
    turns = {role: [one for one in found if isinstance(one, Turn)] for role, found in entries.items()}
    assert set(turns) == set(SYSTEMS)
    with (
        receiving() as spans,
        serving(Recording(Anthropic(), turns, SYSTEMS)) as one,
        serving(Recording(OpenAI(), turns, SYSTEMS)) as other,
        apart(
            tmp_path,
            M3_OTLP_ENDPOINT=spans.endpoint,
            ANTHROPIC_API_KEY=KEYS[0],
            ANTHROPIC_BASE_URL=one.url,
            OPENAI_API_KEY=KEYS[1],
            OPENAI_BASE_URL=other.url,
        ) as system,
    ):
        # Side by side: much of a run is waiting for one program or the other.
        runs = [system.ask(core=core, train_seconds=600) for core in ("anthropic:a-model", "openai:b-model")]
        watches = [Watch(system, run_id) for run_id in runs]
        for watch in watches:
            watch.end()
        for run_id in runs:
            assert not KEPT.search(system.gateway._http.get(f"/runs/{run_id}/transcript").content)
        # Streams, objects, logs, and all that a sandbox wrote.
        files = [path for path in system.system.home.root.rglob("*") if path.is_file()]
        assert not list(filter(_holds_a_key, files))
        assert len(files) > 200 and spans.bodies and not any(map(KEPT.search, spans.bodies))
    for watch, server in zip(watches, (one, other), strict=True):
        state = fold(watch.run_id, enumerate(watch.events, 1))
        _went_well(state, turns)
        assert not server.unasked()
        assert (state.spent.input_tokens, state.spent.output_tokens) == (server.read, server.wrote)
        assert not state.spent.tokens_estimated
    for server, name, key in ((one, "a-model", KEYS[0]), (other, "b-model", KEYS[1])):
        bodies = [
            (body, sent) for role in server.roles.values() for body, sent in zip(role.bodies, role.keys, strict=True)
        ]
        assert {body["model"] for body, _ in bodies} == {name}
        assert {sent for _, sent in bodies} == {f"Bearer {key}"}


def _holds_a_key(path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):  # the store tidies up meanwhile
        return bool(KEPT.search(path.read_bytes()))
    return False


def _went_well(state: RunState, turns: Mapping[str, Sequence[Turn]]) -> None:
    assert state.finished is not None and state.finished.end == "succeeded", state.finished
    assert state.scored is not None and all(gate.passed for gate in state.scored.gates)
    assert state.spent.turns == sum(len(of_role) for of_role in turns.values())
    assert state.spent.actions == sum(len(turn.calls) for of_role in turns.values() for turn in of_role)
