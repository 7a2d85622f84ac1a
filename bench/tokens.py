"""What whole runs cost a language model: turns and tokens by role, as one in the playbook's place would pay them.

    python -m bench.tokens [NAME ...]

Runs a replica of each kind of task through the whole system, takes the transcripts, and adds up for each turn what a
core is sent (prompt, tools, the dialogue so far) and answers, at 3.5 bytes a token: an estimate. Bars: 12 turns and
90,000 tokens over all roles. Exit code 1 where one is missed.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from bench.whole_runs import made
from m3bench.runs import followed
from services.data_engineer.role import ROLE as DATA_ENGINEER
from services.gateway.client import Gateway
from services.model_trainer.role import ROLE as MODEL_TRAINER
from services.module_architect.role import ROLE as MODULE_ARCHITECT
from services.task_manager.role import ROLE as TASK_MANAGER
from shared.agent.brief import make_brief
from shared.agent.cards import current_cards
from shared.agent.dialogue import exchanges
from shared.agent.prompt import opening
from shared.bus import Bus
from shared.contracts.base import Event
from shared.contracts.runs import Budget
from shared.contracts.state import fold, order_for
from shared.contracts.transcript import Turn
from shared.embedded.home import Home
from shared.embedded.system import down, up
from shared.models.anthropic import AnthropicCore
from shared.models.catalogue import Listing, Model, read_catalogue
from shared.settings import Settings

TEAM = (TASK_MANAGER, DATA_ENGINEER, MODULE_ARCHITECT, MODEL_TRAINER)
NAMES = ("cc-ccii", "kneemri", "btcv", "instance2022", "iu-xray")
TURNS, TOKENS, BYTES = 12, 90_000, 3.5


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=40, help="of each training")
    given = parser.parse_args()
    missed = 0
    print(f"{'dataset':14} {'end':12} " + " ".join(f"{role.name:>17}" for role in TEAM) + f" {'in all':>17}")
    with tempfile.TemporaryDirectory(prefix="bench-tokens-") as name:
        data, home = Path(name) / "data", Path(name) / "home"
        data.mkdir()
        Path(name).chmod(0o755)
        try:
            settings = up(Settings(home=home), (data,)).settings
            with Gateway(settings) as gateway:
                for dataset in given.names or NAMES:
                    text, card = made(dataset, data / dataset, "tiny", "paper")
                    dataset_id = gateway.add_dataset(card, data / dataset)["dataset_ids"][0]
                    run_id = gateway.request_run(text, budget=Budget(train_seconds=given.seconds), dataset=dataset_id)
                    events, _ = followed(gateway, run_id, dataset_id)
                    spent = asyncio.run(spent_by_role(settings, events))
                    in_all = (sum(turns for turns, _ in spent), sum(tokens for _, tokens in spent))
                    missed += in_all[0] > TURNS or in_all[1] > TOKENS
                    cells = " ".join(f"{turns:>3} turns {tokens:>7,}" for turns, tokens in [*spent, in_all])
                    print(f"{dataset:14} {getattr(events[-1], 'end', '?'):12} {cells}", flush=True)
                    gateway.add_dataset(card, here=False)
        finally:
            down(Home(home))
    return 1 if missed else 0


async def spent_by_role(settings: Settings, events: list[Event]) -> list[tuple[int, int]]:
    """Turns and tokens of each of TEAM in a run that handed no work back."""
    run_id, found = events[0].run_id, []
    states = [fold(run_id, enumerate(events[:number], 1)) for number in range(1, len(events) + 1)]
    listing = Listing(
        "anthropic", read_catalogue().endpoints["anthropic"], Model(endpoint="anthropic", model="-"), False
    )
    core = AnthropicCore(listing)
    bus = await Bus.connect(settings, "gateway")
    try:
        cards = await current_cards(bus, settings.profile_seconds)
        for role in TEAM:
            entries, _ = await bus.entries(run_id, role.name)
            state = next((state for state in states if order_for(role.name, state)), None)
            if state is None:
                found.append((0, 0))
                continue
            brief = make_brief(role.name, order_for(role.name, state) or "", state, cards, settings.train_seconds, ())
            turns = [number for number, entry in enumerate(entries) if isinstance(entry, Turn)]
            size = 0
            for number in turns:
                size += len(json.dumps(core.body(role, brief, opening(brief), exchanges(entries[:number]))))
                size += len(entries[number].model_dump_json(include={"text", "calls"}))
            found.append((len(turns), int(size / BYTES)))
    finally:
        await bus.close()
    return found


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
