"""nnU-Net's trainer within a time budget: iterations measured first, whole checkpoints, resumed where they stop.

Network, loss, augmentation and batches are nnU-Net's own. nnU-Net saves every 50 epochs and in place, starts over
without a word when it finds no checkpoint, and its schedule knows no time; these parts are ours.
"""

import math
import random
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from config import Nnunet
from nnunetv2.inference.sliding_window_prediction import compute_steps_for_sliding_window
from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

from shared.training import checkpoints, saved
from shared.training.checks import TrainingFailed
from shared.training.machine import gpu_memory_mb
from shared.training.progress import ProgressFile, plain

AFTER = 15.0
"""Seconds for packaging and for what is not measured."""


@dataclass
class Job:
    """One attempt: settings, where checkpoints and progress go, and the time."""

    how: Nnunet
    mirror: bool
    predict_mirrored: bool
    seed: int
    left: Callable[[], float]
    """Seconds until everything must be done."""
    spent: Callable[[], float]
    """Seconds of this attempt."""
    folder: Path
    attempt: checkpoints.Attempt
    progress: ProgressFile
    asked_to_stop: bool = False
    """Set by a signal handler: the next iteration saves and ends the process."""


class BudgetTrainer(nnUNetTrainer):  # type: ignore[misc]
    def take(self, job: Job) -> None:
        """Before `run_training`; nnU-Net's constructor has a fixed signature."""
        self.job = job
        self.initial_lr = job.how.learning_rate
        self.iteration = 0
        self.planned = 0
        """Epochs; 0 until the first iterations are measured."""
        self.smooth = self.top = -math.inf
        """Dice of patches, smoothed over epochs, and its best."""
        self.top_epoch = 0
        self.logger.plot_progress_png = lambda folder: None  # seconds an epoch, and nobody looks
        self.saved = self.begun = time.monotonic()
        self.first_share = 0.0
        self.seconds = math.inf
        """For the loop, from `begun` on."""
        self.augment: Any = None
        """The transforms of training patches, once batches are drawn."""

    def run_training(self) -> None:
        seed = (1_000_003 * self.job.seed + self.iteration) % 2**32
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        self.on_train_start()
        self.settle()
        while not self.over():
            self.run_epoch()
        self.save()
        self.on_train_end()

    def over(self) -> bool:
        patience = self.job.how.patience
        tired = bool(patience) and self.current_epoch - self.top_epoch >= patience
        return tired or self.current_epoch >= self.num_epochs or self.share() >= 1

    def run_epoch(self) -> None:
        self.on_epoch_start()
        self.on_train_epoch_start()
        outputs = []
        for number in range(self.num_iterations_per_epoch):
            # Steps or time, whichever is further along: on a slower machine the rate still falls to zero.
            done = max((self.current_epoch + number / self.num_iterations_per_epoch) / self.num_epochs, self.share())
            self.lr_scheduler.step(min(done, 0.999) * self.num_epochs)
            outputs.append(self.train_step(next(self.dataloader_train)))
            self.iteration += 1
            loss = float(outputs[-1]["loss"])
            if not math.isfinite(loss):
                raise TrainingFailed(
                    f"the loss became {loss} at iteration {self.iteration}\n"
                    "lower nnunet.learning_rate (by ten), or look for extreme values in the images"
                )
            if self.job.asked_to_stop:
                self.save()
                raise SystemExit(143)
            if self.share() >= 1:
                break
        self.on_train_epoch_end(outputs)
        with torch.no_grad():
            self.on_validation_epoch_start()
            found = [self.validation_step(next(self.dataloader_val)) for _ in range(self.num_val_iterations_per_epoch)]
            # A structure that is in no patch has no Dice; nnU-Net divides by zero there.
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore", RuntimeWarning)
                self.on_validation_epoch_end(found)
        self.on_epoch_end()

    def share(self) -> float:
        """Of the time for the loop that is used up, earlier attempts included; 0 without a bound."""
        if math.isinf(self.seconds):
            return 0.0
        here = (time.monotonic() - self.begun) / max(self.seconds, 1e-6)
        return min(1.0, self.first_share + (1 - self.first_share) * here)

    def settle(self) -> None:
        """Seconds of an iteration -> iterations an epoch and epochs, so that all is done in time."""
        how = self.job.how
        step, look = self.measure()
        left = self.job.left()
        self.seconds = math.inf if math.isinf(left) else max(left - self.prediction_seconds(look) - AFTER, 0.1 * left)
        if not self.planned:
            wanted = 250 if math.isinf(left) else int(np.clip(self.seconds / 20 / (step + 0.2 * look), 5, 250))
            self.num_iterations_per_epoch = wanted if how.iterations == "auto" else how.iterations
        self.num_val_iterations_per_epoch = max(1, self.num_iterations_per_epoch // 5)
        epoch = self.num_iterations_per_epoch * step + self.num_val_iterations_per_epoch * look
        fitting = 10**9 if math.isinf(left) else max(1, int(0.95 * self.seconds / epoch))
        planned = (self.planned or 1000) if how.epochs == "auto" else how.epochs
        self.num_epochs = self.planned = max(1, self.current_epoch, min(planned, self.current_epoch + fitting))
        self.lr_scheduler.max_steps = self.num_epochs
        self.first_share = self.current_epoch / self.num_epochs
        self.begun = time.monotonic()
        print(
            f"{step:.2f} s an iteration: {self.num_epochs} epochs of {self.num_iterations_per_epoch} iterations, "
            f"patch {tuple(self.configuration_manager.patch_size)}, batch {self.batch_size}",
            flush=True,
        )

    def measure(self) -> tuple[float, float]:
        """Seconds of one training and of one validation iteration, batches included. Changes no weight."""
        weights = {name: value.clone() for name, value in self.network.state_dict().items()}
        optimizer = self.optimizer.state_dict()
        # Steps replace the momentum buffers in place; the copy must not see that.
        optimizer["state"] = {k: {n: clone(v) for n, v in s.items()} for k, s in optimizer["state"].items()}
        scaler = None if self.grad_scaler is None else self.grad_scaler.state_dict()

        def once(train: bool) -> float:
            begin = time.monotonic()
            if train:
                self.train_step(next(self.dataloader_train))
            else:
                with torch.no_grad():
                    self.validation_step(next(self.dataloader_val))
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            return time.monotonic() - begin

        self.network.train()
        first = once(True)
        step = first if first > 10 else float(np.median([once(True) for _ in range(3)]))
        self.network.eval()
        once(False)
        look = once(False)
        self.network.load_state_dict(weights)
        self.optimizer.load_state_dict(optimizer)
        if scaler is not None:
            self.grad_scaler.load_state_dict(scaler)
        return step, look

    def prediction_seconds(self, look: float) -> float:
        """For the validation images at the end: windows, mirrored or not, and some time each to read and resample."""
        _, names = self.do_split()
        found = self.dataset_class(self.preprocessed_dataset_folder, list(names))
        patch = tuple(self.configuration_manager.patch_size)
        windows = voxels = 0.0
        for name in names:
            shape = tuple(int(size) for size in found.load_case(name)[0].shape[1:])
            padded = tuple(max(a, b) for a, b in zip(shape[-len(patch) :], patch, strict=True))
            steps = compute_steps_for_sliding_window(padded, patch, 0.5)
            slices = shape[0] if len(patch) == 2 else 1
            windows += slices * math.prod(len(axis) for axis in steps)
            voxels += math.prod(shape)
        axes = self.inference_allowed_mirroring_axes or ()
        times = 2 ** len(axes) if self.job.predict_mirrored else 1
        return float(windows * times * look / self.batch_size + 1e-6 * voxels + 0.5 * len(names))

    def on_epoch_end(self) -> None:
        super().on_epoch_end()
        log = self.logger.get_value
        loss, metric = float(log("train_losses", -1)), float(log("mean_fg_dice", -1))
        spent = time.monotonic() - self.begun
        made = self.current_epoch - self.first_share * self.num_epochs
        eta = (self.num_epochs - self.current_epoch) * spent / max(made, 1)
        if math.isfinite(metric):
            self.smooth = metric if math.isinf(self.smooth) else 0.9 * self.smooth + 0.1 * metric
        if self.smooth > self.top or math.isinf(self.top):
            self.top, self.top_epoch = self.smooth, self.current_epoch
        self.job.progress.write(
            step=self.iteration,
            epoch=self.current_epoch,
            epochs=self.num_epochs,
            loss=loss,
            metric=metric if math.isfinite(metric) else None,
            metric_name="dice",
            eta_seconds=round(max(0.0, min(eta, self.seconds - spent)), 1),
            gpu_memory_mb=gpu_memory_mb(),
            text="dice of patches",
        )
        shown = f"{metric:.3f}" if math.isfinite(metric) else "not defined"
        print(f"epoch {self.current_epoch}/{self.num_epochs} loss {loss:.4f} dice of patches {shown}", flush=True)
        if time.monotonic() - self.saved >= self.job.how.save_seconds:
            self.save()

    def configure_rotation_dummyDA_mirroring_and_inital_patch_size(self) -> Any:
        rotation, dummy, size, axes = super().configure_rotation_dummyDA_mirroring_and_inital_patch_size()
        if not self.job.mirror:
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

    def save(self) -> None:
        """The folder `checkpoint-<iteration>`, whole or not at all."""
        log = {key: list(value)[: self.current_epoch] for key, value in self.logger.get_checkpoint().items()}
        state = {
            "network": self.weights(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": None if self.grad_scaler is None else self.grad_scaler.state_dict(),
            "log": plain(log),
            "top": [self.smooth, self.top, self.top_epoch],
            "epoch": self.current_epoch,
            "epochs": self.planned,
            "iterations": self.num_iterations_per_epoch,
            "done": self.over(),
        }
        saved.save(self.job.folder, self.iteration, state)
        self.saved = time.monotonic()
        checkpoints.note_seconds(self.job.folder, self.job.attempt, self.job.spent())

    def load(self, path: Path) -> bool:
        """Go on from a checkpoint. -> whether its training was done."""
        state = saved.load(path)
        if not self.was_initialized:
            self.initialize()
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.grad_scaler is not None and state["scaler"] is not None:
            self.grad_scaler.load_state_dict(state["scaler"])
        self.logger.load_checkpoint({key: [nan(item) for item in value] for key, value in state["log"].items()})
        self.smooth, self.top, self.top_epoch = state["top"]
        self.current_epoch, self.iteration = state["epoch"], state["step"]
        self.planned, self.num_iterations_per_epoch = state["epochs"], state["iterations"]
        return bool(state["done"])


def clone(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def nan(value: Any) -> Any:
    """JSON has none; in the logs null stands for it."""
    return math.nan if value is None else [nan(item) for item in value] if isinstance(value, list) else value
