"""Train nnU-Net v2: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out.

Plan, preprocess, train, predict, by nnU-Net's own classes. Reads train_index.jsonl and label_map.json, images and masks
below $M3_DATA. Leaves plans.json (to be read and edited; `--plan` stops there), progress.jsonl, metrics.json
(validation only), checkpoints/nnunet, cache/nnunet (rebuildable) and package/ in the working directory. A second call
goes on from the newest intact checkpoint. Exit codes: 0 done, 1 the training failed, 2 configuration or data are wrong
(all problems are listed), 143 stopped by SIGTERM, with a checkpoint saved once the training has begun.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that wait do not spin

import cases
import plan
import torch
from config import Config, load
from deliver import deliver

from shared.training import checkpoints, checks, masks, saved, smoke
from shared.training.budget import TimeBudget
from shared.training.imports import needed
from shared.training.program import exit_code
from shared.training.progress import ProgressFile

FOLDER = Path(__file__).resolve().parent
CACHE, CHECKPOINTS = Path("cache/nnunet"), Path("checkpoints/nnunet")
SIDES = {"left", "right", "l", "r", "lt", "rt", "links", "rechts"}
SMOKE = {
    "nnunet": {"epochs": 2, "iterations": 4, "memory_gb": 0.03, "features": 4, "save_seconds": 0},
    "training": {"train_seconds": None},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--plan", action="store_true", help="plan and preprocess only: write plans.json")
    parser.add_argument("--smoke", nargs="?", const="all", choices=("3d", "2d", "all"), help="try-out on tiny data")
    arguments = parser.parse_args()
    if arguments.smoke:
        modes = ("3d", "2d") if arguments.smoke == "all" else (arguments.smoke,)
        return exit_code(lambda: smoke.run(modes, lambda: train(load("config.yaml")), lambda _: SMOKE))
    return exit_code(lambda: train(load(arguments.config), arguments.plan))


def train(config: Config, only_plan: bool = False) -> int:
    """The whole way from cases to a package."""
    if int(os.environ.get("RANK", "0")):
        return 0  # nnU-Net has one GPU here: of several processes the first trains
    begin = time.monotonic()
    needed(FOLDER / "predict.py")
    rows, values = masks.check_rows(config), masks.label_values(config)
    budget = TimeBudget(config.training.train_seconds, begin)
    made = not CACHE.parent.exists()

    device = "cuda" if torch.cuda.is_available() else "cpu"
    set_up(config, rows)
    with stopping() as stop:
        # Plan and preprocess.
        try:
            prepared = cases.prepare(config, rows, CACHE, device)
        except checks.DataProblems:
            if made:
                shutil.rmtree(CACHE.parent, ignore_errors=True)
            raise
        print(f"nnU-Net dataset planned and preprocessed after {budget.elapsed():.0f} s, see plans.json", flush=True)
        if only_plan:
            return 0

        # Train.
        attempt, newest = open_checkpoints(config, prepared)
        trainer = build_trainer(config, prepared, list(values), device, budget, attempt)
        stop.append(trainer.job)
        done = newest is not None and trainer.load(newest)
        try:
            if not done:
                with plan.dead_workers():
                    trainer.run_training()
        except torch.cuda.OutOfMemoryError:
            raise checks.TrainingFailed(
                "the GPU's memory does not hold a batch of the size that nnU-Net planned\n"
                "set nnunet.memory_gb lower and nnunet.start_over to true"
            ) from None
        stop.clear()

        # Evaluation, the package, then metrics.json, which says that all is done.
        deliver(config, prepared, rows, trainer, attempt, begin)
    return 0


def set_up(config: Config, rows: Sequence[Mapping[str, Any]], cache: Path = CACHE) -> None:
    """Where nnU-Net writes, and its processes."""
    how = config.nnunet
    processes = plan.auto_processes(how, cases.largest_image(rows, masks.data_root(config)))
    plan.set_environment(cache, processes, plan.auto_workers(how))


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


def open_checkpoints(config: Config, prepared: cases.Prepared) -> tuple[checkpoints.Attempt, Path | None]:
    """This attempt and the newest intact checkpoint. Raises TrainingFailed for those of another training."""
    how = config.nnunet
    settled = how.model_dump(include={"learning_rate", "mirror", "iterations"})
    code = [FOLDER / name for name in ("trainer.py", "config.py")]
    mark = checkpoints.fingerprint([prepared.mark, prepared.plans, settled, config.training.seed], code)
    known = plan.load_note(CHECKPOINTS / "run.json").get("fingerprint")
    if known not in (None, mark) and list(CHECKPOINTS.glob("checkpoint-*")) and not how.start_over:
        raise checks.TrainingFailed(
            f"the checkpoints in {CHECKPOINTS} belong to another configuration, plan, code or data; nothing was "
            "trained\nundo the change to go on with them, or set nnunet.start_over to true to set them aside and "
            "begin anew"
        )
    for part in CHECKPOINTS.glob(".part-*"):
        shutil.rmtree(part)
    return checkpoints.resume(CHECKPOINTS, mark, saved.fault)


def build_trainer(
    config: Config,
    prepared: cases.Prepared,
    names: Sequence[str],
    device: str,
    budget: TimeBudget,
    attempt: checkpoints.Attempt,
    cache: Path = CACHE,
) -> Any:
    """nnU-Net's trainer with the plan, as trainer.py bounds it."""
    with plan.quietly(cache):
        from threads import bear_hidden_libraries
        from trainer import BudgetTrainer, Job

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
            folder=CHECKPOINTS,
            attempt=attempt,
            progress=ProgressFile(Path("progress.jsonl")),
        )
        plans = {**prepared.plans, "continue_training": False}
        trainer = BudgetTrainer(plans, prepared.configuration, 0, prepared.dataset, torch.device(device))
        trainer.take(job)
        trainer.initialize()
    return trainer


def sided(names: Sequence[str]) -> bool:
    """Whether a name speaks of a side."""
    words = (word for name in names for word in "".join(c if c.isalpha() else " " for c in name.lower()).split())
    return any(word in SIDES for word in words)


if __name__ == "__main__":
    sys.exit(main())
