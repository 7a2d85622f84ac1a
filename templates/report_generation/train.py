"""Train a report writer: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out in seconds.

Reads train_index.jsonl, whose targets are the reports, and images below $M3_DATA. Leaves progress.jsonl, metrics.json
(validation only), val_reports.json, checkpoints/ and package/ in the working directory. A second call with the same
configuration, data and code goes on from the newest intact checkpoint. Exit codes: 0 done, 1 the training failed, 2
configuration or data are wrong (all problems are listed), 143 stopped by SIGTERM with a checkpoint saved.
"""

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

# Set before the frameworks are imported: nothing here may look for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Threads that wait do not spin: on a machine shared with others that costs half the speed.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import config
import dataset
import model
import torch

from shared.trainkit import checks
from shared.trainkit.images import run
from shared.trainkit.images.task import Costs, Measured, Row, Task
from shared.trainkit.progress import write_text

EMPTY = ("", "nan", "none", "null", "n/a")
"""What a table's empty cell may have become."""
FILES = (".txt", ".json", ".xml", ".csv", ".png", ".jpg", ".nii", ".nii.gz", ".dcm")


class Reports(Task):
    name = "report_generation"
    folder = Path(__file__).resolve().parent
    exported = ("predict.py", "model.py", "views.py", "words.py")
    imported = ("torch", "transformers", "tokenizers", "numpy", "safetensors", "nibabel", "pydicom", "pillow")
    load = staticmethod(config.load)
    dataset = dataset
    undefined = (
        "no evaluation was reached, or its loss was not finite\n"
        "raise training.train_seconds, or lower training.learning_rate (by ten)"
    )

    def inputs(self, config: Any) -> list[Path]:
        given = [Path(config.text.tokenizer)] if config.text.tokenizer else []
        if config.model.decoder:
            given += [Path(config.model.decoder, name) for name in ("model.safetensors", "tokenizer.json")]
        return [*given, *super().inputs(config)]

    def problems(self, config: Any, rows: Sequence[Row]) -> list[checks.Problem]:
        return report_problems(rows)

    def model(self, config: Any, train_set: Any) -> torch.nn.Module:
        made = model.build(config, train_set.vocabulary, dataset.telling_words(train_set, config.model.telling))
        if config.model.decoder:
            load_decoder(made.decoder, Path(config.model.decoder))
        return made

    def costs(self, config: Any, model: Any, val_set: Any, batch_seconds: float) -> Costs:
        from writing import costs

        return costs(config, model, val_set, batch_seconds)

    def every(self, config: Any, steps: int) -> int:
        return math.ceil(config.training.evaluate_steps / steps)

    def trainer(self, config: Any, **fields: Any) -> Any:
        from writing import ReportTrainer

        return ReportTrainer(length=config.text.max_tokens, judged=config.training.judged, **fields)

    def measure(self, config: Any, model: Any, trainer: Any, val_set: Any) -> Measured:
        from writing import measure

        return measure(config, model, val_set)

    def packaged(self, config: Any) -> dict[str, Any]:
        return {
            "views": asdict(config.views),
            "text": {"max_tokens": config.text.max_tokens, "special": asdict(config.text.special)},
            "generation": config.generation.model_dump(),
        }

    def facts(self, config: Any, rows: Sequence[Row], train_set: Any) -> dict[str, Any]:
        wanted = config.model
        samples = {split: sum(row["split"] == split for row in rows) for split in ("train", "val")}
        return {
            "label_names": (),
            "input_text": input_text(config),
            "input_shape": (config.views.most, *config.preprocess.input_shape),
            "counts": {split: {"reports": count} for split, count in samples.items()},
            "model": (
                f"{wanted.backbone} (width {wanted.width}) and a GPT-2 decoder "
                f"({wanted.layers} layers of {wanted.hidden}, {train_set.vocabulary} tokens)"
            ),
            "output": "text",
        }

    def files(self, train_set: Any) -> list[Path]:
        tokenizer = run.CHECKPOINTS / "tokenizer.json"
        write_text(tokenizer, train_set.words.text)
        return [tokenizer]


def report_problems(rows: Sequence[Row]) -> list[checks.Problem]:
    """Samples without a report, file names in the place of one, and reports that are all the same."""
    problems = []
    for row in rows:
        text = str(row["target"] or "").strip()
        if text.lower() in EMPTY:
            problems.append(checks.Problem(str(row["sample_id"]), f"has no report (target is {row['target']!r})"))
        elif not any(letter.isalnum() for letter in text):
            problems.append(checks.Problem(str(row["sample_id"]), f"has a report without a word: {text[:40]!r}"))
        elif text.lower().endswith(FILES) and len(text.split()) == 1:
            problems.append(
                checks.Problem(str(row["sample_id"]), f"has the file {text} as report; target must be the text itself")
            )
    texts = {str(row["target"]).strip() for row in rows if row["split"] == "train"}
    if len(texts) == 1 and not problems:
        problems.append(checks.Problem("split train", "every report is the same; nothing can be told from the images"))
    return problems


def load_decoder(decoder: Any, folder: Path) -> None:
    """Weights of a local GPT-2; what it lacks (attention to the images) stays as it was drawn. Raises ValueError."""
    import safetensors.torch

    try:
        found = safetensors.torch.load_file(folder / "model.safetensors")
    except Exception as error:  # the library's errors have no common type
        raise ValueError(f"model.decoder: {folder / 'model.safetensors'} cannot be read ({error})") from None
    named = {key if key.startswith(("transformer.", "lm_head.")) else f"transformer.{key}": found[key] for key in found}
    named.setdefault("lm_head.weight", named.get("transformer.wte.weight"))
    wanted = decoder.state_dict()
    kept = {key: value for key, value in named.items() if key in wanted and value is not None}
    if odd := [key for key in kept if kept[key].shape != wanted[key].shape]:
        raise ValueError(
            f"model.decoder: {odd[0]} has shape {list(kept[odd[0]].shape)}, expected {list(wanted[odd[0]].shape)}; "
            "do its tokenizer and its weights belong together?"
        )
    if missing := [key for key in wanted if key not in kept and "cross" not in key]:
        raise ValueError(f"model.decoder: {folder} has no {missing[0]}; it is no GPT-2")
    decoder.load_state_dict(kept, strict=False)


def input_text(config: Any) -> str:
    how, views = config.preprocess, config.views
    deep = len(how.input_shape) == 3
    order = "(D, H, W)" if deep else "(H, W)"
    one = "a scan (NIfTI, DICOM, npy or pt file)" if deep else "an image (PNG, JPG, DICOM, npy or pt file)"
    if views.files == "slices":
        several = "a folder's files are the slices of one scan in natural order"
    else:
        several = f"a folder's files are views of one case in natural order, at most {views.most} are looked at"
    return (
        f"One INPUT is {one} or a folder; {several}. Each is normalised ({how.intensity}"
        f"{f' {how.window}' if how.window else ''}) and resampled to {tuple(how.input_shape)}, axes {order}. "
        "The output is the text of a report."
    )


if __name__ == "__main__":
    sys.exit(run.main(__doc__, Reports()))
