"""Ways to the network, and to sockets of the machine."""

import socket
from collections.abc import Callable

from inside_common import KNOWN, connect


def metadata_service() -> str:
    return connect(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))


def resolver() -> str:
    return connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.53", 53))


NETWORK: dict[str, Callable[[], object]] = {
    "tcp_loopback": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", KNOWN["tcp"])),
    "tcp_ipv6": lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, ("::1", KNOWN["tcp"])),
    "tcp_outside": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80)),
    "udp_loopback": lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", KNOWN["udp"])),
    "dns": lambda: socket.getaddrinfo("example.org", 80),
    "netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0),
    "packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0),
    "vsock": lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM, 0),
    "kernel_crypto": lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET, 0),
    "abstract_socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, KNOWN["abstract"]),
    "metadata_service": metadata_service,
    "resolver": resolver,
    "icmp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP),
    "raw_socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
    "bluetooth": lambda: socket.socket(31, socket.SOCK_RAW, 1),
    "docker_socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "/var/run/docker.sock"),
}
