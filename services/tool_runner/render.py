"""Pictures of test cases, once a run has its score: drawn by a program of ours in the sandbox, stored apart.

Images and masks are files of strangers, so each case is drawn in a sandbox of its own: what one of them does to the
program that reads it ends with that case. What is mounted follows from the run's events; the call only names samples.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import colorsys
import json
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from services.tool_runner.execute import SandboxExecute, last_json
from services.tool_runner.mounts import Mounted
from services.tool_runner.sandbox import Level, remove_tree
from services.tool_runner.views import lay_out_views, suffix_of
from shared.contracts.base import SEGMENTATIONS, Ref
from shared.contracts.data import SealedSplit, StoredCase
from shared.contracts.pictures import MAX_PNG, CasePicture, CasePictures, RenderCases
from shared.contracts.state import RunState
from shared.contracts.tools import ToolCall, ToolResult
from shared.errors import NotFound, ToolBroken, ToolRefused
from shared.store import Store

if TYPE_CHECKING:
    from shared.service import Context

SECONDS = 120.0
"""A case may take."""
_COLOURS = (
    "#ff4040", "#40dc40", "#5096ff", "#ffd228", "#f05af0", "#3cdcdc", "#ff963c",
    "#a070ff", "#c8ff50", "#ffa0c8", "#b4825a", "#00a882", "#b4b4ff", "#ffffb0",
)  # fmt: skip
_SIDE = 4096
"""Most pixels of a side that a picture may claim."""
_NOTES, _NOTE = 6, 300


async def render_cases(context: Context, level: Level, call: ToolCall, state: RunState) -> ToolResult:
    """Pictures of the samples that the call names; a case that cannot be drawn says why and stops no other.

    Raises Unavailable and ToolBroken, as every call does.
    """
    try:
        wanted = RenderCases.model_validate(dict(call.arguments)).samples
        cases = await asyncio.to_thread(_Cases.of, state, context.store)
    except (ToolRefused, NotFound, ValidationError) as error:
        return _refuse(call, f"test cases cannot be drawn: {error}")
    # With the jobs', so that what a killed runner leaves goes away at the next start.
    scratch = context.settings.home / "runner" / "jobs"
    scratch.mkdir(parents=True, exist_ok=True)
    pictures = []
    isolation = ""
    for number, sample_id in enumerate(wanted):
        folder = Path(tempfile.mkdtemp(prefix="pictures-", dir=scratch))
        try:
            for name in ("data", "workspace"):
                (folder / name).mkdir()
            try:
                asked = await asyncio.to_thread(cases.lay_out, sample_id, folder / "data")
            except (ToolRefused, ToolBroken, NotFound) as error:
                pictures.append(CasePicture(sample_id=sample_id, problem=str(error)[:_NOTE]))
                continue
            execute = SandboxExecute(
                context, level, call.run_id, f"{call.call_id}-{number}", folder / "workspace",
                Mounted(data=folder / "data"),
            )  # fmt: skip
            argv = execute.probe_argv("render_case.py", json.dumps(asked | {"limit": MAX_PNG}))
            done = await execute(argv, seconds=SECONDS, probe=True)
            isolation = done.isolation
            found = last_json(done.output) or {"problem": f"drawing it ended as {done.outcome}"}
            pictures.append(await asyncio.to_thread(_kept, sample_id, found, context.store))
        finally:
            await asyncio.to_thread(remove_tree, folder)
    drawn = sum(one.png is not None for one in pictures)
    result = CasePictures(pictures=tuple(pictures), colours=cases.colours)
    return ToolResult(
        call_id=call.call_id,
        tool=call.tool,
        ok=True,
        summary=f"drew {drawn} of {len(wanted)} cases",
        data=result.model_dump(mode="json"),
        isolation=isolation,
    )


class _Cases:
    """Where the files of a scored run's test cases lie."""

    def __init__(self, split: SealedSplit, answers: Mapping[str, Any], store: Store) -> None:
        facts = split.facts
        masks = facts.task in SEGMENTATIONS
        rows = zip(split.rows, split.stored, strict=True)
        self._cases: dict[str, StoredCase] = {row.sample_id: case for row, case in rows if row.split == "test"}
        self._answers = answers if masks else {}
        self._values = {name: facts.label_values[name] for name in facts.label_names} if masks else {}
        self._store = store
        self.colours = {name: colour(number) for number, name in enumerate(self._values)}

    @classmethod
    def of(cls, state: RunState, store: Store) -> _Cases:
        """Blocks. Raises ToolRefused for a run that has no score, NotFound when what it left is gone."""
        locked, trained = state.locked, state.trained
        if not (state.scored and locked and trained):
            raise ToolRefused("the run has no score yet, so no test case may be looked at")
        split = SealedSplit.model_validate_json(store.get_bytes(locked.sealed))
        predicted = _output(state, "predict", trained.event_id, "predictions")
        answers = json.loads(store.get_bytes(predicted)).get("cases") if predicted else None
        return cls(split, answers if isinstance(answers, dict) else {}, store)

    def lay_out(self, sample_id: str, folder: Path) -> dict[str, Any]:
        """The case's files below `folder` under names that say nothing, and what the program is asked. Blocks."""
        case = self._cases.get(sample_id)
        if case is None:
            raise ToolRefused("is no test sample of this run")
        lay_out_views(case, self._store, folder / "image")
        asked: dict[str, Any] = {
            "images": [f"/data/image/{path.name}" for path in sorted((folder / "image").iterdir())],
            "values": dict(self._values),
            "colours": list(self.colours.values()),
        }
        given = self._answers.get(sample_id)
        answer = given if isinstance(given, dict) and "mask" in given else None
        masks = {
            "truth": (case.mask, suffix_of(case.mask) if case.mask else ""),
            "answer": (Ref.model_validate(answer["mask"]), str(answer.get("suffix"))) if answer else (None, ""),
        }
        for name, (ref, suffix) in masks.items():
            if ref is not None:
                self._store.get_file(ref, folder / f"{name}{suffix}")
                asked[name] = f"/data/{name}{suffix}"
        return asked


def colour(number: int) -> str:
    """Of a structure by its place: the first by hand, the others as far from each other as hues go."""
    if number < len(_COLOURS):
        return _COLOURS[number]
    rgb = colorsys.hsv_to_rgb(number * 0.618034 % 1, 0.5 + 0.4 * (number % 2), 1.0)
    return "#" + "".join(f"{round(one * 255):02x}" for one in rgb)


def _output(state: RunState, job: str, cause: str, name: str) -> Ref | None:
    """Of the newest job of this kind that the event led to."""
    ended = [one for one in state.jobs_done.values() if one.job == job and one.caused_by == cause]
    return ended[-1].outputs.get(name) if ended and ended[-1].outcome == "ok" else None


def _kept(sample_id: str, found: Mapping[str, Any], store: Store) -> CasePicture:
    """The picture in the store, if it is one: the program has read a foreign file, so its word does not count."""
    problem = str(found.get("problem") or "")[:_NOTE]
    notes = found.get("notes")
    said = tuple(str(note)[:_NOTE] for note in notes[:_NOTES]) if isinstance(notes, list) else ()
    if problem:
        return CasePicture(sample_id=sample_id, problem=problem)
    try:
        png = base64.b64decode(str(found.get("png", "")), validate=True)
    except (binascii.Error, ValueError):
        png = b""
    size = _size(png)
    if size is None:
        return CasePicture(sample_id=sample_id, problem="what was drawn is no picture of a bounded size")
    ref = store.put_bytes("pictures", png, "image/png")
    return CasePicture(sample_id=sample_id, png=ref, width=size[0], height=size[1], notes=said)


def _size(png: bytes) -> tuple[int, int] | None:
    """Width and height from the header of a PNG; None for anything else, and for one that is too large."""
    if not png.startswith(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR") or not 33 <= len(png) <= MAX_PNG:
        return None
    width, height = struct.unpack(">II", png[16:24])
    return (width, height) if 0 < width <= _SIDE and 0 < height <= _SIDE else None


def _refuse(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call_id=call.call_id, tool=call.tool, ok=False, summary=text)
