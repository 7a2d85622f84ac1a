"""Looks of the samples of a folder, by the real `Looking` as an ordinary user: look_driver.py LEVEL BASE SAMPLES.

BASE/data holds the files, BASE/home belongs to the user; SAMPLES is a JSON list of lists of paths. Prints the kinds,
and what is left of the scratch folder.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from services.tool_runner import sandbox
from shared.errors import ToolBroken

UID = 64329


async def main(level: sandbox.Level, base: Path, samples: list[list[str]]) -> dict[str, object]:
    # Not before root is dropped: numpy starts threads.
    from services.tool_runner.looking import Looking
    from shared.looks import RECORD

    home = base / "home"
    looking = Looking(
        home=home, scratch=home / "scratch", log=home / "log", level=level, workers=2, memory_mb=2000,
        cancel=asyncio.Event(), seconds=1,
    )  # fmt: skip
    looks = await looking(base / "data", samples)
    kinds, different = [], set()
    for number in range(len(samples)):
        record = bytearray(RECORD.itemsize)
        looks.fill(record, number)
        kinds.append(record[32])
        different.add(bytes(record[33:]))
    looks.close()
    return {"kinds": kinds, "different": len(different), "scratch": (home / "scratch").exists()}


if __name__ == "__main__":
    try:
        sandbox.drop_root(UID, [Path(sys.argv[2])])
        wanted = sandbox.detect(cast(sandbox.Level, sys.argv[1]))
        print(json.dumps(asyncio.run(main(wanted, Path(sys.argv[2]), json.loads(sys.argv[3])))))
    except ToolBroken as broken:
        print(json.dumps({"unavailable": str(broken)}))
