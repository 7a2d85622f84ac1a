"""The whole system as processes of one machine: nats-server, the S3 server and seven services.

They are detached and outlive the command that started them. `up` starts what does not run, `down` stops what is ours;
neither loses anything, since all state lies in the home folder.
"""

import asyncio
import hashlib
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import services
from shared.bus import Bus
from shared.bus.rights import users
from shared.contracts.base import SERVICES, Service
from shared.embedded import processes
from shared.embedded.home import (
    NATS_USER,
    Home,
    Remembered,
    choosing_ports,
    first_memory,
)
from shared.embedded.nats import nats_command, wait_for_nats
from shared.embedded.ports import free_ports, port_is_free
from shared.embedded.processes import Record
from shared.embedded.s3 import STOP_SECONDS, S3Keys, S3Ports, identities, remove_sockets, s3_command, wait_ready
from shared.errors import M3Error, ServerUnfit, UserError
from shared.settings import Settings
from shared.store import Store
from shared.store import rights as store_rights

SERVERS = ("nats", "s3")
START_SECONDS = 60.0
_S3_PORTS = tuple(field.name for field in fields(S3Ports))
_PORTS = ("nats", "gateway", *_S3_PORTS)
_KEYLESS = ("tool_runner", "scorer")
"""Services that never talk to a model provider, and so get no key of one."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class ServiceStatus:
    name: str
    pid: int | None
    state: str
    """`running`, `stopped` or `died`."""
    ready: bool
    resident_mb: float | None
    restarts: int


@dataclass(frozen=True)
class System:
    """A system that is up. `settings` reach it."""

    home: Home
    settings: Settings

    def status(self) -> list[ServiceStatus]:
        return status(self.home)

    def down(self, tell: Tell = lambda _: None) -> None:
        down(self.home, tell)


def up(
    settings: Settings,
    data_roots: Sequence[Path] = (),
    tell: Tell = lambda _: None,
    leave_out: Collection[Service] = (),
    fill: Callable[[Settings], None] | None = None,
) -> System:
    """Start what does not run under `settings.home` and wait until all of it is ready. Blocks; no event loop may run.

    Services in `leave_out` are not started: somebody else does their part. `data_roots` (else those of the settings,
    else those of the last time, else <home>/data) are where datasets may lie. `fill` gives the servers of a new home
    their content, in place of empty streams and buckets.
    Raises ServerUnfit with the end of a log when something does not come up; what runs is left running then.
    """
    home = Home(settings.home.absolute())
    with home.locked(tell):
        if fill and home.recall():
            raise UserError(f"There is a system in {home.root} already: set M3_HOME to a folder without one.")
        home.make(settings.runner_uid)
        with choosing_ports():
            memory = _memory(home, settings, data_roots)
            ours = memory.settings(settings.model_copy(update={"home": home.root}))
            found = {name: processes.load(name, home.run) for name in (*SERVERS, *SERVICES)}
            started = _start_servers(home, memory, ours.s3_bucket_prefix, found, tell)
        if started:
            tell("streams and buckets")
            (fill or _provision)(ours)
        _start_services(home, memory, ours, found, tell, [name for name in SERVICES if name not in leave_out])
    return System(home, ours)


def down(home: Home, tell: Tell = lambda _: None) -> None:
    """Stop services first, then the servers. Twice is fine. What is not ours any more is let be."""
    if home.recall() is None:
        return
    with home.locked(tell):
        memory = home.recall()
        records = {name: processes.load(name, home.run) for name in (*SERVERS, *SERVICES)}
        alive = {name: record for name, record in records.items() if record and record.alive}
        tell(f"stopping {len(alive)} processes")
        killed = processes.stop(alive[name] for name in SERVICES if name in alive)
        killed += processes.stop([alive["nats"]] if "nats" in alive else [])
        processes.stop([alive["s3"]] if "s3" in alive else [], STOP_SECONDS)
        for name in records:
            home.ready_file(name).unlink(missing_ok=True)
            (home.run / f"{name}.json").unlink(missing_ok=True)
            (home.run / f"{name}.pid").unlink(missing_ok=True)
        if memory:
            remove_sockets(_s3_ports(memory))
    if killed:
        tell(f"did not stop in time and were killed: {', '.join(killed)}")


def status(home: Home) -> list[ServiceStatus]:
    memory = home.recall()
    return [_status(home, memory, name) for name in (*SERVERS, *SERVICES)]


def attach(settings: Settings) -> System | None:
    """The system of `settings.home` as it was left, running or not; None when there never was one."""
    home = Home(settings.home.absolute())
    memory = home.recall()
    return System(home, memory.settings(settings)) if memory else None


def _memory(home: Home, settings: Settings, data_roots: Sequence[Path]) -> Remembered:
    memory = home.recall()
    roots = tuple(data_roots) or settings.data_roots or (memory.data_roots if memory else ()) or (home.data,)
    missing = [str(root) for root in roots if not root.is_dir()]
    if missing:
        raise UserError(f"The data root {missing[0]} is no folder. Create it, or name another with --data-root.")
    roots = tuple(root.resolve() for root in roots)
    closed = [root for root in roots if os.geteuid() == 0 and not _open_to(root, settings.runner_uid)]
    if closed:
        raise UserError(
            f"The data root {closed[0]} cannot be read by the runner, which drops to uid {settings.runner_uid}. "
            f"Open it to others (chmod o+rx {closed[0]}), or start as the user whose data it is."
        )
    if memory is None:
        memory = first_memory(_PORTS, roots)
    elif not any(
        record and record.alive for record in (processes.load(name, home.run) for name in (*SERVERS, *SERVICES))
    ):
        # Nothing of ours holds a port now, so what is taken is somebody else's.
        taken = [name for name, port in memory.ports.items() if not port_is_free(port)]
        memory = memory.model_copy(update={"ports": memory.ports | free_ports(taken)})
    memory = memory.model_copy(update={"data_roots": roots})
    home.remember(memory)
    return memory


def _start_servers(home: Home, memory: Remembered, prefix: str, found: dict[str, Record | None], tell: Tell) -> bool:
    """True when one had to be started."""
    ports, keys = _s3_ports(memory), S3Keys(memory.s3_access_key, memory.s3_secret_key)
    commands = {
        "nats": lambda: nats_command(home.nats, memory.ports["nats"], extra=_authorization(memory)),
        "s3": lambda: s3_command(home.s3, ports, keys, identities(prefix, memory.s3_secret)),
    }
    folders = {"nats": home.nats, "s3": home.s3}
    missing = [name for name in SERVERS if not _alive(found[name])]
    if missing:
        tell(f"starting {' and '.join(missing)}")
    for name in missing:
        found[name] = _start(home, name, commands[name](), os.environ, found[name], folders[name])
    deadline = time.monotonic() + START_SECONDS
    _until(home, "nats", found["nats"], deadline, lambda: wait_for_nats(memory.ports["nats"], seconds=0.3))
    _until(home, "s3", found["s3"], deadline, lambda: wait_ready(ports.endpoint, keys, 0.3))
    return bool(missing)


def _start_services(
    home: Home,
    memory: Remembered,
    settings: Settings,
    found: dict[str, Record | None],
    tell: Tell,
    wanted: Sequence[Service],
) -> None:
    started: dict[str, Record] = {}
    for name in wanted:
        own, argv = environment(home, name, settings, memory), [sys.executable, "-m", f"services.{name}"]
        record, mark = found[name], _fingerprint(argv, own)
        if record and record.alive and record.fingerprint == mark:
            continue
        if record and record.alive:
            tell(f"{name} runs with other settings; restarting it")
            processes.stop([record])
        home.ready_file(name).unlink(missing_ok=True)
        started[name] = _start(home, name, argv, inherited(name) | own, record, home.root, mark)
    if not started:
        tell("all of it runs already")
        return
    tell(f"starting {', '.join(started)}")
    deadline, waiting = time.monotonic() + START_SECONDS, dict(started)
    while waiting:
        for one, record in list(waiting.items()):
            if not record.alive:
                raise _did_not_start(home, one, "ended before it was ready")
            if home.ready_file(one).exists():
                del waiting[one]
        if time.monotonic() > deadline:
            raise _did_not_start(home, next(iter(waiting)), f"was not ready within {START_SECONDS:.0f} s")
        time.sleep(0.03)
    for one, record in started.items():
        if not record.alive:
            raise _did_not_start(home, one, "ended as soon as it was ready")


def _start(
    home: Home,
    name: str,
    argv: Sequence[str],
    env: Mapping[str, str],
    before: Record | None,
    cwd: Path,
    mark: str = "",
) -> Record:
    # A record that `down` did not remove is of a process that died.
    restarts = before.restarts + 1 if before else 0
    record = processes.start(name, argv, env, home.log(name), cwd, mark, restarts)
    processes.save(record, home.run)
    return record


def environment(home: Home, name: Service, settings: Settings, memory: Remembered) -> dict[str, str]:
    """What a service is told by us, its own credentials among it; the rest it inherits."""
    in_store = name in store_rights.RIGHTS
    signing = settings.signing_key if name == "gateway" else None
    models = settings.models_file
    return {
        "M3_HOME": str(home.root),
        "M3_NATS_URL": settings.nats_url,
        "M3_NATS_USER": name,
        "M3_NATS_PASSWORD": memory.nats_secret(name),
        "M3_S3_ENDPOINT": settings.s3_endpoint,
        "M3_S3_ACCESS_KEY": name if in_store else "",
        "M3_S3_SECRET_KEY": memory.s3_secret(name) if in_store else "",
        "M3_S3_BUCKET_PREFIX": settings.s3_bucket_prefix,
        "M3_GATEWAY_URL": settings.gateway_url,
        "M3_GATEWAY_TOKEN": memory.gateway_token if name == "gateway" else "",
        "M3_DATA_ROOTS": json.dumps([str(root) for root in settings.data_roots]),
        "M3_READY_FILE": str(home.ready_file(name)),
        "M3_HEALTH_PORT": "0",
        "M3_OTLP_ENDPOINT": settings.otlp_endpoint or "",
        # Both packages have to be found wherever the command was called from.
        "PYTHONPATH": str(Path(services.__path__[0]).parent),
        "PYTHONUNBUFFERED": "1",
        **({"M3_SIGNING_KEY": str(signing.absolute())} if signing else {}),
        **({"M3_MODELS_FILE": str(models.absolute())} if models else {}),
    }


def inherited(name: str) -> dict[str, str]:
    """The caller's environment, without keys of model providers where none is needed, nor where the operator's lies."""
    env = dict(os.environ)
    env.pop("M3_SIGNING_KEY", None)
    if name in _KEYLESS:
        env = {key: value for key, value in env.items() if not key.endswith(("_API_KEY", "_TOKEN", "_BASE_URL"))}
    return env


def _provision(settings: Settings) -> None:
    async def streams() -> None:
        bus = await Bus.connect(settings, "gateway")
        try:
            await bus.provision()
        finally:
            await bus.close()

    Store.connect(settings).ensure_buckets()
    asyncio.run(streams())


def _until(home: Home, name: str, record: Record | None, deadline: float, probe: Callable[[], None]) -> None:
    """Repeat `probe` until it does not raise, the process has died or the time is over."""
    while True:
        if not _alive(record):
            raise _did_not_start(home, name, "ended before it was ready")
        try:
            probe()
            return
        except ServerUnfit as error:
            if time.monotonic() > deadline:
                raise _did_not_start(home, name, str(error)) from None


def _did_not_start(home: Home, name: str, what: str) -> M3Error:
    return ServerUnfit(
        f"{name} {what}. The end of {home.log(name)}:\n{processes.tail(home.log(name))}\n"
        "Mend what it says and run `m3builder up` again, or `m3builder down` to stop the rest."
    )


def _status(home: Home, memory: Remembered | None, name: str) -> ServiceStatus:
    record = processes.load(name, home.run)
    if record is None:
        return ServiceStatus(name, None, "stopped", False, None, 0)
    if not record.alive:
        return ServiceStatus(name, record.pid, "died", False, None, record.restarts)
    ready = memory is not None and _is_ready(home, memory, name)
    return ServiceStatus(name, record.pid, "running", ready, record.resident_mb(), record.restarts)


def _is_ready(home: Home, memory: Remembered, name: str) -> bool:
    try:
        if name == "nats":
            wait_for_nats(memory.ports["nats"], seconds=0)
        elif name == "s3":
            wait_ready(_s3_ports(memory).endpoint, S3Keys(memory.s3_access_key, memory.s3_secret_key), 0.5)
        else:
            port = json.loads(home.ready_file(name).read_text())["port"]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
    except (M3Error, OSError, ValueError, KeyError, urllib.error.URLError):
        return False
    return True


def _s3_ports(memory: Remembered) -> S3Ports:
    return S3Ports(**{name: memory.ports[name] for name in _S3_PORTS})


def _open_to(folder: Path, uid: int) -> bool:
    found = folder.stat()
    wanted = 0o500 if found.st_uid == uid else 0o050 if found.st_gid == uid else 0o005
    return found.st_mode & wanted == wanted


def _alive(record: Record | None) -> bool:
    return record is not None and record.alive


def _authorization(memory: Remembered) -> str:
    # Whoever else has an account on this machine may not speak on our bus.
    return users((NATS_USER, memory.nats_password), {name: memory.nats_secret(name) for name in SERVICES})


def _fingerprint(argv: Iterable[str], own: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([list(argv), dict(own)], sort_keys=True).encode()).hexdigest()[:16]
