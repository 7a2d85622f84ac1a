"""Nothing may be asked for while something is erased: what is just being stored is named by nobody yet."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import UserError


class Quiet:
    """Of all gateways on one `<home>/gateway`: a lock on a file in it."""

    def __init__(self, home: Path) -> None:
        self._file = home / "gateway" / "quiet.lock"

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Hold around a request that may lead to something being stored. Raises UserError while all is to be quiet."""
        with self._locked(fcntl.LOCK_SH, "Something is being erased. Ask again in a minute."):
            yield

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold while erasing. Raises UserError while anything is asked for, such as an upload."""
        busy = "Something else is being asked for just now, such as an upload. Ask again once it is done."
        with self._locked(fcntl.LOCK_EX, busy):
            yield

    @contextmanager
    def _locked(self, how: int, refusal: str) -> Iterator[None]:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._file.open("ab") as file:
            try:
                fcntl.flock(file, how | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(refusal) from None
            yield
