"""`python -m shared.bus [--replicas N]`: create the streams and consumers, then prove that the server is fit."""

import argparse
import asyncio
import sys

from shared.bus import Bus
from shared.errors import M3Error
from shared.settings import Settings


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
    try:
        asyncio.run(_provision(parser.parse_args().replicas))
    except M3Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
