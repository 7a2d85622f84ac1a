"""What a training hands over: package/ with its card, then metrics.json, which says that all is done."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from config import Config
from patches import Patches

from shared.training import masks
from shared.training.dice import CaseScore, of_cases, summary
from shared.training.lastfit import Fitted
from shared.training.package import PackageFacts, described, write_package, write_results
from shared.training.saved import save_weights

UNBELIEVED = (
    "What headers say of the size of voxels is not used: an image has to show structures in as many voxels as the "
    "training images do."
)


def deliver(
    config: Config, model: Any, sets: Mapping[str, Patches], counts: masks.Counts, scores: Sequence[CaseScore],
    run: Mapping[str, Any], more: Mapping[str, Any], fitted: Fitted | None,
) -> None:  # fmt: skip
    """`scores` are those of the validation images on their own grids, `run` has epochs, seconds and device; `more`
    stands in metrics.json, too; `fitted` are the weights of the last fit. Network, loss and augmentation say themselves
    what they are."""
    how, data = config.preprocess, sets["train"]
    values, figures = data.cases.values, summary(scores, data.label_names)
    files = f"a file or folder of {how.channels} channels in order" if how.channels > 1 else "a file"
    scale = f"clipped to {how.window}" if how.intensity == "ct" else "z-score by image"
    spacing = by_axis(how.spacing)
    taken = f" (all are taken to have voxels of {by_axis(how.nominal_spacing)} mm)" if how.nominal_spacing else ""
    map_text = " A score map beside it is the probability of any structure." if config.score_map else ""
    facts = PackageFacts(
        task=config.task,
        label_names=list(values),
        label_values=values,
        input_text=(
            f"One INPUT is {files} (NIfTI, DICOM, PNG, ...) or a folder of slices. Values are {scale}; images are "
            f"turned to the nearest RAS+ axes and resampled to {spacing} mm{taken}, axes (D, H, W) = (inferior to "
            "superior, posterior to anterior, left to right). The mask is on the input's own grid, with the dataset's "
            f"own values.{map_text}"
        ),
        input_shape=[how.channels, *how.patch_size],
        counts=counts,
        metric_name=config.training.metric,
        metrics=figures,
        model=described(model),
        loss=described(model.loss),
        augmentation=described(data.augment),
        parameters=sum(weight.numel() for weight in model.parameters()),
        value_range=(-1.0, 1.0) if how.intensity == "ct" else (-5.0, 5.0),
        output="segmentation",
        limits=(*masks.limits(counts, values), *([UNBELIEVED] if how.nominal_spacing else [])),
        **run,
    )
    write_package(
        Path("package"),
        predict=Path(__file__).with_name("predict.py"),
        save_weights=lambda path: save_weights(model, path),
        save_fitted=fitted.save if fitted else None,
        config=config.model_dump(mode="json"),
        facts=facts,
    )
    more = {
        "grid": f"the images' own, {len(scores)} validation images",
        "min_component_mm3": config.prediction.min_component_mm3,
        "min_component_score": config.prediction.min_component_score,
        **more,
        **({"last_fit": fitted.told} if fitted else {}),
        **of_cases(scores),
    }
    write_results(facts, samples={split: len(found) for split, found in sets.items()}, more=more)


def by_axis(spacing: Sequence[float]) -> str:
    return " x ".join(f"{mm:g}" for mm in spacing)
