"""The nnU-Net engine: index -> nnU-Net dataset -> plans -> training in the time there is -> package.

`train` is what train.py calls. Checkpoints lie in checkpoints/nnunet, all else that nnU-Net writes in cache/nnunet.
"""

import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from shared.trainkit import checkpoints, checks
from shared.trainkit.callbacks import TimeBudget
from shared.trainkit.package import PackageFacts, write_package
from shared.trainkit.progress import ProgressFile
from shared.trainkit.segmentation import metrics, nnunet_data, nnunet_plan
from shared.trainkit.segmentation.augment import sided
from shared.trainkit.segmentation.nnunet_config import NnunetConfig
from shared.trainkit.segmentation.template import Template

HERE = Path(__file__).resolve().parent
IMPORTED = (
    "torch",
    "numpy",
    "safetensors",
    "nnunetv2",
    "dynamic_network_architectures",
    "nibabel",
    "pydicom",
    "pillow",
)


def train(
    template: Template,
    config: Any,
    rows: Sequence[Mapping[str, Any]],
    values: Mapping[str, int],
    data: Path,
    work: Path,
    budget: TimeBudget,
    progress: ProgressFile,
) -> dict[str, Any]:
    """Train, write work/package, return the fields of metrics.json.

    `values` is structure -> value in the masks. Raises DataProblems, TrainingFailed; SystemExit(143) when SIGTERM asked
    to stop, with a checkpoint saved once the training has begun.
    """
    import torch

    how = config.nnunet
    device = "cuda" if torch.cuda.is_available() else "cpu"
    cache, folder = work / "cache" / "nnunet", work / "checkpoints" / "nnunet"
    processes = nnunet_plan.auto_processes(how, nnunet_data.largest_image(rows, data))
    nnunet_plan.set_environment(cache, processes, nnunet_plan.auto_workers(how), how.compile and device == "cuda")
    with stopping() as stop:
        prepared = nnunet_data.prepare(template, how, rows, values, data, cache, device)
        print(f"nnU-Net dataset planned and preprocessed after {budget.elapsed():.0f} s", flush=True)
        attempt, picked = open_checkpoints(how, prepared, config.training.seed, folder)
        trainer = build_trainer(config, prepared, list(values), device, budget, attempt, folder, progress)
        stop.append(trainer.job)
        done = picked is not None and trainer.load(picked)
        try:
            if not done:
                with nnunet_plan.dead_workers():
                    trainer.run_training()
        except torch.cuda.OutOfMemoryError:
            raise checks.TrainingFailed(
                "the GPU's memory does not hold a batch of the size that nnU-Net planned\n"
                "set nnunet.memory_gb lower and nnunet.start_over to true"
            ) from None
        stop.clear()
        packaged = package_config(template, config, prepared, values, trainer)
        found = evaluate(packaged, trainer.weights(), rows, data, values, device)
    return deliver(template, rows, prepared, packaged, trainer, found, attempt, budget, work, device)


@contextmanager
def stopping() -> Iterator[list[Any]]:
    """SIGTERM ends the process with 143; while the list holds the trainer's job, after a checkpoint."""
    jobs: list[Any] = []
    own = os.getpid()

    def stop(*_: object) -> None:
        if os.getpid() != own:  # a process that nnU-Net forked, ended by it
            os._exit(128 + signal.SIGTERM)
        if not jobs:
            raise SystemExit(128 + signal.SIGTERM)
        jobs[0].asked_to_stop = True

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield jobs
    finally:
        signal.signal(signal.SIGTERM, before)


def open_checkpoints(
    how: NnunetConfig, prepared: nnunet_data.Prepared, seed: int, folder: Path
) -> tuple[checkpoints.Attempt, Path | None]:
    """This attempt and the newest intact checkpoint. Raises TrainingFailed for those of another training."""
    from shared.trainkit.segmentation.nnunet_state import state_fault

    settled = how.model_dump(include={"learning_rate", "mirror", "iterations"})
    mark = checkpoints.fingerprint([prepared.mark, prepared.plans, settled, seed], [HERE / "nnunet_trainer.py"])
    known = nnunet_plan.load_note(folder / "run.json").get("fingerprint")
    if known not in (None, mark) and list(folder.glob("checkpoint-*")) and not how.start_over:
        raise checks.TrainingFailed(
            f"the checkpoints in {folder} belong to another configuration, plan, code or data; nothing was trained\n"
            "undo the change to go on with them, or set nnunet.start_over to true to set them aside and begin anew"
        )
    for part in folder.glob(".part-*"):
        shutil.rmtree(part)
    return checkpoints.resume(folder, mark, state_fault)


def build_trainer(
    config: Any,
    prepared: nnunet_data.Prepared,
    names: Sequence[str],
    device: str,
    budget: TimeBudget,
    attempt: checkpoints.Attempt,
    folder: Path,
    progress: ProgressFile,
) -> Any:
    import torch

    with nnunet_plan.quietly(folder.parent.parent / "cache" / "nnunet"):
        from shared.trainkit.segmentation.nnunet_threads import bear_hidden_libraries
        from shared.trainkit.segmentation.nnunet_trainer import BudgetTrainer, Job

        bear_hidden_libraries()
        how = config.nnunet
        job = Job(
            how=how,
            mirror=how.mirror == "all" or (how.mirror == "auto" and not sided(names)),
            predict_mirrored=device == "cuda" if how.mirrored_prediction == "auto" else how.mirrored_prediction,
            seed=config.training.seed,
            # Where the budget does not know of earlier attempts, our own record does.
            left=lambda: max(budget.remaining() - max(0.0, attempt.seconds - budget.spent), 0.1 * budget.limit - 1e-9),
            spent=budget.elapsed,
            folder=folder,
            attempt=attempt,
            progress=progress,
        )
        plans = {**prepared.plans, "continue_training": False}
        trainer = BudgetTrainer(plans, prepared.configuration, 0, prepared.dataset, torch.device(device))
        trainer.take(job)
        trainer.initialize()
    return trainer


def package_config(
    template: Template, config: Any, prepared: nnunet_data.Prepared, values: Mapping[str, int], trainer: Any
) -> dict[str, Any]:
    axes = trainer.inference_allowed_mirroring_axes if trainer.job.predict_mirrored else None
    return {
        "task": template.task,
        "engine": "nnunet",
        "score_map": config.score_map,
        "label_values": dict(values),
        "configuration": prepared.configuration,
        "mirror_axes": list(axes or ()),
        "dataset": prepared.dataset,
        "plans": prepared.plans,
    }


def evaluate(
    packaged: Mapping[str, Any],
    weights: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    data: Path,
    values: Mapping[str, int],
    device: str,
) -> dict[str, float | None]:
    """Dice of the validation rows on their own grids, through the code of the package."""
    from shared.trainkit.exported.segmenter.nnunet import NnunetEngine

    engine = NnunetEngine(dict(packaged), lambda network: network.load_state_dict(weights), device)
    scores = []
    for row in rows:
        if row["split"] == "val":
            scan, truth = nnunet_data.read_row(row, data)
            found, _ = engine.segment(scan, False)
            scores.append(metrics.score_case(found, as_classes(truth, values), len(values)))
    return metrics.summary(scores, list(values))


def as_classes(mask: np.ndarray, values: Mapping[str, int]) -> np.ndarray:
    """Label values -> 1..N in the order of the structures."""
    found = np.zeros(mask.shape, np.int64)
    for number, value in enumerate(values.values(), 1):
        found[mask == value] = number
    return found


def deliver(
    template: Template,
    rows: Sequence[Mapping[str, Any]],
    prepared: nnunet_data.Prepared,
    packaged: dict[str, Any],
    trainer: Any,
    figures: Mapping[str, float | None],
    attempt: checkpoints.Attempt,
    budget: TimeBudget,
    work: Path,
    device: str,
) -> dict[str, Any]:
    """Write the package. -> the fields of metrics.json."""
    import safetensors.torch

    values, how = packaged["label_values"], trainer.configuration_manager
    patch = [int(size) for size in how.patch_size]
    channels = len(prepared.dataset["channel_names"])
    seconds = time.monotonic() - budget.begin + attempt.seconds
    parameters = sum(weight.numel() for weight in trainer.module().parameters())
    stages = how.network_arch_init_kwargs["features_per_stage"]
    spacing = " x ".join(f"{size:g}" for size in how.spacing)
    facts = PackageFacts(
        task=template.task,
        label_names=list(values),
        label_values=values,
        input_text=(
            f"One INPUT is one image of {channels} channel(s): a NIfTI, DICOM, npy or picture file, or a "
            f"folder of its channels or DICOM slices. It is resampled to a spacing of {spacing} mm and cut into "
            f"patches; the mask comes back on the image's own grid with the values "
            f"{', '.join(f'{value} {name}' for name, value in values.items())}."
        ),
        input_shape=(channels, *patch),
        counts=prepared.counts,
        metric_name="",  # no figure chose the weights
        metrics=figures,
        model=f"nnU-Net v2 {prepared.configuration}, features {'-'.join(map(str, stages))}",
        parameters=parameters,
        epochs=trainer.current_epoch,
        seconds=seconds,
        device=device,
        output="segmentation",
        limits=("The weights are those of the last epoch.", *template.limits(prepared.counts, values)),
    )
    write_package(
        work / "package",
        code=template.exported(with_model=False),
        imports=IMPORTED,
        save_weights=lambda path: safetensors.torch.save_model(trainer.module(), str(path)),
        config=packaged,
        facts=facts,
    )
    counts = {split: sum(row["split"] == split for row in rows) for split in ("train", "val")}
    return {
        "metrics": dict(figures),
        "metric_name": "dice",
        "epochs": trainer.current_epoch,
        "seconds": seconds,
        "samples": counts,
        "device": device,
        "parameters": parameters,
        "attempts": attempt.number,
        "iterations": trainer.iteration,
        "input_shape": [channels, *patch],
        "engine": "nnunet",
    }
