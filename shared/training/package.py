"""A delivered model: a folder that explains itself and runs without anything of ours.

`model.safetensors, config.json, label_map.json, predict.py` and the files it imports, `metadata.json` (that of a MONAI
bundle), `environment.txt`, `MODEL_CARD.md`, `SHA256SUMS`.
"""

import hashlib
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib import metadata as installed
from pathlib import Path
from typing import Any

from shared.training.imports import as_exported, needed
from shared.training.progress import read_json, tell_progress, write_json, write_text

FITTED = "fitted"
"""The folder beside `package` of the same with the weights of the last fit, which is what is delivered."""
FITTED_WEIGHTS = "fitted.safetensors"
"""Those weights, in a package that is written anew."""
FITTED_NOTE = (
    "- After the figures above were measured, these weights were trained on with the validation cases, too: nothing is "
    "left to measure them on but cases that no training has seen.\n"
)


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
    save_fitted: Callable[[Path], None] | None = None,
    config: Mapping[str, Any],
    facts: PackageFacts,
) -> None:
    """Put a whole package into `folder`, in place of an earlier one, and beside it the same with the weights of the
    last fit, where there was one.

    `predict` is the workspace's predict.py: it is exported with every file and distribution that its imports lead to.
    `files` are texts beside it, `imports` further distributions; `save_weights(path)` and
    `save_fitted(path)` write a safetensors file.
    Raises NotExportable when the package could not run by itself, ValueError when `folder` is something else.
    """
    found = needed(predict)
    texts = {name: as_exported(path.read_text(encoding="utf-8")) for name, path in found.files.items()}
    texts |= {path.name: path.read_text(encoding="utf-8") for path in files}
    told = read_json(Path("label_map.json"))
    if told.get("channels") and not facts.channel_names:
        facts = replace(facts, channel_names=told["channels"])
    if stood_in := told.get("stood_in"):
        which = ", ".join(f"{_plain(pair)} in {count}" for pair, count in stood_in.items())
        facts = replace(
            facts, limits=(*facts.limits, f"Cases that lacked a channel had another in its place: {which}.")
        )
    values: dict[str, Any] = {"values": dict(facts.label_values)} if facts.label_values else {}
    values |= {key: told[key] for key in ("channels", "stood_in", "ordered") if told.get(key)}
    versions = pinned(sorted({*imports, *found.distributions}))
    with drafted(folder) as draft:
        save_weights(draft / "model.safetensors")
        (draft / "model.safetensors").chmod(0o644)
        for name, text in texts.items():
            write_text(draft / name, text)
        write_json(draft / "config.json", config)
        write_json(draft / "label_map.json", {"names": list(facts.label_names), **values})
        write_json(draft / "metadata.json", bundle_metadata(facts, versions))
        write_text(draft / "environment.txt", environment(versions))
        write_text(draft / "MODEL_CARD.md", model_card(facts))
        write_text(draft / "SHA256SUMS", checksums(draft))
    write_fitted(folder, save_fitted)


def write_results(facts: PackageFacts, *, samples: Mapping[str, int], more: Mapping[str, Any]) -> None:
    """metrics.json, which says that all is done, and the last line of progress.jsonl. `samples` split -> count; `more`
    are further entries of metrics.json. The metric is the one that chose the weights, else the first."""
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
    weights = {"weights": facts.weights} if facts.weights else {}
    write_json(Path("metrics.json"), {**told, **weights, **more})
    done = {"epoch": facts.epochs, "epochs": facts.epochs, "eta_seconds": 0.0, "text": "done"}
    tell_progress(**done, **metric)
    shown = ", ".join(f"{name} {value:.3f}" for name, value in facts.metrics.items() if value is not None)
    print(f"{shown or name} on val; package/ and metrics.json written in {facts.seconds:.0f} s", flush=True)


def write_fitted(package: Path, save_weights: Callable[[Path], None] | None) -> None:
    """Put `package` with these weights of a last fit into FITTED beside it. None: there were none, and those that an
    earlier training left go."""
    folder = package.with_name(FITTED)
    if save_weights is None:
        if (folder / "SHA256SUMS").exists():
            shutil.rmtree(folder)
        return
    with drafted(folder) as draft:
        shutil.copytree(package, draft, dirs_exist_ok=True)
        save_weights(draft / "model.safetensors")
        (draft / "model.safetensors").chmod(0o644)
        card = (draft / "MODEL_CARD.md").read_text(encoding="utf-8")
        write_text(draft / "MODEL_CARD.md", card.replace("## Use\n", f"{FITTED_NOTE}\n## Use\n", 1))
        write_text(draft / "SHA256SUMS", checksums(draft))


@contextmanager
def drafted(folder: Path) -> Iterator[Path]:
    """Gives a folder to write a package into, which then takes the place of `folder`; that may be a package only."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    earlier = draft.with_name(f"{draft.name}.old")
    try:
        draft.chmod(0o755)
        yield draft
        if folder.exists():
            if not (folder / "SHA256SUMS").exists() and any(folder.iterdir()):
                raise ValueError(f"{folder} exists and is no package; it is left alone")
            folder.replace(earlier)
        draft.replace(folder)
        shutil.rmtree(earlier, ignore_errors=True)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


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
    labels, (count, *shape) = list(facts.label_names), map(int, facts.input_shape)
    channels = facts.channel_names or (["image"] if count == 1 else [f"channel {number}" for number in range(count)])
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
                    "num_channels": count,
                    "spatial_shape": shape,
                    "dtype": "float32",
                    "value_range": list(facts.value_range),
                    "is_patch_data": facts.output == "segmentation",
                    "channel_def": {str(number): name for number, name in enumerate(channels)},
                }
            },
            "outputs": {"pred": output_format(facts)},
        },
    }


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


def _plain(name: str) -> str:
    """As Markdown shows it, whatever a class is called."""
    return re.sub(r"([\\`*<>\[\]|])", r"\\\1", name)


def model_card(facts: PackageFacts) -> str:
    names, splits, values = list(facts.label_names), list(facts.counts), facts.label_values
    counted = {name for found in facts.counts.values() for name in found}
    classes = [*(name for name in names if name in counted), *sorted(counted - {*names})]
    rows = "\n".join(
        f"| {_plain(name)} | {' | '.join(str(facts.counts[split].get(name, 0)) for split in splits)} |"
        for name in classes
    )
    figures = "\n".join(
        f"| {_plain(name)}{' (chose the weights)' if name == facts.metric_name else ''} | "
        f"{'not defined' if value is None else format(value, '.3f')} |"
        for name, value in facts.metrics.items()
    )
    labels = [f"{_plain(name)} (value {values[name]})" if name in values else _plain(name) for name in names]
    seen = f": {', '.join(map(_plain, facts.channel_names))}" if facts.channel_names else ""
    built = {"Loss": facts.loss, "Augmentation": facts.augmentation, "It began with weights of others": facts.weights}
    how = "".join(f"{name}: {text}.\n" for name, text in built.items() if text)
    named = f"Labels: {', '.join(labels)}.\n" if labels else ""
    limits = "".join(f"- {limit}\n" for limit in facts.limits)
    role = "on which the weights were chosen" if facts.metric_name in facts.metrics else "which chose no weights"
    return f"""# Model card: {facts.task}

Packaged {datetime.now(UTC).date().isoformat()}.
Network: {facts.model}, {facts.parameters:,} parameters.
It sees {" x ".join(str(size) for size in facts.input_shape)} values, channel first{seen}.
{how}Training: {facts.epochs:g} epochs, {facts.seconds:.0f} s on {facts.device}.

## Input and output
{facts.input_text}
{named}
## Samples
| {"structure (samples that have it)" if facts.output == "segmentation" else "class"} | {" | ".join(splits)} |
| --- |{" ---: |" * len(splits)}
{rows}

## Validation
| metric | value |
| --- | ---: |
{figures}

## Limits
- The figures above come from the validation part, {role}: expect less on new data.
- Nothing is recorded about other scanners, sites, protocols or populations than those of the training data.
- Not a medical device; not cleared for clinical decisions.
{limits}
## Use
`python predict.py INPUT... --output DIR` writes `DIR/predictions.json`;
`environment.txt` names what it imports.
"""
