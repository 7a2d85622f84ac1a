"""Three nats-servers on loopback that are one cluster."""

from pathlib import Path

from shared.embedded.nats import NatsHandle, start_nats
from shared.embedded.ports import free_port


class Cluster:
    """Servers that keep three copies of everything. Each may be killed and started again."""

    def __init__(self, folder: Path, extra: str = "") -> None:
        self.folder, self.extra = folder, extra
        self.routes = [free_port() for _ in range(3)]
        self.servers = [self._start(number) for number in range(3)]

    @property
    def urls(self) -> str:
        return ",".join(server.url for server in self.servers)

    def start_again(self, number: int) -> None:
        self.servers[number] = self._start(number, self.servers[number].port)

    def stop(self) -> None:
        for server in self.servers:
            server.stop()

    def _start(self, number: int, port: int | None = None) -> NatsHandle:
        routes = ", ".join(f"nats://127.0.0.1:{route}" for route in self.routes)
        block = f"cluster {{ name: m3, listen: '127.0.0.1:{self.routes[number]}', routes: [{routes}] }}"
        extra = f"server_name: n{number}\n{block}\n{self.extra}"
        return start_nats(self.folder / f"n{number}", port, extra=extra)
