"""Where the embedded system keeps its things, and what it remembers between two starts."""

import contextlib
import fcntl
import hmac
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, SecretStr

from shared.contracts.base import Service
from shared.embedded.ports import free_ports
from shared.embedded.processes import write_private
from shared.errors import UserError
from shared.settings import Settings

NATS_USER = "m3builder"


class Remembered(BaseModel):
    """`<home>/system.json`, mode 0600: ports and credentials, made once."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ports: dict[str, int]
    nats_password: str
    s3_access_key: str
    s3_secret_key: str
    data_roots: tuple[Path, ...] = ()

    def nats_secret(self, service: Service) -> str:
        return _derived(self.nats_password, service)

    def s3_secret(self, service: Service) -> str:
        return _derived(self.s3_secret_key, service)

    @property
    def gateway_token(self) -> str:
        return _derived(self.nats_password, "http")

    def settings(self, base: Settings) -> Settings:
        """The caller's settings with the addresses of this system and the operator's credentials."""
        return base.model_copy(
            update={
                "nats_url": f"nats://127.0.0.1:{self.ports['nats']}",
                "nats_user": NATS_USER,
                "nats_password": SecretStr(self.nats_password),
                "s3_endpoint": f"http://127.0.0.1:{self.ports['s3']}",
                "s3_access_key": self.s3_access_key,
                "s3_secret_key": SecretStr(self.s3_secret_key),
                "gateway_url": f"http://127.0.0.1:{self.ports['gateway']}",
                "gateway_token": SecretStr(self.gateway_token),
                "data_roots": self.data_roots,
                "ready_file": None,
            }
        )


@dataclass(frozen=True)
class Home:
    """Folders of one embedded system. Nothing is created before `make`."""

    root: Path

    @property
    def nats(self) -> Path:
        return self.root / "nats"

    @property
    def s3(self) -> Path:
        return self.root / "s3"

    @property
    def runner(self) -> Path:
        """The runner's own: caches, workspaces, scratch. Owned by its uid when we are root."""
        return self.root / "runner"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def gateway(self) -> Path:
        """The gateway's own: its audit."""
        return self.root / "gateway"

    @property
    def memory(self) -> Path:
        return self.root / "system.json"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def ready_file(self, name: str) -> Path:
        """The runner drops its uid before it is ready, so its file lies where it may write."""
        return (self.runner if name == "tool_runner" else self.run) / f"{name}.ready"

    def make(self, runner_uid: int) -> None:
        """Create what is missing, all of it closed to the other users of the machine.

        As root, gives the runner its folder, since it drops to its own uid, and lets its group pass through the home
        and read `data`. Raises UserError for a home that many users share, such as /tmp.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.root.stat().st_mode & stat.S_ISVTX:
            raise UserError(f"{self.root} is shared by the users of this machine: set M3_HOME to a folder of your own.")
        for folder in (self.root, self.nats, self.s3, self.runner, self.logs, self.run, self.data):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700)
        if os.geteuid() == 0:
            os.chown(self.runner, runner_uid, runner_uid)
            for folder, mode in ((self.root, 0o710), (self.data, 0o750)):
                os.chown(folder, 0, runner_uid)
                folder.chmod(mode)

    def recall(self) -> Remembered | None:
        """None when nothing was started here yet."""
        try:
            return Remembered.model_validate_json(self.memory.read_bytes())
        except FileNotFoundError:
            return None
        except PermissionError:
            raise UserError(f"{self.memory} belongs to somebody else: run as its owner, or set M3_HOME.") from None
        except ValueError as error:
            raise UserError(f"{self.memory} cannot be read ({error}): move it away and start again.") from None

    def remember(self, memory: Remembered) -> None:
        write_private(self.memory, json.dumps(memory.model_dump(mode="json"), indent=1))

    @contextlib.contextmanager
    def locked(self, tell: Callable[[str], None]) -> Iterator[None]:
        """One `up` or `down` at a time; a second one waits."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                tell("another up or down is at work here; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


def first_memory(names: Sequence[str], data_roots: tuple[Path, ...]) -> Remembered:
    """Free ports for `names` and fresh credentials."""
    return Remembered(
        ports=free_ports(names),
        nats_password=secrets.token_hex(24),
        s3_access_key="m3" + secrets.token_hex(8),
        s3_secret_key=secrets.token_hex(24),
        data_roots=data_roots,
    )


def _derived(secret: str, user: str) -> str:
    """A secret of one user's own: it follows from the operator's, which does not follow from it."""
    return hmac.new(secret.encode(), user.encode(), "sha256").hexdigest()[:48]


@contextlib.contextmanager
def choosing_ports() -> Iterator[None]:
    """One system of this installation at a time: of two that start together both would find the same ports free."""
    with Path(__file__).open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
