"""Which checkpoint to go on from. The framework takes the highest number, whole or not; we take one that loads."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import safetensors.torch
import torch
from pydantic import BaseModel

from shared.training.progress import read_json, write_json

Config = TypeVar("Config", bound=BaseModel)

NEEDED = ("trainer_state.json", "optimizer.pt", "scheduler.pt", "model.safetensors")
STATE = "state.pt"
"""All of a checkpoint of a visible loop (saved.py), where a Transformers Trainer's has the files NEEDED."""
WRITTEN = ("package", "fitted", "checkpoints", "cache")
"""Folders of a workspace that trainings write."""
SETTLED = "settled.json"
SENTINEL = "checkpoint-is-incomplete.txt"


def pick_checkpoint(folder: Path) -> tuple[Path | None, dict[str, str]]:
    """The newest intact `checkpoint-<step>` below `folder`, if any, and which were passed over and why."""
    steps = {path: path.name.removeprefix("checkpoint-") for path in folder.glob("checkpoint-*/")}
    numbered = [(int(step), path) for path, step in steps.items() if step.isdigit()]
    broken: dict[str, str] = {}
    for _, path in sorted(numbered, reverse=True):
        reason = checkpoint_fault(path)
        if reason is None:
            return path, broken
        broken[path.name] = reason
    return None, broken


def checkpoint_fault(path: Path) -> str | None:
    """Why a training could not go on from it, or None. All of it is loaded."""
    if (path / SENTINEL).exists():
        return "it says itself that it is incomplete"
    for name in (STATE,) if (path / STATE).exists() else NEEDED:
        if not (path / name).is_file() or not (path / name).stat().st_size:
            return f"{name} is missing or empty"
    try:
        for file in path.glob("*.json"):
            json.loads(file.read_text())
        for file in path.glob("*.safetensors"):
            safetensors.torch.load_file(file)
        for file in path.glob("*.pt"):
            torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a torn file raises
        return f"it does not load ({type(error).__name__})"
    return None


@dataclass(frozen=True)
class Attempt:
    """`seconds` were spent by earlier attempts at the same training, `number` counts from 1."""

    number: int
    seconds: float


def begin_attempt(folder: Path, fingerprint: str) -> Attempt:
    """Open or continue the training that `fingerprint` (configuration, data, code) stands for. Checkpoints of another
    one are moved to `previous/` below `folder`, which replaces what lay there."""
    note = folder / "run.json"
    known = read_json(note)
    if known.get("fingerprint") not in (None, fingerprint):
        print(
            "configuration, data or code have changed: this training begins anew, the checkpoints of the earlier one "
            f"are kept in {folder / 'previous'}",
            flush=True,
        )
        _set_aside_all(folder, keep=note)
        known = {}
    attempt = Attempt(int(known.get("attempts", 0)) + 1, float(known.get("seconds", 0.0)))
    write_json(note, {"fingerprint": fingerprint, "attempts": attempt.number, "seconds": attempt.seconds})
    return attempt


def _set_aside_all(folder: Path, keep: Path) -> None:
    """Into `previous/`. Killed halfway, the next call goes on with what is left and loses nothing."""
    previous, draft = folder / "previous", folder / "previous.part"
    for item in [item for item in folder.iterdir() if item not in (keep, previous, draft)]:
        draft.mkdir(exist_ok=True)
        item.replace(draft / item.name)
    if draft.exists():
        if previous.exists():
            shutil.rmtree(previous)
        draft.replace(previous)


def note_seconds(folder: Path, attempt: Attempt, spent_now: float) -> None:
    """Record the time that this attempt has used, so that a successor knows what is left."""
    note = folder / "run.json"
    write_json(note, {**read_json(note), "seconds": round(attempt.seconds + spent_now, 2)})


def resume(folder: Path, mark: str) -> tuple[Attempt, Path | None]:
    """Open the training that `mark` stands for; -> this attempt and what it goes on from. Says so on stdout. Broken
    checkpoints are renamed, so that nothing else picks them or overwrites halfway into them."""
    attempt = begin_attempt(folder, mark)
    path, broken = pick_checkpoint(folder)
    for name, reason in broken.items():
        print(f"{name} is passed over: {reason}", flush=True)
        shutil.rmtree(folder / f"broken-{name}", ignore_errors=True)
        (folder / name).replace(folder / f"broken-{name}")
    if path:
        print(f"attempt {attempt.number} goes on from {path.name}", flush=True)
    elif attempt.number > 1:
        print(f"attempt {attempt.number} starts from the beginning: no intact checkpoint", flush=True)
    return attempt, path


def as_settled(folder: Path, asked: str, config: Config) -> Config:
    """`config` with what `auto` became in an earlier attempt at what was `asked` (its fingerprint). It depends on the
    time, and a training that goes on with more of it keeps what it began with."""
    known = read_json(folder / SETTLED)
    if known.get("asked") != asked:
        return config
    return config.model_validate({**config.model_dump(), **known["settled"]})


def note_settled(folder: Path, asked: str, config: Config, sections: set[str]) -> None:
    """Record what `auto` became in these sections; after `resume`, which sets another training's folder aside."""
    write_json(folder / SETTLED, {"asked": asked, "settled": config.model_dump(mode="json", include=sections)})


def code_of(workspace: Path) -> list[Path]:
    """Every .py file of a workspace but for what trainings write: an edit of any makes the training another one."""
    found = [path.relative_to(workspace) for path in sorted(workspace.rglob("*.py"))]
    return [workspace / path for path in found if path.parts[0] not in WRITTEN and not path.parts[0].startswith(".")]


def fingerprint(value: Any, files: Sequence[Path]) -> str:
    """Digest of a JSON value and of the files' contents."""
    digest = hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode())
    for file in files:
        digest.update(file.read_bytes() if file.exists() else b"")
        digest.update(b"\0")
    return digest.hexdigest()[:16]
