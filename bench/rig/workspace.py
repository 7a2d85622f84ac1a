"""A template as a person or an agent runs it: by command line, in a folder of its own, with what the sandbox sets."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "templates"

Json = dict[str, Any]


class Workspace:
    """The files of a template in `folder`, which holds index and label map, and images below `folder/data`.

    `config` stands in the place of config.yaml; its keys are those of the templates' READMEs.
    """

    def __init__(self, folder: Path, template: str, config: Json, threads: int = 1, data: Path | None = None) -> None:
        self.folder = folder
        self.threads = threads
        self.data = data or folder / "data"
        self.log = folder / "train.log"
        ignored = shutil.ignore_patterns("__pycache__", "cache")
        shutil.copytree(TEMPLATES / template, folder, ignore=ignored, dirs_exist_ok=True)
        # JSON is YAML, too.
        (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": "/nonexistent",
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": str(self.threads),
            # As the templates set it themselves, here for whatever else runs in their place.
            "OMP_WAIT_POLICY": "PASSIVE",
            "PYTHONPATH": str(ROOT),
            "M3_DATA": str(self.data),
            "M3_WORKSPACE": str(self.folder),
        }

    def start(self, command: Sequence[str] = (), **more: str) -> "subprocess.Popen[bytes]":
        """train.py, or another command in its place, in a process group of its own; what it says is added to `log`.

        `more` are variables of its environment.
        """
        with self.log.open("ab") as log:
            return subprocess.Popen(
                command or (sys.executable, "train.py", "--config", "config.yaml"),
                cwd=self.folder,
                env=self.environment() | more,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def train(self, seconds: float = 900, command: Sequence[str] = ()) -> int:
        """To its end. -> exit code; -9 where it took longer than `seconds`."""
        process = self.start(command)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return -signal.SIGKILL
        finally:
            kill(process)

    def watch(self, process: "subprocess.Popen[bytes]", most: float) -> list[tuple[float, Json]]:
        """Wait for its end, `most` seconds at most. -> lines of progress.jsonl, and seconds from now to each."""
        began = time.monotonic()
        seen: list[tuple[float, Json]] = []
        try:
            while process.poll() is None and time.monotonic() - began < most:
                seen += [(time.monotonic() - began, line) for line in self.progress()[len(seen) :]]
                time.sleep(0.1)
        finally:
            kill(process)
        last = time.monotonic() - began
        return seen + [(last, line) for line in self.progress()[len(seen) :]]

    def checkpoints(self) -> list[Path]:
        """Numbered, oldest first, whatever engine wrote them; one that is being written may be among them."""
        found = [path for path in (self.folder / "checkpoints").rglob("checkpoint-*") if path.is_dir()]
        return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))

    def progress(self) -> list[Json]:
        """Whole lines of progress.jsonl."""
        path = self.folder / "progress.jsonl"
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def metrics(self) -> Json:
        found: Json = json.loads((self.folder / "metrics.json").read_text(encoding="utf-8"))
        return found

    def said(self, lines: int = 3) -> str:
        """The end of what was printed."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def kill(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL to the process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until(reached: Any, process: "subprocess.Popen[bytes]", seconds: float = 600) -> bool:
    """Whether `reached()` became true while the process ran. Polls every 10 ms."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if reached():
            return True
        time.sleep(0.01)
    return False
