"""Write a package anew around the weights of a finished training: `python -m shared.training.repackage`.

Works in a workspace: its predict.py, what that imports, and those of its .json files that the old package ($M3_PACKAGE)
has, too, take the places of the old ones. The new package then predicts one validation case; where its weights do not
load any more, or it fails otherwise, there is no package. Then it predicts all of them, if that takes less than
SECONDS, and metrics.json has its figures on them. Exit codes are those of a training.
"""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from shared.training import checks, dice, masks, program
from shared.training.imports import as_exported, needed
from shared.training.package import FITTED_WEIGHTS, checksums, drafted, environment, pinned, write_fitted
from shared.training.progress import write_json, write_text

KEPT = ("label_map.json", "metadata.json")
"""Say what the weights are, whatever the workspace says."""
SECONDS, CONFIG = 240, Path("config.yaml")
NOTE = "- The code around the weights was changed after the training: the figures above are those of the code before.\n"


def main() -> int:
    return program.exit_code(lambda: repackage(Path(os.environ.get("M3_PACKAGE") or "/package"), Path("package")))


def repackage(old: Path, folder: Path) -> int:
    """Raises NotExportable, and TrainingFailed where the weights and the files do not go together."""
    found = needed(Path("predict.py").resolve())
    with drafted(folder) as draft:
        gone = shutil.ignore_patterns("*.py", "SHA256SUMS", FITTED_WEIGHTS)
        shutil.copytree(old, draft, dirs_exist_ok=True, ignore=gone)
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
        measured = measure(draft.absolute())
    last = old / FITTED_WEIGHTS
    write_fitted(folder, partial(shutil.copyfile, last) if last.is_file() else None)
    if measured:
        config = yaml.safe_load(CONFIG.read_text(encoding="utf-8")) if CONFIG.is_file() else {}
        name = (config.get("training") or {}).get("metric") or next(iter(measured["metrics"]))
        if name in measured["metrics"]:  # else tries would be compared by different figures
            write_json(Path("metrics.json"), {"metric_name": name, "metric": measured["metrics"][name], **measured})
    print("the package was written anew around the same weights", flush=True)
    return 0


def measure(package: Path) -> dict[str, Any] | None:
    """What metrics.json says of the package: `metrics`, and for masks the cases, worst first, and the spread. None
    where that takes too long, or the workspace measures in its own way. Raises TrainingFailed for a failed case."""
    rows = [row for row in checks.read_index("train_index.jsonl") if row["split"] == "val"]
    with predicted(package, rows[:1]):
        pass
    try:
        with predicted(package, rows) as (folder, answers):
            return figures(rows, answers, folder)
    except subprocess.TimeoutExpired:
        why = f"the {len(rows)} validation cases take more than {SECONDS} s"
    except checks.TrainingFailed:
        raise
    except Exception as error:  # answers and metrics.py are the workspace's own
        why = f"{type(error).__name__}: {error}"
    print(f"not measured: {why}", flush=True)
    return None


@contextmanager
def predicted(package: Path, rows: Sequence[masks.Row]) -> Iterator[tuple[Path, Any]]:
    """The folder and the predictions.json of the package's answers to these cases, as a user gets them. Raises
    TrainingFailed where one fails."""
    with tempfile.TemporaryDirectory() as made:
        cases, folder = [Path(made) / str(row["sample_id"]) for row in rows], Path(made) / "answers of the package"
        for row, case in zip(rows, cases, strict=True):
            case.mkdir()
            for number, name in enumerate(row["files"]):
                suffix = "".join(Path(name).suffixes[-2:])
                (case / f"{number:04d}{suffix}").symlink_to(Path(os.environ["M3_DATA"]).absolute() / name)
        command = [sys.executable, "-I", str(package / "predict.py"), *map(str, cases), "--output", str(folder)]
        bare = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "M3_"))}
        try:
            done = subprocess.run(command, cwd=made, env=bare, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            if len(rows) > 1:
                raise
            raise checks.TrainingFailed(f"the new package took more than {SECONDS} s for a case") from None
        told = folder / "predictions.json"
        answers = json.loads(told.read_text(encoding="utf-8")) if told.is_file() else {"cases": []}
        if done.returncode or any("error" in case for case in answers["cases"]):
            raise checks.TrainingFailed(
                "the weights do not go with the files as they are now; nothing was packaged\n"
                + (done.stderr or done.stdout).strip()[-1500:]
            )
        yield folder, answers


def figures(rows: Sequence[masks.Row], answers: Any, folder: Path) -> dict[str, Any]:
    """`answers` is predictions.json. Masks are measured by the rules of the scorer, anything else by the workspace's
    own metrics.py, as in training."""
    cases = answers["cases"]
    if "label_values" in answers:
        values, root, scores = answers["label_values"], Path(os.environ["M3_DATA"]), []
        for row, case in zip(rows, cases, strict=True):
            _, truth = masks.load_case(row, root, values)
            _, found = masks.load_case({**row, "target": str(folder / case["mask"])}, root, values)
            scores.append(dice.of_row(dice.score_case(found, truth, len(values)), row, {}))
        return {"metrics": dice.summary(scores, list(values)), **dice.of_cases(scores)}
    sys.path.insert(0, str(Path.cwd()))
    score = importlib.import_module("metrics").scores
    if "labels" not in answers:
        return {"metrics": score([str(row["target"]) for row in rows], [case["report"] for case in cases])}
    names, several = answers["labels"], answers["multi_label"]
    chances = np.array([[case["probabilities"][name] for name in names] for case in cases]).clip(1e-12, 1 - 1e-12)
    held = [[row["label"]] if isinstance(row["label"], str) else row["label"] or [] for row in rows]
    truth = np.array([[name in labels for name in names] for labels in held]).astype(int)
    # The metrics take what a network says before softmax or sigmoid.
    said = (np.log(chances / (1 - chances)), truth) if several else (np.log(chances), truth.argmax(1))
    grades = bool(json.loads(Path("label_map.json").read_text(encoding="utf-8")).get("ordered"))
    return {"metrics": score(*said, several, [str(row["patient"]) for row in rows], grades)}


if __name__ == "__main__":
    sys.exit(main())
