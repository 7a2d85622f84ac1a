"""Archives that were sent and that no dataset has taken yet: together they stay below a bound."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.contracts.base import Ref
from shared.errors import UserError
from shared.store.client import ref_of


class Uploads:
    """Remembered as `<home>/gateway/archives/<sha256>`, a file that holds the archive's size in bytes."""

    def __init__(self, home: Path, bound: int) -> None:
        self._folder, self._bound = home / "gateway" / "archives", bound
        self._coming = 0
        """Bytes received of archives that are not complete."""

    @contextmanager
    def coming(self) -> Iterator[Callable[[int], None]]:
        """Hold while an archive is received; call what it gives with the size of each piece, before it is kept.

        That raises UserError when the piece does not fit.
        """
        waiting, received = sum(archive.size for archive in self.waiting()), 0

        def add(size: int) -> None:
            nonlocal received
            if waiting + self._coming + size > self._bound:
                raise UserError(
                    f"{waiting + self._coming} bytes of archives were sent that no dataset has taken; at most "
                    f"{self._bound} are kept. Register them (POST /datasets), or have M3_UPLOADS_BYTES raised."
                )
            received += size
            self._coming += size

        try:
            yield add
        finally:
            self._coming -= received

    def sent(self, archive: Ref) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (self._folder / archive.sha256).write_text(str(archive.size))

    def taken(self, archive: Ref) -> None:
        """A dataset names it now."""
        (self._folder / archive.sha256).unlink(missing_ok=True)

    def waiting(self) -> list[Ref]:
        """Those that no dataset has taken."""
        return [_archive(file) for file in self._files()]

    def older_than(self, days: float | None) -> list[Ref]:
        """Of these the ones that came more than `days` ago; none for None."""
        before = 0 if days is None else time.time() - days * 86400
        return [_archive(file) for file in self._files() if file.stat().st_mtime < before]

    def _files(self) -> list[Path]:
        return list(self._folder.iterdir()) if self._folder.is_dir() else []


def _archive(file: Path) -> Ref:
    return ref_of("data", file.name, int(file.read_text() or 0))
