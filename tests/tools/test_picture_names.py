"""What may stand in place of a path to a picture."""

import json

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
    ):
        refused = await bench("view_image", **wrong)
        assert not refused.ok and why in refused.summary, refused.summary
    for number in range(20):
        Image.fromarray(grey()).save(bench.data / f"flat{number}.png")
    result = await bench("view_image", paths=["/data/flat*.png"])
    assert len(result.data["images"]) == 16 and "matches more" in result.summary
    (bench.data / "linked").symlink_to(bench.outside)
    assert "matches nothing" in (await bench("view_image", paths=["/data/link*/*"])).summary
