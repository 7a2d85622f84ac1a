"""What a runner's GPUs do, from the driver's own tool; nothing where there is none."""

import shutil
import subprocess

from services.tool_runner.sandbox.gpu import Gpus
from shared import telemetry
from shared.telemetry import Figures, Metrics, Name

SECONDS = 5.0
_ASKED = "uuid,utilization.gpu,memory.used,memory.total"
_MIB = 1 << 20


def tell_gpus(gpus: Gpus) -> None:
    """Have use and memory of the runner's GPUs in the metrics from now on. MIG slices tell no use of their own."""
    tool = shutil.which("nvidia-smi")
    if tool is None or not gpus.count:
        return
    for metric, column, scale in (
        (Metrics.GPU_BUSY, 1, 0.01),
        (Metrics.GPU_USED, 2, _MIB),
        (Metrics.GPU_SIZE, 3, _MIB),
    ):
        telemetry.observe(metric, lambda column=column, scale=scale: _look(tool, gpus, column, scale))  # type: ignore[misc]


def _look(tool: str, gpus: Gpus, column: int, scale: float) -> Figures:
    command = [tool, f"--query-gpu={_ASKED}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]
    own = [row for row in rows if len(row) == 4 and (not gpus.names or row[0] in gpus.names)]
    return [(float(row[column]) * scale, {Name.GPU: row[0]}) for row in own if row[column].isdecimal()]
