"""The segmentation template after an engineer has been at it: another network, loss, preprocessing, optimiser. Each
trains, is packaged, and predicts from the package alone; the model card names what ran."""

import json
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest

from shared.training.exported.package_cli import damage
from tests.templates.segbench import SegBench

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SMALL: dict[str, Any] = {
    "model": {"width": 8, "levels": 3},
    "training": {"epochs": 4, "patience": 0, "train_seconds": None},
}


@pytest.fixture
def organs(tmp_path: Path) -> SegBench:
    made = SegBench(tmp_path, "segmentation")
    made.organs(6)
    made.write()
    made.settings(**SMALL)
    return made


def edit(bench: SegBench, name: str, *pairs: tuple[str, str]) -> None:
    """Each old text stands in the file exactly once."""
    path = bench.workspace / name
    text = path.read_text()
    for old, new in pairs:
        assert text.count(old) == 1, (name, old)
        text = text.replace(old, new)
    path.write_text(text)


def delivered(bench: SegBench) -> str:
    """Trained, packaged, verified; predicted in an empty environment. -> the model card."""
    done = bench.train()
    assert done.returncode == 0, done.stdout + done.stderr
    package = bench.workspace / "package"
    assert damage(package) == []
    facts = bench.probe("verify_package", "--package", "package", "--index", "train_index.jsonl")
    assert facts["ok"] and facts["output_follows_image"], facts
    output = bench.folder / "out"
    done = bench.predict(output, bench.data / "image5.nii.gz")
    assert done.returncode == 0, done.stderr
    mask, image = nibabel.load(output / "image5.nii.gz"), nibabel.load(bench.data / "image5.nii.gz")
    assert mask.shape == image.shape and set(np.unique(np.asanyarray(mask.dataobj))) <= {0, 3, 28}
    found = np.asanyarray(mask.dataobj) > 0
    truth = np.asanyarray(nibabel.load(bench.data / "mask5.nii.gz").dataobj) > 0
    assert 2 * (found & truth).sum() / (found.sum() + truth.sum()) > 0.2
    return (package / "MODEL_CARD.md").read_text()


def test_a_network_in_a_second_file_and_a_loss_of_monais(organs: SegBench) -> None:
    (organs.workspace / "blocks").mkdir()
    (organs.workspace / "blocks" / "__init__.py").write_text("")
    (organs.workspace / "blocks" / "plain.py").write_text(
        "from torch import nn\n\n\n"
        "class PlainNet(nn.Sequential):\n"
        "    def __init__(self, channels, classes, width):\n"
        "        body = [nn.Conv3d(channels, width, 3, padding=1), nn.InstanceNorm3d(width), nn.ReLU()]\n"
        "        body += [nn.Conv3d(width, width, 3, padding=1), nn.InstanceNorm3d(width), nn.ReLU()]\n"
        "        super().__init__(*body, nn.Conv3d(width, classes, 1))\n"
    )
    edit(
        organs,
        "model.py",
        (
            "from torch import nn\n",
            "from blocks.plain import PlainNet\nfrom monai.losses import DiceFocalLoss\nfrom torch import nn\n",
        ),
        (
            "make_network(config.model, how.patch_size, seen(how.spacing, how), how.channels, num_classes + 1)",
            "PlainNet(how.channels, num_classes + 1, 12)",
        ),
        (
            "OverlapAndEntropy(*weights)",
            "DiceFocalLoss(include_background=False, to_onehot_y=True, softmax=True, batch=True)",
        ),
        ("self.loss(logits.float(), labels)", "self.loss(logits.float(), labels[:, None])"),
    )
    facts = organs.probe("verify_batches", "--folder", "/workspace", "--config", "config.yaml")
    assert facts["ok"], facts
    card = delivered(organs)
    built = facts["built"]
    assert f"Network: {built['model']}, " in card and f"Loss: {built['loss']}." in card, built
    assert f"Augmentation: {built['augmentation']}." in card
    assert "Network: PlainNet, 3 convolutions of 12 to 12 channels" in card and "Loss: DiceFocalLoss(" in card
    assert "UNet" not in card and "OverlapAndEntropy" not in card
    assert (organs.workspace / "package" / "blocks" / "plain.py").is_file()


def test_a_crop_and_a_second_channel(organs: SegBench) -> None:
    """Preprocessing in one place: training, validation and package follow."""
    (organs.workspace / "edges.py").write_text(
        "import numpy as np\n\n\n"
        "def with_edges(volume):\n"
        "    return np.concatenate([volume, np.abs(np.gradient(volume[0], axis=1))[None]]).astype(np.float32)\n"
    )
    edit(
        organs,
        "data.py",
        ("import numpy as np\n", "import numpy as np\nfrom edges import with_edges\n"),
        (
            "    return np.stack([normalise(resized(to_dhw(channel, image), size), how) for channel in channels])\n",
            "    volume = np.stack([normalise(resized(to_dhw(channel, image), size), how) for channel in channels])\n"
            "    volume[:, :, :, :2] = volume.min()  # the table\n"
            "    return with_edges(volume)\n",
        ),
    )
    edit(organs, "model.py", ("how.channels, num_classes + 1)", "2, num_classes + 1)"))
    facts = organs.probe("verify_batches", "--folder", "/workspace", "--config", "config.yaml")
    assert facts["ok"] and facts["batches"]["train"]["shape"][1] == 2, facts
    delivered(organs)
    assert (organs.workspace / "package" / "edges.py").is_file()
    assert not (organs.workspace / "package" / "train.py").exists()


def test_another_optimiser_mixup_and_a_slower_average(organs: SegBench) -> None:
    edit(
        organs,
        "train.py",
        (
            "optimizer = torch.optim.AdamW(groups, lr=wanted.learning_rate, fused=True)",
            "optimizer = torch.optim.SGD(groups, lr=wanted.learning_rate, momentum=0.95, nesterov=True)",
        ),
        (
            "saved.averaged(model)",
            "torch.optim.swa_utils.AveragedModel(model, avg_fn=torch.optim.swa_utils.get_ema_avg_fn(0.95))",
        ),
        (
            "            with accelerator.autocast():\n",
            '            batch["image"] = 0.9 * batch["image"] + 0.1 * batch["image"].flip(-1)\n'
            "            with accelerator.autocast():\n",
        ),
    )
    edit(organs, "patches.py", ("transforms.RandGaussianNoised(", "transforms.RandGaussianSmoothd("),
         ('"image", std=wanted.noise, prob=chance / 2', '"image", prob=chance / 2'))  # fmt: skip
    organs.settings(**SMALL | {"training": SMALL["training"] | {"learning_rate": 0.05, "epochs": 8}})
    card = delivered(organs)
    assert "RandGaussianSmoothd" in card and "RandGaussianNoised" not in card
    assert organs.metrics()["weights"] in ("best", "last", "averaged")


def test_flips_and_specks_are_settings_that_the_package_keeps(organs: SegBench) -> None:
    given = {"flips": ["W", "D"], "min_component_mm3": 60, "min_component_score": 0.7}
    organs.settings(**SMALL, prediction=given)
    delivered(organs)
    config = json.loads((organs.workspace / "package" / "config.json").read_text())
    assert config["prediction"] == {"overlap": 0.5, **given}
    assert (organs.metrics()["min_component_mm3"], organs.metrics()["min_component_score"]) == (60, 0.7)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "from shared.training.cache import ArrayCache\n",
            "data.py line 2 imports shared.training.cache.ArrayCache, which a package does not have",
        ),
        ("if False:\n    import segmentation_models\n", "imports segmentation_models, which is not installed here"),
    ],
)
def test_what_a_package_could_not_have_is_refused_before_the_training(organs: SegBench, line: str, said: str) -> None:
    path = organs.workspace / "data.py"
    path.write_text(f'"""Edited."""\n{line}\n{path.read_text()}')
    done = organs.train()
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert not (organs.workspace / "cache").exists() and not (organs.workspace / "package").exists()
