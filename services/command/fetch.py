"""What a run left behind, brought to this machine as a whole or not at all."""

import os
import tarfile
import tempfile
from pathlib import Path

from services.command.console import connect, progress
from services.gateway.client import Gateway
from services.gateway.record import Record
from services.gateway.summary import summary
from shared.errors import UserError


def fetch_run(run_id: str, folder: Path) -> bool:
    """Fill a new or empty folder with `package/`, `record.json` and `summary.txt`; False when the run made no package.

    Raises UserError for a run that has no package yet. A half-done folder never carries its name.
    """
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is not empty. Name a new folder.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with connect() as gateway, tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        tar, made = Path(scratch) / "package.tar", Path(scratch) / "made"
        made.mkdir()
        whole(gateway, f"/runs/{run_id}/artifacts/record", made / "record.json", "record")
        told = Record.model_validate_json((made / "record.json").read_bytes())
        if told.package is None and told.end is None:
            raise UserError(f"Run {run_id} has no package yet. `m3builder watch {run_id}` follows it.")
        (made / "summary.txt").write_text(summary(list(enumerate(told.events, 1))) + "\n")
        if told.package:
            whole(gateway, f"/runs/{run_id}/artifacts/package.tar", tar, "package")
            with tarfile.open(tar) as archive:
                archive.extractall(made / "package", filter="data")
            (made / "package").chmod(0o755)
        made.replace(folder)
    return told.package is not None


def whole(gateway: Gateway, path: str, target: Path, what: str, patience: float = 30) -> None:
    """Write an answer of the gateway to `target`, which appears when it is complete."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with progress(what) as bar:
            task = bar.add_task(what)
            for done, total in gateway.download(path, temporary, patience):
                bar.update(task, completed=done, total=total or None)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
