"""Write a package anew around the weights of a finished training: `python -m shared.training.repackage`.

Works in a workspace: its predict.py, what that imports, and those of its .json files that the old package ($M3_PACKAGE)
has, too, take the places of the old ones. The new package then predicts one validation case; where its weights do not
load any more, or it fails otherwise, there is no package. Exit codes are those of a training.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from shared.training import checks, program
from shared.training.imports import as_exported, needed
from shared.training.package import checksums, drafted, environment, pinned
from shared.training.progress import write_json, write_text

KEPT = ("label_map.json", "metadata.json")
"""Say what the weights are, whatever the workspace says."""
SECONDS = 240
NOTE = "- The code around the weights was changed after the training: the figures above are those of the code before.\n"


def main() -> int:
    return program.exit_code(lambda: repackage(Path(os.environ.get("M3_PACKAGE") or "/package"), Path("package")))


def repackage(old: Path, folder: Path) -> int:
    """Raises NotExportable, and TrainingFailed where the weights and the files do not go together."""
    found = needed(Path("predict.py").resolve())
    with drafted(folder) as draft:
        shutil.copytree(old, draft, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.py", "SHA256SUMS"))
        for name, path in found.files.items():
            write_text(draft / name, as_exported(path.read_text(encoding="utf-8")))
        for path in sorted(old.glob("*.json")):
            if path.name not in KEPT and Path(path.name).is_file():
                write_json(draft / path.name, json.loads(Path(path.name).read_text(encoding="utf-8")))
        before = re.findall(r"^([\w.-]+)==", (old / "environment.txt").read_text(), re.MULTILINE)
        write_text(draft / "environment.txt", environment(pinned(sorted({*before, *found.distributions}))))
        card = (draft / "MODEL_CARD.md").read_text(encoding="utf-8")
        write_text(draft / "MODEL_CARD.md", card if NOTE in card else card.replace("## Use\n", f"{NOTE}\n## Use\n", 1))
        write_text(draft / "SHA256SUMS", checksums(draft))
        predict_one(draft.absolute())
    print("the package was written anew around the same weights", flush=True)
    return 0


def predict_one(package: Path) -> None:
    """As a user would, of one validation case. Raises TrainingFailed."""
    row = next(row for row in checks.read_index("train_index.jsonl") if row["split"] == "val")
    with tempfile.TemporaryDirectory() as made:
        case = Path(made) / "case"
        case.mkdir()
        for number, name in enumerate(row["files"]):
            shutil.copyfile(
                Path(os.environ["M3_DATA"]) / name, case / f"{number:04d}{''.join(Path(name).suffixes[-2:])}"
            )
        command = [sys.executable, "-I", str(package / "predict.py"), str(case), "--output", str(Path(made) / "out")]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "M3_"))}
        try:
            done = subprocess.run(command, cwd=made, env=environment, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise checks.TrainingFailed(f"the new package took more than {SECONDS} s for a case") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-1500:]
        raise checks.TrainingFailed(
            f"the weights do not go with the files as they are now; nothing was packaged\n{said}"
        )


if __name__ == "__main__":
    sys.exit(main())
