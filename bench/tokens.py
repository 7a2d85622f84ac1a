"""What the Data Engineer's turns cost: tokens of the playbook's run, as a language model in its place would pay them.

    python -m bench.tokens

Runs four replicas through the whole system up to the lock, takes the transcript, and adds up for each turn what a core
is sent (prompt, tools, the dialogue so far) and answers, at four bytes a token. Beside it what the sum was with the
Data Engineer that wrote a script a dataset (2026-11-22, commit c904382). Bar: at most half. Exit code 1 where missed.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from m3bench import replicas
from m3bench.cards import paths
from services.data_engineer.role import ROLE
from services.gateway.client import Gateway
from shared.agent.brief import make_brief
from shared.agent.prompt import opening
from shared.bus import Bus
from shared.contracts.cards import parse_card
from shared.contracts.data import DatasetLocked
from shared.contracts.events import decode_event
from shared.contracts.runs import TaskPlanned
from shared.contracts.state import fold
from shared.contracts.transcript import Observation, Turn
from shared.embedded.home import Home
from shared.embedded.system import down, up
from shared.models.anthropic import AnthropicCore
from shared.models.catalogue import Listing, Model, read_catalogue
from shared.models.dialogue import exchanges
from shared.settings import Settings

ASKED = {
    "cc-ccii": ("I want to train a model for disease diagnosis using 3D CT images.", 22_281),
    "btcv": ("Segment the abdominal organs in CT.", 14_994),
    "kneemri": ("Diagnose anterior cruciate ligament injury from knee MRI.", 22_468),
    "iu-xray": ("Generate reports for chest X-rays.", 14_926),
}
"""Replica -> request, tokens of before."""


def main() -> int:
    missed = 0
    with tempfile.TemporaryDirectory(prefix="bench-tokens-") as name:
        data, home = Path(name) / "data", Path(name) / "home"
        data.mkdir()
        Path(name).chmod(0o755)
        for dataset in ASKED:
            replicas.make(dataset, data / dataset, size="tiny", seed=3)
        for path in (data, *data.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        settings = up(Settings(home=home), (data,)).settings
        try:
            with Gateway(settings) as gateway:
                cards = {parse_card(path.read_text(), path.name)[0].dataset_id: path.read_text() for path in paths()}
                for dataset in ASKED:
                    gateway.add_dataset(cards[dataset], data / dataset)
                for dataset, (request, before) in ASKED.items():
                    now = tokens(gateway, settings, request)
                    missed += now > before / 2
                    print(f"{dataset:<8} {now:>6} tokens, {before} before: {now / before:.2f} (0.50)", flush=True)
        finally:
            down(Home(home))
    return 1 if missed else 0


def tokens(gateway: Gateway, settings: Settings, request: str) -> int:
    run_id, events = gateway.request_run(request, core="playbook"), []
    for item in gateway.follow(run_id):
        if item.kind[0].isupper():
            events.append(decode_event(item.data.encode()))
        if item.kind in (DatasetLocked.__name__, "RunFinished", "QuestionAsked"):
            break
    if not isinstance(events[-1], DatasetLocked):
        raise SystemExit(f"{run_id} did not come to a lock: {events[-1]}")
    gateway.cancel(run_id)
    planned = next(number for number, event in enumerate(events) if isinstance(event, TaskPlanned))
    state = fold(run_id, enumerate(events[: planned + 1], 1))
    brief = make_brief("data_engineer", events[planned].event_id, state, (), 3600)
    listing = Listing(
        "anthropic", read_catalogue().endpoints["anthropic"], Model(endpoint="anthropic", model="-"), False
    )
    core = AnthropicCore(listing)
    entries, total = asyncio.run(transcript(settings, run_id)), 0
    for number, entry in enumerate(entries):
        if isinstance(entry, Turn):
            total += len(json.dumps(core.body(ROLE, opening(brief), exchanges(entries[:number])))) // 4
            total += len(entry.model_dump_json(include={"text", "calls"})) // 4
    return total


async def transcript(settings: Settings, run_id: str) -> list[Turn | Observation]:
    bus = await Bus.connect(settings, "gateway")
    try:
        found, _ = await bus.entries(run_id, "data_engineer")
    finally:
        await bus.close()
    return [entry for entry in found if type(entry) in (Turn, Observation)]


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
