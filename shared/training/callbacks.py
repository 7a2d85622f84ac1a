"""A Transformers Trainer within a budget: its arguments, averaged weights that checkpoints hold, and a callback for
progress, time, the best weights and NaN losses. The only module here that imports transformers."""

import math
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch.optim.swa_utils import AveragedModel
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from shared.training import ranks
from shared.training.budget import Pace, TimeBudget
from shared.training.checkpoints import Attempt, note_seconds
from shared.training.checks import TrainingFailed
from shared.training.machine import gpu_memory_mb, mixed_precision, workers
from shared.training.progress import tell_progress
from shared.training.saved import AVERAGED_EVERY, Best

AVERAGED = "averaged.pt"


def arguments(wanted: Any, device: torch.device, folder: Path) -> TrainingArguments:
    """By the section `training`. The watch asks for evaluations, and for checkpoints, which go to `folder`."""
    precision = mixed_precision(wanted, device)
    made = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=wanted.most_epochs,
        per_device_train_batch_size=wanted.batch_size,
        per_device_eval_batch_size=wanted.batch_size,
        gradient_accumulation_steps=wanted.accumulate,
        max_grad_norm=1.0,
        logging_strategy="epoch",
        logging_nan_inf_filter=False,  # it would hide a NaN loss
        save_strategy="no",
        save_total_limit=2,
        seed=wanted.seed,
        use_cpu=device.type == "cpu",
        bf16=precision == torch.bfloat16,
        fp16=precision == torch.float16,
        dataloader_num_workers=workers(wanted),
        dataloader_pin_memory=device.type == "cuda",
        remove_unused_columns=False,
        label_names=["labels"],
        disable_tqdm=True,
    )
    # Several GPUs are for several processes: the Trainer would else cut each batch into pieces.
    made._n_gpu = min(made.n_gpu, 1)
    return made


class AveragingTrainer(Trainer):  # type: ignore[misc]
    """Trains on `augmented(batch)`, made on the device, and updates `average` on the way. Checkpoints hold the
    average, too, and a training that is resumed goes on with it. `sampler` None draws each sample once an epoch."""

    def __init__(self, *, augmented: Any, average: AveragedModel, sampler: Any = None, **fields: Any) -> None:
        super().__init__(**fields)
        self.augmented, self.average, self.sampler = augmented, average, sampler
        self.optimizer.register_step_post_hook(self.stepped)
        self.remove_callback(PrinterCallback)

    def stepped(self, *_: Any) -> None:
        if self.state.global_step % AVERAGED_EVERY == 0:
            self.average.update_parameters(self.model)

    def _get_train_sampler(self, *more: Any) -> Any:
        return self.sampler or super()._get_train_sampler(*more)

    def compute_loss(self, model: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        return super().compute_loss(model, self.augmented(inputs) if model.training else inputs, *more, **named)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """The Trainer writes what makes a checkpoint whole after this: none is whole without its average."""
        super().save_model(output_dir, _internal_call)
        if ranks.first():
            torch.save(self.average.state_dict(), Path(output_dir or self.args.output_dir) / AVERAGED)

    def evaluate(self, *more: Any, **named: Any) -> Any:
        ranks.share_buffers(self.model)  # all processes evaluate what the first one saves
        return super().evaluate(*more, **named)

    def train(self, resume_from_checkpoint: str | None = None, **more: Any) -> Any:
        if resume_from_checkpoint and (kept := Path(resume_from_checkpoint) / AVERAGED).exists():
            self.average.load_state_dict(torch.load(kept, map_location="cpu", weights_only=True))
        return super().train(resume_from_checkpoint, **more)

    def to_the_end(self, watch: "Watch", checkpoint: Path | None) -> float | None:
        """Train, measure the averaged weights as one more candidate for the watch, and take the best ones. -> epochs;
        None where SIGTERM asked to stop, and a checkpoint is saved. Raises TrainingFailed where there are no best."""
        with watch.budget.listening():
            self.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        if self.average.n_averaged and not watch.budget.asked:
            watch.ended = True
            self.model.load_state_dict(self.average.module.state_dict())
            self.evaluate()
        ranks.wait()
        if watch.budget.asked:
            return None
        if not watch.best.weights.exists():
            raise TrainingFailed(
                f"there was no evaluation in which {watch.wanted.metric} and the loss are numbers\n"
                "give the split val cases that differ, raise training.train_seconds, or lower training.learning_rate"
            )
        self.model.load_state_dict(safetensors.torch.load_file(watch.best.weights))
        return float(self.state.epoch or 0)


class Watch(TrainerCallback):  # type: ignore[misc]
    """Evaluates after every so many epochs and keeps the best weights; ends the training in time, when asked to, or
    after `patience` evaluations without better ones; saves after an epoch, at most once every `save_seconds`; writes a
    line of progress.jsonl for each training log and each evaluation, and a short one on stdout."""

    def __init__(
        self, wanted: Any, budget: TimeBudget, folder: Path, attempt: Attempt, patients: float = math.inf,
        every: int = 1,
    ) -> None:  # fmt: skip
        """`wanted` is the section `training`; `folder` has the checkpoints and the best weights. With so many
        `patients` to measure on, the best of many evaluations is ahead by chance: by up to two standard errors it is
        not preferred to the end."""
        self.wanted, self.budget, self.folder, self.attempt = wanted, budget, folder, attempt
        self.best = Best(folder / "best")
        self.patients, self.every, self.saved = patients, every, budget.elapsed()
        self.loss: float | None = None
        self.ended = False
        """What is evaluated are the averaged weights after the loop, of which no progress is told."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.pace = Pace(self.budget, args.num_train_epochs, state.epoch or 0.0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self.budget.agree():
            control.should_save = control.should_training_stop = True
        elif self.budget.remaining() <= 0:
            # Saved, for it may be gone on with in more time.
            control.should_evaluate = control.should_save = control.should_training_stop = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step >= state.max_steps or round(state.epoch) % self.every == 0:
            control.should_evaluate = True
        if self.budget.elapsed() - self.saved >= self.wanted.save_seconds:
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.saved = self.budget.elapsed()
        if ranks.first():
            note_seconds(self.folder, self.attempt, self.saved)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if not logs or "loss" not in logs:
            return
        self.loss = logs["loss"]
        if not math.isfinite(self.loss):
            raise TrainingFailed(
                f"the loss became {self.loss} at step {state.global_step}\n"
                "lower training.learning_rate (by ten), or look for extreme values in the images"
            )
        self.tell(state, gpu_memory_mb=gpu_memory_mb())

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: dict[str, float], model: Any = None, **_: Any
    ) -> None:
        name = self.wanted.metric
        value, loss = metrics.get(f"eval_{name}"), metrics.get("eval_loss", math.inf)
        if not self.ended:
            paced = self.tell(state, metric=value, metric_name=name)
            shown = "not defined" if value is None or not math.isfinite(value) else f"{value:.3f}"
            before = "-" if self.loss is None else f"{self.loss:.4f}"
            ranks.say(f"epoch {paced['epoch']:.0f}/{paced['epochs']:g} loss {before} {name} {shown}")
        error = math.sqrt(max(0.0, value * (1 - value)) / self.patients) if value else 0.0
        lead = 2 * error + 1e-9 if self.ended and value else 0.0  # of equals the average
        seen = getattr(model, "module", model)
        merit = metrics.get("eval_merit", value)
        self.best.consider(seen, merit, loss, lead, epoch=round(state.epoch or 0.0, 2), step=state.global_step)
        if 0 < self.wanted.patience <= self.best.waited:
            control.should_save = control.should_training_stop = True

    def tell(self, state: Any, **more: Any) -> dict[str, float]:
        """-> what is said of the pace."""
        paced = self.pace(state.epoch or 0.0)
        if ranks.first():
            tell_progress(step=state.global_step, loss=self.loss, **paced, **more)
        return paced
