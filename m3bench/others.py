"""Other coding agents on an exported task, where they are installed: same endpoint, same limits, same scorer.

Each is its own program with its own loop; what is here is how it is called. Editors without a command line are pointed
at an exported task by hand (README).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from m3bench import exported
from m3bench.results import Part, Result
from m3bench.runs import ACTIONS
from m3bench.tasks import Task
from shared.errors import UserError
from shared.models.catalogue import Listing, find, read_catalogue
from shared.settings import Settings

LOG = "trajectory.json"
"""What an agent writes of itself, beside the workspace."""


@dataclass(frozen=True)
class Other:
    """How an agent is called. `{model}`, `{prompt}`, `{prompt_file}`, `{log}` and `{actions}` stand for what they say;
    both that are here name models as LiteLLM does."""

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    spent: Callable[[Path], Part | None]
    """What the log says of its effort; None where it does not."""


def _mini_spent(log: Path) -> Part | None:
    try:
        messages = json.loads(log.read_text(encoding="utf-8"))["messages"]
    except (OSError, ValueError, KeyError):
        return None
    said = [one for one in messages if one.get("role") == "assistant"]
    usages: list[dict[str, Any]] = [one.get("extra", {}).get("response", {}).get("usage") or {} for one in said]
    calls = sum(len(one.get("tool_calls") or ()) for one in said)
    # The call that ends the work is told as one that was not executed.
    told = [str(one.get("content")) for one in messages if one.get("role") == "tool"]
    answers = [one for one in told if "action was not executed" not in one]
    failed = sum(bool(re.search(r'returncode"?[>:] ?-?[1-9]', answer)) for answer in answers)
    tokens = sum(int(one.get("total_tokens") or 0) for one in usages)
    return Part(done=True, turns=len(said), actions=calls, iterations=failed, tokens=tokens)


OTHERS: dict[str, Other] = {
    "mini-swe-agent": Other(
        "mini",
        (
            *("--yolo", "--exit-immediately", "--model", "{model}", "--task", "{prompt}", "--output", "{log}"),
            *("-c", "mini.yaml", "-c", "agent.step_limit={actions}", "-c", "agent.cost_limit=0"),
            *("-c", "environment.timeout=3600"),
        ),
        {"MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_SILENT_STARTUP": "true"},
        _mini_spent,
    ),
    "aider": Other(
        "aider",
        (
            *("--model", "{model}", "--message-file", "{prompt_file}", "--yes-always", "--no-git", "--no-auto-commits"),
            *("--no-check-update", "--analytics-disable", "--no-show-model-warnings", "--no-stream"),
        ),
        {},
        lambda log: None,
    ),
}


def run(name: str, task: Task, folder: Path, core: str, size: str, seed: int, seconds: float, wall: float) -> Result:
    """Export the task to `folder`, let the agent work in it for at most `wall` seconds, and score what it left.

    Raises UserError when the agent or its model cannot be had, and when it left no package.
    """
    other = OTHERS.get(name)
    if other is None:
        raise UserError(f"there is no agent {name!r}; there are: {', '.join(OTHERS)}")
    program = shutil.which(other.program)
    if program is None:
        raise UserError(f"{name} is not installed: there is no program {other.program!r} on the PATH")
    listing = find(core, read_catalogue(Settings().models_file))
    if listing is None:
        raise UserError(f"{core!r} is no model of the catalogue and no ENDPOINT:MODEL")
    environment = _environment(listing) | other.environment
    exported.export(task, folder, size=size, layout="distributed", seed=seed, train_seconds=seconds)
    log = folder.with_name(f"{folder.name}.m3bench") / LOG
    known = {
        "model": f"{listing.endpoint.protocol}/{listing.model.model}",
        "prompt": (folder / "PROMPT.md").read_text(encoding="utf-8"),
        "prompt_file": str(folder / "PROMPT.md"),
        "log": str(log),
        "actions": str(ACTIONS),
    }
    began = time.monotonic()
    call = [program, *(word.format_map(known) for word in other.arguments)]
    with suppress(subprocess.TimeoutExpired):  # what it left by then counts
        subprocess.run(call, cwd=folder, env=environment, timeout=wall, stdin=subprocess.DEVNULL)
    took = time.monotonic() - began
    found = exported.score(folder, f"{name} {core}")
    spent = other.spent(log)
    return found.model_copy(update={"seconds": round(took, 1), "parts": {name: spent} if spent else {}})


def _environment(listing: Listing) -> dict[str, str]:
    """The caller's, with the key and address of the endpoint by LiteLLM's names, and our Python, which has PyTorch."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("M3_")}
    protocol = listing.endpoint.protocol.upper()
    return bare | {
        f"{protocol}_API_KEY": listing.key(),
        f"{protocol}_API_BASE": listing.url,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
