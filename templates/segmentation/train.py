"""Train a segmentation: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out in seconds.

Reads train_index.jsonl and label_map.json, images and masks below $M3_DATA. Leaves progress.jsonl, tiers.json,
metrics.json (validation only), checkpoints/ and package/ in the working directory. A second call with the same
configuration, data and code goes on from the newest intact checkpoint. Exit codes: 0 done, 1 the training failed, 2
configuration or data are wrong (all problems are listed), 143 stopped by SIGTERM with a checkpoint saved.
"""

import argparse
import copy
import json
import math
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

# Before the frameworks are imported: nothing looks for a network, and threads that wait do not spin, which on a machine
# shared with others costs half the speed.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import cases
import model as network_and_loss
import safetensors.torch
import torch
from config import Config, ConfigError, load
from data import Turns
from deliver import deliver
from evaluate import SHARE, Judge, on_own_grids, seconds_an_image
from predict import Predictor  # noqa: F401  # what the package opens: a fault in it shows before the training

from shared.training import checkpoints, checks, masks, ranks, saved, smoke_masks
from shared.training.callbacks import TimeBudget, save_weights
from shared.training.imports import needed
from shared.training.launch import launch, wanted_processes
from shared.training.program import exit_code
from shared.training.progress import ProgressFile, write_json
from shared.training.tiers import OUT_OF_MEMORY, climb, lacks_memory
from shared.training.trainer import auto_workers
from shared.training.trial import mixed_precision

FOLDER = Path(__file__).resolve().parent
CHECKPOINTS, BEST = Path("checkpoints"), Path("checkpoints/best")
SMALLER = "preprocess.patch_size or patch_voxels, or model.width"
UNMARKED: dict[str, Any] = {
    "training": {"train_seconds", "save_seconds", "workers", "processes"},
    **dict.fromkeys(("cache", "score_map", "prediction"), True),
}
"""Of the configuration: what does not make a training another one."""
SMOKE = {
    "model": {"width": 8, "levels": 3},
    "training": {"epochs": 4, "patience": 0, "save_seconds": 0, "learning_rate": 0.01},
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--config", default="config.yaml")
    help_text = "train on tiny data, package, predict; without a word 3d and 2d"
    parser.add_argument("--smoke", nargs="?", const="all", choices=("3d", "2d", "all"), help=help_text)
    arguments = parser.parse_args()
    if arguments.smoke:
        modes = ("3d", "2d") if arguments.smoke == "all" else (arguments.smoke,)
        return exit_code(lambda: smoke_masks.run(lambda path: train(load(path)), SMOKE, modes))
    return exit_code(lambda: train(load(arguments.config)))


def train(config: Config) -> int:
    """The whole way from cases to a package."""
    begin = time.monotonic()

    # Cases: all that is wrong with them, or with what will be packaged, is said now and nothing is left behind.
    needed(FOLDER / "predict.py")
    masks.check_rows(config)
    if (processes := wanted_processes(config.training.processes)) > 1:
        return launch(processes)
    device = ranks.join()
    made = config.cache is not None and not Path(config.cache).exists()
    try:
        config = cases.resolve(config)
        sets = {split: cases.build(config, split) for split in ("train", "val")}
        # By the first into the cache, from which the others read.
        counts = ranks.by_first(lambda: cases.check(config, sets))
    except checks.DataProblems:
        if made and ranks.first():
            shutil.rmtree(str(config.cache), ignore_errors=True)
        raise

    # Network and loss.
    torch.manual_seed(config.training.seed)
    try:
        model = network_and_loss.build(config, len(sets["train"].label_names)).to(device)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    attempt, newest = ranks.by_first(lambda: open_checkpoints(config))
    how = config.preprocess
    ranks.say(
        f"{len(sets['train'])} train and {len(sets['val'])} val images, {len(counts['train'])} structures, "
        f"patch {tuple(how.patch_size)}, spacing {how.spacing} mm, {network_and_loss.describe(model.network)}"
    )

    try:
        # Time: what is needed after the loop is kept back, then the tiers show that a training is worth it.
        seconds = config.training.train_seconds
        (image_seconds,) = ranks.most(seconds_an_image(model, sets["val"], config, device.type))
        reserve = 2 + 1.3 * image_seconds * len(sets["val"])
        if seconds is not None:
            reserve = min(0.3 * seconds, reserve + min(0.05 * seconds, 4 * image_seconds * len(sets["val"])))
        budget = TimeBudget(seconds, begin, attempt.seconds, reserve)
        data, order, left = sets["train"], Turns(sets["train"], config.training.seed).whole(), budget.remaining()
        climbed = ranks.by_first(
            lambda: climb(
                model, lambda number: data[order[number]], len(order), config.training, device,
                smaller=SMALLER, seconds=left,
            )
        )  # fmt: skip
        config = config.model_copy(update={"training": climbed.wanted})
        budget.agree()
        until = math.inf if seconds is None else begin + seconds
        judge = Judge(sets["val"], config, device.type, image_seconds, budget.remaining(), until)

        # The loop, the weights that are delivered, and how good they are.
        epochs = loop(config, model, data, judge, budget, climbed.batch_seconds, attempt, newest, device)
        if epochs is None:
            ranks.say("stopped as asked; the same command goes on from the checkpoint")
            return 128 + signal.SIGTERM
        if config.prediction.min_component_mm3 == "auto":
            least = judge.specks(model) if judge.affords(2) else 0.0
            chosen = config.prediction.model_copy(update={"min_component_mm3": least})
            config = config.model_copy(update={"prediction": chosen})
        scores = on_own_grids(model, sets["val"], config, device.type, until)
    except OUT_OF_MEMORY as error:
        if not lacks_memory(error):
            raise
        patch = " x ".join(map(str, how.patch_size))
        raise checks.TrainingFailed(
            f"out of memory: it does not hold a batch of {config.training.batch_size} patches of {patch} voxels\n"
            f"halve training.batch_size and double training.accumulate; with a batch of one, make smaller: {SMALLER}"
        ) from None
    if ranks.first():
        spent = time.monotonic() - begin + attempt.seconds
        best = json.loads((BEST / "best.json").read_text())
        deliver(config, model, sets, counts, scores, best, epochs, spent, attempt.number, device)
    return 0


def loop(
    config: Config, model: Any, data: Any, judge: Judge, budget: TimeBudget, batch_seconds: float,
    attempt: checkpoints.Attempt, newest: Path | None, device: torch.device,
) -> float | None:  # fmt: skip
    """Train `model`, which has the chosen weights in the end. -> epochs made; None where SIGTERM asked to stop and a
    checkpoint is saved. Raises TrainingFailed."""
    from accelerate import Accelerator

    wanted = config.training
    mixed = {torch.float16: "fp16", torch.bfloat16: "bf16"}.get(mixed_precision(wanted, device), "no")
    accelerator = Accelerator(cpu=device.type == "cpu", mixed_precision=mixed)
    workers = auto_workers() if wanted.workers == "auto" else wanted.workers
    order = Turns(data, wanted.seed, ranks.number(), ranks.count())
    loader = torch.utils.data.DataLoader(
        data, wanted.batch_size, sampler=order, num_workers=workers, persistent_workers=workers > 0,
        pin_memory=device.type == "cuda",
    )  # fmt: skip
    steps = math.ceil(len(loader) / wanted.accumulate)
    tell_estimate(len(loader) * batch_seconds, budget.remaining() * (1 - SHARE), wanted.epochs, device)

    # Norms and biases are not decayed. Beside the weights their running average over about the last tenth of the steps.
    flat = [weight for weight in model.parameters() if weight.ndim < 2]
    deep = [weight for weight in model.parameters() if weight.ndim >= 2]
    groups = [{"params": deep, "weight_decay": wanted.weight_decay}, {"params": flat, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=wanted.learning_rate, fused=True)
    averaged = copy.deepcopy(model)
    step = first = 0
    best = json.loads((BEST / "best.json").read_text()) if (BEST / "best.json").exists() else None
    waited = 0
    torch.manual_seed(wanted.seed + ranks.number())  # each process draws patches of its own
    if newest is not None:
        state = saved.load(newest)
        model.load_state_dict(state["model"])
        averaged.load_state_dict(state["averaged"])
        optimizer.load_state_dict(state["optimizer"])
        step, first, waited = state["step"], state["epoch"], state["waited"]
        if ranks.first():
            torch.set_rng_state(state["random"])
    network, optimizer = accelerator.prepare(model, optimizer)
    progress = ProgressFile(Path("progress.jsonl")) if ranks.first() else None
    asked: list[int] = []  # the signal, once it came
    previous = signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    start, kept, looked, made = time.monotonic(), budget.elapsed(), -math.inf, float(first)

    def save(epoch: int) -> None:
        if ranks.first():
            state = {
                "model": model.state_dict(),
                "averaged": averaged.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            saved.save(CHECKPOINTS, step, {**state, "epoch": epoch, "waited": waited, "random": torch.get_rng_state()})
            checkpoints.note_seconds(CHECKPOINTS, attempt, budget.elapsed())

    for epoch in range(first, wanted.epochs):
        order.epoch = epoch
        network.train()
        total, stop = torch.zeros((), device=device), False
        for number, batch in enumerate(loader, 1):
            share = max(step / (steps * wanted.epochs), budget.share())
            for group in optimizer.param_groups:
                group["lr"] = wanted.learning_rate * rate(share)
            with accelerator.autocast():
                loss = network(**{key: value.to(device, non_blocking=True) for key, value in batch.items()})["loss"]
            accelerator.backward(loss / wanted.accumulate)
            total += loss.detach()
            if number % wanted.accumulate and number < len(loader):
                continue
            accelerator.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            average(averaged, model, step)
            if budget.agree(bool(asked)):
                save(epoch)
                signal.signal(signal.SIGTERM, previous)
                return None
            if stop := budget.remaining() <= 0:
                break
        made = epoch + number / len(loader)
        mean = float(total) / number
        if not math.isfinite(mean):
            raise checks.TrainingFailed(
                f"the loss became {mean} at step {step}\n"
                "lower training.learning_rate (by ten), or look for extreme values in the images"
            )
        # Evaluations take their share of the time; clocks differ, so one process for which it is time takes all along.
        last = stop or epoch + 1 == wanted.epochs
        line: dict[str, Any] = {}
        if ranks.most(time.monotonic() - looked >= judge.seconds * (1 / SHARE - 1))[0] or last:
            ranks.share_buffers(model)
            dice, every = judge(model)
            looked = time.monotonic()
            if math.isfinite(dice) and (best is None or (dice, every) > (best["metric"], 1 - best["loss"])):
                waited, best = 0, {"metric": dice, "loss": 1 - every, "epoch": round(made, 2), "step": step}
                keep_best(model, best | {"weights": "best"})
            elif math.isfinite(dice):
                waited += 1
            line = {"metric": dice if math.isfinite(dice) else None, "metric_name": "dice"}
            last = last or 0 < wanted.patience <= waited
        if progress is not None:
            each = (time.monotonic() - start) / max(made - first, 1e-6)
            whole = min(wanted.epochs, made + max(0.0, budget.remaining()) / each)
            progress.write(
                step=step, epoch=round(made, 2), epochs=round(whole, 1), loss=mean, **line,
                eta_seconds=round(max(0.0, (whole - made) * each), 1),
                gpu_memory_mb=torch.cuda.max_memory_allocated() / 2**20 if device.type == "cuda" else None,
            )  # fmt: skip
            if line:
                shown = f"{line['metric']:.3f}" if line["metric"] is not None else "not defined"
                print(f"epoch {made:.0f}/{round(whole, 1):g} loss {mean:.4f} dice {shown}", flush=True)
        if budget.elapsed() - kept >= wanted.save_seconds:
            save(epoch + 1)
            kept = budget.elapsed()
        if last:
            break
    signal.signal(signal.SIGTERM, previous)
    if best is None:
        raise checks.TrainingFailed(
            "dice was never defined: no validation image has a structure, and none was predicted\n"
            "give the split val images that have structures"
        )

    # The last and the averaged weights are delivered where they are better than the best that were seen on the way.
    for name, weights in {"last": model, "averaged": averaged}.items():
        if judge.affords(2):
            dice, every = judge(weights)
            if math.isfinite(dice) and (dice, every) > (best["metric"], 1 - best["loss"]):
                best = {"metric": dice, "loss": 1 - every, "epoch": round(made, 2), "step": step}
                keep_best(weights, best | {"weights": name})
    ranks.wait()
    model.load_state_dict(safetensors.torch.load_file(BEST / "model.safetensors"))
    return round(made, 2)


def rate(share: float) -> float:
    """Of the learning rate: linear warm-up over a tenth, then a cosine to zero. `share` is of steps or of time,
    whichever is further along, so that a training that runs out of time ends annealed too."""
    return max(0.02, share / 0.1) if share < 0.1 else 0.5 * (1 + math.cos(math.pi * (min(share, 1) - 0.1) / 0.9)) + 1e-3


@torch.no_grad()
def average(averaged: torch.nn.Module, model: torch.nn.Module, step: int) -> None:
    """An exponential average whose span grows with the training."""
    share = max(0.001, 9 / (9 + step))
    for old, new in zip(averaged.state_dict().values(), model.state_dict().values(), strict=True):
        old.lerp_(new, share) if old.is_floating_point() else old.copy_(new)


def keep_best(model: torch.nn.Module, note: dict[str, Any]) -> None:
    """Weights and what is said of them, each replaced whole."""
    if ranks.first():
        BEST.mkdir(parents=True, exist_ok=True)
        save_weights(model, BEST / "model.part")
        (BEST / "model.part").replace(BEST / "model.safetensors")
        write_json(BEST / "best.json", note)


def tell_estimate(epoch_seconds: float, seconds: float, epochs: int, device: torch.device) -> None:
    """`seconds` are there for training."""
    fitting = min(seconds / epoch_seconds, epochs)
    several = f" on {ranks.count()} processes" if ranks.count() > 1 else ""
    ranks.say(f"about {epoch_seconds:.1f} s an epoch on {device.type}{several}; {fitting:.0f} epochs fit")
    if fitting < 1:
        ranks.say("not even one epoch fits into training.train_seconds; the result will be poor")


def open_checkpoints(config: Config) -> tuple[checkpoints.Attempt, Path | None]:
    """This attempt and the newest intact checkpoint of the same training; those of another one are set aside, aloud."""
    code = checkpoints.code_of(FOLDER)
    settled = config.model_dump(mode="json", exclude=UNMARKED)
    mark = checkpoints.fingerprint(settled, [Path(config.index), Path(config.label_map), *code])
    note = CHECKPOINTS / "run.json"
    known = note.read_text() if note.exists() else ""
    if '"fingerprint"' in known and mark not in known:
        print(
            "configuration, data or code have changed: this training begins anew, the checkpoints of the earlier one "
            f"are kept in {CHECKPOINTS / 'previous'}",
            flush=True,
        )
    return checkpoints.resume(CHECKPOINTS, mark, saved.fault)


if __name__ == "__main__":
    sys.exit(main())
