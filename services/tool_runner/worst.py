"""The two worst validation cases of a training as pictures in its workspace: truth as a line, the answer filled."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.tool_runner.execute import SandboxExecute, last_json
from services.tool_runner.mounts import Mounted
from services.tool_runner.paths import Roots
from services.tool_runner.render import colour
from services.tool_runner.sandbox import Level
from services.tool_runner.telling import worst_first
from services.tool_runner.tools.staging import Staging
from services.tool_runner.training import in_line
from shared.contracts.data import ViewManifest
from shared.contracts.state import RunState
from shared.contracts.training import JobSpec
from shared.errors import ToolRefused
from shared.store import Store

if TYPE_CHECKING:
    from shared.service import Context

FOLDER, MANY = "worst", 2
SECONDS, MAX_PNG = 60.0, 120_000


class Worst:
    def __init__(
        self, context: Context, level: Level, spec: JobSpec, store: Store, workspace: Path, mounted: Mounted
    ) -> None:
        self.store, self.roots = store, Roots(workspace=workspace)
        self.execute = SandboxExecute(context, level, spec.run_id, f"{spec.job_id}-worst", workspace, mounted)

    async def pictures(self, state: RunState, cases: Any) -> str:
        """Write worst/1.png and worst/2.png of the worst of `cases` (metrics.json) that are validation cases of the
        view; -> a line that names them, empty where there are none. What cannot be drawn is left out."""
        listed = worst_first(cases)
        if not listed or not state.locked:
            return ""
        view = ViewManifest.model_validate_json(await asyncio.to_thread(self.store.get_bytes, state.locked.view))
        rows = {row.sample_id: row for row in view.rows if row.split == "val"}
        values, drawn = dict(view.facts.label_values or {}), []
        for number, case in enumerate([one for one in listed if one["id"] in rows][:MANY], 1):
            row = rows[case["id"]]
            asked: dict[str, Any] = {"images": [f"/data/{name}" for name in row.files], "values": values}
            asked |= {"colours": [colour(number) for number in range(len(values))], "limit": MAX_PNG}
            if values and row.target:
                answer = f"{FOLDER}/{number}.nii.gz"
                asked |= {"truth": f"/data/{row.target}", "answer": f"/workspace/{answer}"}
            done = await self.execute(
                self.execute.probe_argv("render_case.py", json.dumps(asked)), seconds=SECONDS, probe=True
            )
            found = last_json(done.output) or {}
            try:
                png = base64.b64decode(str(found.get("png", "")), validate=True)
                if not png.startswith(b"\x89PNG\r\n\x1a\n") or len(png) > MAX_PNG:
                    continue
                await asyncio.to_thread(self._write, f"{FOLDER}/{number}.png", png)
            except (binascii.Error, ToolRefused):
                continue
            drawn.append(f"{FOLDER}/{number}.png is {in_line(case['id'], 60)}")
        how = ", truth as a line, answer filled" if values else ""
        return f"\nTo be seen with view_image: {', '.join(drawn)}{how}." if drawn else ""

    def _write(self, name: str, content: bytes) -> None:
        with Staging() as staging:
            staging.add(self.roots.locate(name, for_write=True), content)
            staging.commit()
