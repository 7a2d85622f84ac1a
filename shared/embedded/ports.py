"""Loopback ports for servers of this machine."""

import random
import socket
from collections.abc import Iterable

_PORTS = range(18_000, 30_000)
"""Below the range from which Linux hands out ports for outgoing connections: of these one may be taken before a server
listens there, and ours stay free over a restart."""


def free_port() -> int:
    """A port that was free a moment ago."""
    while not port_is_free(port := random.SystemRandom().choice(_PORTS)):
        pass
    return port


def free_ports(names: Iterable[str]) -> dict[str, int]:
    """A port for each name, all different."""
    found: dict[str, int] = {}
    for name in names:
        while (port := free_port()) in found.values():
            pass
        found[name] = port
    return found


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
