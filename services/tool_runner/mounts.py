"""What each role's calls may see. The policy is here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import services
from services.tool_runner.archives import unpacked
from services.tool_runner.sandbox import Mount
from services.tool_runner.views import materialise_view
from shared.contracts.base import Service
from shared.contracts.state import RunState
from shared.errors import UserError
from shared.store.archive_rules import ArchiveRefused

if TYPE_CHECKING:
    from shared.settings import Settings
    from shared.store import Store

REPOSITORY = Path(services.__file__).parents[1]
TEMPLATES = REPOSITORY / "templates"
PROBES = REPOSITORY / "services" / "tool_runner" / "probes"


@dataclass(frozen=True)
class Mounted:
    """Folders that are visible beside the workspace, all read-only."""

    data: Path | None = None
    templates: Path | None = None

    def mounts(self) -> list[Mount]:
        found = []
        if self.data:
            found.append(Mount(source=self.data, target="/data", env="M3_DATA"))
        if self.templates:
            found.append(Mount(source=self.templates, target="/templates", env="M3_TEMPLATES"))
        return found


class Mounts:
    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store

    async def for_role(self, role: Service, state: RunState) -> Mounted:
        """Task Manager: nothing. Data Engineer: the raw dataset. Later roles: templates and the training view."""
        if role == "data_engineer":
            return Mounted(data=await self.dataset(state))
        if role in ("module_architect", "model_trainer") and state.locked:
            view = await materialise_view(state.locked.view, self._store, self._settings.home)
            return Mounted(data=view, templates=TEMPLATES)
        return Mounted()

    async def dataset(self, state: RunState) -> Path:
        """The raw folder of the planned dataset: below a data root of this runner, or unpacked from what was uploaded.

        Unpacking takes as long as it takes (`unpack_seconds` is what callers wait for it).
        """
        card = state.planned.card if state.planned else None
        if card is None or not card.here:
            raise UserError("no dataset has been planned for this run")
        if card.archive:
            try:
                return await unpacked(card.archive, self._store, self._settings)
            except ArchiveRefused as error:
                raise UserError(f"the uploaded dataset {card.dataset_id} cannot be unpacked. {error}") from None
        folder = Path(str(card.path)).resolve()
        roots = [root.resolve() for root in self._settings.data_roots]
        if not any(folder.is_relative_to(root) for root in roots):
            raise UserError(f"the dataset {card.dataset_id} lies outside of this runner's data roots")
        try:
            next(folder.iterdir(), None)
        except OSError as error:
            raise UserError(
                f"the runner cannot read {folder} of the dataset {card.dataset_id} ({error.strerror}); bring it back, "
                "open it (chmod -R o+rX), or add the dataset again from where it is now"
            ) from None
        return folder


def code_mounts(home: Path, probes: bool) -> list[Mount]:
    """`/m3` with the one package that scripts may import, and our probes when one of them runs."""
    found = [Mount(source=library(home), target="/m3", env="M3_LIB")]
    if probes:
        found.append(Mount(source=PROBES, target="/probes", env="M3_PROBES"))
    return found


def library(home: Path) -> Path:
    """A folder holding `shared/__init__.py` and a copy of `shared/trainkit`, and nothing else of ours."""
    import hashlib
    import os
    import shutil

    source = REPOSITORY / "shared" / "trainkit"
    files = sorted(path for path in source.rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
    folder = home / "runner" / "lib" / digest
    if not folder.exists():
        temporary = folder.with_name(f".{digest}.{os.getpid()}")
        package = temporary / "shared" / "trainkit"
        for path in files:
            target = package / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        (temporary / "shared" / "__init__.py").write_text("")
        try:
            temporary.rename(folder)
        except OSError:  # another call made it meanwhile
            shutil.rmtree(temporary)
    return folder
