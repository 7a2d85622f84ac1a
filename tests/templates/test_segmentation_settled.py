"""What `auto` of the segmentation template is settled to, without a training."""

import dataclasses

import nibabel
import numpy as np
import pytest

from shared.imaging.image import Image as Volume
from tests.templates.segbench import modules


@pytest.fixture(scope="module")
def template():
    with modules("segmentation", "config", "survey", "cases", "data", "model", "patches") as found:
        yield found


def test_a_try_has_the_grid_of_the_training_that_it_stands_for(template, tmp_path, monkeypatch):
    import json

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("M3_DATA", str(tmp_path))
    mask = np.zeros((48, 48, 48), np.int16)
    mask[10:30, 10:30, 10:30] = 1
    rows = []
    for number in range(4):
        image = np.random.default_rng(number).normal(100, 8, mask.shape).astype(np.float32) + 50 * mask
        nibabel.save(nibabel.Nifti1Image(image, np.eye(4)), f"{number}.nii.gz")
        nibabel.save(nibabel.Nifti1Image(mask, np.eye(4)), f"mask{number}.nii.gz")
        row = {"sample_id": f"s{number}", "patient": f"p{number}", "split": "train", "files": [f"{number}.nii.gz"]}
        rows.append(json.dumps({**row, "label": None, "target": f"mask{number}.nii.gz"}))
    (tmp_path / "train_index.jsonl").write_text("\n".join(rows))
    (tmp_path / "label_map.json").write_text(json.dumps({"names": ["block"], "values": {"block": 1}}))
    spacings = {}
    for seconds, whole in ((2, None), (2, 1000), (1000, None)):
        time = {"train_seconds": seconds, "whole_seconds": whole}
        config = template.config.Config(preprocess={"dimensions": 3}, training=time)
        spacings[seconds, whole] = template.survey.resolve(config).preprocess.spacing
    assert spacings[2, 1000] == spacings[1000, None] == (1, 1, 1)
    assert min(spacings[2, None]) > 1.2, "in so little time images are made coarser"


def test_where_an_image_shows_few_of_the_structures_each_has_to_be_seen_more_often(template, monkeypatch):
    survey = template.survey
    monkeypatch.setattr(survey.torch, "get_num_threads", lambda: 1)
    how = template.config.Preprocess(passes=32)

    def most(*structures):
        looks = [
            survey.Look((64,) * 3, (1.0,) * 3, 1, False, np.array([1.0]), dict.fromkeys(one)) for one in structures
        ]
        return survey.affordable(how, 100, 10, looks)

    assert most({1, 2}, {1, 2}) == 2 * most({1}, {2}) > survey.LEAST_VOXELS
    assert most(*({number} for number in range(1, 27))) == survey.LEAST_VOXELS
    assert most(set(), set()) == most({1}), "nothing is known of what is there"


def test_volumes_are_seen_slice_by_slice_where_time_is_short_and_slices_tell_sides(template, monkeypatch):
    survey = template.survey
    monkeypatch.setattr(survey.torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(survey.torch.cuda, "is_available", lambda: False)

    def settled(seconds, spacing=(1.0, 1.0, 1.0), size=(64, 64, 64), names=("liver",), shown=(1.0, 1.0, 1.0), **how):
        looks = [survey.Look(size, spacing, 1, False, np.array([1.0]), {}, shown)] * 3
        wanted = template.config.Preprocess(**how)
        return survey.dimensions(wanted, looks, names, seconds), survey.across(looks)

    assert settled(100) == (2, "D") and settled(7200) == settled(None) == (3, "D")
    assert settled(100, patch_size=(32, 32, 32)) == (3, "D"), "a patch is asked for"
    assert settled(100, passes=0) == (3, "D") and settled(7200, size=(1, 64, 64)) == (2, "D")
    assert settled(100, (0.5, 3.0, 0.5)) == (2, "H") and settled(100, (0.5, 0.5, 3.0)) == (2, "W")
    sagittal = {"spacing": (0.5, 0.5, 3.0), "names": ("left hippocampus",)}
    assert settled(100, **sagittal) == (3, "W") and settled(100, **sagittal, slices="D") == (2, "W")
    vertebrae = (0.15, 0.8, 0.9)
    assert settled(100, shown=vertebrae) == (3, "D") and settled(100, (0.5, 0.5, 3.0), shown=vertebrae) == (3, "W")
    assert settled(100, shown=(0.4, 0.4, 0.3)) == (2, "D")


def test_how_many_of_the_structures_a_slice_shows(template):
    """Ten behind one another and touching, as vertebrae; a slice with none does not count."""
    labels = np.zeros((26, 9, 9), np.uint8)
    for number in range(10):
        labels[3 + 2 * number : 5 + 2 * number, 2:5, 3:6] = number + 1
    assert template.survey.shown(labels) == pytest.approx((0.1, 1.0, 1.0))
    labels[labels > 2] = 0  # numbers that are not there
    assert template.survey.shown(labels) == pytest.approx((0.5, 1.0, 1.0))
    assert template.survey.shown(0 * labels) == (1.0, 1.0, 1.0)


def test_a_patch_of_other_dimensions_is_refused(template):
    with pytest.raises(ValueError, match="3 values for 2 dimensions"):
        template.config.Preprocess(dimensions=2, patch_size=(32, 32, 32))


def test_images_are_not_made_a_little_coarser(template):
    survey = template.survey
    looks = [survey.Look((50, 50, 50), (1.0,) * 3, 1, False, np.array([1.0]), {1: None})] * 4

    def settled(seconds):
        how = template.config.Preprocess(
            passes=32, dimensions=3, channels=1, patch_size=(32, 32, 32), intensity="zscore"
        )
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(survey, "look_around", lambda rows, root: looks)
            patched.setattr(survey.torch, "get_num_threads", lambda: 1)
            return survey.settle(how, template.config.Model(), [{}] * 10, None, {}, seconds).spacing

    assert settled(80) == settled(60) == (1, 1, 1) and min(settled(40)) > 1.1


def test_a_short_training_of_volumes_takes_smaller_patches(template, monkeypatch):
    survey = template.survey
    monkeypatch.setattr(survey.torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(survey.torch.cuda, "is_available", lambda: False)

    def most(seconds, **how):
        return survey.patch_voxels(template.config.Preprocess(**{"passes": 16, "dimensions": 3} | how), seconds)

    assert most(60) == survey.LEAST_PATCH < most(300) < most(450) < most(3600) == most(None) == 2**18
    assert most(60, dimensions=2) == most(60, passes=0) == 2**18 and most(60, patch_voxels=1000) == 1000
    looks = [survey.Look((60, 80, 80), (1.0,) * 3, 1, False, np.array([1.0]), {1: None})] * 4
    how = template.config.Preprocess(dimensions=3, spacing=(1, 1, 1))
    short, long = (survey.patch_size(looks, how, voxels, template.config.Model()) for voxels in (90_000, 2**18))
    assert np.prod(short) < 0.5 * np.prod(long)


def test_where_structures_are_more_alike_in_voxels_than_in_mm_headers_are_not_believed(template, capsys):
    """Images that were resized keep headers of old: the same vertebra has as many voxels whatever these say."""
    survey, generator = template.survey, np.random.default_rng(0)

    def looks(voxels):
        """Of two structures; extents in voxels are `voxels(spacing)` of images of spacings from 0.5 to 3 mm."""
        for mm in generator.uniform(0.5, 3, 8):
            spread = generator.normal(1, 0.05, 2)
            extents = {number: (voxels(mm) * spread[number - 1],) * 3 for number in (1, 2)}
            yield survey.Look((40, 40, 40), (float(mm),) * 3, 1, False, np.array([1.0]), extents)

    true, resized = list(looks(lambda mm: 12 / mm)), list(looks(lambda mm: 6))
    median = float(np.median([look.spacing[0] for look in resized]))
    near = [dataclasses.replace(look, spacing=((1, 1.2, 1.3)[n % 3],) * 3) for n, look in enumerate(resized)]
    assert all(survey.nominal(few) is None for few in (true, resized[:1], near[:3])) and not capsys.readouterr().out
    assert survey.nominal(resized[:4]) and survey.nominal(near), "the less clear, the more images it takes"
    assert survey.nominal(resized) == pytest.approx((median,) * 3, rel=1e-3)
    assert "nominal_spacing" in capsys.readouterr().out
    cut = [dataclasses.replace(look, structures=dict.fromkeys(look.structures)) for look in resized]
    assert survey.nominal(cut) is None, "of what the edge cuts nobody knows how large it is"

    how = template.config.Preprocess(dimensions=3, channels=1, patch_size=(32, 32, 32), intensity="zscore")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(survey, "look_around", lambda rows, root: resized)
        model, given = template.config.Model(), how.model_copy(update={"spacing": (1, 1, 1)})
        found, kept = (survey.settle(one, model, [{}] * 8, None, {}, None) for one in (how, given))
    assert found.spacing == found.nominal_spacing == survey.nominal(resized) and kept.nominal_spacing is None
    volumes = [Volume(np.zeros((30, 20, 10, 1)), np.diag([mm, mm, mm, 1])) for mm in (0.5, 3.0)]
    assert {template.data.prepare(volume, found).shape for volume in volumes} == {(1, 10, 20, 30)}


def test_a_structure_has_the_extent_of_its_voxels_unless_the_edge_cuts_it(template):
    labels = np.zeros((10, 20, 30), np.uint8)
    labels[2:6, 5:15, 1:29], labels[8:, 3, 3] = 1, 3
    found = template.survey.extents(labels)
    assert set(found) == {1, 3} and found[3] is None
    assert found[1] == pytest.approx([edge / 12**0.5 for edge in (4, 10, 28)])
    flat = template.survey.extents(labels[3:4])
    assert flat[1] == pytest.approx([edge / 12**0.5 for edge in (1, 10, 28)]), "a picture has no edge along its depth"


def test_a_patch_whose_axes_cannot_be_halved_becomes_the_nearest_one(template, capsys):
    how = {"dimensions": 3, "spacing": (1, 1, 1), "intensity": "zscore", "channels": 1}
    for asked, given in (((50, 64, 30), (48, 64, 32)), ((48, 64, 32), (48, 64, 32))):
        config = template.config.Config(preprocess=how | {"patch_size": asked})
        found = template.survey.resolve(config).preprocess.patch_size
        assert found == given and ("becomes [48, 64, 32]" in capsys.readouterr().out) == (asked != given)
