"""Every tool that executes, once, in the real sandbox as an ordinary user; prints what came back as JSON.

Usage: sandboxed_tools.py LEVEL FOLDER UID, the folder owned by UID. A process of its own, since the sandbox refuses to
run as root.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from services.tool_runner import sandbox
from services.tool_runner.mounts import PROBES, code_mounts
from services.tool_runner.tools import Executed, Roots, run_tool
from shared.errors import ToolBroken


class SandboxExecute:
    def __init__(self, roots: Roots, base: Path, level: sandbox.Level) -> None:
        self.roots, self.log, self.level = roots, base / "log", level

    def probe_argv(self, script: str, *args: str) -> list[str]:
        return ["python", f"{'/probes' if self.level == 'bwrap' else PROBES}/{script}", *args]

    async def __call__(
        self, argv: Sequence[str], *, seconds: float, stdin: bytes = b"", probe: bool = False
    ) -> Executed:
        assert self.roots.data is not None
        mounts = [sandbox.Mount(self.roots.data, "/data", env="M3_DATA")]
        mounts += code_mounts(self.log.parent, probe)
        limits = sandbox.Limits(seconds=seconds, memory_mb=2000)
        done = await sandbox.run(
            argv,
            workspace=self.roots.workspace,
            mounts=mounts,
            limits=limits,
            log=self.log,
            level=self.level,
            stdin=stdin,
            writable_workspace=not probe,
        )
        return Executed(done.outcome, done.exit_code, done.seconds, done.level, self.log.read_bytes())


async def main(base: Path, level: sandbox.Level) -> dict[str, object]:
    import nibabel as nib
    import numpy as np
    from PIL import Image

    roots = Roots(base / "workspace", base / "data")
    for folder in (roots.workspace, base / "data" / "a"):
        folder.mkdir(parents=True)
    scan = np.zeros((30, 32, 12), np.int16)
    scan[10:20, 10:20, 4:8] = 100
    nib.save(nib.Nifti1Image(scan, np.diag([1, 1, 3, 1])), base / "data" / "a" / "scan.nii.gz")
    nib.save(nib.Nifti1Image((scan > 0).astype(np.uint8), np.diag([1, 1, 3, 1])), base / "data" / "mask.nii.gz")
    Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8)).save(base / "data" / "flat.png")
    (base / "data" / "labels.csv").write_text("id,label\n1,a\n2,b\n")
    execute = SandboxExecute(roots, base, level)
    script = (
        "import os\ndata = os.environ['M3_DATA']\nprint(open(data + '/labels.csv').read())\nopen(data + '/x', 'w')\n"
    )
    calls: list[tuple[str, str, dict[str, object]]] = [
        ("shell", "write_files", {"files": {"run.sh": "echo hello\n"}}),
        ("broken_shell", "write_files", {"files": {"bad.sh": "if true\n"}}),
        ("script", "run_script", {"script": script, "save_as": "look.py"}),
        ("command", "run_script", {"command": "bash run.sh | cat"}),
        ("slow", "run_script", {"command": "sleep 30", "seconds": 1}),
        ("dirs", "preview_dirs", {}),
        ("files", "preview_files", {"paths": ["/data/labels.csv", "/data/a/scan.nii.gz", "/workspace/run.sh"]}),
        ("view", "view_image", {"paths": ["/data/a/scan.nii.gz"], "overlays": ["/data/mask.nii.gz"]}),
    ]
    return {
        key: (await run_tool(tool, arguments, roots, execute, f"call-{key}")).model_dump(mode="json")  # type: ignore[arg-type]
        for key, tool, arguments in calls
    }


if __name__ == "__main__":
    wanted, home, uid = cast(sandbox.Level, sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    try:
        sandbox.drop_root(uid, [home])
        sandbox.detect(wanted)
        print(json.dumps(asyncio.run(main(home, wanted))))
    except ToolBroken as broken:
        print(json.dumps({"unavailable": str(broken)}))
