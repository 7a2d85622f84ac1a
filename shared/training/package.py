"""A delivered model: a folder that explains itself and runs without anything of ours.

`model.safetensors, config.json, label_map.json, predict.py` and the files it imports (`shared.training.exported` has
those that packages share), `metadata.json` (fields of a MONAI bundle), `environment.txt`, `MODEL_CARD.md`,
`SHA256SUMS`.
"""

import hashlib
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata as installed
from pathlib import Path
from typing import Any

from shared.training.imports import as_exported, needed
from shared.training.progress import ProgressFile, write_json, write_text

NEWLINE = "\n"


@dataclass(frozen=True)
class PackageFacts:
    """What is recorded about a model; card and metadata state these facts and nothing else."""

    task: str
    label_names: Sequence[str]
    """Classes of a diagnosis, structures of a segmentation (background not among them)."""
    input_text: str
    """What one INPUT of predict.py is, with its axis order."""
    input_shape: Sequence[int]
    """As the network sees it, channel first, without the batch axis."""
    counts: Mapping[str, Mapping[str, int]]
    """split -> class -> samples."""
    metric_name: str
    """Of `metrics`, the one that chose the weights; empty where none did."""
    metrics: Mapping[str, float | None]
    """On the validation part."""
    model: str
    """The network that was trained, in words from the object itself (`described`)."""
    parameters: int
    epochs: float
    seconds: float
    device: str
    value_range: Sequence[float] = (-5.0, 5.0)
    output: str = "probabilities"
    """`segmentation` for masks, `text` for reports."""
    channel_names: Sequence[str] = ()
    """Of the first axis of `input_shape`, where they have any."""
    limits: Sequence[str] = ()
    """Sentences for the card's section on limits."""
    loss: str = ""
    augmentation: str = ""
    """Both in words from the objects that ran; the card leaves out what is empty."""
    weights: str = ""
    """Those that the training began with: name, licence, source, digest."""
    label_values: Mapping[str, int] = field(default_factory=dict)
    """Of a segmentation: structure -> value in the masks, as in the dataset."""


def write_package(
    folder: Path,
    *,
    predict: Path,
    files: Sequence[Path] = (),
    imports: Sequence[str] = (),
    save_weights: Callable[[Path], None],
    config: Mapping[str, Any],
    facts: PackageFacts,
) -> None:
    """Write the package next to `folder` under another name and put it there whole, in place of an earlier one.

    `predict` is the workspace's predict.py: it is exported with every file and distribution that its imports lead to.
    `files` are texts beside it, `imports` further distributions; `save_weights(path)` writes a safetensors file.
    Raises NotExportable when the package could not run by itself, ValueError when `folder` is something else.
    """
    found = needed(predict)
    texts = {name: as_exported(path.read_text(encoding="utf-8")) for name, path in found.files.items()}
    texts |= {path.name: path.read_text(encoding="utf-8") for path in files}
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        draft.chmod(0o755)
        save_weights(draft / "model.safetensors")
        (draft / "model.safetensors").chmod(0o644)
        for name, text in texts.items():
            write_text(draft / name, text)
        write_json(draft / "config.json", config)
        values = {"values": dict(facts.label_values)} if facts.label_values else {}
        write_json(draft / "label_map.json", {"names": list(facts.label_names), **values})
        versions = pinned(sorted({*imports, *found.distributions}))
        write_json(draft / "metadata.json", bundle_metadata(facts, versions))
        write_text(draft / "environment.txt", environment(versions))
        write_text(draft / "MODEL_CARD.md", model_card(facts))
        write_text(draft / "SHA256SUMS", checksums(draft))
        swap(draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_results(facts: PackageFacts, *, samples: Mapping[str, int], more: Mapping[str, Any]) -> None:
    """metrics.json of the working directory, which says that all is done, and the last line of progress.jsonl.

    Validation figures only: nobody here has seen a test sample. `samples` split -> count; `more` are further entries
    of metrics.json. The metric is the one that chose the weights, else the first.
    """
    name = facts.metric_name or next(iter(facts.metrics), "")
    if name not in facts.metrics:
        raise ValueError(f"metrics lacks {name}, the metric that chose the weights")
    metric = {"metric": facts.metrics[name], "metric_name": name}
    told = {
        "split": "val",
        "metrics": dict(facts.metrics),
        **metric,
        "epochs": facts.epochs,
        "seconds": round(facts.seconds, 1),
        "samples": dict(samples),
        "device": facts.device,
        "parameters": facts.parameters,
        "input_shape": list(facts.input_shape),
        "network": facts.model,
        "loss": facts.loss,
        "augmentation": facts.augmentation,
    }
    if facts.weights:
        told["weights"] = facts.weights
    write_json(Path("metrics.json"), {**told, **more})
    done = {"epoch": facts.epochs, "epochs": facts.epochs, "eta_seconds": 0.0, "text": "done"}
    ProgressFile(Path("progress.jsonl")).write(**done, **metric)
    shown = ", ".join(f"{name} {value:.3f}" for name, value in facts.metrics.items() if value is not None)
    print(f"{shown or name} on val; package/ and metrics.json written in {facts.seconds:.0f} s", flush=True)


def swap(draft: Path, folder: Path) -> None:
    """Put `draft` in the place of `folder`; only an earlier package is ever replaced."""
    if not folder.exists():
        draft.replace(folder)
        return
    if not (folder / "SHA256SUMS").exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} exists and is no package; it is left alone")
    old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old."))
    folder.replace(old / folder.name)
    draft.replace(folder)
    shutil.rmtree(old)


def checksums(folder: Path) -> str:
    """`sha256sum` format over every file but SHA256SUMS itself."""
    files = sorted(item for item in folder.rglob("*") if item.is_file() and item.name != "SHA256SUMS")
    return "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder).as_posix()}\n" for file in files
    )


def environment(versions: Mapping[str, str]) -> str:
    lines = [f"# Python {platform.python_version()}", *(f"{name}=={version}" for name, version in versions.items())]
    return "\n".join(lines) + "\n"


def pinned(imports: Sequence[str]) -> dict[str, str]:
    """Distribution -> version as installed, build tags such as +cpu cut off."""
    return {name: installed.version(name).partition("+")[0] for name in imports}


def described(part: Any) -> str:
    """What was built, in one line. A network or loss: its own `__repr__` where its class has one, else its class, what
    it says of itself (`extra_repr`), and those parts that have weights, or all where none has: `Classifier(encoder:
    ResNet(...), head: Sequential)`. A chain of transforms by their names, a function by its own, None as ""."""
    if (steps := getattr(part, "transforms", None)) is not None:
        return ", ".join(type(getattr(step, "transform", step)).__name__ for step in steps) or "none"
    if not hasattr(part, "named_children") or "__repr__" in vars(type(part)):
        return "" if part is None else str(getattr(part, "__name__", part))
    every = list(part.named_children())
    parts = [
        f"{name}: {type(child).__name__}" + (f"({child.extra_repr()})" if child.extra_repr() else "")
        for name, child in [one for one in every if any(True for _ in one[1].parameters())] or every
    ]
    inside = ", ".join([*([part.extra_repr()] if part.extra_repr() else []), *parts])
    return f"{type(part).__name__}({inside})"


def bundle_metadata(facts: PackageFacts, versions: Mapping[str, str]) -> dict[str, Any]:
    labels = list(facts.label_names)
    return {
        "version": "1.0.0",
        "changelog": {"1.0.0": "first packaged"},
        # Of the training, whether or not the exported code needs it.
        "monai_version": pinned(["monai"])["monai"],
        "pytorch_version": versions.get("torch", ""),
        "numpy_version": versions.get("numpy", ""),
        "required_packages_version": {k: v for k, v in versions.items() if k not in ("monai", "torch", "numpy")},
        "name": f"{facts.task} ({', '.join(labels)})" if labels else facts.task,
        "task": facts.task,
        "description": f"{facts.model} trained for {facts.task}; see MODEL_CARD.md.",
        "authors": "built with M3Builder",
        "copyright": "see the operator of this installation",
        "intended_use": "Research and evaluation. Not a medical device; not cleared for clinical decisions.",
        "eval_metrics": {key: value for key, value in facts.metrics.items() if value is not None},
        "network_data_format": {
            "inputs": {
                "image": {
                    "type": "image",
                    "format": "magnitude",
                    "num_channels": int(facts.input_shape[0]),
                    "spatial_shape": [int(size) for size in facts.input_shape[1:]],
                    "dtype": "float32",
                    "value_range": list(facts.value_range),
                    "is_patch_data": facts.output == "segmentation",
                    "channel_def": {str(number): name for number, name in enumerate(channel_names(facts))},
                }
            },
            "outputs": {"pred": output_format(facts)},
        },
    }


def channel_names(facts: PackageFacts) -> list[str]:
    count = int(facts.input_shape[0])
    return list(facts.channel_names) or (["image"] if count == 1 else [f"channel {number}" for number in range(count)])


def output_format(facts: PackageFacts) -> dict[str, Any]:
    """Of the network: a probability for each class, a class for each voxel with background first, or a text."""
    if facts.output == "text":
        return {"type": "text", "format": "report", "dtype": "str", "is_patch_data": False}
    masks = facts.output == "segmentation"
    channels = ["background", *facts.label_names] if masks else list(facts.label_names)
    return {
        "type": "image" if masks else facts.output,
        "format": "segmentation" if masks else "classes",
        "num_channels": len(channels),
        "spatial_shape": [int(size) for size in facts.input_shape[1:]] if masks else [],
        "dtype": "float32",
        "value_range": [0, 1],
        "is_patch_data": masks,
        "channel_def": {str(number): name for number, name in enumerate(channels)},
    }


def model_card(facts: PackageFacts) -> str:
    names, splits = list(facts.label_names), list(facts.counts)
    classes = sorted({name for found in facts.counts.values() for name in found})
    classes.sort(key=lambda name: names.index(name) if name in names else len(names))
    rows = [f"| {name} | {' | '.join(str(facts.counts[s].get(name, 0)) for s in splits)} |" for name in classes]
    chose = {facts.metric_name: " (chose the weights)"}
    figures = [
        f"| {name}{chose.get(name, '')} | {'not defined' if value is None else format(value, '.3f')} |"
        for name, value in facts.metrics.items()
    ]
    values = facts.label_values
    labels = [f"{name} (value {values[name]})" if name in values else name for name in names]
    built = {"Loss": facts.loss, "Augmentation": facts.augmentation, "It began with weights of others": facts.weights}
    how = "".join(f"{name}: {text}.\n" for name, text in built.items() if text)
    named = f"Labels: {', '.join(labels)}.\n" if labels else ""
    role = "on which the weights were chosen" if facts.metric_name in facts.metrics else "which chose no weights"
    return f"""# Model card: {facts.task}

Packaged {datetime.now(UTC).date().isoformat()}.
Network: {facts.model}, {facts.parameters:,} parameters.
It sees {" x ".join(str(size) for size in facts.input_shape)} values, channel first.
{how}Training: {facts.epochs:g} epochs, {facts.seconds:.0f} s on {facts.device}.

## Input and output
{facts.input_text}
{named}
## Samples
| {"structure (samples that have it)" if facts.output == "segmentation" else "class"} | {" | ".join(splits)} |
| --- |{" ---: |" * len(splits)}
{NEWLINE.join(rows)}

## Validation
| metric | value |
| --- | ---: |
{NEWLINE.join(figures)}

## Limits
- The figures above come from the validation part, {role}: expect less on new data.
- Nothing is recorded about other scanners, sites, protocols or populations than those of the training data.
- Not a medical device; not cleared for clinical decisions.
{"".join(f"- {limit}{NEWLINE}" for limit in facts.limits)}
## Use
`python predict.py INPUT... --output DIR` writes `DIR/predictions.json`;
`environment.txt` names what it imports.
"""
