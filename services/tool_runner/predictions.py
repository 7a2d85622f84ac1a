"""What a package predicted: its file is read in the sandbox, and only what that program tells is taken further."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from services.tool_runner.masks import mask_result
from services.tool_runner.mounts import PROBES, code_mounts
from services.tool_runner.reports import report_result
from services.tool_runner.sandbox import Finished, Level, Limits, Mount, run
from shared.contracts.base import SEGMENTATIONS
from shared.settings import Settings
from shared.store import Store

MAX_BYTES = 64 << 20
"""Of the package's file, and of what the program tells of it."""
A_MASK = 60.0
"""Seconds that a case with a mask may take on average, beside the 600 for all."""
SLOWEST = 300
"""Seconds of processor time, after which a case with a mask counts as not answered."""
_RESERVE_MB = 300
"""Of the sandbox's memory, for the program beside the reader of a case."""
_LINE = 1 << 19
_SCRIPT = "read_predictions.py"


async def collect(
    task: str,
    out: Path,
    folder: Path,
    samples: Mapping[str, str],
    log: Path,
    level: Level,
    settings: Settings,
    store: Store,
) -> dict[str, Any]:
    """The result of a predict job that wrote below `out`: what each of `samples` (input name -> sample_id) was given.

    `folder` does not exist yet and is the program's: masks are written anew there. `log` gets what it says. A file that
    is none, or is too large, leaves every sample without a prediction.
    """
    folder.mkdir()
    masks = task in SEGMENTATIONS
    script = f"/probes/{_SCRIPT}" if level == "bwrap" else str(PROBES / _SCRIPT)
    memory = settings.sandbox_memory_mb
    bounds = [str(SLOWEST), str(max(memory - _RESERVE_MB, memory // 2))]
    done = await run(
        ["python", script, str(MAX_BYTES), *(bounds if masks else [])],
        workspace=folder,
        mounts=[*code_mounts(settings.home, probes=True), Mount(source=out, target="/out", env="M3_OUT")],
        limits=Limits(
            seconds=600 + (A_MASK * len(samples) if masks else 0),
            memory_mb=memory,
            disk_mb=settings.sandbox_disk_mb,
            output_mb=MAX_BYTES >> 20,
            threads=1,
        ),
        log=log,
        level=level,
        stdin=json.dumps(list(samples)).encode(),
        writable_workspace=masks,
    )
    return await asyncio.to_thread(_result, task, folder, done, samples, store)


def _result(task: str, folder: Path, done: Finished, samples: Mapping[str, str], store: Store) -> dict[str, Any]:
    found, answers = ({}, {}) if done.output_cut else _told(done.log)
    if answers and done.outcome != "ok":
        late = {"error": f"not read: reading the answers before it ended as {done.outcome}"}
        answers = dict.fromkeys(samples, late) | answers
    if task in SEGMENTATIONS:
        return mask_result(task, folder, found, answers, samples, store)
    if task == "report_generation":
        return report_result(task, answers, samples)
    none = {"error": "no prediction was returned"}
    cases = {sample: answers.get(name, none) for name, sample in samples.items()}
    return {"labels": found.get("labels", []), "multi_label": found.get("multi_label") is True, "cases": cases}


def _told(log: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What stands beside the answers, and the answers by the names of their inputs; the newest of each counts."""
    found: dict[str, Any] = {}
    answers: dict[str, dict[str, Any]] = {}
    with log.open("rb") as lines:
        while line := lines.readline(_LINE):
            try:
                said = json.loads(line)
            except ValueError:
                continue  # a warning of a decoder, or the end of one that was killed
            if isinstance(said, dict) and isinstance(name := said.pop("input", None), str):
                answers[name] = said
            elif isinstance(said, dict):
                found = found or said
    return found, answers
