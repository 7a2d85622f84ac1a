"""`python -m shared.bus`: create streams, consumers and buckets on bus and store, then prove that the bus is fit.

Run it with the operator's users before the services start, and again after an upgrade; it may be repeated. Services
that have users of their own (M3_NATS_USER) create nothing.

`--rights` prints, as JSON, what each service's user has to be allowed on NATS and in the store; `--minio-users` makes
these users in a MinIO store, with the secrets of M3_S3_SECRET_KEY_<SERVICE>.
"""

import argparse
import asyncio
import json
import os
import sys
from dataclasses import asdict

from shared.bus import Bus
from shared.bus.rights import rights
from shared.contracts.base import SERVICES
from shared.errors import M3Error, UserError
from shared.settings import Settings, from_environment
from shared.store import Store
from shared.store.minio_users import make_users
from shared.store.rights import RIGHTS, policy


async def _provision(settings: Settings) -> None:
    bus = await Bus.connect(settings, "provisioner", seconds=settings.start_seconds)
    try:
        await bus.provision()
        await bus.prove_fence()
    finally:
        await bus.close()
    await asyncio.to_thread(Store.connect(settings).ensure_buckets, settings.start_seconds)


def _rights(prefix: str) -> str:
    stored = {name: {"s3": RIGHTS[name], "s3_policy": policy(name, prefix)} for name in RIGHTS}
    return json.dumps({name: asdict(rights(name)) | stored.get(name, {"s3": {}}) for name in SERVICES}, indent=1)


def _minio_users(settings: Settings) -> None:
    secrets = {name: os.environ.get(f"M3_S3_SECRET_KEY_{name.upper()}", "") for name in RIGHTS}
    if short := [f"M3_S3_SECRET_KEY_{name.upper()}" for name, secret in secrets.items() if len(secret) < 8]:
        raise UserError(f"{', '.join(short)}: not set, or shorter than the 8 characters that MinIO wants.")
    make_users(settings, secrets)


def main() -> int:
    parser = argparse.ArgumentParser(description="Create what M3Builder needs on its bus and its store.")
    parser.add_argument("--rights", action="store_true", help="print what each service's user needs, and do nothing")
    parser.add_argument("--minio-users", action="store_true", help="make the services' users in a MinIO store instead")
    arguments = parser.parse_args()
    settings = from_environment()
    try:
        if arguments.rights:
            print(_rights(settings.s3_bucket_prefix))
        elif arguments.minio_users:
            _minio_users(settings)
        else:
            asyncio.run(_provision(settings))
    except M3Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
