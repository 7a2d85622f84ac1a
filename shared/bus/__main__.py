"""`python -m shared.bus [--replicas N]`: create the streams and consumers, then prove that the server is fit.

`python -m shared.bus --rights` prints, as JSON, what each service's user has to be allowed on NATS and in the store.
"""

import argparse
import asyncio
import json
import sys
from dataclasses import asdict

from shared.bus import Bus
from shared.bus.rights import rights
from shared.contracts.base import SERVICES
from shared.errors import M3Error
from shared.settings import Settings
from shared.store.rights import RIGHTS


async def _provision(replicas: int) -> None:
    bus = await Bus.connect(Settings(), "provisioner")
    try:
        await bus.provision(replicas)
        await bus.prove_fence()
    finally:
        await bus.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Create the streams and consumers of M3Builder on a NATS server.")
    parser.add_argument("--replicas", type=int, default=1, help="copies of each stream; 3 in production")
    parser.add_argument("--rights", action="store_true", help="print what each service's user needs, and do nothing")
    arguments = parser.parse_args()
    if arguments.rights:
        print(json.dumps({name: asdict(rights(name)) | {"s3": RIGHTS.get(name, {})} for name in SERVICES}, indent=1))
        return 0
    try:
        asyncio.run(_provision(arguments.replicas))
    except M3Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
