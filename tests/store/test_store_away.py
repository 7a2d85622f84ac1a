"""A store that is killed and comes back: whoever was at it notices nothing but the time."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import SecretStr

from shared.embedded.s3 import S3Ports, start_s3
from shared.settings import Settings
from shared.store import Store


def test_calls_outlast_a_killed_server(tmp_path: Path) -> None:
    ports = S3Ports.free()
    server = start_s3(tmp_path / "s3", ports)
    store = Store.connect(
        Settings(
            home=tmp_path,
            s3_endpoint=server.endpoint,
            s3_access_key=server.access_key,
            s3_secret_key=SecretStr(server.secret_key.get_secret_value()),
        )
    )
    try:
        store.ensure_buckets()
        kept = [(data := os.urandom(200_000), store.put_bytes("work", data)) for _ in range(5)]
        begun, done = threading.Event(), []

        def use(number: int) -> None:
            until_killed = number + 1
            while until_killed > 0 or not server_is_back.is_set():
                data, ref = kept[number % len(kept)]
                assert store.get_bytes(ref) == data
                assert store.exists(ref)
                fresh = os.urandom(300_000 + number)
                assert store.get_bytes(store.put_bytes("data", fresh)) == fresh
                until_killed -= 1
                done.append(time.monotonic())
                begun.set()

        server_is_back = threading.Event()
        with ThreadPoolExecutor(4) as pool:
            using = [pool.submit(use, number) for number in range(4)]
            begun.wait(30)
            server.process.kill()
            server.process.wait()
            killed = time.monotonic()
            time.sleep(1)
            server = start_s3(tmp_path / "s3", ports)
            server_is_back.set()
            for one in using:
                one.result()
        assert any(at > killed for at in done)
    finally:
        server.stop()
