"""What a report model sees of its images: python -m bench.report_images WORKSPACE DATA

WORKSPACE is the build folder of a run of the template report_generation (`package/` and `train_index.jsonl`), DATA the
view that it trained on. The package writes reports of the validation cases from their own images, from those of other
patients, and from blank ones of the same form. Printed are ROUGE-L and BLEU-4 of the three beside one report for all,
the known report that is nearest to the others. Weights and writer were chosen on these cases: the figures compare
images, they do not tell how good the model is.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import nibabel
import numpy as np
from PIL import Image

from shared.bleu import bleu, bleu_counts
from shared.rouge import rouge_l


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workspace", type=Path)
    parser.add_argument("data", type=Path)
    given = parser.parse_args()
    lines = (given.workspace / "train_index.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    cases = [row for row in rows if row["split"] == "val"]
    known = [row["target"] for row in rows if row["split"] == "train"][:200]
    usual = max(known, key=lambda one: fmean(rouge_l(words(one), words(other)) for other in known))
    references = [row["target"] for row in cases]
    print(f"{len(cases)} validation cases{'':14}ROUGE-L  BLEU-4")
    print(line("one report for all", [usual] * len(cases), references))
    with tempfile.TemporaryDirectory() as scratch:
        for how in ("real", "shuffled", "blank"):
            folder = Path(scratch) / how
            order = others(cases) if how == "shuffled" else cases
            inputs = [placed(row, given.data, folder / str(n), how == "blank") for n, row in enumerate(order)]
            print(line(f"{how} images", written(given.workspace / "package", inputs, folder / "out"), references))
    return 0


def others(cases: Sequence[Any]) -> list[Any]:
    """For each case one of another patient."""
    order, draw = list(cases), random.Random(0)
    while any(one["patient"] == other["patient"] for one, other in zip(cases, order, strict=True)):
        draw.shuffle(order)
    return order


def placed(row: Any, data: Path, folder: Path, blank: bool) -> Path:
    """The files of a case in a folder of their own, where it has several; all zero where it is to be blank."""
    folder.mkdir(parents=True)
    for file in row["files"]:
        target = folder / Path(file).name
        shutil.copyfile(data / file, target)
        if blank and target.suffix == ".png":
            Image.fromarray(np.zeros_like(np.asarray(Image.open(target)))).save(target)
        elif blank:
            image = nibabel.load(target)
            nibabel.save(nibabel.Nifti1Image(np.zeros(image.shape, image.get_data_dtype()), image.affine), target)
    return folder if len(row["files"]) > 1 else folder / Path(row["files"][0]).name


def written(package: Path, inputs: Sequence[Path], out: Path) -> list[str]:
    subprocess.run([sys.executable, package / "predict.py", *inputs, "--output", out], check=True, capture_output=True)
    cases = json.loads((out / "predictions.json").read_text(encoding="utf-8"))["cases"]
    return [str(case.get("report", "")) for case in cases]


def line(name: str, answers: Sequence[str], references: Sequence[str]) -> str:
    pairs = [(words(one), words(other)) for one, other in zip(answers, references, strict=True)]
    counts = np.array([bleu_counts(tuple(one), tuple(other)) for one, other in pairs])
    return f"{name:34} {fmean(rouge_l(*pair) for pair in pairs):6.3f}  {float(bleu(counts.sum(0), 4)):6.3f}"


def words(text: str) -> list[str]:
    return text.lower().replace(".", " . ").split()


if __name__ == "__main__":
    sys.exit(main())
