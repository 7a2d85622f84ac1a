"""Other coding agents on an exported task, where they are installed: same endpoint, same limits, same scorer.

Each is its own program with its own loop; what is here is how it is called. Editors without a command line are pointed
at an exported task by hand (README).
"""

import json
import os
import re
import shutil
import site
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from m3bench import exported, mlagentbench
from m3bench.results import Part, Result
from m3bench.runs import ACTIONS
from m3bench.tasks import Task
from shared.errors import UserError
from shared.models.catalogue import Listing, find, read_catalogue
from shared.settings import Settings

OWN = "agent"
"""Folder beside the workspace, `DIR.agent`, with what an agent writes of itself: its home, its log."""


@dataclass(frozen=True)
class Other:
    """How an agent is called. `{model}` stands for the name as LiteLLM has it, `{name}` as the endpoint has it, `{own}`
    for the agent's folder, `{wall}` for seconds, other words for what they say."""

    program: str
    variable: str
    """Names the program where it is not on the PATH."""
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    spent: Callable[[Path], Part | None]
    """What the log says of its effort; None where it does not."""
    remark: str = ""
    """What it has to be told beside the prompt."""
    protocol: str = ""
    """The only one that it speaks."""
    lay_out: Callable[[Path, Path], None] | None = None
    """Writes what it wants to its own folder, from the workspace."""
    left: str = ""
    """Where in its own folder it works, if not in the workspace."""


def _mini_spent(log: Path) -> Part | None:
    try:
        told = json.loads(log.read_text(encoding="utf-8"))
        messages, turns = told["messages"], int(told["info"]["model_stats"]["api_calls"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
    # A reply that it could not read stands in the message that tells the model so.
    replies = [one["extra"].get("response") for one in messages if isinstance(one.get("extra"), dict)]
    usages: list[dict[str, Any] | None] = [one.get("usage") for one in replies if isinstance(one, dict)]
    calls = sum(len(one.get("tool_calls") or ()) for one in messages if one.get("role") == "assistant")
    # The call that ends the work is told as one that was not executed.
    results = [str(one.get("content")) for one in messages if one.get("role") == "tool"]
    failed = sum(bool(re.search(FAILED, one)) for one in results if "action was not executed" not in one)
    tokens = [int(one.get("total_tokens") or 0) for one in usages if one]
    partly = len(tokens) < turns or not all(tokens)
    return Part(done=True, turns=turns, actions=calls, iterations=1 + failed, tokens=sum(tokens), estimated=partly)


FAILED = r'returncode"?[>:] ?-?[1-9]'


def _aider_spent(log: Path) -> Part | None:
    """An action is a reply with its edits, as its command is run for it; what was told again was to be mended. What its
    summaries took is not in the log."""
    try:
        events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        sent = [one["properties"] for one in events if one["event"] == "message_send"]
        tokens = sum(int(one["total_tokens"]) for one in sent)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if not sent:
        return None
    turns = len(sent)
    return Part(done=True, turns=turns, actions=turns, iterations=turns, tokens=tokens, estimated=True)


OTHERS: dict[str, Other] = {
    "mini-swe-agent": Other(
        "mini",
        "M3_MINI_SWE",
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
        "M3_AIDER",
        (
            *("--model", "{model}", "--message-file", "{prompt_file}", "--yes-always", "--no-git", "--no-auto-commits"),
            *("--no-check-update", "--no-show-model-warnings", "--no-stream"),
            # What it would tell its makers is written to the log instead, and sent to nobody.
            *("--no-analytics", "--analytics-log", "{log}", "--chat-history-file", "{own}/chat.md"),
            # It never runs a command by itself; after each edit this one is run, and its output told.
            *("--auto-test", "--test-cmd", "sh -c 'test ! -f run.sh || sh run.sh'"),
        ),
        {},
        _aider_spent,
        "Commands are run for you: write run.sh, which does all that is needed. It is run after each of your edits, "
        "and you are told its output where it fails.",
    ),
    "mlagentbench": Other(
        "mlagentbench",
        "M3_MLAGENTBENCH",
        (
            *("{own}/start.py", "--task", mlagentbench.TASK, "--log-dir", "{log}", "--work-dir", "{own}/work"),
            *("--python", sys.executable, "--max-steps", "{actions}", "--agent-max-steps", "{actions}"),
            *("--max-time", "{wall}"),
            # By this name it takes the way of chat; the model is M3_MODEL.
            *("--llm-name", "gpt-4", "--fast-llm-name", "gpt-4", "--edit-script-llm-name", "gpt-4"),
        ),
        {"M3_MODEL": "{name}"},
        mlagentbench.spent,
        mlagentbench.REMARK,
        protocol="openai",
        lay_out=mlagentbench.lay_out,
        left=f"work/{mlagentbench.TASK}",
    ),
}


def run(
    name: str,
    task: Task,
    folder: Path,
    core: str,
    size: str,
    seed: int,
    seconds: float,
    wall: float,
    like: Path | None = None,
) -> Result:
    """Export the task to `folder`, let the agent work in it for at most `wall` seconds, and score what it left. `like`:
    an export whose sealed cases it gets, too; its size, seed and seconds then hold.

    Raises UserError when the agent or its model cannot be had.
    """
    other = OTHERS.get(name)
    if other is None:
        raise UserError(f"there is no agent {name!r}; there are: {', '.join(OTHERS)}")
    program = shutil.which(os.environ.get(other.variable) or other.program)
    if program is None:
        raise UserError(
            f"{name} is not installed: no program {other.program!r} is on the PATH, and {other.variable} names none"
        )
    listing = find(core, read_catalogue(Settings().models_file))
    if listing is None:
        raise UserError(f"{core!r} is no model of the catalogue and no ENDPOINT:MODEL")
    if other.protocol not in ("", listing.endpoint.protocol):
        raise UserError(f"{name} speaks the protocol {other.protocol}; {core} is at one of {listing.endpoint.protocol}")
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        raise UserError("another agent is run behind bubblewrap, away from the answers: install the program bwrap")
    folder = folder.absolute()
    own = folder.with_name(f"{folder.name}.{OWN}")
    environment = _environment(listing, own)
    if like:
        exported.export_like(like, folder, task)
    else:
        exported.export(task, folder, size=size, layout="distributed", seed=seed, train_seconds=seconds)
    (own / "tmp").mkdir(parents=True)
    log = own / "log"
    if other.remark:
        with (folder / "PROMPT.md").open("a", encoding="utf-8") as file:
            file.write(f"\n{other.remark}\n")
    if other.lay_out:
        other.lay_out(folder, own)
    known = {
        "own": str(own),
        "wall": f"{wall:.0f}",
        "name": listing.model.model,
        "model": f"{listing.endpoint.protocol}/{listing.model.model}",
        "prompt": (folder / "PROMPT.md").read_text(encoding="utf-8"),
        "prompt_file": str(folder / "PROMPT.md"),
        "log": str(log),
        "actions": str(ACTIONS),
    }
    environment |= {name: value.format_map(known) for name, value in other.environment.items()}
    began = time.monotonic()
    call = [*_walls(bwrap, folder, own, like), program, *(word.format_map(known) for word in other.arguments)]
    with suppress(subprocess.TimeoutExpired):  # what it left by then counts
        subprocess.run(call, cwd=folder, env=environment, timeout=wall, stdin=subprocess.DEVNULL)
    took = time.monotonic() - began
    for package in [path.parent for path in (own / other.left).rglob("package/predict.py")][:1] if other.left else []:
        shutil.copytree(package, folder / "package", dirs_exist_ok=True)
    found = exported.score(folder, f"{name} {core}", ended=True)
    spent = other.spent(log)
    parts = {name: spent.model_copy(update={"done": found.valid})} if spent else {}
    return found.model_copy(update={"seconds": round(took, 1), "parts": parts})


def _walls(bwrap: str, folder: Path, own: Path, like: Path | None = None) -> list[str]:
    """How to run a program that may write to its own folders and /tmp only, and ends with all that it started.

    It does not see what is sealed of this task, nor others beside it, nor the generators, which can make the sealed
    cases again from a seed, nor a system of the caller. It has the network, where its model is.
    """
    parents = {folder.parent, *([like.absolute().parent] if like else [])}
    sealed = [path for parent in parents for path in parent.glob(f"*{exported.SEALED}")]
    tasks = [path.with_suffix(end) for path in sealed for end in (exported.SEALED, "", f".{OWN}")]
    # Another clone may be installed than the one that runs.
    specs = [finder.find_spec("m3bench", None) for finder in sys.meta_path]
    ours = [Path(place) for spec in specs if spec for place in spec.submodule_search_locations or ()]
    hidden = {*ours, Settings().home.absolute(), *tasks} - {folder, own}
    words = [bwrap, "--ro-bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--bind", "/tmp", "/tmp"]
    words += ["--bind", str(folder), str(folder), "--bind", str(own), str(own)]
    words += [word for path in sorted(hidden) if path.is_dir() for word in ("--tmpfs", str(path))]
    truths = [path for parent in sorted(parents) for path in parent.glob("*.truth.json")]
    words += [word for path in truths for word in ("--ro-bind", os.devnull, str(path))]
    return [*words, "--cap-drop", "ALL", "--unshare-pid", "--die-with-parent", "--"]


def _environment(listing: Listing, own: Path) -> dict[str, str]:
    """The caller's, with the key and address of the endpoint by LiteLLM's names, our Python, which has PyTorch, and a
    home of its own, without the caller's configuration."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("M3_")}
    protocol = listing.endpoint.protocol.upper()
    return bare | {
        f"{protocol}_API_KEY": listing.key(),
        # LiteLLM and the libraries of the protocols differ in the name.
        f"{protocol}_API_BASE": listing.url,
        f"{protocol}_BASE_URL": listing.url,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "HOME": str(own),
        "TMPDIR": str(own / "tmp"),
        "PYTHONUSERBASE": site.getuserbase(),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
