"""Train a report writer: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out.

Reads train_index.jsonl, whose targets are the reports, and images below $M3_DATA. Leaves progress.jsonl, tiers.json,
metrics.json and val_reports.json (validation only), checkpoints/ and package/ in the working directory. A second call
with the same configuration, data and code goes on from the newest intact checkpoint. Exit codes stand in README.md.
"""

import math
import os
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
import torch
from deliver import deliver
from metrics import merit, scores
from transformers import set_seed
from words import plain
from writing import costs, likely_all, trusted, write_all, writers

from shared.training import callbacks, checkpoints, checks, program, ranks, saved
from shared.training.budget import TimeBudget, steps_an_epoch, tell_estimate
from shared.training.cache import cache_of
from shared.training.configfile import UNMARKED, ConfigError
from shared.training.imports import needed
from shared.training.machine import device_name
from shared.training.package import described
from shared.training.tiers import climb

HERE = Path(__file__).resolve().parent
CHECKPOINTS = Path("checkpoints")
SMOKE = {"model": {"width": 8, "hidden": 32}, "training": {"epochs": 2, "train_seconds": 60, "save_seconds": 0}}
EVALUATED = 9
"""Times as long as an evaluation takes is trained before it."""


def main() -> int:
    return program.main(__doc__, settings.load, train, ("2d", "3d"), lambda _: SMOKE, smoke_row)


def smoke_row(number: int, mode: str) -> dict[str, Any]:
    """What the index says of a case of the try-out."""
    seen = ("no block is seen", "a bright block on the left side")[number % 2]
    return {"target": f"Findings: {seen}. Impression: {('normal', 'block')[number % 2]}."}


def train(config: Any) -> int:
    begin = time.monotonic()

    # What can be said without opening an image. A predict.py that could not be packaged is no use after hours either.
    rows = checks.read_index(config.index)
    checks.refuse(checks.split_problems(rows, config) + checks.report_problems(rows))
    needed(HERE / "predict.py")

    # Several GPUs: this command once more for each of them, and nothing else here.
    if (processes := ranks.wanted_processes(config.training.processes)) > 1:
        return ranks.launch(processes)
    device = ranks.join()

    # Cases. All are read once, into the cache, by the first process.
    weights_file = pretrained.file_of(config.model.weights) if config.model.weights else None
    files = [Path(config.index), *([weights_file] if weights_file else []), *checkpoints.code_of(HERE)]
    asked = checkpoints.fingerprint(config.model_dump(mode="json", exclude=UNMARKED), files)
    config = data.resolve(checkpoints.as_settled(CHECKPOINTS, asked, config))
    cache = cache_of(config.cache, config.preprocess.model_dump(), HERE / "data.py")
    train_set, val_set = (data.build(config, split, cache) for split in ("train", "val"))
    sets = {"train": train_set, "val": val_set}
    ranks.by_first(lambda: checks.refuse(checks.read_all(rows, lambda row: sets[row["split"]].image(row))))
    augmented, by = train_set.augmented, writers(config, train_set.telling)

    # Network and loss.
    set_seed(config.training.seed)
    try:
        network = model.build(config, train_set.vocabulary, len(train_set.telling))
        if weights_file:
            ranks.say(pretrained.load_into(getattr(network, "encoder", network), weights_file))
    except ValueError as error:
        raise ConfigError(str(error)) from None
    network.to(device)
    ranks.say(f"{len(train_set)} train, {len(val_set)} val cases, {described(network)}, augmented: {train_set.augment}")

    # What an earlier attempt at the same training left: the same in configuration, data and code.
    mark = checkpoints.fingerprint(config.model_dump(mode="json", exclude=UNMARKED), files)
    attempt, checkpoint = ranks.by_first(lambda: checkpoints.resume(CHECKPOINTS, mark))
    if ranks.first():
        checkpoints.note_settled(CHECKPOINTS, asked, config, {"preprocess", "augmentation", "text"})

    # Tiers: one case, one batch by heart, a small part. They settle the batch that memory holds, and its time.
    left = TimeBudget(config.training.train_seconds, begin, attempt.seconds).remaining()
    smaller = "preprocess.input_shape, or model.width"
    climbed = ranks.by_first(
        lambda: climb(network, train_set, config.training, device, smaller=smaller, seconds=left, prepare=augmented)
    )
    wanted = climbed.wanted  # config.training, with that batch

    # Time: reports take long to write, so they are not judged after every epoch, and for a tenth of the time at most.
    steps, step_seconds = steps_an_epoch(len(train_set), wanted), wanted.accumulate * climbed.batch_seconds
    evaluation_seconds, final_seconds = costs(config, wanted, network, val_set, climbed.batch_seconds, by)
    every = math.ceil(max(wanted.evaluate_steps, EVALUATED * evaluation_seconds / step_seconds) / steps)  # epochs
    reserve = 2 + 2 * evaluation_seconds + final_seconds
    budget = TimeBudget(wanted.train_seconds, begin, attempt.seconds, reserve)
    tell_estimate(steps * step_seconds + evaluation_seconds / every, budget.remaining(), wanted, device)

    # Optimiser and schedule: norms and biases are not decayed; the rate falls with steps or time.
    kernels = [weight for weight in network.parameters() if weight.ndim >= 2]
    vectors = [weight for weight in network.parameters() if weight.ndim < 2]
    groups = [{"params": kernels, "weight_decay": wanted.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=wanted.learning_rate, fused=True)
    most_steps = steps * wanted.most_epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(budget.progressed(step, most_steps)))
    average = saved.averaged(network)  # of the weights, over about the last tenth of the steps

    # The loop is Transformers' Trainer; the watch knows time, progress and the best weights.
    watch = callbacks.Watch(wanted, budget, CHECKPOINTS, attempt, every=every)
    trainer = ReportTrainer(
        model=network,
        args=callbacks.arguments(wanted, device, CHECKPOINTS),
        train_dataset=train_set,
        eval_dataset=val_set,
        optimizers=(optimizer, schedule),
        callbacks=[watch],
        augmented=augmented,
        average=average,
        length=config.text.max_tokens,
        judged=wanted.judged,
        by=by,
        metric=wanted.metric,
    )
    if (epochs := trainer.to_the_end(watch, checkpoint)) is None:
        return program.stopped()

    # What is delivered: reports of all validation cases, the package, then metrics.json, which says that all is done.
    numbers = list(range(len(val_set)))
    references = [plain(row["target"]) for row in val_set.rows]
    if "sentences" in by:
        likely = likely_all(network, val_set, wanted.batch_size)
        train_set.telling = val_set.telling = trusted(val_set.telling, likely, references, wanted.metric)
        ranks.say(f"images are trusted by {val_set.telling.trust:g}")
    written = {
        writer: write_all(network, val_set, numbers, config.text.max_tokens, wanted.batch_size, writer) for writer in by
    }
    figures = {writer: scores(references, answers)[wanted.metric] for writer, answers in written.items()}
    writer = max(by, key=lambda writer: merit(figures[writer], written[writer]))
    ranks.say(f"{wanted.metric} by writer: " + ", ".join(f"{name} {figure:.3f}" for name, figure in figures.items()))
    config = config.model_copy(update={"text": config.text.model_copy(update={"writer": writer})})
    if ranks.first():
        seconds = time.monotonic() - begin + attempt.seconds
        run = {"epochs": round(epochs, 2), "seconds": seconds, "device": device_name(device)}
        more = {"best_epoch": watch.best.said["epoch"], "attempts": attempt.number}
        deliver(config, network, sets, written[writer], run, more)
    return 0


def rate(share: float) -> float:
    """Factor of the learning rate when `share` of the training is done: warm-up over a tenth, then a cosine."""
    return max(0.02, share / 0.1) if share < 0.1 else 0.5 * (1 + math.cos(math.pi * (share - 0.1) / 0.9)) + 1e-3


class ReportTrainer(callbacks.AveragingTrainer):
    """An evaluation is the loss over the validation part and the scores of the better writer on an even draw of it."""

    def __init__(self, *, length: int, judged: int, by: list[str], metric: str, **fields: Any) -> None:
        super().__init__(**fields)
        self.length, self.judged, self.by, self.metric = length, judged, by, metric

    def evaluation_loop(self, dataloader: Any, description: str, *arguments: Any, **more: Any) -> Any:
        more["prediction_loss_only"] = True
        found = super().evaluation_loop(dataloader, description, *arguments, **more)
        cases: Any = self.eval_dataset
        drawn = np.unique(np.linspace(0, len(cases) - 1, min(self.judged, len(cases))).round().astype(int)).tolist()
        references = [plain(cases.rows[number]["target"]) for number in drawn]
        size = self.args.eval_batch_size
        of_all = [write_all(self.model, cases, drawn, self.length, size, writer) for writer in self.by]
        measured = [scores(references, answers) for answers in of_all]
        for of_one, answers in zip(measured, of_all, strict=True):
            of_one["merit"] = merit(of_one[self.metric], answers)
        prefix, best = more.get("metric_key_prefix", "eval"), max(measured, key=lambda of_one: of_one["merit"])
        found.metrics.update({f"{prefix}_{name}": value for name, value in best.items()})
        return found


if __name__ == "__main__":
    sys.exit(main())
