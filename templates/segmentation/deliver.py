"""What a training hands over: package/ with its card, then metrics.json, which says that all is done."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from config import Config
from data import Patches
from model import describe

from shared.training import masks
from shared.training.callbacks import save_weights
from shared.training.dice import CaseScore, summary
from shared.training.package import PackageFacts, write_package
from shared.training.progress import ProgressFile, write_metrics
from shared.training.trainer import device_name


def deliver(
    config: Config,
    model: Any,
    sets: Mapping[str, Patches],
    counts: Mapping[str, Mapping[str, int]],
    scores: Sequence[CaseScore],
    best: Mapping[str, Any],
    epochs: float,
    seconds: float,
    attempts: int,
    device: torch.device,
) -> None:
    """`scores` are those of the validation images on their own grids, `best` what is said of the weights. What the card
    says of network, loss and augmentation, the objects that ran say themselves."""
    how, data = config.preprocess, sets["train"]
    values, figures = data.cases.values, summary(scores, data.label_names)
    files = f"a file or folder of {how.channels} channels in order" if how.channels > 1 else "a file"
    scale = f"clipped to {how.window}" if how.intensity == "ct" else "z-score by image"
    spacing = " x ".join(f"{mm:g}" for mm in how.spacing)
    map_text = " A score map beside it is the probability of any structure." if config.score_map else ""
    facts = PackageFacts(
        task=config.task,
        label_names=list(values),
        label_values=values,
        input_text=(
            f"One INPUT is {files} (NIfTI, DICOM, PNG, ...) or a folder of slices. Values are {scale}; images are "
            f"turned to the nearest RAS+ axes and resampled to {spacing} mm, axes (D, H, W) = (inferior to superior, "
            "posterior to anterior, left to right). The mask is on the input's own grid, with the dataset's own "
            f"values.{map_text}"
        ),
        input_shape=[how.channels, *how.patch_size],
        counts=counts,
        metric_name=config.training.metric,
        metrics=figures,
        model=describe(model.network),
        loss=" ".join(repr(model.loss).split()),
        augmentation=", ".join(type(step).__name__ for step in data.change.transforms) or "none",
        parameters=sum(weight.numel() for weight in model.parameters()),
        epochs=epochs,
        seconds=seconds,
        device=device_name(device),
        value_range=(-1.0, 1.0) if how.intensity == "ct" else (-5.0, 5.0),
        output="segmentation",
        limits=masks.limits(counts, values),
    )
    write_package(
        Path("package"),
        predict=Path(__file__).with_name("predict.py"),
        save_weights=lambda path: save_weights(model, path),
        config=config.model_dump(mode="json"),
        facts=facts,
    )
    write_metrics(
        Path("metrics.json"),
        metrics=figures,
        metric_name=config.training.metric,
        epochs=epochs,
        seconds=seconds,
        samples={split: len(found) for split, found in sets.items()},
        device=facts.device,
        parameters=facts.parameters,
        more={
            "grid": f"the images' own, {len(scores)} validation images",
            "best_epoch": best["epoch"],
            "weights": best["weights"],
            "min_component_mm3": config.prediction.min_component_mm3,
            "attempts": attempts,
            "input_shape": facts.input_shape,
            "network": facts.model,
            "loss": facts.loss,
            "augmentation": facts.augmentation,
        },
    )
    value = figures["dice"]
    ProgressFile(Path("progress.jsonl")).write(
        epoch=epochs, epochs=epochs, metric=value, metric_name="dice", eta_seconds=0.0, text="done"
    )
    shown = "not defined" if value is None else f"{value:.3f}"
    print(f"dice {shown} on val; package/ and metrics.json written in {seconds:.0f} s", flush=True)
