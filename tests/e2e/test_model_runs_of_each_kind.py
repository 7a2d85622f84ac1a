"""A segmentation and a writer of reports, each driven through an SDK by a server that plays a recorded conversation."""

from pathlib import Path

import pytest

from m3bench import replicas
from m3bench.cards import paths
from shared.contracts.state import fold
from shared.contracts.transcript import OPENING, Turn, decode_entry
from shared.models.scripted import read_transcript
from tests.e2e.systems import Watch, apart, recorded
from tests.e2e.test_model_runs import SYSTEMS
from tests.models.model_endpoints import serving
from tests.models.protocols import Anthropic, OpenAI
from tests.models.recorded_endpoints import Recording

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SENTENCES = {
    "btcv": "Segment the abdominal organs in contrast CT.",
    "iu-xray": "I want to train a model for report generation using 2D chest X-ray images.",
}


# A writer of reports that has seen too little is refused, as it says the same of every image.
@pytest.mark.parametrize(
    ("key", "protocol", "epochs", "seconds"),
    [("btcv", Anthropic(), 3, 600), ("iu-xray", OpenAI(), 60, 60)],
    ids=list(SENTENCES),
)
def test_a_recorded_conversation_carries_a_whole_run(
    key: str, protocol: Anthropic | OpenAI, epochs: int, seconds: int, tmp_path: Path
) -> None:
    server = Recording(protocol, {}, SYSTEMS)
    name = protocol.name.upper()
    with serving(server), apart(tmp_path, **{f"{name}_API_KEY": "sk-one", f"{name}_BASE_URL": server.url}) as system:
        folder = system.replica.parent / key
        patients = {"patients": 40} if key == "iu-xray" else {}
        replicas.make(key, folder, size="tiny", seed=11, workers=1, layout="distributed", **patients)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        card = next(path for path in paths() if path.stem == key)
        system.gateway.add_dataset(card.read_text(), folder)
        first = Watch(system, system.ask(SENTENCES[key], train_seconds=60))
        first.end()
        transcript = tmp_path / "turns.jsonl"
        transcript.write_text(recorded(system, first.run_id, epochs))
        turns = {
            role: [one for one in found if isinstance(one, Turn)] for role, found in read_transcript(transcript).items()
        }
        server.play(turns)
        again = Watch(system, system.ask(SENTENCES[key], core=f"{protocol.name}:a-model", train_seconds=seconds))
        again.end()
        answer = system.gateway._http.get(f"/runs/{again.run_id}/transcript").raise_for_status()
        told = [entry for line in answer.content.splitlines() if isinstance(entry := decode_entry(line), Turn)]
    state = fold(again.run_id, enumerate(again.events, 1))
    assert state.finished is not None and state.finished.end == "succeeded", state.finished
    assert state.scored is not None and state.scored.level in ("valid", "useful")
    assert not server.unasked() and state.spent.input_tokens == server.read
    assert state.spent.turns == sum(len(of_role) for of_role in turns.values())
    assert {turn.role for turn in told if turn.core == OPENING} == {"data_engineer", "module_architect"}
    told_so = {role for role, one in server.roles.items() if "Called for you already" in str(one.bodies[0])}
    assert told_so == {"data_engineer", "module_architect"}
