"""Trusted probe: the dataset gate, as one JSON line: {"summary", "data"}. Looks, and changes nothing.

Usage: check_dataset.py /data/folder
"""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))


def check(virtual: str) -> dict[str, Any]:
    from _look import READER  # type: ignore[import-not-found]
    from _paths import real_path  # type: ignore[import-not-found]

    from shared.trainkit.gate.run import examine
    from shared.trainkit.gate.summary import summary

    found = examine(real_path(virtual), READER)
    return {"summary": summary(virtual, found), "data": {"path": virtual, **found}}


if __name__ == "__main__":
    # Names of files may hold what JSON cannot; they were made plain, and ASCII survives any log.
    print(json.dumps(check(sys.argv[1]), ensure_ascii=True))
