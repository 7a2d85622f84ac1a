"""Trainings and predictions in processes forked from one that has the frameworks loaded.

Importing torch, transformers, MONAI and nnU-Net takes longer than most trainings in these tests. What runs is the whole
program as from the command line: its arguments, folder and environment, its own modules imported anew, its exit code.
"""

import atexit
import ctypes
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1


class Process:
    """Like subprocess.Popen; `out` and `err` are what it has written so far."""

    def __init__(self, server: "Server", pid: int, folder: Path) -> None:
        self.server, self.pid, self.folder = server, pid, folder
        self.returncode: int | None = None

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text(errors="replace")

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text(errors="replace")

    def poll(self) -> int | None:
        return self.returncode if self.returncode is not None else self.server.ended(self, 0)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and self.server.ended(self, timeout) is None:
            raise TimeoutError(f"still running after {timeout} s\n{self.out}{self.err}")
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait()


class Server:
    """Runs one program after the other: a new one ends the one before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0
        self.last: Process | None = None
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "HF_HUB_OFFLINE": "1"}
        environment |= {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "MPLCONFIGDIR": str(folder)}
        # `-I`: what is forked sees the repository only where its PYTHONPATH says so, as a package does not.
        self.process = subprocess.Popen(
            [sys.executable, "-I", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0
        )
        assert self.line(None) == "ready"

    def start(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> Process:
        """`argv` begins with the script; a first word of -I leaves the script's folder off the path."""
        if self.last is not None and self.last.poll() is None:
            self.last.kill()
        self.count += 1
        folder = self.folder / str(self.count)
        folder.mkdir()
        asked = {"argv": list(argv), "cwd": str(cwd), "env": dict(env), "folder": str(folder)}
        assert self.process.stdin
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        self.last = Process(self, int(str(self.line(None))), folder)
        return self.last

    def ended(self, process: Process, timeout: float | None) -> int | None:
        """The exit code of the newest process once it has ended, within so many seconds."""
        found = self.line(timeout)
        if found is not None:
            process.returncode = int(found)
        return process.returncode

    def line(self, timeout: float | None) -> str | None:
        assert self.process.stdout
        if timeout is not None and not select.select([self.process.stdout], [], [], timeout)[0]:
            return None
        found = self.process.stdout.readline().decode().strip()
        assert found, "the process that programs are forked from has ended"
        return found

    def stop(self) -> None:
        if self.last is not None and self.last.poll() is None:
            self.last.kill()
        self.process.kill()
        self.process.wait()


@functools.cache
def server() -> Server:
    """One for all tests of a session."""
    folder = Path(tempfile.mkdtemp(prefix="forked-"))
    made = Server(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(made.stop)
    return made


def finished(process: Process) -> "subprocess.CompletedProcess[str]":
    code = process.wait()
    return subprocess.CompletedProcess([], code, process.out, process.err)


def wait_for(process: Process, happened: Any, seconds: float = 600) -> None:
    """Until `happened()` is true; the process must live that long."""
    end = time.monotonic() + seconds
    while not happened():
        assert process.poll() is None, f"it ended with {process.returncode}\n{process.out}{process.err}"
        assert time.monotonic() < end, f"nothing happened\n{process.out}{process.err}"
        time.sleep(0.01)


def serve() -> None:
    """The process that is forked: one request a line; answers are a pid and, later, an exit code."""
    die_with_parent()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries say while they load is no answer
    load()
    print("ready", file=answers)
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if not pid:
            os._exit(child(asked))
        print(pid, file=answers)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), file=answers)


def load() -> None:
    import accelerate  # noqa: F401
    import nibabel  # noqa: F401
    import pydantic  # noqa: F401
    import pydicom  # noqa: F401
    import safetensors.torch  # noqa: F401
    import scipy.ndimage  # noqa: F401
    import yaml  # noqa: F401
    from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed  # noqa: F401

    # Its modules read the environment when they are imported.
    for name in [name for name in sys.modules if name.partition(".")[0] == "nnunetv2"]:
        del sys.modules[name]


def child(asked: dict[str, Any]) -> int:
    import runpy
    import traceback

    die_with_parent()
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{asked['folder']}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    isolated = asked["argv"][0] == "-I"
    sys.argv = asked["argv"][isolated:]
    if not isolated:
        sys.path[:0] = [str(Path(sys.argv[0]).resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    code = 0
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    serve()
