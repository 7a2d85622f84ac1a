"""The part of leakage.py that runs in the sandbox: python -m bench.leakage_looks FOLDER UID.

Looks of FOLDER/images/0.png, 1.png, ... go to FOLDER/looks; prints the level. A process of its own, since it drops
root, which numpy's threads would prevent.
"""

import asyncio
import sys
from pathlib import Path

from services.tool_runner import sandbox


async def main(folder: Path) -> None:
    from services.tool_runner.looking import Looking
    from shared.looks import RECORD

    level = sandbox.detect()
    looking = Looking(
        home=folder / "home", scratch=folder / "home" / "scratch", log=folder / "log", level=level, workers=2,
        memory_mb=4096, cancel=asyncio.Event(),
    )  # fmt: skip
    count = len(list((folder / "images").iterdir()))
    looks = await looking(folder / "images", [[f"{number}.png"] for number in range(count)])
    with (folder / "looks").open("wb") as out:
        for number in range(count):
            record = bytearray(RECORD.itemsize)
            looks.fill(record, number)
            out.write(record)
    print(level)


if __name__ == "__main__":
    given = Path(sys.argv[1])
    sandbox.drop_root(int(sys.argv[2]), [given])
    asyncio.run(main(given))
