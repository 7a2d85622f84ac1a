"""Train a report writer: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out.

Reads train_index.jsonl, whose targets are the reports, and images below $M3_DATA. Leaves progress.jsonl, tiers.json,
metrics.json and val_reports.json (validation only), checkpoints/ and package/ in the working directory. A second call
with the same configuration, data and code goes on from the newest intact checkpoint. Exit codes: 0 done, 1 the
training failed, 2 configuration, data or code are wrong (all problems are listed), 143 stopped by SIGTERM with a
checkpoint saved.
"""

import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

# Set before the frameworks are imported: nothing here may look for a network, and threads that wait do not spin.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import config as settings
import data
import model
import numpy as np
import pretrained
import safetensors.torch
import smoke
import torch
from deliver import deliver
from metrics import scores
from refusals import report_problems
from transformers import TrainerCallback, set_seed
from words import plain
from writing import costs, write_all

from shared.training import callbacks, checkpoints, checks, program, ranks, saved
from shared.training.budget import TimeBudget, steps_an_epoch, tell_estimate
from shared.training.cache import ArrayCache
from shared.training.configfile import UNMARKED, ConfigError
from shared.training.imports import needed
from shared.training.launch import launch, wanted_processes
from shared.training.machine import device_name
from shared.training.package import described
from shared.training.tiers import climb

HERE = Path(__file__).resolve().parent
CHECKPOINTS = Path("checkpoints")
EVALUATED = 9
"""Times as long as an evaluation takes is trained before it."""


def main() -> int:
    return program.main(__doc__, settings.load, train, smoke.MODES, smoke.settings, smoke.row)


def train(config: Any) -> int:
    begin = time.monotonic()

    # What can be said without opening an image. A predict.py that could not be packaged is no use after hours either.
    rows = checks.read_index(config.index)
    problems = checks.split_problems(rows, config.index) + report_problems(rows)
    if not data.data_root(config).is_dir():
        problems.append(checks.Problem("data_root", f"{data.data_root(config)} is no folder; set data_root or M3_DATA"))
    checks.refuse(problems)
    needed(HERE / "predict.py")

    # Several GPUs: this command once more for each of them, and nothing else here.
    if (processes := wanted_processes(config.training.processes)) > 1:
        return launch(processes)
    device = ranks.join()

    # Cases. All are read once, into the cache, by the first process.
    config = data.resolve(config)
    recipe, code = [config.preprocess.model_dump(), config.views.most], [*needed(HERE / "data.py").files.values()]
    cache = ArrayCache(Path(config.cache or os.devnull), checkpoints.fingerprint(recipe, code))
    train_set, val_set = (data.build(config, split, cache) for split in ("train", "val"))
    sets, threads = {"train": train_set, "val": val_set}, len(os.sched_getaffinity(0))
    ranks.by_first(lambda: checks.refuse(checks.read_all(rows, lambda row: sets[row["split"]].image(row), threads)))
    augment = train_set.augment

    def augmented(batch: Any) -> Any:
        return {**batch, "image": augment(batch["image"])}

    # Network and loss.
    set_seed(config.training.seed)
    start = pretrained.file_of(config.model.weights) if config.model.weights else None
    try:
        network = model.build(config, train_set.vocabulary, data.telling_words(train_set, config.model.telling))
        if start:
            ranks.say(pretrained.load_into(getattr(network, "encoder", network), start))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    network.to(device)
    ranks.say(f"{len(train_set)} train and {len(val_set)} val samples, {described(network)}, augmented: {augment}")

    # What an earlier attempt at the same training left.
    inputs = [Path(config.index), *([start] if start else []), *checkpoints.code_of(HERE)]
    mark = checkpoints.fingerprint(config.model_dump(mode="json", exclude=UNMARKED), inputs)
    attempt, checkpoint = ranks.by_first(lambda: checkpoints.resume(CHECKPOINTS, mark))

    # Tiers: one case, one batch by heart, a small part. They settle the batch that memory holds, and its time.
    left = TimeBudget(config.training.train_seconds, begin, attempt.seconds).remaining()
    smaller = "preprocess.input_shape, or model.width"
    climbed = ranks.by_first(
        lambda: climb(network, train_set, config.training, device, smaller=smaller, seconds=left, prepare=augmented)
    )
    wanted = climbed.wanted

    # Time: reports take long to write, so they are not judged after every epoch, and for a tenth of the time at most.
    steps, step = steps_an_epoch(len(train_set), wanted), wanted.accumulate * climbed.batch_seconds
    evaluation, final = costs(config, wanted, network, val_set, climbed.batch_seconds)
    every = math.ceil(max(wanted.evaluate_steps, EVALUATED * evaluation / step) / steps)
    budget = TimeBudget(wanted.train_seconds, begin, attempt.seconds, reserve=2 + 2 * evaluation + final)
    epoch_seconds = steps * step + evaluation / every
    tell_estimate(epoch_seconds, budget.remaining(), wanted, device)

    # Optimiser and schedule: norms and biases are not decayed; the rate falls with steps or time.
    deep = [weight for weight in network.parameters() if weight.ndim >= 2]
    flat = [weight for weight in network.parameters() if weight.ndim < 2]
    groups = [{"params": deep, "weight_decay": wanted.weight_decay}, {"params": flat, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=wanted.learning_rate, fused=True)
    total = steps * wanted.most_epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(budget.progressed(step, total)))
    average = saved.averaged(network)

    # The loop is Transformers' Trainer; the watch knows time, progress and the best weights.
    best = saved.Best(CHECKPOINTS / "best")
    watch = callbacks.Watch(wanted, budget, best, CHECKPOINTS, attempt)
    trainer = ReportTrainer(
        model=network,
        args=callbacks.arguments(wanted, device, CHECKPOINTS, eval_strategy="no"),  # EveryEpochs asks for evaluations
        train_dataset=train_set,
        eval_dataset=val_set,
        optimizers=(optimizer, schedule),
        callbacks=[watch, EveryEpochs(every)],
        augmented=augmented,
        average=average,
        length=config.text.max_tokens,
        judged=wanted.judged,
    )
    epochs = trainer.to_the_end(watch, checkpoint)
    if budget.asked:
        ranks.say("stopped as asked; the same command goes on from the checkpoint")
        return 128 + signal.SIGTERM
    if not best.weights.exists():
        raise checks.TrainingFailed(
            "no evaluation was reached, or its loss was not finite\n"
            "raise training.train_seconds, or lower training.learning_rate (by ten)"
        )
    network.load_state_dict(safetensors.torch.load_file(best.weights))

    # What is delivered: reports of all validation cases, the package, then metrics.json, which says that all is done.
    numbers = list(range(len(val_set)))
    answers = write_all(network, val_set, numbers, config.text.max_tokens, wanted.batch_size)
    if ranks.first():
        seconds = time.monotonic() - begin + attempt.seconds
        run = {"epochs": round(epochs, 2), "seconds": seconds, "device": device_name(device)}
        deliver(config, network, sets, answers, run, {"best_epoch": best.said["epoch"], "attempts": attempt.number})
    return 0


def rate(share: float) -> float:
    """Factor of the learning rate when `share` of the training is done: warm-up over a tenth, then a cosine."""
    return max(0.02, share / 0.1) if share < 0.1 else 0.5 * (1 + math.cos(math.pi * (share - 0.1) / 0.9)) + 1e-3


class ReportTrainer(callbacks.AveragingTrainer):
    """An evaluation is the loss over the validation part and the scores of greedy reports on an even draw of it."""

    def __init__(self, *, length: int, judged: int, **fields: Any) -> None:
        super().__init__(**fields)
        self.length, self.judged = length, judged

    def evaluation_loop(self, dataloader: Any, description: str, *arguments: Any, **more: Any) -> Any:
        more["prediction_loss_only"] = True
        found = super().evaluation_loop(dataloader, description, *arguments, **more)
        cases: Any = self.eval_dataset
        drawn = np.unique(np.linspace(0, len(cases) - 1, min(self.judged, len(cases))).round().astype(int)).tolist()
        answers = write_all(self.model, cases, drawn, self.length, self.args.eval_batch_size)
        measured = scores([plain(cases.rows[number]["target"]) for number in drawn], answers)
        prefix = more.get("metric_key_prefix", "eval")
        found.metrics.update({f"{prefix}_{name}": value for name, value in measured.items()})
        return found


class EveryEpochs(TrainerCallback):
    """Evaluates at the end of every `epochs`-th epoch and of the last one."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        last = state.global_step >= state.max_steps
        if last or round(state.epoch or 0) % self.epochs == 0:
            control.should_evaluate = True


if __name__ == "__main__":
    sys.exit(main())
