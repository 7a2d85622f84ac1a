"""A real MinIO server on loopback, where there is one."""

import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import SecretStr

from shared.embedded.ports import free_port
from shared.embedded.s3 import S3Keys, wait_ready


@dataclass
class MinioServer:
    endpoint: str
    access_key: str
    secret_key: SecretStr
    process: "subprocess.Popen[bytes]" = field(repr=False)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def minio_binary() -> str:
    """The one that M3_MINIO names, else one on PATH; skips the test where there is none."""
    found = os.environ.get("M3_MINIO") or shutil.which("minio")
    if not found:
        pytest.skip("no MinIO server: `deploy/minio.sh FOLDER` builds it with Go, then set M3_MINIO=FOLDER/minio")
    return found


def start_minio(folder: Path) -> MinioServer:
    binary, keys = minio_binary(), S3Keys("m3operator", secrets.token_hex(16))
    address = f"127.0.0.1:{free_port()}"
    argv = [binary, "server", str(folder / "data"), "--address", address, "--certs-dir", str(folder), "--quiet"]
    env = {"MINIO_ROOT_USER": keys.access_key, "MINIO_ROOT_PASSWORD": keys.secret_key, "MINIO_BROWSER": "off"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            argv, env=os.environ | env | {"MINIO_UPDATE": "off"}, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    wait_ready(f"http://{address}", keys, 60, process)
    return MinioServer(f"http://{address}", keys.access_key, SecretStr(keys.secret_key), process)
