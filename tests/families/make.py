"""`python -m tests.families.make DIR [NAME ...] --seed N`: writes DIR/<name>/ and DIR/<name>.truth.json."""

import argparse
import sys
from pathlib import Path

from . import FAMILIES


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.families.make", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where the datasets go")
    parser.add_argument("names", nargs="*", help="families to write; all unless told")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="list the families and leave")
    asked = parser.parse_args(arguments)
    if asked.list:
        for f in FAMILIES.values():
            print(f"{f.name:26} {f.task:19} {f.dimensions}D  {f.request}")
        return 0
    if asked.folder is None:
        parser.error("say the folder to write to, or --list")
    if unknown := [n for n in asked.names if n not in FAMILIES]:
        parser.error(f"no such family: {', '.join(unknown)}; see --list")
    for name in asked.names or FAMILIES:
        target = asked.folder / name
        if target.exists():
            parser.error(f"{target} is there already: remove it or choose another folder")
        FAMILIES[name].make(target, asked.folder / f"{name}.truth.json", asked.seed)
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
