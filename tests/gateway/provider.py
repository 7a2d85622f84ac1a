"""A real OpenID provider for tests, nanoidp, as a process of its own: people, the device flow, keys that change."""

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from shared.embedded.ports import free_port

PASSWORD = "of-everybody"
CLIENT = "m3builder"


@dataclass(frozen=True)
class Provider:
    """Running at `issuer`, until `stop`."""

    issuer: str
    process: subprocess.Popen[bytes]

    def token(self, name: str, minutes: int = 60) -> str:
        """An access token without the ceremony of a login; one that has expired for negative minutes."""
        path = f"{self.issuer}/api/users/{name}/token"
        answer = httpx.post(path, json={"exp_minutes": minutes, "client_id": CLIENT}, trust_env=False)
        return str(answer.raise_for_status().json()["access_token"])

    def login(self, name: str, scope: str) -> dict[str, str]:
        """All tokens that a person gets for a password."""
        form = {"grant_type": "password", "client_id": CLIENT, "username": name, "password": PASSWORD, "scope": scope}
        answer = httpx.post(f"{self.issuer}/token", data=form, trust_env=False)
        found: dict[str, str] = answer.raise_for_status().json()
        return found

    def agree(self, user_code: str, name: str, action: str = "authorize") -> None:
        """What a person does in a browser who was told the code."""
        form = {"user_code": user_code, "username": name, "password": PASSWORD, "action": action}
        httpx.post(f"{self.issuer}/device", data=form, trust_env=False).raise_for_status()

    def rotate(self) -> None:
        httpx.post(f"{self.issuer}/api/keys/rotate", trust_env=False).raise_for_status()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


def start(folder: Path, people: Mapping[str, Sequence[str]], minutes: int = 60) -> Provider:
    """Start it with `people`, name -> roles, whose tokens live for `minutes`, and wait until it answers."""
    port = free_port()
    issuer = f"http://127.0.0.1:{port}"
    client = {"client_id": CLIENT, "token_endpoint_auth_method": "none", "redirect_uris": ["http://127.0.0.1/"]}
    settings = {
        "server": {"host": "127.0.0.1", "port": port},
        "oauth": {"issuer": issuer, "audience": "m3builder", "clients": [client], "token_expiry_minutes": minutes},
        "jwt": {"keys_dir": str(folder / "keys")},
        "device_flow": {"polling_interval": 1},
    }
    users = {name: {"password": PASSWORD, "roles": list(roles)} for name, roles in people.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.yaml").write_text(yaml.safe_dump({"config_version": 1} | settings))
    (folder / "users.yaml").write_text(yaml.safe_dump({"config_version": 1, "users": users}))
    with (folder / "log").open("wb") as log:
        argv = [sys.executable, "-m", "nanoidp", "--config", str(folder)]
        provider = Provider(issuer, subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log))
    deadline = time.monotonic() + 60
    while True:
        try:
            httpx.get(f"{issuer}/api/health", trust_env=False).raise_for_status()
            return provider
        except httpx.HTTPError:
            if provider.process.poll() is not None or time.monotonic() > deadline:
                provider.process.kill()
                raise AssertionError((folder / "log").read_text()) from None
        time.sleep(0.1)
