"""Which code of a training is not ours: files of its workspace and package that no template and no library has."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache

from services.tool_runner.mounts import IMPORTED, REPOSITORY, TEMPLATES
from shared.contracts.training import REPACKAGE
from shared.store.folders import FolderManifest
from shared.training.imports import as_exported

CODE = (".py", ".sh", ".so")
MOST, LONGEST = 20, 200
"""Names that are told, and characters of one."""


def own_code(workspaces: Iterable[FolderManifest], command: Sequence[str]) -> tuple[str, ...]:
    """Paths over all states of a workspace, sorted; and the command, where it names no program but holds one itself."""
    found = {
        path
        for workspace in workspaces
        for path, entry in workspace.files.items()
        if path.endswith(CODE) and entry.ref.sha256 not in _ours()
    }
    ours = tuple(command) == REPACKAGE
    inline = [] if ours or any(word.endswith(CODE) for word in command) else [" ".join(command)]
    return tuple(name[:LONGEST] for name in [*inline, *sorted(found)][:MOST])


@cache
def _ours() -> frozenset[str]:
    """SHA-256 of every file of code as it lies in templates and library, and as a package gets it."""
    places = [TEMPLATES, *(REPOSITORY / name for name in IMPORTED)]
    files = [path for place in places for path in (place.rglob("*") if place.is_dir() else [place])]
    texts = [path.read_text() for path in files if path.name.endswith(CODE)]
    texts += [as_exported(path.read_text()) for path in files if path.suffix == ".py"]
    return frozenset(hashlib.sha256(text.encode()).hexdigest() for text in texts)
