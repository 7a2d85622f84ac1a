"""The services' users of a MinIO store, through its admin API."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from shared import tls
from shared.contracts.base import Service
from shared.errors import ToolBroken
from shared.settings import Settings
from shared.store.rights import policy


def make_users(settings: Settings, secrets: Mapping[Service, str]) -> None:
    """One user a service, named as it is, with its secret and its policy; those that exist are brought into line.

    `settings` hold the operator's keys. Raises ToolBroken with the server's words.
    """
    from minio.credentials import StaticProvider
    from minio.error import MinioAdminException
    from minio.minioadmin import MinioAdmin
    from urllib3 import PoolManager

    address = urlsplit(settings.s3_endpoint)
    keys = StaticProvider(settings.s3_access_key, settings.s3_secret_key.get_secret_value())
    secure = address.scheme == "https"
    pool = PoolManager(ssl_context=tls.context(settings)) if secure else PoolManager()
    admin = MinioAdmin(endpoint=address.netloc, credentials=keys, secure=secure, http_client=pool)
    try:
        for service, secret in secrets.items():
            name = f"m3-{service.replace('_', '-')}"
            admin.policy_add(name, policy=policy(service, settings.s3_bucket_prefix))
            admin.user_add(service, secret)
            admin.policy_set(name, user=service)
    except MinioAdminException as error:
        raise ToolBroken(f"the MinIO server at {settings.s3_endpoint} refused to make a user: {error}") from None
