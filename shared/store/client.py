"""The one door to the object store: S3 through minio-py, content-addressed, verified.

Only PUT, GET, HEAD, DELETE, listing and multipart are relied on: no conditional writes, no versioning, and an ETag is
never taken for a hash. All calls block and are thread-safe; coroutines use `asyncio.to_thread`. While the store is away
they are repeated for `Store.patience` seconds, then raise Unavailable.
"""

import hashlib
import io
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from shared import tls
from shared.contracts.base import Ref
from shared.errors import NotFound, ToolBroken, Unavailable, UserError
from shared.settings import Settings
from shared.store.faults import explained
from shared.store.folders import FolderManifest, fetch_files, store_folder
from shared.store.rights import Access
from shared.store.trying import Attempt

BUCKETS = ("work", "data", "cases", "sealed", "packages", "pictures")
"""By role; the name in the store has the settings' prefix."""

THREADS = 8
_CHUNK = 1 << 20
_PART = 16 << 20
T = TypeVar("T")


def ref_of(bucket: str, sha256: str, size: int, media_type: str = "application/octet-stream") -> Ref:
    """Where content with this hash lies, whether or not it is there."""
    return Ref(bucket=bucket, key=f"sha256/{sha256[:2]}/{sha256}", sha256=sha256, size=size, media_type=media_type)


class ContentChanged(ToolBroken):
    """The bytes were not those that had been hashed: someone wrote to the file meanwhile. Nothing was stored."""


class Store:
    """Made with `connect`. `Ref.bucket` is a role's name (`work`, ...), so that a Ref holds under any prefix."""

    def __init__(self, settings: Settings) -> None:
        address = urlsplit(settings.s3_endpoint)
        if address.scheme not in ("http", "https") or not address.netloc or address.path.strip("/"):
            raise UserError(f"M3_S3_ENDPOINT is {settings.s3_endpoint!r}; it must look like http://host:port")
        tls.refuse_plain_text(settings, "M3_S3_ENDPOINT", settings.s3_endpoint, "https")
        self.endpoint = settings.s3_endpoint
        self._host, self._secure = address.netloc, address.scheme == "https"
        self._tls = tls.context(settings) if self._secure else None
        self._keys = (settings.s3_access_key, settings.s3_secret_key.get_secret_value())
        self._prefix = settings.s3_bucket_prefix
        self.patience = 30.0
        """Seconds for which a call is repeated while the store does not answer: a restart is nobody's failure."""
        self._lock = threading.Lock()
        self._made_by = -1
        self._client: Any = None

    @classmethod
    def connect(cls, settings: Settings) -> "Store":
        """Check the settings and make the client; the first request is the first use of the network."""
        store = cls(settings)
        with explained("connecting", store.endpoint):
            store._minio()
        return store

    def ensure_buckets(self, seconds: float | None = None) -> None:
        """Make the buckets that are missing; waits that long, else `patience`, for a store that comes up."""
        for role in BUCKETS:
            self._insist(f"making bucket {self._prefix}{role}", partial(self._make_bucket, self._bucket(role)), seconds)

    def check(self, service: str, rights: Mapping[str, Collection[Access]], seconds: float) -> None:
        """Raise an M3Error that says what to change, unless the buckets are there and allow this (bucket -> access).

        Waits up to `seconds` for a store that comes up. Where something may be written, an empty object is.
        """
        for role, access in rights.items():
            for one in access:
                what = f"checking that {service} may {one} {self._prefix}{role}"
                tried = Attempt(self.endpoint, self._bucket(role), one, service, self._keys[0])
                self._insist(what, partial(tried.make, self._minio()), seconds)

    def put_bytes(self, bucket: str, data: bytes, media_type: str = "application/octet-stream") -> Ref:
        return self.put_stream(bucket, io.BytesIO(data), media_type)

    def put_file(self, bucket: str, path: Path, media_type: str = "application/octet-stream") -> Ref:
        """Raises ContentChanged when the file is written to meanwhile."""
        with path.open("rb") as stream:
            return self.put_stream(bucket, stream, media_type)

    def put_stream(self, bucket: str, stream: BinaryIO, media_type: str = "application/octet-stream") -> Ref:
        """Store a seekable stream from its start. Nothing is sent when the object is there with that size."""
        digest, size = _hashed(stream)
        ref = ref_of(bucket, digest, size, media_type)

        def send() -> None:
            stream.seek(0)
            self._minio().put_object(
                self._bucket(bucket), ref.key, _Checked(stream, ref), size, content_type=media_type, part_size=_PART
            )

        if not self.exists(ref):
            self._insist(f"storing {size} bytes", send)
        return ref

    def get_bytes(self, ref: Ref) -> bytes:
        """Raises NotFound, or ToolBroken when size or sha256 are not those of the Ref."""

        def read() -> bytes:
            found = io.BytesIO()
            self._read(ref, found.write)
            return found.getvalue()

        return self._insist(f"reading {ref.bucket}/{ref.key}", read)

    def get_file(self, ref: Ref, path: Path) -> None:
        """Write the verified bytes to `path` (temporary name, then rename); its folder must exist."""
        partial = path.with_name(f".{path.name[:100]}.{os.getpid()}-{threading.get_ident()}.part")

        def read() -> None:
            with partial.open("wb") as file:
                self._read(ref, file.write)

        try:
            self._insist(f"reading {ref.bucket}/{ref.key} to {path}", read)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)

    def exists(self, ref: Ref) -> bool:
        """True when the object is there with the Ref's size; its bytes are not read."""

        def look() -> int:
            return int(self._minio().stat_object(self._bucket(ref.bucket), ref.key).size)

        try:
            return self._insist(f"looking for {ref.key}", look) == ref.size
        except NotFound:
            return False

    def listed(self, bucket: str) -> list[tuple[str, int]]:
        """Key and bytes of every object of a bucket."""

        def read() -> list[tuple[str, int]]:
            found = self._minio().list_objects(self._bucket(bucket), recursive=True)
            return [(str(item.object_name), int(item.size or 0)) for item in found if not item.is_dir]

        return self._insist(f"listing {bucket}", read)

    def remove(self, bucket: str, key: str) -> None:
        """Remove an object; one that is gone is fine. For `shared.store.sweep` alone, which knows what is needed."""
        self._insist(f"removing {bucket}/{key}", lambda: self._minio().remove_object(self._bucket(bucket), key))

    def put_folder(self, bucket: str, folder: Path, exclude: Collection[str] = ()) -> Ref:
        """Store a folder's files, then their manifest; the Ref is the manifest's and says all of the content.

        `exclude` are names of files and folders, left out at any depth. Links that leave the folder are refused
        (UserError), links within it are kept, sockets and the like are skipped. Empty folders are not kept.
        """
        return self.put_manifest(
            bucket, store_folder(self, bucket, folder, lambda path: path.rpartition("/")[2] in exclude)
        )

    def get_folder(self, ref: Ref, folder: Path) -> FolderManifest:
        """Write the files of a manifest below `folder`. All paths are checked before anything is written."""
        manifest = self.get_manifest(ref)
        folder.mkdir(parents=True, exist_ok=True)
        fetch_files(self, manifest, folder)
        return manifest

    def put_manifest(self, bucket: str, manifest: FolderManifest) -> Ref:
        return self.put_bytes(bucket, manifest.encode(), "application/json")

    def get_manifest(self, ref: Ref) -> FolderManifest:
        """Raises ToolBroken when the object is no manifest of files in its own bucket, UnsafePath (a UserError) when a
        path in it leaves."""
        manifest = FolderManifest.decode(self.get_bytes(ref))
        if others := {entry.ref.bucket for entry in manifest.files.values()} - {ref.bucket}:
            raise ToolBroken(f"a folder of the bucket {ref.bucket} names objects of {', '.join(sorted(others))}")
        return manifest

    def _read(self, ref: Ref, write: Callable[[bytes], object]) -> None:
        digest, size = hashlib.sha256(), 0
        response = self._minio().get_object(self._bucket(ref.bucket), ref.key)
        try:
            for chunk in response.stream(_CHUNK):
                size += len(chunk)
                if size > ref.size:
                    break
                digest.update(chunk)
                write(chunk)
        finally:
            response.close()
            response.release_conn()
        if size != ref.size or digest.hexdigest() != ref.sha256:
            raise ToolBroken(
                f"{ref.bucket}/{ref.key} at {self.endpoint} is not what was stored: "
                f"{'more' if size > ref.size else size} bytes for {ref.size}, or another sha256. Restore the object."
            )

    def _insist(self, what: str, ask: Callable[[], T], seconds: float | None = None) -> T:
        """Do it, again and again while the store is away; `ask` must bear repetition."""
        deadline, pause = time.monotonic() + (self.patience if seconds is None else seconds), 0.05
        while True:
            try:
                with explained(what, self.endpoint):
                    return ask()
            except Unavailable:
                if time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def _bucket(self, role: str) -> str:
        if role not in BUCKETS:
            raise NotFound(f"there is no bucket {role!r}; a Ref names one of {', '.join(BUCKETS)}")
        return self._prefix + role

    def _minio(self) -> Any:
        """The client of this process: connections must not be shared across a fork."""
        with self._lock:
            if self._made_by != os.getpid():
                import urllib3
                from minio import Minio

                pool = urllib3.PoolManager(
                    maxsize=2 * THREADS,
                    timeout=urllib3.Timeout(connect=5, read=60),
                    retries=False,  # `_insist` repeats
                    ssl_context=self._tls,
                )
                # A region given saves a request a bucket, and not every store answers that request.
                self._client = Minio(self._host, *self._keys, secure=self._secure, region="us-east-1", http_client=pool)
                self._made_by = os.getpid()
            return self._client

    def _make_bucket(self, name: str) -> None:
        from minio.error import S3Error

        client = self._minio()
        if client.bucket_exists(name):
            return
        try:
            client.make_bucket(name)
        except S3Error as error:
            # Another service was faster.
            if error.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                raise


def _hashed(stream: BinaryIO) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    stream.seek(0)
    while chunk := stream.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return digest.hexdigest(), size


class _Checked:
    """Hashes what an upload reads and fails before its end when it is not what the key promises."""

    def __init__(self, stream: BinaryIO, ref: Ref) -> None:
        self._stream, self._ref = stream, ref
        self._digest, self._left = hashlib.sha256(), ref.size

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._digest.update(data)
        self._left -= len(data)
        if self._left <= 0 and self._digest.hexdigest() != self._ref.sha256:
            raise ContentChanged("a file changed while it was being stored; store it again once it is at rest")
        return data
