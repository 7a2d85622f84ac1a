"""The GPUs of a runner: one process is one slot with GPUs that are named, and its jobs see these and no others.

What a child needs is bound by list: device nodes, MIG capabilities and the driver's libraries. Libraries below /usr are
not listed, since every sandbox shows /usr: a container runtime that lends a GPU puts them there. CUDA's own libraries
come with the interpreter's environment.
"""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.tool_runner.sandbox.model import Mount
from shared.errors import UserError

_DEVICES = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-caps/*", "dxg")
_LIBRARIES = ("libcuda.so*", "libnvidia-ml.so*", "libnvidia-ptxjitcompiler.so*", "libnvidia-nvvm*.so*")
_FOLDERS = ("run/opengl-driver/lib", "opt/nvidia/lib64", "home/kubernetes/bin/nvidia/lib64")


@dataclass(frozen=True)
class Gpus:
    """`mounts` is empty where there is no GPU; `names` are as CUDA takes them, empty for all that are bound."""

    mounts: tuple[Mount, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def env(self) -> dict[str, str]:
        return {"CUDA_VISIBLE_DEVICES": ",".join(self.names)} if self.names else {}

    @property
    def devices(self) -> list[str]:
        """Names of the device nodes, such as nvidia0."""
        names = [mount.target.removeprefix("/dev/") for mount in self.mounts]
        return [name for name in names if re.fullmatch(r"nvidia[0-9]+|dxg", name)]

    @property
    def count(self) -> int:
        """Whole GPUs or MIG slices that a job has."""
        return len(self.names) or len(self.devices)


def find_gpus(wanted: Sequence[str] = (), root: Path = Path("/")) -> Gpus:
    """The GPUs named by number (in PCI order), `GPU-<uuid>` or `MIG-<uuid>`; all there are when none is named.

    Raises UserError for a name that no GPU has. `root` stands for `/`.
    """
    known = _known(root)
    whole = [name for name in wanted if not name.startswith("MIG-")]
    chosen = {name: _one(name, known) for name in whole}
    everything = not known or len(whole) < len(wanted) or not wanted
    mounts = gpu_mounts(root, None if everything else {minor for minor, _ in chosen.values()})
    if wanted and not mounts:
        raise UserError(f"M3_GPUS names {', '.join(wanted)}, and this machine has no GPU: leave it empty.")
    # By UUID, since numbers count only the GPUs that the child sees.
    return Gpus(tuple(mounts), tuple(chosen[name][1] if name in chosen else name for name in wanted))


def told() -> list[str]:
    """Name and memory of each GPU, as the driver's own program tells them; empty where there is none."""
    try:
        asked = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
        found = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in found.splitlines() if line.strip()]


def gpu_mounts(root: Path = Path("/"), minors: set[int] | None = None) -> list[Mount]:
    """Empty where there is no GPU. `root` stands for `/` and is stripped from the targets; `minors` None is all."""
    devices = sorted({path for pattern in _DEVICES for path in (root / "dev").glob(pattern) if not path.is_dir()})
    if minors is not None:
        devices = [path for path in devices if _minor(path) is None or _minor(path) in minors]
    if not devices:
        return []
    folders = [root / folder for folder in _FOLDERS]
    if root == Path("/"):
        folders += _registered()
    libraries = sorted({path for folder in folders for pattern in _LIBRARIES for path in folder.glob(pattern)})
    return [Mount(source=path, target=f"/{path.relative_to(root)}") for path in (*devices, *libraries)]


def _known(root: Path) -> list[tuple[int, str]]:
    """(minor, UUID) of each GPU as the driver tells them, in the order of their PCI addresses."""
    found = []
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        fields: Mapping[str, str] = dict(re.findall(r"^([^:\n]+):\s*(.+?)\s*$", path.read_text(), re.MULTILINE))
        if fields.get("Device Minor", "").isdecimal() and fields.get("GPU UUID", "").startswith("GPU-"):
            found.append((int(fields["Device Minor"]), fields["GPU UUID"]))
    return found


def _one(name: str, known: Sequence[tuple[int, str]]) -> tuple[int, str]:
    if not known:  # a driver that tells nothing: the name is left to CUDA
        return -1, name
    if name.isdecimal() and int(name) < len(known):
        return known[int(name)]
    found = [gpu for gpu in known if name.startswith("GPU-") and gpu[1].startswith(name)]
    if len(found) != 1:
        there = ", ".join(f"{number} ({uuid})" for number, (_, uuid) in enumerate(known))
        raise UserError(f"M3_GPUS names {name!r}, which is no GPU of this machine. There are: {there}.")
    return found[0]


def _minor(device: Path) -> int | None:
    found = re.fullmatch(r"nvidia(\d+)", device.name)
    return int(found[1]) if found else None


def _registered() -> list[Path]:
    """Folders of libcuda in the loader's cache, for drivers in unusual places."""
    for tool in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        if Path(tool).exists():
            done = subprocess.run([tool, "-p"], capture_output=True, text=True, check=False)
            lines = [line for line in done.stdout.splitlines() if "libcuda.so" in line and " => " in line]
            folders = [Path(line.rpartition(" => ")[2]).parent for line in lines]
            return [folder for folder in folders if not folder.resolve().is_relative_to("/usr")]
    return []
