"""What the project's own Python needs to run inside, and the environment that every child starts from."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from services.tool_runner.sandbox.model import Limits


@dataclass(frozen=True)
class PythonEnv:
    executable: Path
    folders: tuple[Path, ...]
    """To be visible read-only at their own paths: environment, base installation, and the links between them."""
    path: str
    """PATH on which `python` is this interpreter."""


def python_env() -> PythonEnv:
    """Both the path as written and as resolved is listed: scripts and links name the one, the loader the other."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = [Path(sys.prefix), Path(sys.exec_prefix), Path(sys.base_prefix), Path(sys.base_exec_prefix)]
    link = Path(sys.executable)
    while True:
        prefix = link.parent.parent
        found.append(prefix if (prefix / "lib" / version).is_dir() else link.parent)
        if not link.is_symlink():
            break
        link = Path(os.path.normpath(link.parent / link.readlink()))
    folders: dict[Path, None] = {}
    for folder in found:
        folders |= dict.fromkeys((folder.absolute(), folder.resolve()))
    folders.pop(Path("/"), None)
    outermost = tuple(f for f in folders if not any(f != other and f.is_relative_to(other) for other in folders))
    path = f"{sys.prefix}/bin:/usr/local/bin:/usr/bin:/bin"
    return PythonEnv(executable=Path(sys.executable), folders=outermost, path=path)


def child_env(limits: Limits, home: str) -> dict[str, str]:
    """Nothing of the runner's own environment but the loader's path is passed on."""
    threads = str(limits.threads)
    counted = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM", "NUMBA", "TORCH")
    env = {
        "PATH": python_env().path,
        "HOME": home,
        "TMPDIR": home,
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "PYTHONUNBUFFERED": "1",
        "PYTHONNOUSERSITE": "1",
        "TQDM_DISABLE": "1",
        "MPLBACKEND": "Agg",
        "HF_HUB_OFFLINE": "1",  # without it each load waits for a network that is not there
        "TRANSFORMERS_OFFLINE": "1",
        "TORCHINDUCTOR_CACHE_DIR": f"{home}/inductor",
        "ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS": threads,
    }
    env |= {f"{name}_NUM_THREADS": threads for name in counted}
    return env | passed_on(os.environ)


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Where shared libraries lie in images that do not register them; no secret."""
    return {"LD_LIBRARY_PATH": environ["LD_LIBRARY_PATH"]} if environ.get("LD_LIBRARY_PATH") else {}
