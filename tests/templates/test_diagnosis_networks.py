"""Backbones, losses, weights to begin with, sampling, augmentation and metrics of the diagnosis template."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.templates.conftest import modules

pytestmark = pytest.mark.timeout(900)
ours = modules("diagnosis", "augment", "config", "data", "images", "metrics", "model", "networks", "pretrained")
Model, Preprocess, Augmentation = ours.config.Model, ours.config.Preprocess, ours.config.Augmentation
make_encoder, map_of, load_into = ours.networks.make_encoder, ours.networks.map_of, ours.pretrained.load_into


def built(shape, classes, backbone="resnet10", loss=None, multi_label=False, weights=None, channels=1, views=1, **more):
    torch.manual_seed(0)
    config = ours.config.Config(
        preprocess=Preprocess(input_shape=shape, channels=channels, views=views),
        model=Model(backbone=backbone, **{"width": 8, "dropout": 0.0, **more}),
        loss=loss or ours.config.Loss(),
        multi_label=multi_label,
    )
    return ours.model.build(config, classes, weights)


OTHERS = ("resnet50", "densenet121", "efficientnet-b0", "vit", "swinunetr")


@pytest.mark.parametrize("shape", [(32, 32), (32, 32, 32)], ids=["2d", "3d"])
@pytest.mark.parametrize(
    "backbone",
    ["resnet18", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)],
)
def test_every_backbone_learns_from_its_image(backbone, shape):
    loss = ours.config.Loss(name="focal")
    network = built(shape, 3, backbone, loss, weights=[1.0, 2.0, 0.5], channels=2, width=4)
    answer = network(torch.randn(2, 2, *shape), torch.tensor([0, 2]))
    assert answer["logits"].shape == (2, 3)
    answer["loss"].backward()
    first = next(weight for weight in network.encoder.parameters())
    assert torch.isfinite(answer["loss"]) and first.grad.abs().sum() > 0


def test_views_are_averaged_and_one_that_is_not_there_does_not_count():
    network = built((32, 32), 3, views=3, norm="group").eval()
    views = torch.randn(2, 3, 32, 32)
    views[1, 1] = 0
    alone = {(case, view): network(torch.stack([views[case, view], *torch.zeros(2, 32, 32)])[None])["logits"][0]
             for case in range(2) for view in range(3)}  # fmt: skip
    both = network(views, torch.tensor([0, 2]))
    expected = [torch.stack([alone[0, view] for view in range(3)]).mean(0), (alone[1, 0] + alone[1, 2]) / 2]
    torch.testing.assert_close(both["logits"], torch.stack(expected), rtol=1e-4, atol=1e-5)
    # Each view is taught, too: their mean alone has another loss.
    assert (both["loss"] - network.loss(both["logits"], torch.tensor([0, 2]))).abs().item() > 1e-4
    assert torch.isfinite(network(torch.zeros(1, 3, 32, 32))["logits"]).all()


@pytest.mark.parametrize("backbone", ["resnet18", "densenet121", "efficientnet-b0"])
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_the_norm_asked_for_is_everywhere(backbone, norm):
    network = built((32, 32), 2, backbone, norm=norm)
    kinds = {type(part).__name__ for part in network.modules() if "Norm" in type(part).__name__}
    assert kinds == {"GroupNorm" if norm == "group" else "BatchNorm2d"}


@pytest.mark.parametrize(
    ("backbone", "shape", "advice"),
    [
        ("densenet169", (16, 64, 64), r"\[32, 64, 64\]"),
        ("swinunetr", (24, 64, 70), r"multiples of 32.*\[32, 64, 64\]"),
        ("vit", (30, 64), r"patches of 4 x 8 .*take \[32, 64\]"),
    ],
)
def test_a_shape_that_does_not_suit_is_refused_with_one_that_does(backbone, shape, advice):
    with pytest.raises(ValueError, match=advice):
        make_encoder(Model(backbone=backbone, width=4), shape)


def test_maps_keep_an_axis_that_is_short_and_as_many_places_as_asked_for():
    slices = make_encoder(Model(width=4), (6, 64, 64))
    assert slices(torch.randn(1, 1, 6, 64, 64)).shape == (1, 32, 3, 4, 4)
    assert map_of(make_encoder(Model(width=4), (64, 64), 3, places=64), (64, 64), 3) == (32, 64)
    assert map_of(make_encoder(Model(backbone="vit", width=4), (16, 64, 128)), (16, 64, 128)) == (48, 4 * 8 * 8)
    assert map_of(built((104, 104), 2).encoder, (104, 104)) == (64, 7 * 7), "a diagnosis halves it no more below 64"


def test_losses_agree_with_figures_by_hand():
    logits, labels = torch.tensor([[2.0, -1.0], [0.5, 0.0]]), torch.tensor([[1, 0], [0, 1]])
    chance = logits.sigmoid().double().numpy()
    truth = labels.numpy()

    def loss(**how):
        network = built((16, 16), 2, loss=ours.config.Loss(**how), multi_label=True)
        return float(network.loss(logits, labels))

    entropy = -np.log(np.where(truth == 1, chance, 1 - chance))
    assert loss(name="auto") == pytest.approx(entropy.mean())
    wrong = np.where(truth == 1, 1 - chance, chance)
    assert loss(name="focal", focal_gamma=2.0) == pytest.approx((wrong**2 * entropy).mean())
    assert loss(name="focal", focal_gamma=0.0) == pytest.approx(entropy.mean())
    # Without margin and with equal powers, asymmetric is focal; a margin takes away from absent labels only.
    even = {"name": "asymmetric", "gamma_present": 2.0, "gamma_absent": 2.0}
    assert loss(**even, margin=0.0) == pytest.approx((wrong**2 * entropy).mean())
    shifted = np.maximum(chance - 0.3, 0)
    ridnik = np.where(truth == 1, -(1 - chance) * np.log(chance), -(shifted**4) * np.log(1 - shifted))
    assert loss(name="asymmetric", margin=0.3) == pytest.approx(ridnik.mean())
    for several, name in ((True, "cross_entropy"), (False, "bce"), (False, "asymmetric")):
        with pytest.raises(ValueError, match=f"loss.name {name} is for"):
            built((16, 16), 2, loss=ours.config.Loss(name=name), multi_label=several)


@pytest.mark.parametrize("kind", ["safetensors", "pt"])
def test_weights_to_begin_with_are_taken_where_they_fit(tmp_path, kind):
    import safetensors.torch

    given = built((32, 32), 5)
    path = tmp_path / f"weights.{kind}"
    tensors = {f"module.{name}": value for name, value in given.state_dict().items()}
    if kind == "pt":
        torch.save({"epoch": 3, "state_dict": tensors}, path)
    else:
        safetensors.torch.save_file(tensors, path)
    network = built((64, 64), 2, backbone="resnet18")
    before = network.encoder.layer1[1].conv1.weight.clone()
    told = load_into(network.encoder, path)
    assert torch.equal(network.encoder.layer1[0].conv1.weight, given.encoder.layer1[0].conv1.weight)
    assert torch.equal(network.encoder.conv1.weight, given.encoder.conv1.weight)
    assert torch.equal(network.encoder.layer1[1].conv1.weight, before), "nothing has that name in the file"
    counted = [value for value in network.encoder.state_dict().values() if value.is_floating_point()]
    taken = [value for value in given.encoder.state_dict().values() if value.is_floating_point()]
    assert told == f"{len(taken)} of the backbone's {len(counted)} tensors are taken from weights.{kind}"
    for other in ({"width": 16}, {"backbone": "vit"}):
        with pytest.raises(ValueError, match=r"another network's\nset backbone, width"):
            load_into(built((64, 64), 2, **other).encoder, path)


@pytest.mark.parametrize(("given", "wanted"), [(3, 1), (1, 3), (3, 3), (3, 2)])
@pytest.mark.parametrize("backbone", ["resnet10", "densenet121", "vit"])
def test_weights_of_other_channels_answer_alike_to_equal_channels(tmp_path, backbone, given, wanted):
    old = make_encoder(Model(backbone=backbone, width=4), (32, 32), given).eval()
    torch.save({f"backbone.{name}": value for name, value in old.state_dict().items()}, tmp_path / "old.pt")
    new = make_encoder(Model(backbone=backbone, width=4), (32, 32), wanted).eval()
    told = load_into(new, tmp_path / "old.pt").split()
    image = torch.randn(2, 1, 32, 32)
    if given == 1:
        torch.testing.assert_close(new(image.expand(-1, wanted, -1, -1)), old(image), rtol=1e-3, atol=1e-4)
    else:
        seen = new(image.expand(-1, wanted, -1, -1))
        torch.testing.assert_close(seen, old(image.expand(-1, given, -1, -1)), rtol=1e-3, atol=1e-4)
    assert told[0] == told[4], "all of them"


def test_channels_are_augmented_alike_and_keep_what_tells_them_apart():
    how = Preprocess(input_shape=(24, 32), channels=3, intensity="zscore")
    wanted = ours.augment.settle(Augmentation(modality="xray", probability=1, noise=0), how, sided=False)
    view = torch.rand(24, 32)
    torch.manual_seed(0)
    found = ours.augment.Augment(wanted, (3, 24, 32))(torch.stack([view, view, view, *torch.zeros(3, 24, 32)])[None])[0]
    assert found.shape == (6, 24, 32) and not torch.equal(found[0], view) and not found[3:].any()
    torch.testing.assert_close(found[1], found[0])
    torch.testing.assert_close(found[2], found[0])


def test_a_file_that_would_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "owned",))

    torch.save({"state_dict": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(ValueError, match=r"evil\.pt cannot be read .*\n.*weights_only"):
        load_into(built((32, 32), 2).encoder, tmp_path / "evil.pt")
    assert not (tmp_path / "owned").exists()
    with pytest.raises(ValueError, match="does not exist"):
        load_into(built((32, 32), 2).encoder, tmp_path / "absent.pt")


def test_balanced_sampling_draws_every_class_as_often():
    single = torch.nn.functional.one_hot(torch.tensor([0] * 900 + [1] * 90 + [2] * 10), 3)
    sampler = ours.data.Balanced(single, seed=0)
    first, again = list(sampler), list(sampler)
    assert first == again and len(first) == len(sampler) == 1000
    counts = single[first].sum(0)
    assert counts.min() > 270 and counts.max() < 400
    sampler.set_epoch(1)
    assert list(sampler) != first
    several = torch.zeros(1000, 2)
    several[:20, 0] = several[10:400, 1] = 1
    drawn = several[list(ours.data.Balanced(several, seed=0))]
    # The rare label, the frequent one, and no label at all.
    assert drawn[:, 0].mean() > 0.25 and (drawn.sum(1) == 0).double().mean() == pytest.approx(1 / 3, abs=0.07)


def test_modality_settles_what_stands_on_auto():
    hu = Preprocess(input_shape=(8, 32, 32), intensity="window", window=(-800.0, 400.0))
    plain = Preprocess(input_shape=(8, 32, 32), intensity="zscore")
    found = ours.augment.settle(Augmentation(), hu, sided=False)
    assert (found.modality, found.brightness, found.gamma, found.flip_axes) == ("ct", 0.01, 0, ("W",))
    assert ours.augment.settle(Augmentation(), plain, sided=False).modality == "other"
    found = ours.augment.settle(Augmentation(modality="mr", gamma=0), plain, sided=False)
    assert (found.modality, found.gamma, found.bias_field) == ("mr", 0, 0.3)
    assert ours.augment.settle(found, plain, sided=True) == found, "what is settled stays"


@pytest.mark.parametrize("shape", [(24, 32), (8, 24, 32)], ids=["2d", "3d"])
@pytest.mark.parametrize("modality", ["ct", "mr", "ultrasound"])
def test_augmented_images_stay_images(shape, modality):
    how = Preprocess(input_shape=shape, intensity="zscore")
    wanted = ours.augment.settle(Augmentation(modality=modality, probability=1), how, sided=False)
    view = torch.zeros(shape)
    view[..., 8:16, 8:20] = 1
    torch.manual_seed(0)
    made = ours.augment.Augment(wanted, (1, *shape))
    found = made(torch.stack([view, torch.zeros(shape)])[None])[0]
    assert found.shape == (2, *shape) and torch.isfinite(found).all()
    assert not torch.equal(found[0], view) and not found[1].any(), "a view that is not there stays so"
    assert np.corrcoef(found[0].flatten(), view.flatten())[0, 1] > 0.2
    torch.manual_seed(0)
    assert torch.equal(made(torch.stack([view, torch.zeros(shape)])[None])[0], found)
    off = {key: 0 for key in ("rotate_degrees", "scale", "shift", "brightness", "gamma", "bias_field", "noise")}
    still = ours.augment.Augment(Augmentation(modality="other", flip_axes=(), **off), (1, *shape))
    assert torch.equal(still(view[None, None]), view[None, None]) and "nothing" in repr(still)


def test_a_volume_moves_in_its_plane_and_depth_as_it_would_all_at_once():
    """Against one affine map in three dimensions, on axes of three lengths, with two channels."""
    angle, scale, shift = 0.15, torch.tensor([1.08, 0.93, 1.1]), torch.tensor([0.05, -0.08, 0.1])  # W, H, D
    shape = (24, 64, 48)
    how = Preprocess(input_shape=shape, intensity="zscore")
    wanted = ours.augment.settle(Augmentation(modality="other", probability=1), how, sided=False)
    moving = ours.augment.Augment(wanted, (2, *shape))
    drawn = iter((torch.tensor([angle]), scale[None] - 1, shift[None]))
    moving.between = lambda *_: next(drawn)
    torch.manual_seed(0)
    volume = torch.nn.functional.interpolate(torch.randn(1, 2, 6, 16, 12), size=shape)
    turn = torch.tensor([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]).float()
    size = torch.tensor(shape[::-1])
    matrix = torch.cat([turn * scale * size[None, :] / size[:, None], shift[:, None]], 1)
    grid = torch.nn.functional.affine_grid(matrix[None], [1, 2, *shape], align_corners=False)
    whole = torch.nn.functional.grid_sample(volume, grid, padding_mode="border", align_corners=False)
    assert (whole - volume).abs().max() > 1
    assert torch.allclose(moving.moved(volume), whole, atol=1e-3)


def test_scans_of_one_patient_are_one_case_by_patient():
    # Each patient's mean is on the right side of the others, single scans are not.
    logits = np.array([[0, 3.0], [0, -1.0], [0, 0.5], [0, -3.0]])
    labels, patients = np.array([1, 1, 0, 0]), ["a", "a", "b", "b"]
    found = ours.metrics.scores(logits, labels, False, patients)
    assert found["auc_macro"] == pytest.approx(0.75) and found["auc_macro_by_patient"] == 1
    alone = ours.metrics.scores(logits, labels, False)
    assert alone["auc_macro_by_patient"] == alone["auc_macro"]
    # Scans of one patient that differ in their label are no one case.
    apart = ours.metrics.scores(logits, labels, False, ["a", "a", "a", "b"])
    assert apart["auc_macro_by_patient"] == pytest.approx(0.5)


def test_labels_without_both_sides_are_left_out_of_the_mean():
    logits = np.array([[2.0, 1.0, -1.0], [-2.0, 1.0, -0.1], [1.0, 1.0, 3.0]])
    labels = np.array([[1, 0, 0], [0, 0, 1], [1, 0, 1]])
    assert ours.metrics.aucs(logits, labels) == [1.0, None, 1.0]
    found = ours.metrics.scores(logits, labels, True)
    assert found["auc_macro"] == 1 and found["balanced_accuracy"] == pytest.approx((1 + 0.75) / 2)
    assert ours.metrics.scores(logits[:1], labels[:1], True)["auc_macro"] is None


def test_grades_that_are_far_off_cost_more_than_near_ones():
    labels = np.array([0, 1, 2, 3] * 3)
    near, far = (np.eye(4)[np.where(labels == 0, said, labels)] for said in (1, 3))
    found = [ours.metrics.scores(logits, labels, False, ordered=True) for logits in (np.eye(4)[labels], near, far)]
    best, off_by_one, off_by_three = (one["quadratic_kappa"] for one in found)
    assert best == 1 > off_by_one > off_by_three and found[1]["accuracy"] == found[2]["accuracy"]
    assert "quadratic_kappa" not in ours.metrics.scores(near, labels, False), "classes that are kinds have none"
    assert ours.metrics.scores(near[:1], np.array([1]), False, ordered=True)["quadratic_kappa"] is None


def test_a_temperature_makes_chances_as_sure_as_they_are_right():
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 1, (500, 3))
    labels = np.array([generator.choice(3, p=chances) for chances in ours.metrics.probabilities(logits, False)])
    several = (generator.random((500, 3)) < ours.metrics.probabilities(logits, True)).astype(int)
    for truth, many in (labels, False), (several, True):
        assert ours.metrics.temperature(4 * logits, truth, many) == pytest.approx(4, rel=0.15)
        assert ours.metrics.temperature(0.3 * logits, truth, many) == pytest.approx(1, abs=1e-3), "never surer"
