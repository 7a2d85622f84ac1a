"""The replicas of segmentation datasets: their trees, formats and traps as in the originals, and nothing besides."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from nibabel.filebasedimages import ImageFileError
from PIL import Image
from typer.testing import CliRunner

from m3bench.cli import app
from m3bench.replicas import ReplicaError, find, make

NAMES = ("BTCV", "VerSe", "OASIS", "COVID19", "INSTANCE2022", "MSD Pancreas")


@dataclass(frozen=True)
class Made:
    root: Path

    @cached_property
    def truth(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.root.with_name(self.root.name + ".truth.json").read_text("utf-8"))
        return found

    @property
    def labelled(self) -> list[dict[str, Any]]:
        return [case for case in self.truth["cases"] if "mask" in case]

    def quirks(self, kind: str) -> list[str]:
        return sorted(quirk["path"] for quirk in self.truth["quirks"] if quirk["quirk"] == kind)

    @cached_property
    def files(self) -> set[str]:
        return {path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file()}

    def load(self, path: str) -> Any:
        return nibabel.load(self.root / path)

    def values(self, path: str) -> set[int]:
        return {int(value) for value in np.unique(self.load(path).dataobj)}


@pytest.fixture(scope="module")
def replica(tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Makes each replica once, when it is first asked for."""
    made: dict[tuple[str, str], Made] = {}

    def get(name: str, layout: str = "paper") -> Made:
        if (name, layout) not in made:
            folder = tmp_path_factory.mktemp("replicas") / f"{name} {layout}"
            if layout == "paper":
                folder = tiny(find(name)[0])
            else:
                make(name, folder, seed=11, layout=layout)
            made[name, layout] = Made(folder)
        return made[name, layout]

    return get


def dtype(image: Any) -> str:
    return str(image.get_data_dtype())


@pytest.mark.parametrize("layout", ["paper", "distributed"])
@pytest.mark.parametrize("name", NAMES)
def test_every_case_is_an_image_with_a_mask_on_its_grid(replica: Any, name: str, layout: str) -> None:
    made = replica(name, layout)

    assert 12 <= len(made.labelled) <= 20
    allowed = set(made.truth["label_values"].values()) | {0}
    assert list(made.truth["label_values"]) == made.truth["labels"]
    elsewhere = set(made.quirks("mask_in_another_orientation"))
    for case in made.labelled:
        image, mask = made.load(case["image"]), made.load(case["mask"])
        assert image.ndim == 3 and min(image.shape) >= 12 and np.prod(image.shape) < 260_000
        assert made.values(case["mask"]) <= allowed
        same = image.shape == mask.shape and np.allclose(image.affine, mask.affine)
        assert same != (case["mask"] in elsewhere)
    assert {case["group"] for case in made.truth["cases"]}


@pytest.mark.parametrize("name", NAMES)
def test_the_papers_tree_is_images_masks_and_an_ordered_list_of_labels(replica: Any, name: str) -> None:
    made = replica(name)
    images, masks = {
        "BTCV": ("Training/img", "Training/label"), "COVID19": ("images", "segmentation_masks"),
    }.get(name, ("images", "masks"))  # fmt: skip

    assert json.loads((made.root / "labels.json").read_text("utf-8")) == made.truth["labels"]
    assert all(
        str(Path(case["image"]).parent) == images and str(Path(case["mask"]).parent) == masks for case in made.labelled
    )
    named = {path for case in made.truth["cases"] for path in (case["image"], case.get("mask")) if path}
    corrupt = {path for image in made.quirks("corrupt_gzip") for path in (image, image.replace("images/", "masks/"))}
    visible = {path for path in made.files if not Path(path).name.startswith(".")}
    assert visible == named | corrupt | {"labels.json"}


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_bytes_however_many_processes(tmp_path: Path, name: str) -> None:
    def digests(folder: str, seed: int, workers: int) -> dict[str, str]:
        root = tmp_path / folder
        make(name, root, size="layout", seed=seed, patients=5, workers=workers, layout="distributed")
        files = [path for path in root.rglob("*") if path.is_file()]
        facts = {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
        truth = root.with_name(f"{folder}.truth.json").read_bytes()
        return {**facts, "truth": hashlib.sha256(truth).hexdigest()}

    first = digests("a", 1, workers=1)
    assert len(first) > 10
    # Starting processes is what costs; that order does not matter is shown by one replica, all share the code.
    assert first == digests("b", 1, workers=2 if name == "BTCV" else 1)
    assert first != digests("c", 2, workers=1)


def test_verse_has_fixed_values_with_a_gap_and_windows_of_the_spine(replica: Any) -> None:
    made = replica("VerSe")
    values = made.truth["label_values"]

    assert values["C1"] == 1 and values["T1"] == 8 and values["L6"] == 25 and values["T13"] == 28
    assert sorted(values.values()) == [*range(1, 26), 28] and len(made.truth["labels"]) == 26
    seen: Counter[int] = Counter()
    for case in made.labelled:
        present = sorted(made.values(case["mask"]) - {0})
        assert 4 <= len(present) <= 12
        order = [value for value in [*range(1, 20), 28, *range(20, 26)] if value in present]
        whole = [*range(1, 20), 28, *range(20, 26)] if 28 in present else [*range(1, 26)]
        first = whole.index(order[0])
        assert whole[first : first + len(order)] == order, "the window has a hole"
        seen.update(present)
    assert set(seen) == set(values.values()), "every vertebra is in some scan"
    assert seen[28] == 1 and seen[25] == 1
    assert len(made.quirks("extra_T13")) == len(made.quirks("extra_L6")) == 1


def test_verse_orientations_forms_dtypes_and_series(replica: Any) -> None:
    made = replica("VerSe")
    images = [made.load(case["image"]) for case in made.labelled]

    assert {"".join(nibabel.aff2axcodes(image.affine)) for image in images} == {"PIR", "LAS", "RAS"}
    assert all((int(i.header["sform_code"]), int(i.header["qform_code"])) == (2, 0) for i in images)
    oblique = [np.count_nonzero(np.abs(image.affine[:3, :3]) > 1e-3) > 3 for image in images]
    assert any(oblique) and not all(oblique)
    stored = {case["mask"]: dtype(made.load(case["mask"])) for case in made.labelled}
    assert sorted(path for path, kind in stored.items() if kind == "float64") == made.quirks("float64_mask") != []
    assert set(stored.values()) == {"float64", "uint8"}
    series = made.quirks("several_series_of_one_patient")
    assert len(series) == 2 and all("_split-verse" in path for path in series)
    groups = Counter(case["group"] for case in made.labelled)
    assert sorted(groups.values())[-2:] == [1, 2]
    (turned,) = [case for case in made.labelled if case["mask"] in made.quirks("mask_in_another_orientation")]
    image, mask = (nibabel.as_closest_canonical(made.load(turned[part])) for part in ("image", "mask"))
    assert image.shape == mask.shape and np.allclose(image.affine, mask.affine, atol=1e-3)


def test_verse_as_distributed(replica: Any) -> None:
    made = replica("VerSe", "distributed")

    for case in made.labelled:
        top, raw, subject, file = case["image"].split("/")
        assert re.fullmatch(r"dataset-(verse19(training|validation|test)|01training|02validation|03test)", top)
        assert raw == "rawdata" and file.startswith(f"{subject}_") and file.endswith("_ct.nii.gz")
        assert ("_dir-ax" in file) == top.startswith("dataset-0")
        derived = case["mask"].removesuffix("vert_msk.nii.gz")
        assert derived == case["image"].replace("rawdata", "derivatives").replace("_ct.nii.gz", "_seg-")
        points = json.loads((made.root / f"{derived}subreg_ctd.json").read_text("utf-8"))
        mask = made.load(case["mask"])
        assert points[0] == {"direction": list(nibabel.aff2axcodes(mask.affine))}
        assert {point["label"] for point in points[1:]} == made.values(case["mask"]) - {0}
        assert all(
            0 <= point[axis] < size for point in points[1:] for axis, size in zip("XYZ", mask.shape, strict=True)
        )
        assert f"{derived}vert_snp.png" in made.files
    assert len(made.files) == 4 * len(made.labelled)


def test_oasis_has_35_structures_scaled_images_and_one_grid(replica: Any) -> None:
    made = replica("OASIS")

    assert sorted(made.truth["label_values"].values()) == [*range(1, 36)]
    assert made.truth["label_values"]["left choroid plexus"] == 19
    assert made.truth["label_values"]["right vessel"] == 34
    lacking = []
    for case in made.labelled:
        image = made.load(case["image"])
        assert re.fullmatch(r"images/OASIS_\d{4}_0000\.nii\.gz", case["image"])
        assert case["mask"] == case["image"].replace("images", "masks")
        assert dtype(image) == "float32" and image.shape == (40, 56, 48) and image.header.get_zooms() == (1, 1, 1)
        pixels, mask = np.asarray(image.dataobj), np.asarray(made.load(case["mask"]).dataobj)
        assert pixels.min() == 0 and pixels.max() == 1 and not pixels[mask == 0].any()
        missing = {*range(1, 36)} - made.values(case["mask"])
        assert missing in (set(), {34})
        lacking += [case["image"]] if missing else []
        # Left is on the left: the axes run to the right, front and head.
        assert np.argwhere(mask == 2)[:, 0].mean() < 19 and np.argwhere(mask == 21)[:, 0].mean() > 20
    assert lacking == made.quirks("no_right_vessel") and len(lacking) == 2


def test_oasis_as_distributed_has_distractors_and_no_label_list(replica: Any) -> None:
    made = replica("OASIS", "distributed")
    folders = Counter(str(Path(path).parent) for path in made.files)

    assert folders.pop("OASIS") == 3
    assert folders == {
        "OASIS/imagesTr": 16, "OASIS/labelsTr": 16, "OASIS/masksTr": 16, "OASIS/imagesTs": 4, "OASIS/masksTs": 4,
    }  # fmt: skip
    content = json.loads((made.root / "OASIS/OASIS_dataset.json").read_text("utf-8"))
    assert "labels" not in content and content["registration_val"][0].keys() == {"fixed", "moving"}
    assert made.values("OASIS/masksTr/OASIS_0001_0000.nii.gz") == {0, 1}


def test_covid19_mixes_hu_and_grey_values_and_shares_a_patient(replica: Any) -> None:
    made = replica("COVID19")

    assert made.truth["label_values"] == {"left lung": 1, "right lung": 2, "COVID-19 infection": 3}
    grey = set(made.quirks("grey_values_not_hu"))
    sizes: dict[bool, set[int]] = {True: set(), False: set()}
    for case in made.labelled:
        image = made.load(case["image"])
        pixels, mask = np.asarray(image.dataobj), np.asarray(made.load(case["mask"]).dataobj)
        exported = Path(case["image"]).name.startswith("radiopaedia_")
        assert exported == (case["image"] in grey) == (pixels.min() >= 0 and pixels.max() <= 255)
        assert dtype(image) == "int16" and (exported or pixels.min() < -900)
        sizes[exported].add(image.shape[0])
        # The first axis runs to the left: the left lung lies at higher indices.
        assert np.argwhere(mask == 1)[:, 0].mean() > np.argwhere(mask == 2)[:, 0].mean()
        assert (3 in made.values(case["mask"])) == (case["image"] not in made.quirks("no_lesion"))
    assert len(grey) == len(made.labelled) // 2 and sizes[True].isdisjoint(sizes[False])
    assert len(made.quirks("no_lesion")) == 1
    pair = [f"images/radiopaedia_10_85902_{series}.nii.gz" for series in (1, 3)]
    assert made.quirks("shared_patient") == pair
    groups = {case["image"]: case["group"] for case in made.labelled}
    assert groups[pair[0]] == groups[pair[1]] and len(set(groups.values())) == len(groups) - 1


def test_covid19_as_distributed_has_three_folders_of_masks(replica: Any) -> None:
    made = replica("COVID19", "distributed")
    names = {Path(case["image"]).name for case in made.labelled}

    for folder, allowed in {
        "Lung_Mask": {0, 1, 2},
        "Infection_Mask": {0, 1},
        "Lung_and_Infection_Mask": {0, 1, 2, 3},
    }.items():
        assert {path.name for path in (made.root / folder).iterdir()} == names
        assert all(made.values(f"{folder}/{name}") <= allowed for name in names)
    case = made.labelled[0]
    both, lungs, infection = (
        np.asarray(made.load(case[part]).dataobj) for part in ("mask", "lung_mask", "infection_mask")
    )
    assert np.array_equal(both == 3, infection == 1) and np.array_equal(both > 0, (lungs > 0) | (infection > 0))
    assert (made.root / "COVID-19-CT-Seg_20cases").is_dir() and not (made.root / "labels.json").exists()


def test_instance_is_flat_voxels_with_blood_in_every_case(replica: Any) -> None:
    made = replica("INSTANCE2022")

    assert made.truth["labels"] == ["intracranial hemorrhage"]
    volumes, tilted = [], []
    for case in made.labelled:
        image = made.load(case["image"])
        assert Path(case["image"]).name == Path(case["mask"]).name and re.fullmatch(
            r"\d{3}\.nii\.gz", Path(case["mask"]).name
        )
        assert dtype(image) == "int16" and made.values(case["mask"]) == {0, 1}
        plane, _, thick = image.header.get_zooms()
        assert 0.37 <= plane <= 0.6 and 4.4 <= thick <= 10
        assert 12 <= image.shape[2] <= 20
        mask = np.asarray(made.load(case["mask"]).dataobj)
        volumes.append(int(mask.sum()))
        assert 40 < np.median(np.asarray(image.dataobj)[mask > 0]) < 75
        tilted += [case["image"]] if abs(image.affine[2, 1]) > 1e-3 else []
    assert min(volumes) < 30 and max(volumes) > 1000 and min(volumes) >= 2
    assert tilted == made.quirks("tilted") != []
    planes = Counter(made.load(case["image"]).shape[:2] for case in made.labelled)
    assert planes == {(96, 96): len(made.labelled) - 1, (104, 96): 1}
    assert len(made.quirks("other_plane_size")) == 1


def test_instance_as_distributed(replica: Any) -> None:
    made = replica("INSTANCE2022", "distributed")
    folders = Counter(str(Path(path).parent) for path in made.files)

    assert folders == {"train_2/data": 14, "train_2/label": 14, "evaluation": 4}
    assert sorted(path.name for path in (made.root / "evaluation").iterdir())[0] == "101.nii.gz"


def test_pancreas_has_a_tumour_at_the_organ_and_slices_of_any_thickness(replica: Any) -> None:
    made = replica("MSD Pancreas")

    assert made.truth["label_values"] == {"pancreas": 1, "cancer": 2}
    thick = []
    for case in made.labelled:
        mask = made.load(case["mask"])
        assert made.values(case["mask"]) == {0, 1, 2} and re.fullmatch(r"masks/pancreas_\d{3}\.nii\.gz", case["mask"])
        thick.append(float(mask.header.get_zooms()[2]))
        organ, cancer = (np.asarray(mask.dataobj) == value for value in (1, 2))
        grown = np.zeros_like(organ)
        for axis in range(3):
            grown |= np.roll(organ, 1, axis) | np.roll(organ, -1, axis)
        assert (grown & cancer).any(), "the tumour lies at the organ"
    assert max(thick) / min(thick) > 8
    numbers = [int(case["case"]) for case in made.labelled]
    assert numbers != [*range(numbers[0], numbers[0] + len(numbers))]


@pytest.mark.parametrize("layout", ["paper", "distributed"])
def test_pancreas_carries_twins_and_a_broken_file(replica: Any, layout: str) -> None:
    made = replica("MSD Pancreas", layout)
    twins = {path for path in made.files if Path(path).name.startswith("._")}

    assert {path.replace("._", "") for path in twins} == {
        path for path in made.files if path.endswith(".nii.gz") and path not in twins
    }
    with pytest.raises(ImageFileError):
        made.load(sorted(twins)[0])
    (broken,) = made.quirks("corrupt_gzip")
    with pytest.raises((EOFError, OSError, ImageFileError)):
        np.asarray(made.load(broken).dataobj)


def test_pancreas_as_distributed_has_a_valid_dataset_json(replica: Any) -> None:
    made = replica("MSD Pancreas", "distributed")
    top = made.root / "Task07_Pancreas"
    content = json.loads((top / "dataset.json").read_text("utf-8"))

    assert content["labels"] == {"0": "background", "1": "pancreas", "2": "cancer"} and content["modality"] == {
        "0": "CT"
    }
    assert len(content["training"]) == content["numTraining"] == 15 and len(content["test"]) == content["numTest"] == 4
    assert all((top / pair["image"]).is_file() and (top / pair["label"]).is_file() for pair in content["training"])
    assert all(isinstance(path, str) and (top / path).is_file() for path in content["test"])
    numbers = [int(re.findall(r"\d{3}", text)[0]) for text in [pair["image"] for pair in content["training"]]]
    unlabelled = [int(re.findall(r"\d{3}", text)[0]) for text in content["test"]]
    assert min(numbers) < max(unlabelled) and min(unlabelled) < max(numbers), "numbers are interleaved"


def test_layout_size_has_as_many_cases_as_the_original(tmp_path: Path) -> None:
    made = make("instance2022", tmp_path / "data", size="layout", layout="distributed")

    assert len(list((tmp_path / "data/train_2/data").iterdir())) == 100
    assert len(list((tmp_path / "data/evaluation").iterdir())) == 30
    assert json.loads(made.read_text("utf-8"))["patients"] == 100


def test_refusals_come_before_anything_is_written(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("keep me")
    with pytest.raises(ReplicaError, match="not an empty folder"):
        make("VerSe", full)
    with pytest.raises(ReplicaError, match=r"no replica 'verse2'.*there are: .*btcv.*verse"):
        make("verse2", tmp_path / "new")
    with pytest.raises(ReplicaError, match="no size 'huge' of oasis; there are: tiny, small, layout"):
        make("oasis", tmp_path / "new", size="huge")
    with pytest.raises(ReplicaError, match="no layout 'theirs'; there are: paper, distributed"):
        make("OASIS", tmp_path / "new", layout="theirs")
    with pytest.raises(ReplicaError, match=r"needs about \d+ MB .* free; make room"):
        make("BTCV", tmp_path / "new" / "deep", patients=10**9)
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "mine.txt"]


def test_show_draws_cases_with_their_masks(replica: Any, tmp_path: Path) -> None:
    made = replica("VerSe")
    output = tmp_path / "verse.png"

    done = CliRunner().invoke(app, ["show", "verse", str(made.root), "--output", str(output), "--cases", "3"])

    assert done.exit_code == 0 and "3 cases" in done.output
    with Image.open(output) as picture:
        pixels = np.asarray(picture)
    assert pixels.shape[1] == 5 * 152 and pixels.shape[0] == 3 * (2 * 152 + 6)
    coloured = (pixels.max(axis=2) - pixels.min(axis=2)) > 40
    assert not coloured[:152].any() and coloured[152:304].mean() > 0.03

    (tmp_path / "empty").mkdir()
    nothing = CliRunner().invoke(app, ["show", "verse", str(tmp_path / "empty"), "--output", str(output)])
    assert nothing.exit_code == 2 and "no NIfTI file" in nothing.output


def test_the_command_line_knows_cards_names_layouts_and_sizes(tmp_path: Path) -> None:
    target = tmp_path / "data"
    done = CliRunner().invoke(app, ["make", "MSD Pancreas", str(target), "--layout", "distributed", "--patients", "4"])
    assert done.exit_code == 0 and (target / "Task07_Pancreas/dataset.json").is_file()

    listed = CliRunner().invoke(app, ["list"]).output
    for name in ("btcv", "verse", "oasis", "covid19", "instance2022", "msd-pancreas"):
        assert re.search(rf"^{name} .*tiny \d+ .*small \d+ .*layout \d+", listed, re.MULTILINE)
