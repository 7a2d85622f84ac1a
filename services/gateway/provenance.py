"""Where a package comes from, as `provenance.json` in it: from events and the installation, never from its own words.

It has the digest of every file of the package, `RUN_CARD.md` (the model card of the report) among them, so one
signature over it, `provenance.sig`, holds for all. The gateway adds the three where it delivers: no agent, script or
package of a stranger runs there or can reach its key.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from importlib import metadata
from pathlib import Path

from pydantic import Field

import services
from services.gateway.bodies import Body
from services.gateway.signing import Signer
from shared.contracts.base import Event
from shared.contracts.runs import Level
from shared.contracts.state import RunState, fold
from shared.contracts.training import JobFinished, JobStarted
from shared.store import FolderManifest, Store

PROVENANCE, SIGNATURE, CARD = "provenance.json", "provenance.sig", "RUN_CARD.md"
_ENVIRONMENT = "environment.txt"
_REPOSITORY = Path(services.__path__[0]).parent


class Code(Body):
    name: str
    version: str = ""
    sha256: str | None = Field(None, description="Over names and contents of its files, where it is delivered.")
    own: tuple[str, ...] = Field((), description="Files that differ from the template's.")


class Data(Body):
    dataset_id: str
    sha256: str | None = Field(description="Of names, sizes and times of the files, or of the archive that was sent.")
    rules_sha256: str | None
    split_sha256: str | None = Field(description="Of the locked split: cases, patients, sides.")
    locks: int


class Provenance(Body):
    format: int = 1
    run_id: str
    asked_at: datetime | None
    finished_at: datetime | None
    core: str
    level: Level
    house: Code
    template: Code | None
    data: Data | None
    isolation: dict[str, tuple[str, ...]] = Field(description="Kind of job -> levels at which its attempts ran.")
    package_sha256: str = Field(description="Of the stored package's manifest, as the score names it.")
    environment: tuple[str, ...] = Field(description="Python and packages, as the training noted them.")
    key: str | None = Field(description="Id of the key that signed; null where nobody did.")
    files: dict[str, str] = Field(description="Path in the package -> SHA-256, or where a link leads to.")


def added(
    run_id: str, events: Iterable[tuple[int, Event]], manifest: FolderManifest, card: str, store: Store,
    signer: Signer | None,
) -> dict[str, bytes]:  # fmt: skip
    """What the gateway puts into a package that it delivers, as name -> content; blocks."""
    told = list(events)
    files = {name: entry.ref.sha256 for name, entry in manifest.files.items() if name not in (PROVENANCE, SIGNATURE)}
    files |= {name: f"link to {target}" for name, target in manifest.links.items()}
    files[CARD] = hashlib.sha256(card.encode()).hexdigest()
    environment = manifest.files.get(_ENVIRONMENT)
    lines = store.get_bytes(environment.ref).decode(errors="replace") if environment else ""
    made = _provenance(fold(run_id, told), [event for _, event in told]).model_copy(
        update={
            "environment": tuple(lines[:20_000].splitlines()),
            "key": signer.id if signer else None,
            "files": dict(sorted(files.items())),
        }
    )
    content = made.model_dump_json(indent=1).encode() + b"\n"
    signed = {SIGNATURE: signer.sign(content)} if signer else {}
    return {CARD: card.encode(), PROVENANCE: content, **signed}


def _provenance(state: RunState, events: list[Event]) -> Provenance:
    card = state.planned.card if state.planned else None
    files = (card.archive.sha256 if card.archive else card.profile.digest if card.profile else None) if card else None
    package = state.package
    return Provenance(
        run_id=state.run_id,
        asked_at=state.requested.at if state.requested else None,
        finished_at=state.finished.at if state.finished else None,
        core=state.requested.core if state.requested else "",
        level=state.finished.level if state.finished else state.scored.level if state.scored else "none",
        house=Code(name="m3builder", version=metadata.version("m3builder"), sha256=_digest("services", "shared")),
        template=_template(state, events),
        data=card
        and Data(
            dataset_id=card.dataset_id,
            sha256=files,
            rules_sha256=state.prepared.rules.sha256 if state.prepared else None,
            split_sha256=state.locked.manifest_sha256 if state.locked else None,
            locks=state.locks,
        ),
        isolation=_isolation(events),
        package_sha256=package.sha256 if package else "",
        environment=(),
        key=None,
        files={},
    )


def _template(state: RunState, events: list[Event]) -> Code | None:
    if state.assembled is None:
        return None
    name = state.assembled.module.template
    known = name in {path.name for path in (_REPOSITORY / "templates").iterdir()}
    made = (event for event in events if isinstance(event, JobFinished) and state.package in event.outputs.values())
    own = next((event.own_code for event in made), ())
    return Code(name=name, sha256=_digest(f"templates/{name}") if known else None, own=tuple(own))


def _isolation(events: Iterable[Event]) -> dict[str, tuple[str, ...]]:
    levels: dict[str, set[str]] = {}
    for event in events:
        if isinstance(event, JobStarted | JobFinished) and event.isolation:
            levels.setdefault(event.job, set()).add(event.isolation)
    return {job: tuple(sorted(found)) for job, found in levels.items()}


@cache
def _digest(*folders: str) -> str:
    found = hashlib.sha256()
    for path in sorted(path for folder in folders for path in (_REPOSITORY / folder).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found.update(f"{content}  {path.relative_to(_REPOSITORY).as_posix()}\n".encode())
    return found.hexdigest()


def listed(folder: Path) -> Mapping[str, str]:
    """Path -> SHA-256 of every file of a folder, or where a link leads to; blocks."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"link to {path.readlink()}"
        elif path.is_file():
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
        elif not path.is_dir():
            found[name] = "no file"
    return found
