"""Who asked, looked, downloaded, approved: a line for each visit."""

import fcntl
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from shared.settings import Settings


class Audit:
    """`<home>/gateway/audit.jsonl`, appended to and never rewritten, mode 0600: {at, who, did, status, made, note}.

    `who` is empty for a visitor who was not let in; `note` says why something was refused, or what was approved. A file
    that is full becomes `audit-<UTC time of its end>.jsonl`, only to be read from then on; nothing is thrown away.
    """

    def __init__(self, settings: Settings) -> None:
        self.path = settings.home / "gateway" / "audit.jsonl"
        self._bound = settings.audit_bytes

    @property
    def parts(self) -> list[Path]:
        """The full files, the oldest first."""
        return sorted(self.path.parent.glob("audit-*.jsonl"))

    def add(self, who: str, did: str, status: int, *, made: str | None = None, note: str | None = None) -> None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = {"at": at, "who": who, "did": did, "status": status, "made": made, "note": note}
        with self._open() as file:
            file.write(json.dumps({key: value for key, value in line.items() if value is not None}).encode() + b"\n")
            file.flush()
            full = os.fstat(file.fileno()).st_size >= self._bound
        if full:
            self._turn()

    def lines(self) -> Iterator[bytes]:
        """Every line up to now, the oldest first, across all parts."""
        with self._open() as newest:
            # Meanwhile the newest may have become the last of the parts.
            opened = os.fstat(newest.fileno()).st_ino
            for part in self.parts:
                if part.stat().st_ino != opened:
                    with part.open("rb") as file:
                        yield from file
            newest.seek(0)
            yield from newest

    def _open(self) -> BinaryIO:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600), "ab+")

    def _turn(self) -> None:
        with (self.path.parent / "audit.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Another replica on this home may have been faster.
            if self.path.exists() and self.path.stat().st_size >= self._bound:
                ended = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
                part = self.path.with_name(f"audit-{ended}.jsonl")
                self.path.chmod(0o400)
                self.path.rename(part)
