"""The tool check_dataset in the real sandbox as an ordinary user; prints its results as JSON.

Usage: sandboxed_gate.py LEVEL FOLDER UID, the folder owned by UID and holding `data`. A process of its own, since the
sandbox refuses to run as root.
"""

import asyncio
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from services.tool_runner import sandbox
from shared.errors import ToolBroken
from shared.settings import Settings


async def main(base: Path, level: sandbox.Level) -> dict[str, Any]:
    from services.tool_runner.execute import SandboxExecute
    from services.tool_runner.mounts import Mounted
    from services.tool_runner.tools import Roots, run_tool

    (base / "workspace").mkdir()
    roots = Roots(base / "workspace", base / "data")
    context = cast(Any, SimpleNamespace(settings=Settings(home=base / "home"), store=None))
    calls = {
        "whole": {},
        "part": {"path": "/data/images"},
        "file": {"path": "/data/labels.json"},
        "none": {"path": "/x"},
    }
    found = {}
    for name, arguments in calls.items():
        execute = SandboxExecute(context, level, "r1", f"call-{name}", roots.workspace, Mounted(data=roots.data))
        result = await run_tool("check_dataset", cast(Any, arguments), roots, execute, f"call-{name}")
        found[name] = result.model_dump(mode="json")
    return found


if __name__ == "__main__":
    wanted, home, uid = cast(sandbox.Level, sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    try:
        sandbox.drop_root(uid, [home])
        sandbox.detect(wanted)
        print(json.dumps(asyncio.run(main(home, wanted))))
    except ToolBroken as broken:
        print(json.dumps({"unavailable": str(broken)}))
