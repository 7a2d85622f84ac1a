"""The filter's numbers, the list of GPU parts, and the way from root to a user."""

import ctypes
import ctypes.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.tool_runner.sandbox import find_gpus, gpu_mounts, python_env, seccomp
from shared.errors import UserError

REPOSITORY = Path(__file__).resolve().parents[2]
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


@pytest.mark.parametrize("column, machine", list(enumerate(ARCHITECTURES)))
def test_call_numbers_are_those_of_libseccomp(column: int, machine: str) -> None:
    name = ctypes.util.find_library("seccomp")
    if name is None:
        pytest.skip("libseccomp is not installed; it is only needed to check the table")
    resolve = ctypes.CDLL(name).seccomp_syscall_resolve_name_arch
    table = seccomp.CALLS | seccomp._ABSENT | seccomp._NUMBERS
    known = {call: resolve(ARCHITECTURES[machine], call.encode()) for call in table}
    newer = {call for call, number in known.items() if number == -1}
    assert newer <= {"statmount", "listmount"}
    for call, numbers in table.items():
        if call not in newer:
            assert (numbers[column] if numbers[column] is not None else -1) == max(known[call], -1), call


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_program_fits_the_kernel(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    program = seccomp.program(loopback=True, shield=(123, 456), no_truncate=True)
    assert len(program) % 8 == 0 and 100 < len(program) // 8 < 4096


def test_program_refuses_an_unknown_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "sparc")
    with pytest.raises(OSError, match="sparc"):
        seccomp.program()


def test_no_gpu_no_mounts(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    assert gpu_mounts(tmp_path) == []


def test_gpu_parts_are_listed(tmp_path: Path) -> None:
    names = [
        "dev/nvidia0",
        "dev/nvidia12",
        "dev/nvidiactl",
        "dev/nvidia-uvm",
        "dev/nvidia-uvm-tools",
        "dev/nvidia-caps/nvidia-cap1",
        "run/opengl-driver/lib/libcuda.so.1",
        "run/opengl-driver/lib/libnvidia-ml.so.1",
    ]
    for name in (*names, "dev/sda", "dev/nvidia-modeset", "run/opengl-driver/lib/libGL.so.1"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    mounts = gpu_mounts(tmp_path)
    assert {mount.target for mount in mounts} == {f"/{name}" for name in names}
    assert all(mount.source == tmp_path / mount.target[1:] and not mount.writable for mount in mounts)


UUIDS = ("GPU-11112222-aaaa", "GPU-33334444-bbbb")


@pytest.fixture
def two_gpus(tmp_path: Path) -> Path:
    """A machine whose GPUs have their minors in another order than their PCI addresses."""
    for address, minor, uuid in (("0000:01:00.0", 1, UUIDS[0]), ("0000:c1:00.0", 0, UUIDS[1])):
        folder = tmp_path / "proc/driver/nvidia/gpus" / address
        folder.mkdir(parents=True)
        (folder / "information").write_text(f"Model: \t NVIDIA X\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n")
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "devices", "env"),
    [
        ((), ["nvidia0", "nvidia1"], {}),
        (("0",), ["nvidia1"], {"CUDA_VISIBLE_DEVICES": UUIDS[0]}),
        (("1",), ["nvidia0"], {"CUDA_VISIBLE_DEVICES": UUIDS[1]}),
        (("GPU-3333",), ["nvidia0"], {"CUDA_VISIBLE_DEVICES": UUIDS[1]}),
        (("1", "0"), ["nvidia0", "nvidia1"], {"CUDA_VISIBLE_DEVICES": f"{UUIDS[1]},{UUIDS[0]}"}),
        (("MIG-5555",), ["nvidia0", "nvidia1"], {"CUDA_VISIBLE_DEVICES": "MIG-5555"}),
    ],
)
def test_a_slot_has_the_gpus_that_are_named(
    two_gpus: Path, wanted: tuple[str, ...], devices: list[str], env: dict[str, str]
) -> None:
    found = find_gpus(wanted, two_gpus)
    assert (found.devices, found.env, found.count) == (devices, env, len(wanted) or 2)
    others = {mount.target for mount in found.mounts} - {f"/dev/{name}" for name in devices}
    assert others == {"/dev/nvidiactl", "/dev/nvidia-uvm"}


def test_a_gpu_that_is_not_there_is_refused_by_name(two_gpus: Path, tmp_path: Path) -> None:
    for name in ("2", "GPU-9", "nvidia0"):
        with pytest.raises(UserError, match=f"{name}.*There are: 0 \\(GPU-11112222-aaaa\\), 1"):
            find_gpus((name,), two_gpus)
    with pytest.raises(UserError, match="no GPU"):
        find_gpus(("0",), tmp_path / "elsewhere")


def test_without_a_gpu_nothing_changes(tmp_path: Path) -> None:
    found = find_gpus((), tmp_path)
    assert (found.mounts, found.env, found.devices, found.count) == ((), {}, [], 0)


def test_interpreter_is_reached_over_every_link() -> None:
    env = python_env()
    link = Path(sys.executable)
    while True:
        assert any(link.is_relative_to(folder) for folder in env.folders), link
        if not link.is_symlink():
            break
        link = Path(os.path.normpath(link.parent / link.readlink()))
    assert Path("/") not in env.folders and Path.home() not in env.folders


def as_root(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    head = "import sys; from pathlib import Path; from services.tool_runner.sandbox import drop_root\n"
    return subprocess.run(
        [sys.executable, "-c", head + code, *args], capture_output=True, text=True, cwd=REPOSITORY, timeout=60
    )


def test_drop_root_keeps_only_what_was_named(tmp_path: Path) -> None:
    """tmp_path lies below a folder that others may not enter, as pytest makes it."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for name in ("kept", "hidden"):
        (tmp_path / name).mkdir()
        os.chown(tmp_path / name, 64329, 64329)
    code = (
        "base = Path(sys.argv[1]); drop_root(64329, [base / 'kept']); (base / 'kept' / 'new').write_text('x')\n"
        "print((base / 'hidden').exists())"
    )
    done = as_root(code, str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "False\n"
    assert (tmp_path / "kept" / "new").stat().st_uid == 64329
    assert (tmp_path / "hidden").exists(), "outside nothing is covered"


def test_drop_root_names_what_stays_closed(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    done = as_root("drop_root(64329, [Path(sys.argv[1])])", str(tmp_path / "closed"))
    assert done.returncode and "ToolBroken" in done.stderr and "closed cannot be read" in done.stderr


def test_drop_root_refuses_to_come_too_late() -> None:
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(1,)).start()\ndrop_root(64329, [])"
    done = as_root(code)
    assert done.returncode and "too late" in done.stderr


def test_drop_root_refuses_root_as_the_user() -> None:
    done = as_root("drop_root(0, [])")
    assert done.returncode and "M3_RUNNER_UID" in done.stderr
