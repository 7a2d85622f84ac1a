"""Each service's user in the store: it reaches its own buckets, in the ways that are its own, and no other."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import SecretStr

from shared.contracts.base import SERVICES, Ref, Service
from shared.embedded.s3 import identities, start_s3
from shared.errors import UserError
from shared.settings import Settings
from shared.store import Store
from shared.store.client import BUCKETS
from shared.store.minio_users import make_users
from shared.store.rights import REMOVES, RIGHTS, Access
from tests.minio_server import start_minio


def secret(service: Service) -> str:
    return f"secret-of-{service}"


def of_operator(server: Any) -> Settings:
    return Settings(s3_endpoint=server.endpoint, s3_access_key=server.access_key, s3_secret_key=server.secret_key)


@pytest.fixture(scope="module", params=["seaweedfs", pytest.param("minio", marks=pytest.mark.slow)])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server with the users that are made of the one table."""
    folder = tmp_path_factory.mktemp("guarded")
    if request.param == "minio":
        server: Any = start_minio(folder)
        for _ in range(2):
            make_users(of_operator(server), {service: secret(service) for service in RIGHTS})
    else:
        server = start_s3(folder, others=identities("m3-", secret))
    Store.connect(of_operator(server)).ensure_buckets()
    yield server
    server.stop()


def user(server: Any, service: Service) -> Store:
    keys = {"s3_access_key": service, "s3_secret_key": SecretStr(secret(service))}
    return Store.connect(of_operator(server).model_copy(update=keys))


@pytest.mark.parametrize("service", [*SERVICES])
def test_each_service_does_its_own_and_nothing_else(guarded: Any, service: Service) -> None:
    operator, mine = Store.connect(of_operator(guarded)), user(guarded, service)
    for bucket in BUCKETS:
        ref = operator.put_bytes(bucket, f"{bucket} of {service}".encode())
        for access in get_args(Access):
            if access in RIGHTS.get(service, {}).get(bucket, ()):
                mine.check(service, {bucket: (access,)}, 5)
                assert do(mine, access, ref) == do(operator, access, ref)
            else:
                with pytest.raises(UserError):
                    do(mine, access, ref)
                if service in RIGHTS:
                    with pytest.raises(UserError, match=f"{access} the bucket m3-{bucket}"):
                        mine.check(service, {bucket: (access,)}, 5)


def do(store: Store, access: Access, ref: Ref) -> object:
    if access == "read":
        return store.get_bytes(ref)
    if access == "write":
        return store.put_bytes(ref.bucket, f"new in {ref.bucket} by {store._keys[0]}".encode()).bucket
    return store.listed(ref.bucket)


def test_only_who_removes_may_remove(guarded: Any) -> None:
    if hasattr(guarded, "ports"):
        pytest.skip("SeaweedFS does not tell adding from removing")
    operator = Store.connect(of_operator(guarded))
    for service in RIGHTS:
        ref = operator.put_bytes("data", b"to be removed")
        if service in REMOVES:
            user(guarded, service).remove("data", ref.key)
        else:
            with pytest.raises(UserError):
                user(guarded, service).remove("data", ref.key)
        assert operator.exists(ref) == (service not in REMOVES)
