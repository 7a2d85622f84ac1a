"""nnU-Net's trainer within a time budget: a schedule that knows time, whole checkpoints, resumed where they stop.

Network, loss, augmentation and batches are nnU-Net's own. nnU-Net saves every 50 epochs and in place, starts over
without a word when it finds no checkpoint, and its schedule knows no time; these parts are ours.
"""

import json
import math
import random
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from config import Nnunet
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from shared.training import checkpoints, saved
from shared.training.budget import Pace, TimeBudget
from shared.training.checks import TrainingFailed
from shared.training.machine import gpu_memory_mb
from shared.training.progress import tell_progress

EPOCHS, ITERATIONS = 1000, 250
"""At most, of a training and of an epoch: nnU-Net's own."""
EPOCH_SHARE = 0.05
"""Of the time, after which an epoch ends that is bounded by nothing else."""


class BudgetTrainer(nnUNetTrainer):  # type: ignore[misc]
    def take(self, how: Nnunet, seed: int, mirror: bool, folder: Path, attempt: checkpoints.Attempt) -> None:
        """Before `initialize`; nnU-Net's constructor has a fixed signature. `mirror`: training patches; `folder` has
        the checkpoints."""
        self.how, self.seed, self.mirror, self.folder, self.attempt = how, seed, mirror, folder, attempt
        self.initial_lr = how.learning_rate
        self.num_epochs = EPOCHS if how.epochs == "auto" else how.epochs
        self.num_iterations_per_epoch = ITERATIONS if how.iterations == "auto" else how.iterations
        self.iteration = 0
        self.logger.plot_progress_png = lambda folder: None  # seconds an epoch, and nobody looks
        self.augment: Any = None
        """The transforms of training patches, once batches are drawn."""

    def run_training(self, budget: TimeBudget) -> None:
        """To the end of the epochs or of the time. SIGTERM ends the process with 143, after a checkpoint."""
        self.budget = budget
        seed = (1_000_003 * self.seed + self.iteration) % 2**32
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        self.on_train_start()
        self.saved, self.pace = time.monotonic(), Pace(budget, self.num_epochs, self.current_epoch)
        with budget.listening():  # only now: processes that draw batches end as they always do
            done = False
            while not done:
                self.run_epoch()
                done = self.current_epoch >= self.num_epochs or budget.remaining() <= 0
                if done or time.monotonic() - self.saved >= self.how.save_seconds:
                    self.save(done)
        self.on_train_end()

    def run_epoch(self) -> None:
        self.on_epoch_start()
        self.on_train_epoch_start()
        most, outputs = self.num_iterations_per_epoch, []
        longest = EPOCH_SHARE * self.budget.limit if self.how.iterations == "auto" else math.inf
        end = time.monotonic() + longest
        while len(outputs) < most and (not outputs or (time.monotonic() < end and self.budget.remaining() > 0)):
            # Steps or time, whichever is further along: on a slower machine the rate still falls to zero.
            done = self.budget.progressed(self.current_epoch * most + len(outputs), self.num_epochs * most)
            self.lr_scheduler.step(min(done, 0.999) * self.num_epochs)
            outputs.append(self.train_step(next(self.dataloader_train)))
            self.iteration += 1
            loss = float(outputs[-1]["loss"])
            if not math.isfinite(loss):
                raise TrainingFailed(
                    f"the loss became {loss} at iteration {self.iteration}\n"
                    "lower nnunet.learning_rate (by ten), or look for extreme values in the images"
                )
            if self.budget.asked:
                self.save(done=False)
                raise SystemExit(143)
        self.on_train_epoch_end(outputs)
        with torch.no_grad():
            self.on_validation_epoch_start()
            found = [self.validation_step(next(self.dataloader_val)) for _ in range(max(1, len(outputs) // 5))]
            # A structure that is in no patch has no Dice; nnU-Net divides by zero there.
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore", RuntimeWarning)
                self.on_validation_epoch_end(found)
        self.on_epoch_end()

    def on_epoch_end(self) -> None:
        super().on_epoch_end()
        log = self.logger.get_value
        loss, metric = float(log("train_losses", -1)), float(log("mean_fg_dice", -1))
        paced = self.pace(self.current_epoch)
        tell_progress(
            step=self.iteration, **paced, loss=loss, metric=metric if math.isfinite(metric) else None,
            metric_name="dice", gpu_memory_mb=gpu_memory_mb(), text="dice of patches",
        )  # fmt: skip
        shown = f"{metric:.3f}" if math.isfinite(metric) else "not defined"
        print(f"epoch {self.current_epoch}/{paced['epochs']:g} loss {loss:.4f} dice of patches {shown}", flush=True)

    def configure_rotation_dummyDA_mirroring_and_inital_patch_size(self) -> Any:
        rotation, dummy, size, axes = super().configure_rotation_dummyDA_mirroring_and_inital_patch_size()
        if not self.mirror:
            axes, self.inference_allowed_mirroring_axes = (), None
        return rotation, dummy, size, axes

    def get_training_transforms(self, *words: Any, **more: Any) -> Any:
        """Kept, so that the model card can name them."""
        self.augment = nnUNetTrainer.get_training_transforms(*words, **more)
        return self.augment

    def told(self) -> str:
        """The network in a line."""
        stages = "-".join(map(str, self.configuration_manager.network_arch_init_kwargs["features_per_stage"]))
        return f"nnU-Net v2 {self.configuration_name}, {type(self.network).__name__}, features {stages}"

    def print_to_log_file(self, *texts: Any, also_print_to_console: bool = True, add_timestamp: bool = True) -> None:
        super().print_to_log_file(*texts, also_print_to_console=False, add_timestamp=add_timestamp)

    def save_checkpoint(self, filename: str) -> None:
        """nnU-Net's own moments and files; `save` has ours."""

    def plot_network_architecture(self) -> None: ...
    def _save_debug_information(self) -> None: ...

    def weights(self) -> dict[str, torch.Tensor]:
        """On the CPU, contiguous."""
        return {name: value.detach().cpu().contiguous() for name, value in self.network.state_dict().items()}

    def save(self, done: bool) -> None:
        """The folder `checkpoint-<iteration>`, whole or not at all."""
        log = {key: list(value)[: self.current_epoch] for key, value in self.logger.get_checkpoint().items()}
        state = {
            "network": self.weights(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": None if self.grad_scaler is None else self.grad_scaler.state_dict(),
            "log": json.loads(json.dumps(log, default=float)),  # without NumPy, which is not loaded back
            "epoch": self.current_epoch,
            "done": done,
        }
        saved.save(self.folder, self.iteration, state)
        self.saved = time.monotonic()
        checkpoints.note_seconds(self.folder, self.attempt, self.budget.elapsed())

    def load(self, path: Path) -> bool:
        """Go on from a checkpoint. -> whether its training was done."""
        state = saved.load(path)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.grad_scaler is not None and state["scaler"] is not None:
            self.grad_scaler.load_state_dict(state["scaler"])
        self.logger.load_checkpoint(state["log"])
        self.current_epoch, self.iteration = state["epoch"], state["step"]
        return bool(state["done"]) or self.current_epoch >= self.num_epochs
