"""What a training hands over: Dice on the validation part through the code of the package, package/, metrics.json."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
from cases import Prepared
from config import Config
from predict import Engine

from shared.imaging.volume import spacing_dhw
from shared.training import masks
from shared.training.checkpoints import Attempt
from shared.training.dice import CaseScore, of_cases, of_row, score_case, summary
from shared.training.machine import device_name
from shared.training.package import PackageFacts, described, write_package, write_results
from shared.training.told import false_parts


def packaged(config: Config, prepared: Prepared, trainer: Any) -> dict[str, Any]:
    """The package's config.json, by which `predict.Engine` is made."""
    mirrored = config.nnunet.mirrored_prediction
    if mirrored == "auto":
        mirrored = trainer.device.type == "cuda"
    return {
        "task": config.task,
        "score_map": config.score_map,
        "label_values": masks.label_values(config),
        "configuration": prepared.configuration,
        "mirror_axes": list(trainer.inference_allowed_mirroring_axes or ()) if mirrored else [],
        "dataset": prepared.dataset,
        "plans": prepared.plans,
    }


def measured(config: Config, prepared: Prepared, trainer: Any, rows: Sequence[masks.Row]) -> list[CaseScore]:
    """Dice of each row's image on its own grid, through the code of the package."""
    values = masks.label_values(config)
    how = packaged(config, prepared, trainer)
    engine = Engine(how, lambda network: network.load_state_dict(trainer.weights()), trainer.device.type)
    scores = []
    for row in rows:
        image, truth = masks.load_case(row, config.data_folder, values)
        found = engine.segment(image, False)[0]
        false = false_parts(found, truth, math.prod(spacing_dhw(image)))
        scores.append(of_row(score_case(found, truth, len(values)), row, false))
    return scores


def deliver(
    config: Config,
    prepared: Prepared,
    rows: Sequence[masks.Row],
    trainer: Any,
    scores: Sequence[CaseScore],
    attempt: Attempt,
    begin: float,
) -> None:
    """`scores` are those of the validation images; `begin` (time.monotonic) is when this attempt did. What the card
    says of network, loss and augmentation, the objects that ran say themselves."""
    values = masks.label_values(config)
    how, channels = trainer.configuration_manager, len(prepared.dataset["channel_names"])
    spacing = " x ".join(f"{size:g}" for size in how.spacing)
    facts = PackageFacts(
        task=config.task,
        label_names=list(values),
        label_values=values,
        input_text=(
            f"One INPUT is one image of {channels} channel(s): a NIfTI, DICOM, npy or picture file, or a "
            f"folder of its channels or DICOM slices. It is resampled to a spacing of {spacing} mm and cut into "
            f"patches; the mask comes back on the image's own grid with the values "
            f"{', '.join(f'{value} {name}' for name, value in values.items())}."
        ),
        input_shape=(channels, *(int(size) for size in how.patch_size)),
        counts=prepared.counts,
        metric_name="",  # no figure chose the weights
        metrics=summary(scores, list(values)),
        model=trainer.told(),
        loss=described(trainer.loss),
        augmentation=described(trainer.augment),
        parameters=sum(weight.numel() for weight in trainer.network.parameters()),
        epochs=trainer.current_epoch,
        seconds=time.monotonic() - begin + attempt.seconds,
        device=device_name(trainer.device),
        output="segmentation",
        limits=("The weights are those of the last epoch.", *masks.limits(prepared.counts, values)),
    )
    write_package(
        Path("package"),
        predict=Path(__file__).with_name("predict.py"),
        imports=["dynamic_network_architectures"],  # which nnU-Net builds by name
        save_weights=lambda path: safetensors.torch.save_model(trainer.network, str(path)),
        config=packaged(config, prepared, trainer),
        facts=facts,
    )
    more = {"attempts": attempt.number, "iterations": trainer.iteration, **of_cases(scores)}
    samples = {split: sum(row["split"] == split for row in rows) for split in ("train", "val")}
    write_results(facts, samples=samples, more=more)
