"""Train a report writer: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out in seconds.

Reads train_index.jsonl, whose targets are the reports, and images below $M3_DATA. Leaves progress.jsonl, metrics.json
(validation only), val_reports.json, checkpoints/ and package/ in the working directory. A second call with the same
configuration, data and code goes on from the newest intact checkpoint. Exit codes: 0 done, 1 the training failed, 2
configuration or data are wrong (all problems are listed), 143 stopped by SIGTERM with a checkpoint saved.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

# Set before the frameworks are imported: nothing here may look for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Threads that wait do not spin: on a machine shared with others that costs half the speed.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from shared.trainkit import checkpoints, checks
from shared.trainkit.configfile import ConfigError
from shared.trainkit.exported import CLI
from shared.trainkit.index import IndexInvalid, read_index
from shared.trainkit.package import PackageFacts, write_package
from shared.trainkit.progress import ProgressFile, write_json, write_metrics, write_text

HERE = Path(__file__).resolve().parent
EXPORTED = ("predict.py", "inference.py", "readers.py", "views.py", "words.py", "encoder.py", "model.py")
IMPORTED = ("torch", "transformers", "tokenizers", "numpy", "safetensors", "nibabel", "pydicom", "pillow")
CHECKPOINTS = Path("checkpoints")
EMPTY = ("", "nan", "none", "null", "n/a")
"""What a table's empty cell may have become."""
FILES = (".txt", ".json", ".xml", ".csv", ".png", ".jpg", ".nii", ".nii.gz", ".dcm")
UNUSED = (
    "The reports are hardly better with a case's own images than with those of another: do not use this model. "
    "It needs more data, more training, or a larger input."
)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--smoke", action="store_true", help="train on tiny data of its own, package, predict")
    arguments = parser.parse_args(argv)
    if arguments.smoke:
        from smoke import run_smoke

        return run_smoke()
    from config import load

    try:
        return train(load(arguments.config))
    except (ConfigError, IndexInvalid, checks.DataProblems, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2


def train(config: Any) -> int:
    begin = time.monotonic()
    rows = check_rows(config)

    import dataset

    config = dataset.resolve(config)
    train_set, val_set = dataset.build(config, "train"), dataset.build(config, "val")
    readers = {"train": train_set, "val": val_set}
    threads = len(os.sched_getaffinity(0))
    checks.refuse(checks.read_all(rows, lambda row: readers[row["split"]].image(row), threads))

    # Late: what is wrong with the data is told before the frameworks are loaded.
    import torch
    from loop import fit
    from transformers import set_seed

    set_seed(config.training.seed)
    model = build_model(config, train_set)
    settled = config.model_dump(mode="json", exclude={"training": {"train_seconds", "save_seconds", "workers"}})
    code = [HERE / name for name in ("dataset.py", *EXPORTED[1:])]
    mark = checkpoints.fingerprint([settled, train_set.words.text], [Path(config.index), *code])
    attempt, picked = checkpoints.resume(CHECKPOINTS, mark)
    shape = (config.views.most, *config.preprocess.input_shape)
    print(
        f"{len(train_set)} train and {len(val_set)} val samples, input {shape}, {len(train_set.words)} tokens, "
        f"reports of up to {config.text.max_tokens}",
        flush=True,
    )
    try:
        result = fit(config, model, train_set, val_set, attempt, picked, begin, CHECKPOINTS)
    except torch.cuda.OutOfMemoryError:
        print(
            f"the GPU's memory does not hold a batch of {config.training.batch_size} cases of {shape}\n"
            "halve training.batch_size and double training.accumulate, or take a smaller preprocess.input_shape",
            file=sys.stderr,
        )
        return 1
    except checks.TrainingFailed as error:
        print(error, file=sys.stderr)
        return 1
    if result is None:
        print("stopped as asked; the same command goes on from the checkpoint", flush=True)
        return 128 + signal.SIGTERM
    seconds = time.monotonic() - begin + attempt.seconds
    deliver(config, rows, train_set.words, result, seconds, attempt.number)
    return 0


def check_rows(config: Any) -> list[dict[str, Any]]:
    """What can be said without opening an image; the sooner the better."""
    rows = read_index(config.index)
    problems = checks.split_problems(rows, config.index) + report_problems(rows)
    root = Path(config.data_root or os.environ.get("M3_DATA") or ".")
    if not root.is_dir():
        problems.append(checks.Problem("data_root", f"{root} is no folder; set data_root or M3_DATA"))
    checks.refuse(problems)
    return rows


def report_problems(rows: Sequence[dict[str, Any]]) -> list[checks.Problem]:
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


def build_model(config: Any, train_set: Any) -> Any:
    import dataset
    import model

    try:
        made = model.build(config, train_set.vocabulary, dataset.telling_words(train_set, config.model.telling))
        if config.model.decoder:
            load_decoder(made.decoder, Path(config.model.decoder))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return made


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


def deliver(config: Any, rows: list[dict[str, Any]], words: Any, result: Any, seconds: float, attempts: int) -> None:
    """Write package/ and then metrics.json; the latter says that all is done."""
    from loop import DEPENDS

    from shared.trainkit.callbacks import save_weights

    samples = {split: sum(row["split"] == split for row in rows) for split in ("train", "val")}
    how, views, metric = config.preprocess, config.views, config.training.metric
    uses_images = (result.metrics["image_dependence_p"] or 0.0) <= DEPENDS
    shape = (views.most, *how.input_shape)
    tokenizer = CHECKPOINTS / "tokenizer.json"
    write_text(tokenizer, words.text)
    facts = PackageFacts(
        task="report_generation",
        label_names=(),
        input_text=input_text(config),
        input_shape=shape,
        counts={split: {"reports": count} for split, count in samples.items()},
        metric_name=metric,
        metrics=result.metrics,
        model=(
            f"{config.model.backbone} (width {config.model.width}) and a GPT-2 decoder "
            f"({config.model.layers} layers of {config.model.hidden}, {len(words)} tokens)"
        ),
        parameters=result.parameters,
        epochs=result.epochs,
        seconds=seconds,
        device=result.device,
        value_range=(-5.0, 5.0) if how.intensity == "zscore" else (-1.0, 1.0),
        output="text",
        limits=(
            "Text metrics count words, not whether a finding is right; most words of a report are the same in all.",
            "image_dependence is what rouge_l loses when each case is given the images of another patient.",
            f"At most {config.text.max_tokens} tokens are written; words that no training report has hardly ever are.",
            *(() if uses_images else (UNUSED,)),
        ),
    )
    write_package(
        Path("package"),
        code=[*(HERE / name for name in EXPORTED), CLI, tokenizer],
        imports=IMPORTED if config.model.backbone.startswith("resnet") else (*IMPORTED, "monai"),
        save_weights=lambda path: save_weights(result.model, path),
        config={
            "task": "report_generation",
            "preprocess": asdict(how),
            "views": asdict(views),
            "text": {"max_tokens": config.text.max_tokens, "special": asdict(config.text.special)},
            "model": {key: value for key, value in asdict(config.model).items() if key != "decoder"},
            "loss": asdict(config.loss),
            "generation": config.generation.model_dump(),
        },
        facts=facts,
    )
    write_json(
        Path("val_reports.json"),
        [{"sample_id": name, "report": wanted, "written": ours} for name, wanted, ours in result.examples],
    )
    write_metrics(
        Path("metrics.json"),
        metrics=result.metrics,
        metric_name=metric,
        epochs=result.epochs,
        seconds=seconds,
        samples=samples,
        device=result.device,
        parameters=result.parameters,
        more={
            "best_epoch": result.best_epoch,
            "attempts": attempts,
            "input_shape": list(shape),
            "distinct_reports": len({ours for _, _, ours in result.examples}),
            "warnings": [] if uses_images else [UNUSED],
        },
    )
    ProgressFile(Path("progress.jsonl")).write(
        epoch=result.epochs,
        epochs=result.epochs,
        metric=result.metrics[metric],
        metric_name=metric,
        eta_seconds=0.0,
        text="done",
    )
    shuffled = result.metrics["rouge_l_shuffled"]
    print(
        f"best {metric} {result.metrics[metric]:.3f} on val (rouge_l {result.metrics['rouge_l']:.3f}, with the images "
        f"of other patients {'not defined' if shuffled is None else format(shuffled, '.3f')}); package/ and "
        f"metrics.json written in {seconds:.0f} s",
        flush=True,
    )
    if not uses_images:
        print(f"warning: {UNUSED}", flush=True)


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
    sys.exit(main())
