"""The tiers that a training climbs before it begins: one case, one batch, a small part with an estimate. Model and
random state are left as they were, so that a training comes out the same whatever the tiers had time for."""

import copy
import math
import resource
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from shared.training import ranks
from shared.training.checks import TrainingFailed
from shared.training.machine import OUT_OF_MEMORY, lacks_memory, workers
from shared.training.progress import write_json
from shared.training.trial import Batch, Prepare, Steps, batch_of, same_draws, spread

EVIDENCE = Path("tiers.json")
BATCH_SHARE, BATCH_MOST = 0.04, 60.0
"""Of the time, and seconds at most, by which one batch is given up."""
SHARE, MOST = 0.1, 300.0
"""The same for all tiers together."""
STEPS = 60
"""On one batch. It is learned when its loss is halved; a loss that falls by less than a tenth is not."""
HALVED, FALLEN = 0.5, 0.9
USUAL_RATE = 1e-3
"""At which a batch that is not learned is tried once more: is it the rate, or something else?"""
PART, ROUNDS = 0.05, 2
WORTH = 1.1
"""Times slower that a step may be with half of the threads: what is left over serves others."""


@dataclass(frozen=True)
class Climbed:
    wanted: Any
    """The section `training`; where memory did not hold a batch, `batch_size` halved and `accumulate` doubled."""
    batch_seconds: float
    """Of one batch, loading and augmentation included."""


def climb(
    model: torch.nn.Module,
    data: Any,
    wanted: Any,
    device: torch.device,
    *,
    smaller: str,
    seconds: float,
    prepare: Prepare = dict,
) -> Climbed:
    """`data[n]` is a training sample, `prepare(batch)` what the network gets of a batch on its device (augmentation);
    the model returns {"loss": ...} for it. `wanted` is the section `training`, `smaller` what to make smaller where the
    memory does not hold one sample, `seconds` what is left (inf without a bound). tiers.json gets what they saw.
    Of several processes that train together the first climbs for all (`ranks.by_first`): they need one batch size.
    Raises TrainingFailed, in two lines: cause and direction.
    """
    tiers = Tiers(model, data, wanted, device, seconds, prepare)
    while True:
        try:
            with same_draws(device):
                tiers.one_case()
                tiers.settle_threads()
                tiers.one_batch()
                return Climbed(tiers.wanted, tiers.part())
        except OUT_OF_MEMORY as error:
            if not lacks_memory(error):
                raise
        size = tiers.wanted.batch_size
        if size == 1:
            raise TrainingFailed(f"out of memory: it does not hold a batch of one\nmake smaller: {smaller}")
        torch.cuda.empty_cache()
        changes = {"batch_size": size // 2, "accumulate": 2 * tiers.wanted.accumulate}
        tiers.wanted = tiers.wanted.model_copy(update=changes)
        ranks.say(f"the memory does not hold a batch of {size}; {size // 2} are taken, twice as often a step")


class Tiers:
    """What is trained are copies of the model, which itself stays as it is."""

    def __init__(
        self, model: torch.nn.Module, data: Any, wanted: Any, device: torch.device, seconds: float, prepare: Prepare
    ) -> None:
        self.untouched, self.data, self.wanted, self.device = model, data, wanted, device
        self.seconds, self.prepare, self.begin = seconds, prepare, time.monotonic()
        self.told: dict[str, dict[str, Any]] = {}
        """The newest word on each tier."""

    @contextmanager
    def tier(self, name: str) -> Iterator[dict[str, Any]]:
        """Gives the dict that takes the tier's `text` and figures; it is written and said at the end."""
        begin, told = time.monotonic(), {"tier": name, "passed": False, "seconds": 0.0, "text": ""}
        try:
            yield told
            told["passed"] = True
        except BaseException as error:
            told["text"] = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
            raise
        finally:
            told["seconds"] = round(time.monotonic() - begin, 2)
            self.told[name] = told
            write_json(EVIDENCE, {"tiers": list(self.told.values())})
            ranks.say(f"tier {name} {'passed' if told['passed'] else 'FAILED'} in {told['seconds']} s: {told['text']}")

    def steps(self, rate: float) -> Steps:
        """Of a new copy."""
        return Steps(copy.deepcopy(self.untouched), self.wanted, self.device, rate, self.prepare)

    def one_case(self) -> None:
        """Forward and backward of one sample."""
        with self.tier("one_case") as found:
            on_gpu = self.device.type == "cuda"
            if on_gpu:
                torch.cuda.reset_peak_memory_stats(self.device)
            steps = self.steps(0.0)
            # One sample may by chance ask for no change; three do not.
            for batch in torch.utils.data.DataLoader(spread(self.data, 3)):
                loss, norm = self.gradient(steps, batch)
                if not math.isfinite(loss) or norm:
                    break
            if not math.isfinite(loss):
                raise TrainingFailed(
                    f"the loss of one sample is {loss} before anything was trained\n"
                    "look for NaN or extreme values in the images, and for a loss that divides by zero"
                )
            if not math.isfinite(norm):
                raise TrainingFailed(
                    "the gradients of one sample are not finite before anything was trained\n"
                    "look for a root, logarithm or division at zero in the model or the loss"
                )
            if not norm:
                raise TrainingFailed(
                    "no gradient reaches the weights\n"
                    "let the loss depend on the model's output: look for detach, argmax, rounding or frozen weights"
                )
            used = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            peak = round((torch.cuda.max_memory_allocated(self.device) if on_gpu else used) / 2**20)
            found |= {"loss": loss, "gradient": norm, "peak_memory_mb": peak}
            found["text"] = f"loss {loss:.4g}, gradient {norm:.3g}, peak memory {peak} MB"

    def gradient(self, steps: Steps, batch: Batch) -> tuple[float, float]:
        """Loss and norm of the gradients."""
        steps.model.zero_grad(set_to_none=True)
        try:
            loss = steps.loss(batch)
        except ValueError as error:
            if "more than 1 value per channel" not in str(error):
                raise
            size, count = self.wanted.batch_size, len(self.data)
            if size == 1 or (count % size == 1 and ranks.count() == 1):
                raise TrainingFailed(
                    f"batch norm cannot take a batch of one sample, and {count} samples in batches of {size} "
                    "leave one\nchange training.batch_size by one (2 at least), or take a norm without batches"
                ) from None
            loss = steps.loss({key: torch.cat([value, value]) for key, value in batch.items()})
        loss.backward()
        norms = [weight.grad.float().norm() for weight in steps.model.parameters() if weight.grad is not None]
        return float(loss.detach()), float(torch.stack(norms).norm()) if norms else 0.0

    def one_batch(self) -> None:
        """Can the model learn one batch by heart? Ends as soon as its loss is halved."""
        with self.tier("one_batch") as found:
            size, rate = self.wanted.batch_size, float(self.wanted.learning_rate)
            batch = batch_of(self.data, size)
            losses = self.learn(batch, rate)
            found |= {"batch_size": size, "losses": [round(loss, 5) for loss in losses]}
            if not all(map(math.isfinite, losses)):
                raise TrainingFailed(
                    f"the loss became {losses[-1]} at step {len(losses)} on one batch\n"
                    f"lower training.learning_rate (it is {rate:g}), or look for extreme values in the images"
                )
            found["text"] = self.judged(batch, losses)

    def judged(self, batch: Batch, losses: Sequence[float]) -> str:
        """What the losses of one batch say. Raises TrainingFailed where it is not learned."""
        if not losses or losses[0] <= 0:
            return "not judged: the loss is not above zero" if losses else "not reached in the time"
        size, rate = self.wanted.batch_size, float(self.wanted.learning_rate)
        fallen = f"the loss of a batch of {size} went from {losses[0]:.4g} to {losses[-1]:.4g} in {len(losses)} steps"
        if learned(losses) or len(losses) < STEPS:
            return fallen if learned(losses) else f"not reached in the time: {fallen}"
        if self.known(batch):
            return f"{fallen}; the weights that it begins with know it by heart"
        if 1 / 3 < rate / USUAL_RATE < 3 or not learned(self.learn(batch, USUAL_RATE)):
            raise TrainingFailed(
                f"one batch is not learned: {fallen}\n"
                "look whether labels belong to their images, whether the loss sees the output, and how fast the rate is"
            )
        if rate < USUAL_RATE:
            return f"{fallen}; at a rate of {USUAL_RATE:g} it falls, {rate:g} is slow"
        raise TrainingFailed(
            f"one batch is learned at a rate of {USUAL_RATE:g}, at {rate:g} it is not: {fallen}\n"
            f"lower training.learning_rate towards {USUAL_RATE:g}"
        )

    def learn(self, batch: Batch, rate: float) -> list[float]:
        until = time.monotonic() + min(BATCH_SHARE * self.seconds, BATCH_MOST)
        steps = self.steps(rate)
        while len(steps.losses) < STEPS and time.monotonic() < until:
            loss = steps.step(batch)
            if not math.isfinite(loss) or loss <= HALVED * steps.losses[0]:
                break
        return steps.losses

    def known(self, batch: Batch) -> bool:
        """Whether the loss is half of what it is with the targets of other samples: it has no way left to fall."""
        steps = self.steps(0.0)
        other = {key: value if key == "image" else value.flip(0) for key, value in batch.items()}
        with torch.no_grad():
            return float(steps.loss(batch)) <= HALVED * float(steps.loss(other))

    def settle_threads(self) -> None:
        """Compute with as many threads as make a step fastest: on few cores or a busy machine that is often one. Half
        as many are tried as long as they lose no more than WORTH; the first two numbers get two steps each whatever the
        time, as a wrong one costs more than all tiers."""
        most, until = torch.get_num_threads(), self.begin + min(SHARE * self.seconds, MOST) / 2
        if self.device.type != "cpu" or most == 1:
            return
        batch = batch_of(self.data, self.wanted.batch_size)
        steps = self.steps(self.wanted.learning_rate)
        seconds: dict[int, float] = {}
        threads = best = most
        while threads and (len(seconds) < 2 or time.monotonic() < until):
            torch.set_num_threads(threads)
            times: list[float] = []
            while len(times) < 2 or (len(times) < 4 and time.monotonic() < until):
                begin = time.monotonic()
                steps.step(batch)
                times.append(time.monotonic() - begin)
            # The first has threads to start.
            seconds[threads] = statistics.median(times[1:])
            if seconds[threads] > WORTH * min(seconds.values()):
                break
            best, threads = threads, threads // 2
        torch.set_num_threads(best)
        told = ", ".join(f"{found:.3g} s with {threads}" for threads, found in seconds.items())
        ranks.say(f"{best} of {most} threads are taken: a step takes {told}")

    def part(self) -> float:
        """A few samples for two rounds, loaded and trained on as all will be. -> seconds a batch."""
        with self.tier("part") as found:
            size, until = self.wanted.batch_size, self.begin + min(SHARE * self.seconds, MOST)
            loading = workers(self.wanted)
            once = spread(self.data, max(2, math.ceil(PART * len(self.data) / size)) * size)
            chosen = torch.utils.data.ConcatDataset([once] * ROUNDS)
            loader = torch.utils.data.DataLoader(chosen, size, num_workers=loading)
            steps = self.steps(self.wanted.learning_rate)
            times: list[float] = []
            begin = time.monotonic()
            for batch in loader:
                loss = steps.step(batch)
                if not math.isfinite(loss):
                    raise TrainingFailed(
                        f"the loss became {loss} at batch {len(steps.losses)} of a small part\n"
                        f"lower training.learning_rate (it is {steps.rate:g}), or look for extreme values in the images"
                    )
                times.append(time.monotonic() - begin - sum(times))
                enough = len(times) > 2 or sum(times) > SHARE / 2 * self.seconds
                if enough and time.monotonic() > until:
                    break
            # The first waits for what is loaded once; processes load ahead, and their batches come in bursts.
            batch_seconds: float = statistics.mean(times) if loading else statistics.median(times[1:] or times)
            made, wanted, losses = len(times), len(chosen) // size, steps.losses
            epoch = math.ceil(len(self.data) / size / ranks.count()) * batch_seconds
            found |= {"batches": made, "batch_size": size, "first_loss": losses[0], "last_loss": losses[-1]}
            found |= {"threads": torch.get_num_threads(), "batch_seconds": round(batch_seconds, 4)}
            found["epoch_seconds"] = round(epoch, 2)
            found["text"] = (
                f"{made} of {wanted} batches{'' if made == wanted else ' in the time'}, "
                f"loss {losses[0]:.4g} to {losses[-1]:.4g}; {batch_seconds:.3g} s a batch of {size}, "
                f"about {epoch:.3g} s an epoch"
            )
        return batch_seconds


def learned(losses: Sequence[float]) -> bool:
    """Halved at some step, or fallen by a tenth over five: a single one may be low by chance."""
    if not losses or not all(map(math.isfinite, losses)):
        return False
    means = [statistics.mean(losses[place : place + 5]) for place in range(max(1, len(losses) - 4))]
    return min(losses) <= HALVED * losses[0] or min(means) < FALLEN * losses[0]
