"""What a child needs to see of the GPUs, by list: device nodes, MIG capabilities and the driver's libraries.

Libraries below /usr are not listed, since every sandbox shows /usr: a container runtime that lends a GPU puts them
there. CUDA's own libraries come with the interpreter's environment.
"""

import subprocess
from pathlib import Path

from services.tool_runner.sandbox.model import Mount

_DEVICES = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps/*", "dxg")
_LIBRARIES = ("libcuda.so*", "libnvidia-ml.so*", "libnvidia-ptxjitcompiler.so*", "libnvidia-nvvm*.so*")
_FOLDERS = ("run/opengl-driver/lib", "opt/nvidia/lib64", "home/kubernetes/bin/nvidia/lib64")


def gpu_mounts(root: Path = Path("/")) -> list[Mount]:
    """Empty where there is no GPU. `root` stands for `/` and is stripped from the targets."""
    devices = sorted({path for pattern in _DEVICES for path in (root / "dev").glob(pattern) if not path.is_dir()})
    if not devices:
        return []
    folders = [root / folder for folder in _FOLDERS]
    if root == Path("/"):
        folders += _registered()
    libraries = sorted({path for folder in folders for pattern in _LIBRARIES for path in folder.glob(pattern)})
    return [Mount(source=path, target=f"/{path.relative_to(root)}") for path in (*devices, *libraries)]


def _registered() -> list[Path]:
    """Folders of libcuda in the loader's cache, for drivers in unusual places."""
    for tool in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        if Path(tool).exists():
            done = subprocess.run([tool, "-p"], capture_output=True, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if "libcuda.so" in line and " => " in line]
            folders = [Path(line.rpartition(" => ")[2]).parent for line in lines]
            return [folder for folder in folders if not folder.resolve().is_relative_to("/usr")]
    return []
