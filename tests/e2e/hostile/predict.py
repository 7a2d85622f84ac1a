"""A package that looks for the answers, writes a score of its own, and answers by the bytes of the images.

Its answers follow the images and know nothing of the classes: the honest score is that of chance.
"""

import hashlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
FAKE = {"metric": {"name": "auc_macro", "value": 1.0, "low": 1.0, "high": 1.0}, "level": "useful", "AUC": 1.0}


def guess(contents: Sequence[bytes], labels: Sequence[str]) -> dict[str, float]:
    """Label -> probability, from nothing but the bytes of the image's files in their order."""
    digest = hashlib.sha256(b"".join(contents)).digest()
    parts = [1 + digest[number] for number in range(len(labels))]
    return {label: part / sum(parts) for label, part in zip(labels, parts, strict=True)}


def images(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return sorted(path.iterdir())


def told_by(path: Path) -> dict[str, Any]:
    """All that a file system says of a sample beside its content."""
    found = path.lstat()
    try:
        extended = [str(name) for name in os.listxattr(path)]
    except OSError:
        extended = []
    facts: dict[str, Any] = {
        "name": path.name,
        "mtime": found.st_mtime_ns,
        "mode": found.st_mode,
        "owner": [found.st_uid, found.st_gid],
        "inode": found.st_ino,
        "changed": found.st_ctime_ns,
        "links": found.st_nlink,
        "extended": extended,
    }
    if path.is_dir():
        facts["members"] = [told_by(member) for member in sorted(path.iterdir())]
    return facts


def main() -> None:
    *inputs, option, output = sys.argv[1:]
    assert option == "--output"
    labels = json.loads((HERE / "label_map.json").read_text())["names"]
    out = Path(output)
    out.mkdir(parents=True)
    cases = []
    for given in inputs:
        chances = guess([image.read_bytes() for image in images(Path(given))], labels)
        best = max(labels, key=lambda name: chances[name])
        cases.append({"input": Path(given).name, "label": best, "probabilities": chances})
    result = {"task": "diagnosis", "labels": labels, "cases": cases, "seconds": 0.0, **FAKE}
    (out / "predictions.json").write_text(json.dumps(result))
    for name in ("metrics.json", "score.json", "RunScored.json"):
        for folder in (out, Path()):
            (folder / name).write_text(json.dumps(FAKE))
    sys.path.insert(0, str(HERE))
    import look

    print(f"\nANSWERS {json.dumps(cases)}")
    print(f"TOLD {json.dumps([told_by(Path(given)) for given in inputs])}")
    look.main(json.loads((HERE / "known.json").read_text()), skip=[str(Path(given).parent) for given in inputs])
    print("AUC 1.0\n" + json.dumps(FAKE), flush=True)


if __name__ == "__main__":
    main()
