"""Train a segmentation: `python train.py --config config.yaml`, or `python train.py --smoke` for a try-out.

Reads train_index.jsonl and label_map.json, images and masks below $M3_DATA. Leaves progress.jsonl, tiers.json,
metrics.json (validation only), checkpoints/ and package/ in the working directory. A second call with the same
configuration, data and code goes on from the newest intact checkpoint. Exit codes stand in README.md.
"""

import ctypes
import math
import os
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
import torch
from accelerate import Accelerator
from config import Config, load
from deliver import deliver
from evaluate import SHARE, Judge, on_own_grids, reserve, seconds_an_image
from patches import Turns
from predict import Predictor  # noqa: F401  # what the package opens: a fault in it shows before the training

from shared.training import checkpoints, checks, masks, program, ranks, saved
from shared.training.budget import Pace, TimeBudget, tell_estimate
from shared.training.configfile import UNMARKED, ConfigError
from shared.training.imports import needed
from shared.training.lastfit import last_fit, wanted_seconds
from shared.training.machine import device_name, gpu_memory_mb, mixed_precision, within_memory, workers
from shared.training.package import described
from shared.training.progress import tell_progress
from shared.training.tiers import climb

FOLDER = Path(__file__).resolve().parent
CHECKPOINTS = Path("checkpoints")
SAME_TRAINING = {**UNMARKED, "cache": True, "score_map": True, "prediction": True}
"""Of a configuration: what may differ while a training goes on."""
SMALLER = "preprocess.patch_size or patch_voxels, or model.width"
SMOKE = {"model": {"width": 8, "levels": 3}, "training": {"epochs": 2, "train_seconds": 60, "save_seconds": 0}}


def main() -> int:
    return program.main(__doc__, load, train, ("3d", "2d"), smoke)


def smoke(mode: str) -> dict[str, Any]:
    return SMOKE | {"preprocess": {"dimensions": int(mode[0])}}


def train(config: Config) -> int:
    """The whole way from cases to a package."""
    begin = time.monotonic()

    # Cases: all that is wrong with them, or with what will be packaged, is said now and nothing is left behind.
    needed(FOLDER / "predict.py")
    masks.check_rows(config)
    if (processes := ranks.wanted_processes(config.training.processes)) > 1:
        return ranks.launch(processes)
    device = ranks.join()
    files = [Path(config.index), Path(config.label_map), *checkpoints.code_of(FOLDER)]
    asked = checkpoints.fingerprint(config.model_dump(mode="json", exclude=SAME_TRAINING), files)
    config, sets, counts = cases.read_all(checkpoints.as_settled(CHECKPOINTS, asked, config))

    # Network and loss, and what an earlier attempt at the same training left.
    torch.manual_seed(config.training.seed)
    try:
        model = network_and_loss.build(config, len(sets["train"].label_names)).to(device)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    mark = checkpoints.fingerprint(config.model_dump(mode="json", exclude=SAME_TRAINING), files)
    attempt, newest = ranks.by_first(lambda: checkpoints.resume(CHECKPOINTS, mark))
    if ranks.first():
        checkpoints.note_settled(CHECKPOINTS, asked, config, {"preprocess", "model"})
    how = config.preprocess
    ranks.say(
        f"{len(sets['train'])} train and {len(sets['val'])} val images, {len(counts['train'])} structures, "
        f"patch {tuple(how.patch_size)}, spacing {how.spacing} mm, {described(model)}"
    )

    if hasattr(libc := ctypes.CDLL(None), "mallopt"):
        # Memory of large tensors is kept: the system, given it back, empties it anew, a third of a step on a CPU.
        libc.mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD
        libc.mallopt(-3, 2**30)  # M_MMAP_THRESHOLD

    with within_memory(lambda: f"a batch of {config.training.batch_size} patches", SMALLER):
        # Time: what is needed after the loop is kept back, then the tiers show that a training is worth it.
        seconds = config.training.train_seconds
        (image_seconds,) = ranks.most(seconds_an_image(model, sets["val"], config, device.type))
        kept = wanted_seconds(config.training)
        budget = TimeBudget(seconds, begin, attempt.seconds, reserve(seconds, image_seconds * len(sets["val"])), kept)
        data, left = sets["train"], budget.remaining()
        samples = torch.utils.data.Subset(data, Turns(data, config.training.seed).whole())
        climbed = ranks.by_first(lambda: climb(model, samples, config.training, device, smaller=SMALLER, seconds=left))
        config = config.model_copy(update={"training": climbed.wanted})  # with the batch that memory holds
        budget.agree()
        until = math.inf if seconds is None else begin + seconds - kept
        left = budget.remaining()
        judge = Judge(sets["val"], data, config, device.type, image_seconds, left, until, CHECKPOINTS / "best")

        # The loop, the weights that are delivered, and how good they are.
        with budget.listening():
            epochs = loop(config, model, data, judge, budget, climbed.batch_seconds, attempt, newest, device)
        if epochs is None:
            return program.stopped()
        config = judge.settled(model)
        scores = on_own_grids(model, sets["val"], config, device.type, until)

        spent = time.monotonic() - begin + attempt.seconds

        # The weights that are delivered have learned from the validation images, too.
        both = cases.build(config, "train", "val")
        turns = Turns(both, config.training.seed, ranks.number(), ranks.count())
        with budget.listening():
            fitted = last_fit(model, both, config.training, device, budget, epochs, rate, turns)
        if budget.asked:
            return program.stopped()
    if ranks.first():
        best = judge.best.said
        run = {"epochs": epochs, "seconds": spent, "device": device_name(device)}
        more = {"best_epoch": best["epoch"], "weights": best["weights"], "attempts": attempt.number}
        more["pieces_tried"] = dict(zip(("mm3", "probability"), judge.bounds, strict=True))
        deliver(config, model, sets, counts, scores, run, more, fitted)
    return 0


def loop(
    config: Config, model: Any, data: Any, judge: Judge, budget: TimeBudget, batch_seconds: float,
    attempt: checkpoints.Attempt, newest: Path | None, device: torch.device,
) -> float | None:  # fmt: skip
    """Train `model`, which has the chosen weights in the end. -> epochs made; None where SIGTERM asked to stop and a
    checkpoint is saved. Raises TrainingFailed."""
    wanted = config.training
    mixed = {torch.float16: "fp16", torch.bfloat16: "bf16"}.get(mixed_precision(wanted, device), "no")
    accelerator = Accelerator(cpu=device.type == "cpu", mixed_precision=mixed)
    sampler = Turns(data, wanted.seed, ranks.number(), ranks.count())
    loader = torch.utils.data.DataLoader(
        data, wanted.batch_size, sampler=sampler, num_workers=workers(wanted), persistent_workers=workers(wanted) > 0,
        pin_memory=device.type == "cuda",
    )  # fmt: skip
    steps = math.ceil(len(loader) / wanted.accumulate)
    tell_estimate(len(loader) * batch_seconds, budget.remaining() * (1 - SHARE), wanted, device)

    # Norms and biases are not decayed. Beside the weights their running average over about the last tenth of the steps.
    kernels = [weight for weight in model.parameters() if weight.ndim >= 2]
    vectors = [weight for weight in model.parameters() if weight.ndim < 2]
    groups = [{"params": kernels, "weight_decay": wanted.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=wanted.learning_rate, fused=True)
    averaged = saved.averaged(model)
    step = first = 0
    torch.manual_seed(wanted.seed + ranks.number())  # each process draws patches of its own
    if newest is not None:
        state = saved.load(newest)
        model.load_state_dict(state["model"])
        averaged.load_state_dict(state["averaged"])
        optimizer.load_state_dict(state["optimizer"])
        step, first, judge.best.waited = state["step"], state["epoch"], state["waited"]
        if ranks.first():
            torch.set_rng_state(state["random"])
        judge.again(model)
    network, optimizer = accelerator.prepare(model, optimizer)  # `network`: `model` as all processes train it
    pace = Pace(budget, wanted.most_epochs, first)
    saved_at, evaluated_at, made = budget.elapsed(), -math.inf, float(first)

    def save(epoch: int) -> None:
        if ranks.first():
            parts = {"model": model, "averaged": averaged, "optimizer": optimizer}
            state: dict[str, Any] = {name: part.state_dict() for name, part in parts.items()}
            state |= {"epoch": epoch, "waited": judge.best.waited, "random": torch.get_rng_state()}
            saved.save(CHECKPOINTS, step, state)
            checkpoints.note_seconds(CHECKPOINTS, attempt, budget.elapsed())

    for epoch in range(first, wanted.most_epochs):
        sampler.epoch = epoch
        network.train()
        total, stop = torch.zeros((), device=device), False
        for number, batch in enumerate(loader, 1):
            for group in optimizer.param_groups:
                group["lr"] = wanted.learning_rate * rate(budget.progressed(step, steps * wanted.most_epochs))
            with accelerator.autocast():
                loss = network(**{key: value.to(device, non_blocking=True) for key, value in batch.items()})["loss"]
            accelerator.backward(loss / wanted.accumulate)
            total += loss.detach()
            if number % wanted.accumulate and number < len(loader):
                continue
            accelerator.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if step % saved.AVERAGED_EVERY == 0:
                averaged.update_parameters(model)
            step += 1
            if budget.agree():
                save(epoch)
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
        last = stop or epoch + 1 == wanted.most_epochs
        line: dict[str, Any] = {}
        if ranks.most(time.monotonic() - evaluated_at >= judge.seconds * (1 / SHARE - 1))[0] or last:
            line = {"metric": judge.consider(model, "best", made, step), "metric_name": "dice"}
            evaluated_at = time.monotonic()
            last = last or 0 < wanted.patience <= judge.best.waited
        if ranks.first():
            paced = pace(made)
            tell_progress(step=step, loss=mean, **paced, **line, gpu_memory_mb=gpu_memory_mb())
            if line:
                dice = "not defined" if line["metric"] is None else f"{line['metric']:.3f}"
                print(f"epoch {made:.0f}/{paced['epochs']:g} loss {mean:.4f} dice {dice}", flush=True)
        if last or budget.elapsed() - saved_at >= wanted.save_seconds:  # it may be gone on with in more time
            save(epoch + 1)
            saved_at = budget.elapsed()
        if last:
            break

    accelerator.unwrap_model(network, keep_fp32_wrapper=False)  # judged from here on as the package computes
    # The last and the averaged weights are delivered where they are better than the best that were seen on the way.
    for name, weights in {"last": model, "averaged": averaged.module}.items():
        if judge.affords(2):
            judge.consider(weights, name, made, step)
    model.load_state_dict(judge.chosen())
    return round(made, 2)


def rate(share: float) -> float:
    """Factor of the learning rate when `share` of the training is done: warm-up over a tenth, then a cosine."""
    return max(0.02, share / 0.1) if share < 0.1 else 0.5 * (1 + math.cos(math.pi * (share - 0.1) / 0.9)) + 1e-3


if __name__ == "__main__":
    sys.exit(main())
