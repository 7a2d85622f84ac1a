"""Content-addressed objects: verified on read, stored once, and honest about what is wrong."""

import io
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from shared.contracts.base import Ref
from shared.embedded.s3 import S3Ports
from shared.errors import NotFound, ToolBroken, Unavailable, UserError
from shared.settings import Settings
from shared.store import Store
from shared.store.client import ContentChanged
from shared.store.faults import explained


def _tamper(raw: Any, settings: Settings, ref: Ref, data: bytes) -> None:
    raw.put_object(settings.s3_bucket_prefix + ref.bucket, ref.key, io.BytesIO(data), len(data))


def test_bytes_and_files_come_back(store: Store, tmp_path: Path) -> None:
    for data in (b"", b"x", os.urandom(40 << 20)):
        ref = store.put_bytes("work", data, "text/plain")
        assert (ref.bucket, ref.size, ref.media_type) == ("work", len(data), "text/plain")
        assert ref.key == f"sha256/{ref.sha256[:2]}/{ref.sha256}"
        assert store.get_bytes(ref) == data
        (tmp_path / "in").write_bytes(data)
        assert store.put_file("work", tmp_path / "in", "text/plain") == ref
        store.get_file(ref, tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_an_object_that_is_there_is_not_sent_again(store: Store, raw: Any, store_settings: Settings) -> None:
    ref = store.put_bytes("work", b"abcdef")
    before = raw.stat_object(store_settings.s3_bucket_prefix + "work", ref.key)
    _tamper(raw, store_settings, ref, b"ABCDEF")
    store.put_bytes("work", b"abcdef")
    assert raw.get_object(store_settings.s3_bucket_prefix + "work", ref.key).read() == b"ABCDEF"
    _tamper(raw, store_settings, ref, b"short")
    store.put_bytes("work", b"abcdef")
    assert store.get_bytes(ref) == b"abcdef"
    assert before.size == 6


@pytest.mark.parametrize("data", [b"ABCDEF", b"abcde", b"abcdefg", b""])
def test_a_tampered_object_is_refused_and_leaves_no_file(
    store: Store, raw: Any, store_settings: Settings, tmp_path: Path, data: bytes
) -> None:
    ref = store.put_bytes("work", b"abcdef")
    _tamper(raw, store_settings, ref, data)
    with pytest.raises(ToolBroken, match="not what was stored"):
        store.get_bytes(ref)
    (tmp_path / "out").write_bytes(b"older")
    with pytest.raises(ToolBroken, match="not what was stored"):
        store.get_file(ref, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_bytes() == b"older"


def test_a_stream_that_changes_between_hash_and_upload_is_not_stored(store: Store) -> None:
    class Restless(io.BytesIO):
        """Other bytes on each pass."""

        passes = 0

        def seek(self, offset: int, whence: int = 0) -> int:
            Restless.passes += offset == 0 and whence == 0
            return super().seek(offset, whence)

        def read(self, size: int | None = -1) -> bytes:
            return bytes(len(super().read(size))) if self.passes > 1 else super().read(size)

    for size in (1000, 20 << 20):
        Restless.passes = 0
        with pytest.raises(ContentChanged):
            store.put_stream("work", Restless(os.urandom(size)))
        content = bytes(size)
        assert store.get_bytes(store.put_bytes("work", content)) == content


def test_missing_objects_and_buckets(store: Store, store_settings: Settings) -> None:
    absent = Ref(bucket="work", key="sha256/00/" + "0" * 64, sha256="0" * 64, size=3)
    assert not store.exists(absent)
    with pytest.raises(NotFound):
        store.get_bytes(absent)
    with pytest.raises(NotFound, match="no bucket"):
        store.get_bytes(absent.model_copy(update={"bucket": "elsewhere"}))
    bare = Store.connect(store_settings.model_copy(update={"s3_bucket_prefix": "never-made-"}))
    with pytest.raises(NotFound):
        bare.get_bytes(absent)


def test_wrong_credentials_are_said(store_settings: Settings) -> None:
    for update in ({"s3_access_key": "nobody"}, {"s3_secret_key": type(store_settings.s3_secret_key)("wrong" * 5)}):
        stranger = Store.connect(store_settings.model_copy(update=update))
        with pytest.raises(UserError, match="M3_S3_ACCESS_KEY"):
            stranger.ensure_buckets()
        with pytest.raises(UserError, match="refused the credentials"):
            stranger.put_bytes("work", b"x")


def test_an_endpoint_that_does_not_answer_is_said(store_settings: Settings) -> None:
    nowhere = Store.connect(store_settings.model_copy(update={"s3_endpoint": S3Ports.free().endpoint}))
    nowhere.patience = 0.5
    with pytest.raises(Unavailable, match="does not answer"):
        nowhere.put_bytes("work", b"x")


@pytest.mark.parametrize("endpoint", ["127.0.0.1:8333", "http://", "ftp://host:1", "http://host:1/path"])
def test_an_endpoint_that_is_no_address_is_refused(store_settings: Settings, endpoint: str) -> None:
    with pytest.raises(UserError, match="M3_S3_ENDPOINT"):
        Store.connect(store_settings.model_copy(update={"s3_endpoint": endpoint}))


def test_a_full_disk_is_said() -> None:
    full = Path("/dev/full")
    with pytest.raises(ToolBroken, match="disk is full"), explained("writing", "here"):
        full.write_bytes(b"x")


def test_many_threads_share_a_store(store: Store) -> None:
    problems: list[Exception] = []

    def work(number: int) -> None:
        try:
            data = f"{number}".encode() * 1000
            assert store.get_bytes(store.put_bytes("work", data)) == data
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number % 7,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems


def test_a_forked_child_has_its_own_connections(store: Store) -> None:
    ref = store.put_bytes("work", os.urandom(3 << 20))
    store.get_bytes(ref)

    def read() -> bool:
        return all(len(store.get_bytes(ref)) == ref.size for _ in range(25))

    child = os.fork()
    if child == 0:
        # Both now read at once; over one shared connection their answers would be mixed.
        os._exit(0 if read() else 1)
    assert read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
