"""Train a classifier: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out.

Reads train_index.jsonl and label_map.json, images below $M3_DATA. Leaves progress.jsonl, tiers.json, metrics.json
(validation only), checkpoints/ and package/ in the working directory. A second call with the same configuration, data
and code goes on from the newest intact checkpoint. Exit codes stand in README.md.
"""

import math
import os
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

# Set before the frameworks are imported: nothing here may look for a network, and threads that wait do not spin.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import config as settings
import data
import images
import model
import pretrained
import torch
from metrics import class_weights, one_hot, scores, temperature, told_of_cases
from transformers import set_seed

from shared.training import callbacks, checkpoints, checks, program, ranks, saved
from shared.training.budget import TimeBudget, steps_an_epoch, tell_estimate
from shared.training.cache import cache_of
from shared.training.configfile import UNMARKED, ConfigError
from shared.training.imports import needed
from shared.training.lastfit import last_fit, wanted_seconds
from shared.training.machine import device_name
from shared.training.package import PackageFacts, described, write_package, write_results
from shared.training.tiers import climb

HERE = Path(__file__).resolve().parent
CHECKPOINTS = Path("checkpoints")
SMOKE = {"model": {"width": 8}, "training": {"epochs": 2, "train_seconds": 60, "save_seconds": 0}}


def main() -> int:
    modes = ("3d", "2d", "3d-multi", "2d-multi")
    return program.main(__doc__, settings.load, train, modes, lambda _: SMOKE, smoke_row)


def smoke_row(number: int, mode: str) -> dict[str, Any]:
    """What the index says of a case of the try-out; of several labels one case in three has none."""
    label = ("plain", "block")[number % 2]
    return {"label": [label] * (number % 3 > 0) if mode.endswith("multi") else label}


def train(config: Any) -> int:
    begin = time.monotonic()

    # What can be said without opening an image. A predict.py that could not be packaged is no use after hours either.
    rows = checks.read_index(config.index)
    checks.refuse(checks.split_problems(rows, config) + checks.label_problems(rows, data.label_names(config)))
    needed(HERE / "predict.py")

    if config.training.metric == "quadratic_kappa" and not data.ordered(config):
        raise ConfigError(
            "training.metric quadratic_kappa is of grades, and label_map.json does not say that classes are"
        )

    # Several GPUs: this command once more for each of them, and nothing else here.
    if (processes := ranks.wanted_processes(config.training.processes)) > 1:
        return ranks.launch(processes)
    device = ranks.join()

    # Cases. All are read once, into the cache, by the first process.
    weights_file = pretrained.file_of(config.model.weights) if config.model.weights else None
    inputs = [Path(config.index), Path(config.label_map), *([weights_file] if weights_file else [])]
    files = [*inputs, *checkpoints.code_of(HERE)]
    asked = checkpoints.fingerprint(config.model_dump(mode="json", exclude=UNMARKED), files)
    config = data.resolve(checkpoints.as_settled(CHECKPOINTS, asked, config))
    cache = cache_of(config.cache, config.preprocess.model_dump(), HERE / "data.py")
    train_set, val_set = (data.build(config, split, cache) for split in ("train", "val"))
    sets = {"train": train_set, "val": val_set}
    ranks.by_first(lambda: checks.refuse(checks.read_all(rows, lambda row: sets[row["split"]].image(row))))
    augmented = train_set.augmented

    # Network and loss. A rare class is drawn more often, or weighs more in the loss; not both.
    set_seed(config.training.seed)
    multi_label, ordered, classes = bool(config.multi_label), train_set.ordered, len(train_set.label_names)
    hot = one_hot(torch.stack(train_set.targets).numpy(), classes, multi_label)
    balanced = config.training.sampling == "balanced"
    weighted = config.loss.class_weights == "balanced" and not balanced
    try:
        loss_weights = class_weights(hot, multi_label) if weighted else None
        network = model.build(config, classes, loss_weights)
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
        checkpoints.note_settled(CHECKPOINTS, asked, config, {"preprocess", "augmentation"})

    # Tiers: one case, one batch by heart, a small part. They settle the batch that memory holds, and its time.
    left = TimeBudget(config.training.train_seconds, begin, attempt.seconds).remaining()
    smaller = "preprocess.input_shape, or model.width"
    climbed = ranks.by_first(
        lambda: climb(network, train_set, config.training, device, smaller=smaller, seconds=left, prepare=augmented)
    )
    wanted = climbed.wanted  # config.training, with that batch

    # Time: an evaluation has no backward pass, about a third of the work; three are kept for after the loop.
    steps = steps_an_epoch(len(train_set), wanted)
    evaluation_seconds = climbed.batch_seconds / 3 * math.ceil(len(val_set) / wanted.batch_size)
    reserve = 2 + 3 * evaluation_seconds
    budget = TimeBudget(wanted.train_seconds, begin, attempt.seconds, reserve, wanted_seconds(wanted))
    epoch_seconds = steps * wanted.accumulate * climbed.batch_seconds + evaluation_seconds
    tell_estimate(epoch_seconds, budget.remaining(), wanted, device)

    # Optimiser and schedule: norms and biases are not decayed; the rate falls with steps or time.
    kernels = [weight for weight in network.parameters() if weight.ndim >= 2]
    vectors = [weight for weight in network.parameters() if weight.ndim < 2]
    groups = [{"params": kernels, "weight_decay": wanted.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=wanted.learning_rate, fused=True)
    most_steps = steps * wanted.most_epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(budget.progressed(step, most_steps)))
    average = saved.averaged(network)  # of the weights, over about the last tenth of the steps

    # The loop is Transformers' Trainer; the watch knows time, progress and the best weights.
    patients = [str(row["patient"]) for row in val_set.rows]
    watch = callbacks.Watch(wanted, budget, CHECKPOINTS, attempt, len(set(patients)))
    trainer = callbacks.AveragingTrainer(
        model=network,
        args=callbacks.arguments(wanted, device, CHECKPOINTS),
        train_dataset=train_set,
        eval_dataset=val_set,
        optimizers=(optimizer, schedule),
        compute_metrics=lambda found: scores(found.predictions, found.label_ids, multi_label, patients, ordered),
        callbacks=[watch],
        augmented=augmented,
        average=average,
        sampler=data.Balanced(torch.from_numpy(hot), wanted.seed) if balanced else None,
    )
    if (epochs := trainer.to_the_end(watch, checkpoint)) is None:
        return program.stopped()

    # Evaluation of the chosen weights; those that are delivered have learned from the validation cases, too.
    predicted = trainer.predict(val_set)
    seconds = time.monotonic() - begin + attempt.seconds
    both = train_set + val_set
    targets = torch.stack([*train_set.targets, *val_set.targets]).numpy()
    hot, own = one_hot(targets, classes, multi_label), wanted.seed + ranks.number()  # each process draws its own
    drawn = data.Balanced(torch.from_numpy(hot), own) if balanced else None
    with budget.listening():
        fitted = last_fit(network, both, wanted, device, budget, epochs, rate, drawn, augmented)
    if budget.asked:
        return program.stopped()
    if not ranks.first():
        return 0

    # The package, then metrics.json, which says that all is done.
    logits, labels = predicted.predictions, predicted.label_ids
    warmth = temperature(logits, labels, multi_label)
    counts: dict[str, Counter[str]] = {"train": Counter(), "val": Counter()}
    for row in rows:
        counts[row["split"]].update(checks.labels_of(row))
    how = config.preprocess
    kind = "scan: a NIfTI, DICOM, a folder of slices" if len(how.input_shape) == 3 else "image: a PNG, JPG, DICOM"
    views = f", or a folder with up to {how.views} of them" if how.views > 1 else ""
    named = " Several labels may hold for one INPUT; those with 0.5 or more are named." if multi_label else ""
    facts = PackageFacts(
        task="diagnosis",
        label_names=train_set.label_names,
        input_text=f"One INPUT is one {kind}{views}. {images.told(how)}{named}",
        input_shape=(how.views * how.channels, *how.input_shape),
        value_range=images.value_range(how),
        channel_names=("red", "green", "blue") if images.in_colour(how) and how.views == 1 else (),
        counts=counts,
        metric_name=wanted.metric,
        metrics=scores(logits, labels, multi_label, patients, ordered),
        model=described(network),
        loss=described(getattr(network, "loss", None)),
        augmentation=described(train_set.augment),
        weights=pretrained.told(weights_file) if weights_file else "",
        parameters=sum(weight.numel() for weight in network.parameters()),
        epochs=round(epochs, 2),
        seconds=seconds,
        device=device_name(device),
    )
    settings_kept = config.model_dump(mode="json", include={"preprocess", "model", "loss", "multi_label"})
    settings_kept["model"]["weights"] = None  # the package has its own
    write_package(
        Path("package"),
        predict=HERE / "predict.py",
        save_weights=lambda path: saved.save_weights(network, path),
        save_fitted=fitted.save if fitted else None,
        config={"task": facts.task, "temperature": warmth, **settings_kept},
        facts=facts,
    )
    more = {
        "best_epoch": watch.best.said["epoch"],
        "attempts": attempt.number,
        "temperature": round(warmth, 3),
        "multi_label": multi_label,
        **({"last_fit": fitted.told} if fitted else {}),
        **told_of_cases(predicted, val_set, multi_label, wanted.metric),
    }
    write_results(facts, samples={split: len(cases) for split, cases in sets.items()}, more=more)
    return 0


def rate(share: float) -> float:
    """Factor of the learning rate when `share` of the training is done: warm-up over a tenth, then a cosine."""
    return max(0.02, share / 0.1) if share < 0.1 else 0.5 * (1 + math.cos(math.pi * (share - 0.1) / 0.9)) + 1e-3


if __name__ == "__main__":
    sys.exit(main())
