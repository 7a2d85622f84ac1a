"""What each role's calls may see. The policy is here and nowhere else."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import services
from services.tool_runner.archives import unpacked
from services.tool_runner.sandbox import Mount
from services.tool_runner.shelf import lay_out
from services.tool_runner.views import materialise_view
from shared.contracts.base import Service
from shared.contracts.flow import stage_of
from shared.contracts.runs import DataCard, End
from shared.contracts.state import RunState
from shared.contracts.weights import FOLDER
from shared.errors import DataUnusable, UserError
from shared.store.archive_rules import ArchiveRefused

if TYPE_CHECKING:
    from shared.bus import Bus
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
    weights: Path | None = None
    shelf: tuple[str, ...] = ()
    """What `weights` holds, as name and source."""
    package: Path | None = None
    """Of a finished training."""

    def mounts(self) -> list[Mount]:
        found = []
        if self.data:
            found.append(Mount(source=self.data, target="/data", env="M3_DATA"))
        if self.templates:
            found.append(Mount(source=self.templates, target="/templates", env="M3_TEMPLATES"))
        if self.weights:
            found.append(Mount(source=self.weights, target=FOLDER, env="M3_WEIGHTS"))
        if self.package:
            found.append(Mount(source=self.package, target="/package", env="M3_PACKAGE"))
        return found


class Mounts:
    def __init__(self, settings: Settings, store: Store, bus: Bus | None = None) -> None:
        """`bus` tells which uploaded datasets live runs use, without it no copy of one is ever removed; and what is on
        the shelf, without it nothing."""
        self._settings = settings
        self._store = store
        self._bus = bus

    async def for_role(self, role: Service, state: RunState) -> Mounted:
        """Task Manager: nothing. Data Engineer: the raw dataset. Later roles: templates, the training
        view, and the shelf of weights."""
        area = stage_of(role).area
        if area == "data":
            return Mounted(data=await self.dataset(state))
        if area == "build" and state.locked:
            view = await materialise_view(state.locked.view, self._store, self._settings.home)
            assert state.planned is not None
            home, shelf = self._settings.home, []
            if self._bus:
                shelf = await self._bus.weights(state.planned.plan.dataset_id)
            weights = await asyncio.to_thread(lay_out, shelf, self._store, home)
            return Mounted(
                data=view,
                templates=await asyncio.to_thread(templates, home),
                weights=weights,
                shelf=tuple(f"{one.name} ({one.source})" for one in shelf),
            )
        return Mounted()

    async def dataset(self, state: RunState) -> Path:
        """The raw folder of the planned dataset. Raises DataUnusable."""
        card = state.planned.card if state.planned else None
        if card is None or not card.here:
            raise UserError("no dataset has been planned for this run")
        return await self.of_card(card)

    async def of_card(self, card: DataCard) -> Path:
        """The raw folder of a dataset: below a data root of this runner, or unpacked from what was uploaded.

        Unpacking takes as long as it takes (`unpack_seconds` is what callers wait for it). Raises DataUnusable.
        """
        if card.archive:
            try:
                in_use = self._in_use if self._bus else None
                return await unpacked(card.archive, self._store, self._settings, in_use)
            except ArchiveRefused as error:
                raise DataUnusable(f"the uploaded dataset {card.dataset_id} cannot be unpacked. {error}") from None
        folder = Path(str(card.path)).resolve()
        roots = [root.resolve() for root in self._settings.data_roots]
        if not any(folder.is_relative_to(root) for root in roots):
            raise UserError(f"the dataset {card.dataset_id} lies outside of this runner's data roots")
        try:
            next(folder.iterdir(), None)
        except OSError as error:
            raise DataUnusable(
                f"the runner cannot read {folder} of the dataset {card.dataset_id} ({error.strerror}); bring it back, "
                "open it (chmod -R o+rX), or add the dataset again from where it is now"
            ) from None
        return folder

    async def _in_use(self) -> set[str]:
        """Archives of all runs that have not ended."""
        assert self._bus is not None
        ended = get_args(End)
        states = [await self._bus.state(run.run_id) for run in await self._bus.runs() if run.status not in ended]
        cards = [state.planned.card for state in states if state.planned]
        return {card.archive.sha256 for card in cards if card.archive}


def code_mounts(home: Path, probes: bool) -> list[Mount]:
    """`/m3` with the one package that scripts may import, and our probes when one of them runs."""
    found = [Mount(source=library(home), target="/m3", env="M3_LIB")]
    if probes:
        found.append(Mount(source=PROBES, target="/probes", env="M3_PROBES"))
    return found


IMPORTED = (
    *("shared/training", "shared/imaging", "shared/dataset", "shared/contracts", "shared/vocabulary"),
    *("shared/bleu.py", "shared/looks.py", "shared/rouge.py", "shared/scorebins.py"),
    *("shared/store/paths.py", "shared/errors.py"),
)
"""What scripts and our own programs in the sandbox may import."""


def library(home: Path) -> Path:
    """A folder holding `IMPORTED` and nothing else of ours."""
    places = [REPOSITORY / name for name in IMPORTED]
    files = [path for place in places for path in (place.rglob("*") if place.is_dir() else [place])]
    return copied(home, sorted(path for path in files if path.suffix in (".py", ".md", ".yaml")))


def templates(home: Path) -> Path:
    """A folder with the templates: each file is real, where the repository has a link to another template's."""
    files = [path for path in sorted(TEMPLATES.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return copied(home, files, packages=False) / TEMPLATES.name


def copied(home: Path, files: Sequence[Path], packages: bool = True) -> Path:
    """A folder below the runner's with these files of ours where they lie in the repository, in packages or folders."""
    names = [path.relative_to(REPOSITORY) for path in files]
    digest = hashlib.sha256()
    for name, path in zip(names, files, strict=True):
        digest.update(str(name).encode() + b"\0" + path.read_bytes())
    folder = home / "runner" / "lib" / digest.hexdigest()[:16]
    if not folder.exists():
        temporary = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
        for name, path in zip(names, files, strict=True):
            target = temporary / name
            target.parent.mkdir(parents=True, exist_ok=True)
            for package in name.parents[:-1] if packages else ():
                (temporary / package / "__init__.py").touch()
            shutil.copyfile(path, target)
        try:
            temporary.rename(folder)
        except OSError:  # another call made it meanwhile
            shutil.rmtree(temporary)
    return folder
