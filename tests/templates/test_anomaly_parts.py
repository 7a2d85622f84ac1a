"""What lesions need of sampling, loss and checks, without a training."""

from pathlib import Path
from types import SimpleNamespace

import nibabel
import numpy as np
import pytest
import torch

from shared.training import masks
from tests.templates import segbench
from tests.templates.segbench import LESION_SETTINGS, SegBench


@pytest.fixture(scope="module")
def template():
    with segbench.modules("segmentation", "config", "data", "patches", "cases", "model", "survey") as found:
        yield found


@pytest.fixture
def lesions(tmp_path: Path) -> SegBench:
    made = SegBench(tmp_path, "segmentation")
    made.settings(**LESION_SETTINGS)
    return made


def test_small_lesions_are_drawn_as_the_balance_says(template):
    target = np.zeros((8, 64, 64), np.uint8)
    target[1:7, 4:34, 4:34] = 1
    target[4, 60:62, 60:62] = 1
    places = template.patches.places_in(target, apart=True)
    assert [[len(group) for group in groups] for groups in places] == [[2700, 4]]  # 5400 voxels are thinned
    generator = np.random.default_rng(0)
    image = np.zeros((1, *target.shape), np.float32)

    def small(balance):
        drawn = [
            template.patches.cut(image, target, (8, 16, 16), places, 1.0, balance, generator)[1] for _ in range(60)
        ]
        assert all(found.any() for found in drawn)
        return sum(found.sum() <= 4 for found in drawn)

    assert small(0.0) < 5 and small(1.0) > 18


def test_images_without_lesions_have_their_share_of_an_epoch(template, lesions):
    lesions.values, lesions.names = {"spot": 9}, ["spot"]
    for number in range(12):
        mask = np.zeros((10, 10, 6), np.uint8)
        mask[4:6, 4:6, 2:4] = 9 * (number < 3)
        image = np.random.default_rng(number).normal(0, 10, mask.shape).astype(np.int16)
        for kind, array in (("i", image), ("m", mask)):
            nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), lesions.data / f"{kind}{number}.nii.gz")
        lesions.add(f"s{number}", [f"i{number}.nii.gz"], None, "train", target=f"m{number}.nii.gz")
    config = template.config.Config.model_validate(
        LESION_SETTINGS
        | {
            "cache": None,
            "data_root": str(lesions.data),
            "preprocess": {"dimensions": 3, "spacing": [1, 1, 1], "patch_size": [8, 8, 8], "intensity": "zscore"},
        }
    )
    data = template.patches.Patches(template.cases.Cases(config, lesions.rows, lesions.values), config, train=True)
    turns = template.patches.Turns(data, seed=0)
    drawn = {}
    for turns.epoch in range(3):
        order = list(turns)
        assert sorted(number for number in order if number < 3) == sorted([0, 1, 2] * 4)
        drawn[turns.epoch] = [number for number in order if number >= 3]
        assert len(drawn[turns.epoch]) == 4 and len(order) == len(turns) == 16
    assert len({number for found in drawn.values() for number in found}) > 4  # they take turns
    parts = [list(template.patches.Turns(data, seed=0, rank=rank, count=3)) for rank in range(3)]
    assert [len(part) for part in parts] == [6, 6, 6] and {0, 1, 2} < {*parts[0], *parts[1], *parts[2]}
    ill, healthy = data[0], data[11]
    assert ill["labels"].sum() > 0 and healthy["labels"].sum() == 0 and healthy["image"].shape == (1, 8, 8, 8)
    assert ill["labels"].dtype == torch.int64 and ill["image"].dtype == torch.float32


@pytest.mark.slow
def test_a_patch_that_no_memory_holds_is_said_clearly(tmp_path):
    bench = segbench.lesions(tmp_path, 2)
    bench.settings(preprocess={"patch_size": [2**22, 2**22]}, model={"width": 4, "levels": 2})
    done = bench.train()
    assert done.returncode == 1, done.stdout + done.stderr
    first, second = done.stderr.splitlines()[-2:]
    assert first.startswith("out of memory: ") and "preprocess.patch_size" in second, done.stderr


def test_the_loss_is_defined_without_lesions_and_learns_from_them(template):
    preprocess = SimpleNamespace(dimensions=2, slices="D", patch_size=(8, 8), spacing=(1, 1, 1), channels=1)
    wanted = template.config.Model(network="unet", width=4, levels=2)
    loss = template.config.Loss(present_only=True)
    model = template.model.build(SimpleNamespace(preprocess=preprocess, model=wanted, loss=loss), 3)
    logits = torch.zeros(2, 4, 8, 8, requires_grad=True)
    empty = torch.zeros(2, 8, 8, dtype=torch.int64)
    loss = model.loss(logits, empty)
    loss.backward()
    assert torch.isfinite(loss) and (logits.grad[:, 0] < 0).all() and (logits.grad[:, 1:] > 0).all()
    sick = empty.clone()
    sick[0, 2:4, 2:4] = 2
    right = 20.0 * torch.nn.functional.one_hot(sick, 4).movedim(-1, 1)
    assert model.loss(right, sick) < 0.01 < 0.5 < model.loss(torch.zeros(2, 4, 8, 8), sick)
    # More is lost by what is missed where that weighs more.
    missing = 20.0 * torch.nn.functional.one_hot(empty, 4).movedim(-1, 1)
    missing[:, 2, 2, 2] = 25.0
    losses = [template.model.OverlapAndEntropy(1, 0, missed, True)(missing, sick) for missed in (0.9, 0.1)]
    assert losses[0] > losses[1]
    # Dice of all structures, as MONAI has it.
    from monai.losses import DiceLoss

    chances, labels = torch.randn(2, 4, 8, 8), torch.randint(0, 4, (2, 8, 8))
    dice = DiceLoss(include_background=False, to_onehot_y=True, softmax=True, batch=True, smooth_nr=1, smooth_dr=1)
    found = template.model.OverlapAndEntropy(1, 0, 0.5, False)(chances, labels)
    torch.testing.assert_close(found, dice(chances, labels[:, None]))


@pytest.mark.parametrize(
    ("train", "val", "organs", "anomalies"),
    [
        ({"a": 2, "b": 1}, {"a": 1}, [], []),
        ({"a": 2}, {"a": 1}, ["structure b"], []),
        ({}, {"a": 1}, ["structure a", "structure b"], ["structure a", "structure b"]),
        ({"a": 2, "b": 1}, {}, ["split val"], ["split val"]),
    ],
)
def test_kinds_of_lesions_may_be_missing_and_organs_may_not(train, val, organs, anomalies):
    counts, values = {"train": train, "val": val}, {"a": 3, "b": 28}
    for every, wanted in ((True, organs), (False, anomalies)):
        assert [problem.where for problem in masks.missing(counts, values, every)] == wanted
    assert any("b: it is never found" in text for text in masks.limits(counts, values)) == ("b" not in train)


def test_scans_of_mixed_units_are_normalised_one_by_one(template, capsys):
    def settled(intensity, *units):
        looks = [template.survey.Look((8, 8, 8), (1.0, 1.0, 1.0), 1, hu, np.array([30.0, 80.0])) for hu in units]
        return template.survey.intensity(looks, template.config.Preprocess(intensity=intensity)).intensity

    assert settled("auto", True, True, True) == "ct" and settled("auto", False, False) == "zscore"
    assert settled("auto", True, False) == "zscore" and not capsys.readouterr().out
    assert settled("ct", True, False) == "ct" and "only 50% of the images" in capsys.readouterr().out


def test_grain_in_the_air_around_a_head_hardly_changes_its_values(template):
    how, rng = template.config.Preprocess(intensity="zscore"), np.random.default_rng(0)
    head = np.zeros((20, 30, 30), np.float32)
    head[5:15, 8:22, 8:22] = rng.uniform(0.3, 1, (10, 14, 14))
    grain = np.clip(head + (rng.random(head.shape, np.float32) - 0.5) / 256, 0, 1)
    before, after = (template.data.normalise(one, how) for one in (head, grain))
    assert np.abs(before - after)[head > 0].mean() < 0.02
    assert before[head > 0].mean() == pytest.approx(0, abs=1e-3), "the air is no part of what is normalised"


def test_slices_across_different_axes_have_one_spacing_on_all(template):
    def settled(*spacings):
        looks = [template.survey.Look((30, 100, 100), mm, 1, False, np.array([1.0])) for mm in spacings]
        return template.survey.spacing(looks, template.config.Preprocess(dimensions=3), 10**7)

    axial, sagittal = (4.0, 1.0, 1.0), (1.0, 1.0, 4.0)
    assert settled(axial, axial, axial) == axial
    assert settled(axial, axial, sagittal) == pytest.approx([4 ** (1 / 3)] * 3, rel=1e-3)
    assert settled(*[axial] * 9, sagittal) == axial, "one of ten is no second kind"


def test_all_faults_of_rows_and_files_are_listed_at_once(lesions):
    lesions.values, lesions.names = {"spot": 9}, ["spot"]
    image, mask = np.zeros((10, 10, 6), np.int16), np.zeros((10, 10, 6), np.uint8)
    mask[4:6, 4:6, 2:4] = 9
    for number in range(4):
        for kind, array in (("i", image), ("m", mask)):
            nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), lesions.data / f"{kind}{number}.nii.gz")
        lesions.add(f"s{number}", [f"i{number}.nii.gz"], None, "train", target=f"m{number}.nii.gz")
    lesions.rows[0]["target"] = None
    (lesions.data / "i1.nii.gz").write_bytes(b"\x1f\x8b torn")
    nibabel.save(nibabel.Nifti1Image(np.where(mask, 4, 0).astype(np.uint8), np.eye(4)), lesions.data / "m2.nii.gz")
    five = image[..., None, None].repeat(2, 3).repeat(2, 4)
    nibabel.save(nibabel.Nifti1Image(five, np.eye(4)), lesions.data / "i3.nii.gz")
    lesions.write()
    done = lesions.train()
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("5 problem(s) in the data; nothing was trained:")
    for wanted in (
        "train_index.jsonl: there is no row with split val",
        "s0: has no mask (target)",
        "s1: i1.nii.gz cannot be read",
        "s2: m2.nii.gz holds the value 4, which the label map does not have (9 spot)",
        "s3: i3.nii.gz has shape 10 x 10 x 6 x 2 x 2; volumes of up to four axes are read",
    ):
        assert f"- {wanted}" in done.stderr
    left = {item.name for item in lesions.workspace.iterdir()}
    assert not left & {"progress.jsonl", "metrics.json", "checkpoints", "package", "cache"}
