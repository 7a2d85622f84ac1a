"""A file of weights that is to be put on the shelf, looked at in the sandbox."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from services.tool_runner.execute import SandboxExecute, last_json
from services.tool_runner.mounts import Mounted, templates
from services.tool_runner.sandbox import Level
from shared.contracts.tools import ToolCall, ToolResult
from shared.contracts.weights import LookAtWeights, Looked

if TYPE_CHECKING:
    from shared.service import Context


async def look(call: ToolCall, context: Context, level: Level, scratch: Path) -> ToolResult:
    """The answer to a `LookAtWeights`: a `Looked`, or why the file is no state dict. `scratch` is an empty folder."""
    asked = LookAtWeights.model_validate(dict(call.arguments))
    name = f"weights{asked.suffix}"
    await asyncio.to_thread(context.store.get_file, asked.file, scratch / name)
    mounted = Mounted(templates=await asyncio.to_thread(templates, context.settings.home))
    execute = SandboxExecute(context, level, call.run_id, call.call_id, scratch, mounted)
    done = await execute(execute.probe_argv("look_at_weights.py", name), seconds=300, probe=True)
    found = last_json(done.output) or {}
    try:
        looked = Looked.model_validate(found)
    except ValidationError:
        tail = done.output[-500:].decode(errors="replace")
        why = str(found.get("refused") or f"it could not be looked at ({done.outcome}): {tail}")
        return ToolResult(call_id=call.call_id, tool=call.tool, ok=False, summary=why, isolation=done.isolation)
    return ToolResult(
        call_id=call.call_id, tool=call.tool, ok=True, summary=f"{looked.tensors} tensors",
        data=looked.model_dump(mode="json"), isolation=done.isolation,
    )  # fmt: skip
