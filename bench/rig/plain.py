"""The same trainings as the templates', written with nothing but the framework: what a step costs without us.

    python -m bench.rig.plain trainer|loop|nnunet [CACHE]     in a workspace of the template

Network and samples are the template's own, by the interface in its README. trainer is a Transformers Trainer without
callbacks of ours, loop PyTorch with MONAI's loss, nnunet nnU-Net's own trainer on what the template preprocessed in
CACHE.
"""

import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.rig.modules import dataset_module
from bench.rig.turns import begin
from shared.training.cache import ArrayCache


def settled() -> tuple[Any, Any, Any]:
    """Configuration without `auto`, training samples, network; modules of the template in the working directory."""
    import config
    import model

    dataset = dataset_module(Path.cwd())
    found = dataset.resolve(config.load("config.yaml"))
    # Preprocessed samples are kept, as the template keeps them.
    cache = [ArrayCache(Path("cache"), "plain")] if hasattr(dataset, "images") else []
    samples = dataset.build(found, "train", *cache)
    reports = hasattr(samples, "vocabulary")
    outputs = (samples.vocabulary, len(samples.telling)) if reports else (len(samples.label_names),)
    return found, samples, model.build(found, *outputs)


def trainer() -> None:
    import images
    from augment import Augment
    from transformers import Trainer, TrainingArguments, default_data_collator

    config, samples, network = settled()
    wanted = config.training
    augment = Augment(config.augmentation, images.whole(config.preprocess))

    def augmented(items: Any) -> Any:
        batch = default_data_collator(items)
        return {**batch, "image": augment(batch["image"])}

    arguments = TrainingArguments(
        output_dir="checkpoints",
        num_train_epochs=wanted.most_epochs,
        per_device_train_batch_size=wanted.batch_size,
        learning_rate=wanted.learning_rate,
        weight_decay=wanted.weight_decay,
        lr_scheduler_type="cosine",
        save_strategy="no",
        remove_unused_columns=False,
        report_to="none",
        disable_tqdm=True,
        seed=wanted.seed,
    )
    ready = Trainer(model=network, args=arguments, train_dataset=samples, data_collator=augmented)
    begin()
    ready.train()


def loop() -> None:
    import torch
    from monai.losses import DiceCELoss

    config, samples, network = settled()
    wanted = config.training
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network.to(device).train()
    loss_of = DiceCELoss(to_onehot_y=True, softmax=True, include_background=False, batch=True)
    loader = torch.utils.data.DataLoader(samples, batch_size=wanted.batch_size, shuffle=True)
    optimizer = torch.optim.AdamW(network.parameters(), lr=wanted.learning_rate, weight_decay=wanted.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, wanted.most_epochs * len(loader))
    begin()
    for _ in range(wanted.most_epochs):
        for batch in loader:
            with torch.autocast("cuda", torch.bfloat16, enabled=device.type == "cuda"):  # as the template does there
                logits = network(batch["image"].to(device))["logits"]
            loss = loss_of(logits.float(), batch["labels"][:, None].to(device))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()


def nnunet(cache: Path) -> None:
    for kind in ("raw", "preprocessed"):
        os.environ[f"nnUNet_{kind}"] = str(cache / kind)
    os.environ.update(nnUNet_results=str(Path("results").resolve()), nnUNet_n_proc_DA="0", nnUNet_compile="f")
    (plans,) = (cache / "preprocessed").glob("*/nnUNetPlans.json")
    import numpy as np
    import torch
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    dataset = json.loads((cache / "raw" / plans.parent.name / "dataset.json").read_text(encoding="utf-8"))
    read = json.loads(plans.read_text(encoding="utf-8"))
    configuration = "3d_fullres" if "3d_fullres" in read["configurations"] else "2d"
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ready = nnUNetTrainer({**read, "continue_training": False}, configuration, 0, dataset, device)
    ready.initialize()
    # The template's seed: how long drawing a patch takes depends on which transforms it happens to get.
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    begin()
    ready.run_training()


if __name__ == "__main__":
    wanted: dict[str, Callable[..., None]] = {"trainer": trainer, "loop": loop, "nnunet": nnunet}
    wanted[sys.argv[1]](*map(Path, sys.argv[2:]))
