"""Virtual environments that hold what a package's environment.txt names, and nothing of ours.

Filled by uv from its cache with hard links (seconds, no disk), or by pip without an index where there is no uv.
"""

import shutil
import subprocess
import sys
from pathlib import Path

OURS = ("services", "shared", "templates", "m3bench", "bench", "m3builder")
ABSENT = f"""
import importlib.util, sys
found = [name for name in {OURS} if importlib.util.find_spec(name)]
sys.exit(f"importable: {{', '.join(found)}}" if found else 0)
"""


class NotHad(Exception):
    """The packages cannot be had here; the text says why and what to do."""


class EmptyEnvironments:
    """One below `folder` for each different environment.txt. `online` lets the installer ask its registry."""

    def __init__(self, folder: Path, online: bool = False) -> None:
        self.folder = folder
        self.online = online
        self.known: dict[str, Path | NotHad] = {}

    def python(self, package: Path) -> Path:
        """The interpreter for it. Raises NotHad."""
        wanted = (package / "environment.txt").read_text(encoding="utf-8")
        if wanted not in self.known:
            try:
                self.known[wanted] = self._make(self.folder / f"env{len(self.known)}", package / "environment.txt")
            except NotHad as error:
                self.known[wanted] = error
        found = self.known[wanted]
        if isinstance(found, NotHad):
            raise found
        return found

    def _make(self, folder: Path, wanted: Path) -> Path:
        python, uv = folder / "bin" / "python", find_uv()
        if uv:
            offline = [] if self.online else ["--offline"]
            _run([uv, "venv", "--quiet", *offline, "--no-project", "--python", sys.executable, str(folder)])
            install = [uv, "pip", "install", "--quiet", *offline, "--link-mode", "hardlink", "--python", str(python)]
        else:
            _run([sys.executable, "-m", "venv", str(folder)])
            install = [str(python), "-m", "pip", "install", "--quiet", *([] if self.online else ["--no-index"])]
        _run([*install, "-r", str(wanted)])
        _run([str(python), "-c", ABSENT], cwd=folder)
        return python


def find_uv() -> str | None:
    own = Path(sys.prefix) / "bin" / "uv"
    return str(own) if own.exists() else shutil.which("uv")


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise NotHad(f"{' '.join(command[:3])}: {said[-300:]}; --online lets the installer ask its registry")
