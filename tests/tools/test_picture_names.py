"""What may stand in place of a path to a picture."""

import json
from dataclasses import replace

import nibabel
import numpy as np
from PIL import Image


def grey() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 255, (24, 24), dtype=np.uint8)


async def test_pictures_are_named_by_pattern_or_by_sample(bench) -> None:
    rows = []
    for number in (2, 10, 1):
        folder = bench.data / f"case_{number}"
        folder.mkdir()
        Image.fromarray(grey()).save(folder / "image.png")
        Image.fromarray((grey() > 99).astype(np.uint8)).save(folder / "mask.png")
        rows.append({"sample_id": f"s{number}", "files": [f"case_{number}/image.png"], "target": None})
    rows[0]["target"] = "case_2/mask.png"
    (bench.workspace / "train_index.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    result = await bench("view_image", paths=["/data/case_*/im?ge.png"], overlays=["/data/case_*/mask.png"])
    images = [f"/data/case_{number}/image.png" for number in (1, 2, 10)]
    assert result.ok and [*result.data["images"]] == images and "labels" in result.data["images"][images[0]]
    result = await bench("view_image", paths=["s10", images[0], "s2"], overlays=["", "", "s2"])
    assert [*result.data["images"]] == [images[2], images[0], images[1]]
    assert "labels" in result.data["images"][images[1]] and "labels" not in result.data["images"][images[2]]
    assert (await bench("view_image", paths=["s2"], captions=["ill"])).ok
    for wrong, why in (
        ({"paths": ["s10"], "overlays": ["s10"]}, "s10 has no mask"),
        ({"paths": ["/data/*.png"]}, "matches nothing"),
        ({"paths": ["s3"]}, "does not exist"),
        ({"paths": ["/data/case_*/image.png"], "captions": ["a"]}, "3 paths have 1 captions"),
        ({"paths": ["../out*/secret.txt"]}, "outside"),
        ({"captions": ["a"]}, "Give paths"),
    ):
        refused = await bench("view_image", **wrong)
        assert not refused.ok and why in refused.summary, refused.summary
    for number in range(20):
        Image.fromarray(grey()).save(bench.data / f"flat{number}.png")
    result = await bench("view_image", paths=["/data/flat*.png"])
    assert len(result.data["images"]) == 16 and "matches more" in result.summary
    (bench.data / "linked").symlink_to(bench.outside)
    assert "matches nothing" in (await bench("view_image", paths=["/data/link*/*"])).summary


def index(bench, rows: list[dict[str, object]]) -> None:
    """An index, and an image for each of its cases, which has a brighter square where there is a class."""
    for row in rows:
        picture = grey() // 2
        picture[4:12, 4:12] += 120 * (row.get("label") not in (None, "normal"))
        row["files"] = [f"{row['sample_id']}/image.png"]
        (bench.data / str(row["sample_id"])).mkdir()
        Image.fromarray(picture).save(bench.data / str(row["files"][0]))
    (bench.workspace / "train_index.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


async def test_without_paths_cases_of_every_class_are_shown_with_their_class(bench) -> None:
    labels = ["normal"] * 20 + ["covid-19"] * 2 + [["covid-19", "effusion"]] * 9
    index(bench, [{"sample_id": f"case_{number:02d}", "label": label} for number, label in enumerate(labels)])
    result = await bench("view_image")
    assert result.ok and result.pictures, result.summary
    told = [line.split(":")[0].partition(" ")[2] for line in result.summary.splitlines()]
    assert told[:3] == [f"covid-19, /data/case_{n}/image.png" for n in (20, 21)] + [
        "covid-19, effusion, /data/case_22/image.png"
    ]
    assert [one.partition(", /")[0] for one in told[2:12]] == ["covid-19, effusion"] * 5 + ["normal"] * 5
    # The class stands with a case however it is named, and gives way to other words.
    named = await bench("view_image", paths=["case_20", "/data/case_00/*.png"])
    assert "1 covid-19, /data/case_20" in named.summary and "2 normal, /data/case_00" in named.summary
    worded = await bench("view_image", paths=["case_20", "case_00"], captions=["right", ""])
    assert "1 right, /data" in worded.summary and "2 /data" in worded.summary


async def test_cases_without_classes_are_shown_with_their_masks_and_reports_are_none(bench) -> None:
    rows = [{"sample_id": f"case_{n}", "label": None, "target": f"case_{n}/mask.png"} for n in range(2)]
    index(bench, [*rows, {"sample_id": "case_2", "label": None, "target": "The lungs are clear. " * 20}])
    for number in range(2):
        Image.fromarray((grey() > 99).astype(np.uint8)).save(bench.data / f"case_{number}" / "mask.png")
    result = await bench("view_image")
    assert result.ok and ["labels" in one for one in result.data["images"].values()] == [True, True, False]


async def test_whoever_sees_raw_data_has_no_cases_to_be_shown(bench) -> None:
    index(bench, [{"sample_id": "mueller", "label": "ill"}])
    raw = replace(bench, roots=replace(bench.roots, templates=None))
    assert "Give paths" in (await raw("view_image")).summary
    assert "ill" not in (await raw("view_image", paths=["/data/mueller/image.png"])).summary


async def test_a_case_of_several_views_shows_them_all(bench) -> None:
    index(bench, [{"sample_id": f"case_{n}", "label": "broken"} for n in range(12)])
    rows = [json.loads(line) for line in (bench.workspace / "train_index.jsonl").read_text().splitlines()]
    for row in rows:
        row["files"].append(f"{row['sample_id']}/image_2.png")
        Image.fromarray(grey()).save(bench.data / row["files"][1])
    (bench.workspace / "train_index.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    both = ["/data/case_3/image.png", "/data/case_3/image_2.png"]
    assert [*(await bench("view_image", paths=["case_3"])).data["images"]] == both
    shown = [*(await bench("view_image")).data["images"]]
    assert len(shown) == 16 and all(
        one.replace("image.png", "image_2.png") in shown for one in shown if one.endswith("image.png")
    )


async def test_few_frames_of_a_scan_are_channels_that_are_all_drawn(bench) -> None:
    for name, frames in (("two", 2), ("times", 9)):
        nibabel.save(
            nibabel.Nifti1Image(np.zeros((8, 8, 4, frames), np.float32), np.eye(4)), bench.data / f"{name}.nii.gz"
        )
    assert "channels 1 to 2 of 2" in (await bench("view_image", paths=["/data/two.nii.gz"])).summary
    assert "channel" not in (await bench("view_image", paths=["/data/times.nii.gz"])).summary
    assert "channel 1 of 2" in (await bench("view_image", paths=["/data/two.nii.gz", "/data/times.nii.gz"])).summary
