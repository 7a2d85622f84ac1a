"""Train nnU-Net v2: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out.

Plan, preprocess, train, predict, by nnU-Net's own classes. Reads train_index.jsonl and label_map.json, images and masks
below $M3_DATA. Leaves plans.json (to be read and edited; `--plan` stops there), progress.jsonl, metrics.json
(validation only), checkpoints/nnunet, cache/nnunet (rebuildable) and package/ in the working directory. A second call
goes on from the newest intact checkpoint. Exit codes stand in README.md.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait do not spin

import cases
import plan as planning
import torch
from config import Config, load
from deliver import deliver, measured

from shared.training import checkpoints, checks, masks, program
from shared.training.budget import TimeBudget
from shared.training.imports import needed
from shared.training.sides import sided

FOLDER = Path(__file__).resolve().parent
CACHE, CHECKPOINTS = Path("cache/nnunet"), Path("checkpoints/nnunet")
AFTER = 15.0
"""Seconds for packaging and for what is not measured."""
SMOKE = {
    "nnunet": {"epochs": 2, "iterations": 4, "memory_gb": 0.03, "features": 4, "save_seconds": 0},
    "training": {"train_seconds": None},
}


def main() -> int:
    plan_only = "plan and preprocess only: write plans.json"
    return program.main(__doc__, load, train, ("3d", "2d"), lambda _: SMOKE, plan=plan_only)


def train(config: Config, plan: bool = False) -> int:
    """The whole way from cases to a package."""
    if int(os.environ.get("RANK", "0")):
        return 0  # nnU-Net has one GPU here: of several processes the first trains
    begin = time.monotonic()
    needed(FOLDER / "predict.py")
    rows, device = masks.check_rows(config), "cuda" if torch.cuda.is_available() else "cpu"

    # Plan and preprocess.
    planning.set_environment(config.nnunet, CACHE)
    prepared = cases.prepare(config, rows, CACHE, device)
    print(f"planned and preprocessed after {time.monotonic() - begin:.0f} s, see plans.json", flush=True)
    if plan:
        return 0

    # What an earlier attempt at the same training left.
    settled = config.nnunet.model_dump(include={"learning_rate", "mirror", "iterations"})
    code = [FOLDER / name for name in ("trainer.py", "config.py")]
    mark = checkpoints.fingerprint([prepared.mark, prepared.plans, settled, config.training.seed], code)
    attempt, newest = checkpoints.resume(CHECKPOINTS, mark)

    # Time: the validation images are predicted after the loop, and one shows how long that takes.
    trainer = build_trainer(config, prepared, device, attempt)
    val, seconds, looking = [row for row in rows if row["split"] == "val"], config.training.train_seconds, 0.0
    if seconds is not None:
        start = time.monotonic()
        measured(config, prepared, trainer, val[:1])
        looking = (time.monotonic() - start) * len(val)
    budget = TimeBudget(seconds, begin, attempt.seconds, reserve=AFTER + looking)

    # Train.
    if newest is None or not trainer.load(newest):
        try:
            with planning.dead_workers():
                trainer.run_training(budget)
        except torch.cuda.OutOfMemoryError:
            raise checks.TrainingFailed(
                "the GPU's memory does not hold a batch of the size that nnU-Net planned\nset nnunet.memory_gb lower"
            ) from None

    # Evaluation, the package, then metrics.json, which says that all is done.
    deliver(config, prepared, rows, trainer, measured(config, prepared, trainer, val), attempt, begin)
    return 0


def build_trainer(
    config: Config, prepared: cases.Prepared, device: str, attempt: checkpoints.Attempt, cache: Path = CACHE
) -> Any:
    """nnU-Net's trainer with the plan, as trainer.py bounds it."""
    with planning.quietly(cache):
        from trainer import BudgetTrainer

        how = config.nnunet
        mirror = how.mirror == "all" or (how.mirror == "auto" and not sided(masks.label_values(config)))
        plans = {**prepared.plans, "continue_training": False}
        trainer = BudgetTrainer(plans, prepared.configuration, 0, prepared.dataset, torch.device(device))
        trainer.take(how, config.training.seed, mirror, CHECKPOINTS, attempt)
        trainer.initialize()
    return trainer


if __name__ == "__main__":
    sys.exit(main())
