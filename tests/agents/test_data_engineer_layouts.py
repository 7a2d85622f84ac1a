"""How images and masks pair up, over the layouts in which segmentation datasets come."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from data_engineer_bench import RANDOM, Bench, End, brief, table, volume
from PIL import Image

from m3bench.replicas import make
from services.data_engineer.role import exclusions
from shared.contracts.data import IndexMeta


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def segment(bench: Bench, card: str = "3D CT with masks", **plan: Any) -> End:
    end = bench.run(brief(card=card, **({"task": "organ_segmentation", "dimensions": 3, "metric": "dice"} | plan)))
    assert (end.tool, end.refused) == ("submit_dataset", [])
    return end


def pairs(bench: Bench) -> set[tuple[str, str]]:
    return {(row["files"][0], row["target"]) for row in bench.rows()}


def parallel(bench: Bench, image: str, mask: str, cases: range | list[int] = range(1, 8), values: Any = (1, 2)) -> None:
    for number in cases:
        volume(bench.data / image.format(number))
        volume(bench.data / mask.format(number), values)


def test_names_that_differ_in_their_prefix_and_an_unlabelled_part(bench: Bench) -> None:
    names = ["spleen", "right kidney", "left kidney"]
    parallel(bench, "T/Training/img/img{:04}.nii.gz", "T/Training/label/label{:04}.nii.gz", [1, 2, 3, 21, 22, 23, 40])
    volume(bench.data / "T/Training/label/label0021.nii.gz", [1, 3])
    for number in (61, 62):
        volume(bench.data / f"T/Testing/img/img{number:04}.nii.gz")
    (bench.data / "T/dataset.json").write_text(json.dumps({"label_list": names}))
    (bench.data / "T/Training/img/._img0001.nii.gz").write_bytes(b"\0\5\26\7")
    end = segment(bench)
    assert ("T/Training/img/img0040.nii.gz", "T/Training/label/label0040.nii.gz") in pairs(bench)
    meta = bench.meta()
    assert meta["label_values"] == {"spleen": 1, "right kidney": 2, "left kidney": 3} and meta["label_names"] == names
    assert len(bench.rows()) == 7 and sum(row["split"] == "test" for row in bench.rows()) == 2
    (reason,) = [reason for reason in meta["excluded"] if "without masks" in reason]
    assert meta["excluded"][reason] == [f"T/Testing/img/img{number:04}.nii.gz" for number in (61, 62)]
    told = exclusions(IndexMeta.model_validate(meta))
    assert any("without masks" in text and "img0061" in text for text in told)
    geometry: Any = end.facts["geometry"]
    assert geometry["orientation"] == {"RAS": 7} and geometry["image_sizes"] == {"12x10x6": 7}
    assert [axis["median"] for axis in geometry["spacing_mm"]] == [0.8, 0.8, 3.0]
    assert sum(geometry["structures"]["right kidney"].values()) == 6
    assert sum(geometry["structures"]["spleen"].values()) == 7


LAYOUTS: dict[str, tuple[str, str, str]] = {
    "the same stem": ("images/{:03}.nii.gz", "masks/{:03}.nii.gz", ""),
    "a channel on the image only": ("imagesTr/case_{:03}_0000.nii.gz", "labelsTr/case_{:03}.nii.gz", ""),
    "a suffix in one folder": ("all/case{:03}.nii.gz", "all/case{:03}_mask.nii.gz", ""),
    "short numbers": ("scans/img{}.nii", "contours/label{}.nii.gz", ""),
    "folders of cases": ("c{0:03}/c{0:03}_ct.nii.gz", "c{0:03}/c{0:03}_seg-vert_msk.nii.gz", "folder"),
    "parallel folders of cases": (
        "raw/sub-verse{0:03}/sub-verse{0:03}_dir-ax_ct.nii.gz",
        "derivatives/sub-verse{0:03}/sub-verse{0:03}_dir-ax_seg-vert_msk.nii.gz",
        "sub-",
    ),
    "names that recur": ("O_{:04}_MR1/aligned_norm.nii.gz", "O_{:04}_MR1/seg35.nii.gz", "folder"),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(bench: Bench, name: str) -> None:
    image, mask, patients = LAYOUTS[name]
    parallel(bench, image, mask)
    segment(bench)
    assert pairs(bench) == {(image.format(number), mask.format(number)) for number in range(1, 8)}
    assert bench.meta()["label_values"] == {"label_1": 1, "label_2": 2}
    assert patients in bench.meta()["grouping_from"]


def test_a_list_of_pairs_with_a_mapping_of_labels(bench: Bench) -> None:
    parallel(bench, "imagesTr/a{:03}.nii.gz", "labelsTr/b{:03}.nii.gz")  # only the list knows which belong together
    order = [3, 1, 2, 5, 4, 7, 6]
    entries = [
        {"image": f"./imagesTr/a{number:03}.nii.gz", "label": f"./labelsTr/b{other:03}.nii.gz"}
        for number, other in zip(range(1, 8), order, strict=True)
    ]
    entries.append({"image": "./imagesTr/a099.nii.gz", "label": "./labelsTr/b099.nii.gz"})
    volume(bench.data / "imagesTs/a050.nii.gz")
    listed = {
        "labels": {"0": "background", "1": "pancreas", "2": "cancer"},
        "training": entries,
        "test": ["./imagesTs/a050.nii.gz"],
    }
    (bench.data / "dataset.json").write_text(json.dumps(listed))
    segment(bench, task="anomaly_detection")
    assert ("imagesTr/a001.nii.gz", "labelsTr/b003.nii.gz") in pairs(bench) and len(pairs(bench)) == 7
    assert bench.meta()["label_values"] == {"pancreas": 1, "cancer": 2}
    left = bench.meta()["excluded"]
    assert ["./imagesTr/a099.nii.gz", "./labelsTr/b099.nii.gz"] in left.values() and [
        "imagesTs/a050.nii.gz"
    ] in left.values()


def test_a_table_of_pairs_and_patients(bench: Bench) -> None:
    parallel(bench, "x/{:03}.nii.gz", "y/{:03}.nii.gz", range(1, 11))
    rows = [
        {"scan_file": f"x/{number:03}.nii.gz", "mask_file": f"y/{number:03}.nii.gz", "patient_id": f"P{number // 2}"}
        for number in range(1, 11)
    ]
    table(bench.data / "list.csv", rows)
    segment(bench)
    assert bench.meta()["grouping"] == "stated"
    sides: dict[str, set[str]] = {}
    for row in bench.rows():
        sides.setdefault(row["patient"], set()).add(row["split"])
    assert len(sides) == 6 and all(len(found) == 1 for found in sides.values())


def test_of_several_kinds_of_masks_the_one_with_most_structures_or_the_card(bench: Bench) -> None:
    names = ["coronacases_001", "coronacases_002", "coronacases_003", "radiopaedia_4_85506_1", "radiopaedia_7_85703_0",
             "radiopaedia_29_86490_1", "radiopaedia_29_86491_1", "radiopaedia_10_85902_1"]  # fmt: skip
    for number, name in enumerate(names):
        grey = "radiopaedia" in name
        volume(bench.data / f"COVID-19-CT-Seg_20cases/{name}.nii.gz", range(number, 255, 25) if grey else None)
        for folder, values in (("Lung_Mask", (1, 2)), ("Infection_Mask", (1,)), ("Lung_and_Infection_Mask", (1, 2, 3))):
            volume(bench.data / folder / f"{name}.nii.gz", values)
    end = segment(bench, task="anomaly_detection")
    assert {target.split("/")[0] for _, target in pairs(bench)} == {"Lung_and_Infection_Mask"}
    assert any("intensities of two kinds" in text for text in end.answer.handoff.oddities)
    patient = {row["sample_id"].split("/")[1][:-7]: row["patient"] for row in bench.rows()}
    assert patient["radiopaedia_29_86490_1"] == patient["radiopaedia_29_86491_1"] != patient["radiopaedia_4_85506_1"]
    assert bench.meta()["grouping"] == "derived"
    segment(bench, task="anomaly_detection", card="chest CT with masks of the infection")
    assert {target.split("/")[0] for _, target in pairs(bench)} == {"Infection_Mask"}


def test_brain_masks_beside_labels_and_channels_on_both(bench: Bench) -> None:
    parallel(bench, "imagesTr/OASIS_{:04}_0000.nii.gz", "labelsTr/OASIS_{:04}_0000.nii.gz", values=(1, 2, 3))
    for number in (*range(1, 8), 415, 416):
        folder = "Tr" if number < 400 else "Ts"
        volume(bench.data / f"masks{folder}/OASIS_{number:04}_0000.nii.gz", (1,))
        volume(bench.data / f"images{folder}/OASIS_{number:04}_0000.nii.gz")
    (bench.data / "labels.txt").write_text(
        "1 left white matter 245 245 245 0\n2 left cortex 1 1 1 0\n3 vessel 0 0 0 0\n"
    )
    segment(bench, card="3D brain MRI, images and masks")
    assert {target.split("/")[0] for _, target in pairs(bench)} == {"labelsTr"}
    assert list(bench.meta()["label_values"]) == ["left white matter", "left cortex", "vessel"]


def test_values_keep_their_numbers_and_a_split_of_the_dataset_is_kept(bench: Bench) -> None:
    for part, numbers in (("train", range(1, 8)), ("test", range(1, 4))):  # numbered from 1 in both
        for number in numbers:
            volume(bench.data / part / "images" / f"{number:02}.nii.gz")
            volume(bench.data / part / "masks" / f"{number:02}.nii.gz", (1, 2, 28) if number < 4 else (1, 2))
    (bench.data / "labels.json").write_text(json.dumps(["C1", "C2", "C3", "T13"]))
    end = segment(bench)
    assert bench.meta()["label_values"] == {"C1": 1, "C2": 2, "T13": 28}
    assert any("28 as T13" in text for text in end.answer.warnings)
    assert bench.meta()["split_from"] == "dataset"
    assert {row["split"] for row in bench.rows() if row["sample_id"].startswith("test/")} == {"test"}
    assert len({row["patient"] for row in bench.rows()}) == 10


def test_pictures_with_masks_and_names_from_the_card(bench: Bench) -> None:
    for number in range(8):
        for folder in ("images", "masks"):
            (bench.data / folder).mkdir(exist_ok=True)
            data = RANDOM.integers(0, 255, (20, 24), dtype=np.uint8)
            if folder == "masks":
                data = np.zeros((20, 24), np.uint8)
                data[:5], data[5:9] = 1, 2
            Image.fromarray(data).save(bench.data / folder / f"{36000 + number}.png")
    segment(bench, task="anomaly_detection", dimensions=2, card="2D X-ray. Labels: 1 effusion, 2 nodule.", max_train=4)
    assert bench.meta()["label_values"] == {"effusion": 1, "nodule": 2}
    assert sum(row["split"] != "test" for row in bench.rows()) == 4


def test_unusable_cases_are_left_out_by_name_with_a_remedy(bench: Bench) -> None:
    parallel(bench, "images/{:02}.nii.gz", "masks/{:02}.nii.gz", range(1, 18))
    path: Callable[[str, int], Path] = lambda folder, number: bench.data / folder / f"{number:02}.nii.gz"  # noqa: E731
    for folder, number in (("images", 1), ("masks", 2)):
        content = path(folder, number).read_bytes()
        path(folder, number).write_bytes(content[: len(content) // 2])
    path("masks", 3).unlink()
    path("images", 4).unlink()
    volume(path("masks", 5), (1, 2), shape=(12, 10, 5))
    volume(path("masks", 6), (1, 2), affine=np.diag([-0.8, 0.8, 3, 1]))
    volume(path("masks", 7), (1, 1.5))
    volume(path("images", 8), shape=(12, 10, 6, 2))
    nibabel.save(nibabel.Nifti1Image(np.full((12, 10, 6), 1.0), np.diag([0.8, 0.8, 3, 1])), path("masks", 9))  # float64
    volume(path("masks", 10), ())
    shutil.copy(path("images", 11), path("images", 12))
    shutil.copy(path("masks", 11), path("masks", 12))
    end = segment(bench)
    names = {int(row["sample_id"][7:9]) for row in bench.rows()}
    assert names == {9, 10, 11, 13, 14, 15, 16, 17}
    left = {reason: names for reason, names in bench.meta()["excluded"].items()}
    told = {name.split(":")[0]: (reason, name) for reason, names in left.items() for name in names}
    assert all(": " in reason for reason in left), "each reason has a remedy"
    for file, said in {
        "images/01.nii.gz": "truncated file: copy it again from the source",
        "masks/02.nii.gz": "truncated file",
        "images/03.nii.gz": "image without its mask",
        "masks/04.nii.gz": "mask without its image",
        "masks/05.nii.gz": "another grid",
        "masks/06.nii.gz": "another grid",
        "masks/07.nii.gz": "no labels",
        "images/08.nii.gz": "4D volume",
        "images/12.nii.gz": "copy of another sample",
    }.items():
        assert said in told[file][0], told
    assert "12x10x5" in told["masks/05.nii.gz"][1] and "LAS" in told["masks/06.nii.gz"][1]
    assert "1.5" in told["masks/07.nii.gz"][1]
    assert any("1 cases have an empty mask" in text for text in end.answer.handoff.oddities)
    assert any("2 x truncated file" in text for text in exclusions(IndexMeta.model_validate(bench.meta())))


def test_a_replica_as_it_is_distributed(bench: Bench) -> None:
    bench.data.rmdir()
    truth = json.loads(make("verse", bench.data, layout="distributed", workers=1).read_text())
    segment(bench)
    turned = [quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] == "mask_in_another_orientation"]
    (names,) = [names for reason, names in bench.meta()["excluded"].items() if "another grid" in reason]
    assert [name.split(":")[0] for name in names] == turned
    everything = {path.relative_to(bench.data).as_posix() for path in bench.data.rglob("*_ct.nii.gz")}
    used = {row["sample_id"] for row in bench.rows()}
    (unseen,) = [names for reason, names in bench.meta()["excluded"].items() if "no training case has" in reason]
    assert [quirk["path"] for quirk in truth["quirks"] if quirk["quirk"] == "extra_L6"] == unseen  # in validation only
    assert len(everything - used) == 2 and bench.meta()["split_from"] == "dataset"
    assert 28 in bench.meta()["label_values"].values() and 25 not in bench.meta()["label_values"].values()
    assert all(row["patient"] in row["target"] for row in bench.rows())
