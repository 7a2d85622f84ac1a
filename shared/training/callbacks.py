"""Callbacks of a Transformers Trainer: progress lines, the time budget, the best weights, NaN losses.

The only module here that imports torch and transformers; templates import it, nothing else does.
"""

import json
import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from transformers import TrainerCallback

from shared.training import ranks
from shared.training.checkpoints import Attempt, note_seconds
from shared.training.checks import TrainingFailed
from shared.training.progress import ProgressFile, write_json


class TimeBudget:
    """Wall seconds from `begin` (time.monotonic) to the end of the training loop; `seconds` None is no bound.

    `spent` belongs to earlier attempts, `reserve` is kept for what comes after the loop. An attempt gets at least a
    tenth of `seconds`, so that a training that was killed late can still finish.
    """

    def __init__(self, seconds: float | None, begin: float, spent: float = 0.0, reserve: float = 0.0) -> None:
        self.begin = begin
        self.spent = spent
        self.agreed: float | None = None
        """What `elapsed` is in all of several processes, whose clocks differ; agreed on now and at each step."""
        self.agree()
        self.lead = self.elapsed()
        """What reading the data took, before the loop."""
        self.limit = math.inf if seconds is None else max(seconds - spent - reserve, 0.1 * seconds)

    def elapsed(self) -> float:
        """Of this attempt."""
        return time.monotonic() - self.begin if self.agreed is None else self.agreed

    def agree(self, asked: bool = False) -> bool:
        """Make the processes of a training see one time; -> whether any of them is `asked`."""
        if ranks.count() == 1:
            return asked
        self.agreed, found = ranks.most(time.monotonic() - self.begin, asked)
        return bool(found)

    def remaining(self) -> float:
        return self.limit - self.elapsed()

    def share(self) -> float:
        """Of the loop's time that is used up, over all attempts; 0 without a bound."""
        whole = self.spent + self.limit - self.lead
        return 0.0 if math.isinf(whole) else min(1.0, (self.spent + self.elapsed() - self.lead) / max(whole, 1e-6))

    def progressed(self, step: int, steps: int) -> float:
        """Of the training, 0 to 1: by steps or time, whichever is further along."""
        return max(min(1.0, step / max(1, steps)), self.share())


def batches_an_epoch(count: int, wanted: Any) -> int:
    """Batches of `count` samples that each process works through; `wanted` is the section `training`."""
    batches: int = math.ceil(math.ceil(count / wanted.batch_size) / ranks.count())
    return batches


def steps_an_epoch(count: int, wanted: Any) -> int:
    """Steps of the optimizer in an epoch of `count` samples."""
    steps: int = math.ceil(batches_an_epoch(count, wanted) / wanted.accumulate)
    return steps


def tell_estimate(epoch_seconds: float, seconds: float, wanted: Any, device: torch.device) -> None:
    """Say how many epochs fit into `seconds`."""
    fitting = min(seconds / epoch_seconds, wanted.epochs)
    several = f" on {ranks.count()} processes" if ranks.count() > 1 else ""
    ranks.say(f"about {epoch_seconds:.1f} s an epoch on {device.type}{several}; {fitting:.0f} epochs fit")
    if fitting < 1:
        ranks.say("not even one epoch fits into training.train_seconds; the result will be poor")


class OneModel(TrainerCallback):  # type: ignore[misc]
    """All processes evaluate what the first one saves."""

    def on_epoch_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        ranks.share_buffers(model)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        if control.should_evaluate:
            ranks.share_buffers(model)


class ProgressCallback(TrainerCallback):  # type: ignore[misc]
    """One flushed line for each training log and each evaluation, and one short line on stdout an epoch."""

    def __init__(self, file: ProgressFile | None, metric_name: str, budget: TimeBudget) -> None:
        """`file` is None in the processes that only compute."""
        self.file = file
        self.metric_name = metric_name
        self.budget = budget
        self.loss: float | None = None
        self.started: tuple[float, int] | None = None

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.started is None:
            self.started = (time.monotonic(), state.global_step)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if not logs or "loss" not in logs:
            return
        self.loss = logs["loss"]
        if not math.isfinite(self.loss):
            raise TrainingFailed(
                f"the loss became {self.loss} at step {state.global_step}\n"
                "lower training.learning_rate (by ten), or look for extreme values in the images"
            )
        if self.file is None:
            return
        self.file.write(
            step=state.global_step,
            epoch=round(state.epoch or 0, 2),
            epochs=self.epochs(state),
            loss=self.loss,
            eta_seconds=self.eta(state),
            gpu_memory_mb=torch.cuda.max_memory_allocated() / 2**20 if torch.cuda.is_available() else None,
        )

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **_: Any) -> None:
        if self.file is None:
            return
        value = metrics.get(f"eval_{self.metric_name}")
        self.file.write(
            step=state.global_step,
            epoch=round(state.epoch or 0, 2),
            epochs=self.epochs(state),
            loss=self.loss,
            metric=value,
            metric_name=self.metric_name,
            eta_seconds=self.eta(state),
        )
        shown = "not defined" if value is None or not math.isfinite(value) else f"{value:.3f}"
        loss = "-" if self.loss is None else f"{self.loss:.4f}"
        print(f"epoch {state.epoch or 0:.0f}/{self.epochs(state):g} loss {loss} {self.metric_name} {shown}", flush=True)

    def rate(self, state: Any) -> float | None:
        """Seconds a step, evaluations and saves included."""
        if self.started is None or state.global_step <= self.started[1]:
            return None
        return (time.monotonic() - self.started[0]) / int(state.global_step - self.started[1])

    def eta(self, state: Any) -> float | None:
        rate = self.rate(state)
        if rate is None:
            return None
        return round(max(0.0, min(rate * int(state.max_steps - state.global_step), self.budget.remaining())), 1)

    def epochs(self, state: Any) -> float:
        """Epochs that will have been made: as configured, or what fits into the time that is left."""
        rate = self.rate(state)
        if rate is None or math.isinf(self.budget.remaining()) or not state.max_steps:
            return float(state.num_train_epochs)
        steps: float = min(state.max_steps, state.global_step + max(0.0, self.budget.remaining()) / rate)
        return round(float(state.num_train_epochs) * steps / float(state.max_steps), 1)


class KeepBest(TrainerCallback):  # type: ignore[misc]
    """Weights of the best evaluation in `folder`, replaced whole. Equal metrics: the lower validation loss wins."""

    def __init__(self, folder: Path, metric_name: str, patience: int) -> None:
        self.folder = folder
        self.metric_name = metric_name
        self.patience = patience
        self.note = folder / "best.json"
        known = json.loads(self.note.read_text()) if self.note.exists() else {}
        self.best: tuple[float, float] | None = (known["metric"], -known["loss"]) if known else None
        self.epoch = float(known.get("epoch", 0.0))
        self.waited = 0

    @property
    def weights(self) -> Path:
        return self.folder / "model.safetensors"

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float], model: Any = None, **_: Any
    ) -> None:
        value, loss = metrics.get(f"eval_{self.metric_name}"), metrics.get("eval_loss", math.inf)
        if value is None or not math.isfinite(value) or not math.isfinite(loss):
            return
        if self.best is not None and (value, -loss) <= self.best:
            self.waited += 1
            if self.patience and self.waited >= self.patience:
                control.should_training_stop = True
            return
        self.waited, self.best, self.epoch = 0, (value, -loss), float(state.epoch or 0)
        if not ranks.first():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / "model.part"
        save_weights(getattr(model, "module", model), draft)
        draft.replace(self.weights)
        write_json(self.note, {"metric": value, "loss": loss, "epoch": state.epoch, "step": state.global_step})


class Stopwatch(TrainerCallback):  # type: ignore[misc]
    """Ends the training in time or when asked to, and saves after an epoch, at most once every `save_seconds`."""

    def __init__(self, budget: TimeBudget, save_seconds: float, folder: Path, attempt: Attempt) -> None:
        self.budget = budget
        self.save_seconds = save_seconds
        self.folder = folder
        self.attempt = attempt
        self.saved = budget.elapsed()
        self.asked_to_stop = False
        """Set by a signal handler: the next step saves and ends the loop."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGTERM asks to stop for as long as this lasts."""
        previous = signal.signal(signal.SIGTERM, lambda *_: setattr(self, "asked_to_stop", True))
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, previous)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.asked_to_stop = self.budget.agree(self.asked_to_stop)
        if self.asked_to_stop:
            control.should_save = True
            control.should_training_stop = True
            return
        if self.budget.remaining() <= 0:
            control.should_training_stop = True
            control.should_evaluate = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.budget.elapsed() - self.saved >= self.save_seconds:
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.saved = self.budget.elapsed()
        if ranks.first():
            note_seconds(self.folder, self.attempt, self.saved)


def save_weights(model: torch.nn.Module, path: Path) -> None:
    """On the CPU, contiguous, as safetensors."""
    safetensors.torch.save_file({k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}, path)
