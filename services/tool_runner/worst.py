"""The two worst validation cases of a training as pictures in its workspace: truth as a line, the answer filled."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.tool_runner.bounds import read_json
from services.tool_runner.execute import SandboxExecute, last_json
from services.tool_runner.forks import fork_area
from services.tool_runner.mounts import Mounted
from services.tool_runner.paths import Roots
from services.tool_runner.render import colour
from services.tool_runner.sandbox import Level
from services.tool_runner.telling import worst_first
from services.tool_runner.tools.staging import Staging
from services.tool_runner.training import in_line
from shared.contracts.data import ViewManifest
from shared.contracts.state import RunState
from shared.contracts.tools import ToolCall
from shared.contracts.training import JobSpec
from shared.errors import ToolRefused
from shared.store import Store

if TYPE_CHECKING:
    from shared.bus import Bus
    from shared.service import Context

FOLDER, MANY = "worst", 2
SECONDS, PREDICTED, MAX_PNG = 60.0, 240.0, 120_000


class Worst:
    def __init__(
        self, context: Context, level: Level, spec: JobSpec, store: Store, workspace: Path, mounted: Mounted,
        tried: str = "",
    ) -> None:  # fmt: skip
        """`tried`: name of the try in whose copy this is."""
        self.store, self.workspace, self.of = store, workspace, f"{tried}/" if tried else ""
        self.execute = SandboxExecute(context, level, spec.run_id, f"{spec.job_id}-worst", workspace, mounted)

    async def pictures(self, state: RunState, cases: Any) -> str:
        """Write worst/1.png and worst/2.png of the worst of `cases` (metrics.json) that are validation cases of the
        view; -> a line that names them, empty where there are none. What cannot be drawn is left out."""
        listed = worst_first(cases)
        if not listed or not state.locked:
            return ""
        view = ViewManifest.model_validate_json(await asyncio.to_thread(self.store.get_bytes, state.locked.view))
        known = {row.sample_id: row for row in view.rows if row.split == "val"}
        rows, values = [known[case["id"]] for case in listed if case["id"] in known][:MANY], view.facts.label_values
        answers = await self._answers([row.files[0] for row in rows]) if values else {}
        drawn: list[str] = []
        for number, row in enumerate(rows, 1):
            asked: dict[str, Any] = {"images": [f"/data/{name}" for name in row.files], "values": dict(values)}
            asked |= {"colours": [colour(place) for place in range(len(values))], "limit": MAX_PNG}
            if values and row.target:
                asked |= {"truth": f"/data/{row.target}", "answer": answers.get(row.files[0])}
            argv = self.execute.probe_argv("render_case.py", json.dumps(asked))
            found = last_json((await self.execute(argv, seconds=SECONDS, probe=True)).output) or {}
            try:
                png = base64.b64decode(str(found.get("png", "")), validate=True)
                if png.startswith(b"\x89PNG\r\n\x1a\n") and len(png) <= MAX_PNG:
                    await asyncio.to_thread(write, self.workspace, f"{FOLDER}/{number}.png", png)
                    drawn.append(f"{FOLDER}/{self.of}{number}.png is {in_line(row.sample_id, 60)}")
            except (binascii.Error, ToolRefused):
                continue
        how = " (truth as a line, answer filled)" if values else ""
        return f"\nWorst cases for view_image: {', '.join(drawn)}{how}" if drawn else ""

    async def _answers(self, images: list[str]) -> dict[str, str]:
        """Image below /data -> the mask that the training's own package gives it, below /workspace."""
        command = f'exec python -I package/predict.py "${{@/#/$M3_DATA/}}" --output {FOLDER}'
        await self.execute(["bash", "-c", command, "-", *images], seconds=PREDICTED)
        cases = (await asyncio.to_thread(read_json, self.workspace, f"{FOLDER}/predictions.json")).get("cases")
        masks = [case.get("mask") for case in cases if isinstance(case, dict)] if isinstance(cases, list) else []
        named = zip(images, masks, strict=False)
        return {image: f"/workspace/{FOLDER}/{mask}" for image, mask in named if isinstance(mask, str)}


async def bring(call: ToolCall, state: RunState, area: str, bus: Bus, store: Store, workspace: Path) -> None:
    """Lay pictures of tries that a call names into the workspace: worst/NAME/1.png is worst/1.png in the copy of the
    try NAME."""
    paths = call.arguments.get("paths")
    for path in paths if isinstance(paths, list | tuple) else ():
        found = re.fullmatch(rf"(?:/workspace/)?({FOLDER}/([A-Za-z0-9_-]{{1,80}})/([1-{MANY}]\.png))", str(path))
        done = state.training(found[2]) if found else None
        head = await bus.workspace_head(call.run_id, fork_area(area, done.job_id)) if done else None
        if not found or head is None:
            continue
        entry = (await asyncio.to_thread(store.get_manifest, head)).files.get(f"{FOLDER}/{found[3]}")
        if entry and entry.ref.size <= MAX_PNG:
            content = await asyncio.to_thread(store.get_bytes, entry.ref)
            with suppress(ToolRefused):
                await asyncio.to_thread(write, workspace, found[1], content)


def write(workspace: Path, name: str, content: bytes) -> None:
    with Staging() as staging:
        staging.add(Roots(workspace=workspace).locate(name, for_write=True), content)
        staging.commit()
