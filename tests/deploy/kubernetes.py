"""A real control plane on loopback, its nodes played by kwok. Its programs lie in the folder M3_KUBERNETES."""

import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from shared.embedded.nats import free_port

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")
FOLDER = Path(os.environ.get("M3_KUBERNETES", "/nonexistent"))
MISSING = [name for name in PROGRAMS if not (FOLDER / name).is_file()]
TOKEN = "operator-of-the-test"


@dataclass(frozen=True)
class Cluster:
    url: str
    kubeconfig: Path

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer as JSON. Raises urllib.error.HTTPError."""
        request = urllib.request.Request(self.url + path, json.dumps(body).encode() if body else None, method=method)
        request.add_header("Authorization", f"Bearer {TOKEN}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=20, context=ssl._create_unverified_context()) as answer:
            return json.load(answer)

    def make(self, path: str, kind: str, name: str, **fields: Any) -> None:
        metadata = {"name": name} | fields.pop("metadata", {})
        self.call(
            "POST", path, {"kind": kind, "apiVersion": fields.pop("apiVersion", "v1"), "metadata": metadata} | fields
        )


def until(holds: Callable[[], Any], seconds: float = 180.0) -> Any:
    """What `holds` gives once it gives something; raises AssertionError after so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError, urllib.error.HTTPError):
            if found := holds():
                return found
        time.sleep(1)
    raise AssertionError(f"not within {seconds:.0f} s")


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Ready for requests, controllers and scheduler at work, no nodes yet."""
    port, store, peer = free_port(), free_port(), free_port()
    url, kubeconfig = f"https://127.0.0.1:{port}", folder / "kubeconfig"
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (folder / "sa.key").write_bytes(pem)
    (folder / "tokens.csv").write_text(f'{TOKEN},operator,operator,"system:masters"\n')
    access = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "test", "user": {"token": TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    kubeconfig.write_text(yaml.safe_dump(access))
    own = f"--kubeconfig={kubeconfig}"
    commands = {
        "etcd": [
            *(f"--data-dir={folder / 'etcd'}", f"--listen-client-urls=http://127.0.0.1:{store}"),
            *(f"--advertise-client-urls=http://127.0.0.1:{store}", f"--listen-peer-urls=http://127.0.0.1:{peer}"),
            *(
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster=default=http://127.0.0.1:{peer}",
            ),
        ],
        "kube-apiserver": [
            *(f"--etcd-servers=http://127.0.0.1:{store}", f"--secure-port={port}", "--bind-address=127.0.0.1"),
            *(
                f"--cert-dir={folder / 'certs'}",
                f"--token-auth-file={folder / 'tokens.csv'}",
                "--authorization-mode=RBAC",
            ),
            *(
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={folder / 'sa.key'}",
            ),
            *(f"--service-account-signing-key-file={folder / 'sa.key'}", "--service-cluster-ip-range=10.0.0.0/24"),
        ],
        "kube-controller-manager": [
            *(
                own,
                f"--service-account-private-key-file={folder / 'sa.key'}",
                "--use-service-account-credentials=false",
            ),
            *("--leader-elect=false", f"--secure-port={free_port()}", "--bind-address=127.0.0.1"),
        ],
        "kube-scheduler": [own, "--leader-elect=false", f"--secure-port={free_port()}", "--bind-address=127.0.0.1"],
        "kwok": [own, "--manage-all-nodes=true", f"--server-address=127.0.0.1:{free_port()}"],
    }
    running: list[subprocess.Popen[bytes]] = []
    made = Cluster(url, kubeconfig)
    try:
        for name, flags in commands.items():
            with (folder / f"{name}.log").open("wb") as log:
                running.append(subprocess.Popen([str(FOLDER / name), *flags], stdout=log, stderr=log, cwd=folder))
            if name == "kube-apiserver":
                until(lambda: made.call("GET", "/api/v1/namespaces/default"))
        yield made
    finally:
        for process in reversed(running):
            process.kill()
            process.wait()
