"""The services' users of a MinIO store, through its admin API."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from shared import tls
from shared.contracts.base import Service
from shared.errors import UserError
from shared.settings import Settings
from shared.store.faults import explained
from shared.store.rights import policy


def make_users(settings: Settings, secrets: Mapping[Service, str]) -> None:
    """One user a service, named as it is, with its secret and its policy; those that exist are brought into line.

    `settings` hold the operator's keys. Raises UserError with the server's words, Unavailable.
    """
    from minio.credentials import StaticProvider
    from minio.error import MinioAdminException
    from minio.minioadmin import MinioAdmin
    from urllib3 import PoolManager

    address = urlsplit(settings.s3_endpoint)
    keys = StaticProvider(settings.s3_access_key, settings.s3_secret_key.get_secret_value())
    secure = address.scheme == "https"
    pool = PoolManager(ssl_context=tls.context(settings) if secure else None, retries=False)
    admin = MinioAdmin(endpoint=address.netloc, credentials=keys, secure=secure, http_client=pool)
    with explained("making the services' users", settings.s3_endpoint):
        try:
            for service, secret in secrets.items():
                name = f"m3-{service.replace('_', '-')}"
                admin.policy_add(name, policy=policy(service, settings.s3_bucket_prefix))
                admin.user_add(service, secret)
                admin.policy_set(name, user=service)
        except MinioAdminException as error:
            raise UserError(
                f"The store at {settings.s3_endpoint} made no users ({error}): it has to be a MinIO, with the keys "
                "of its operator in M3_S3_ACCESS_KEY and M3_S3_SECRET_KEY."
            ) from None
