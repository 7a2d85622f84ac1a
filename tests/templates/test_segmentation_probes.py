"""The two probes on segmentations: what is right passes, what is wrong is named."""

import hashlib
import json

import pytest

PREDICT = """
import json, sys
from pathlib import Path
import nibabel, numpy as np
*inputs, _, out = sys.argv[1:]
out = Path(out)
out.mkdir()
cases = []
for path in map(Path, inputs):
    source = next(path.iterdir())
    image = nibabel.load(source)
    data, affine = np.asanyarray(image.dataobj), image.affine.copy()
    mask = np.where(data > 75, 28, 0).astype(np.uint8)
    CHANGE
    nibabel.save(nibabel.Nifti1Image(mask, affine), out / f"{path.name}.nii.gz")
    cases.append({"input": path.name, "mask": f"{path.name}.nii.gz"})
answer = {"task": "organ_segmentation", "labels": ["ball", "dark block"], "label_values": VALUES, "cases": cases}
(out / "predictions.json").write_text(json.dumps(answer))
"""
VALUES = {"ball": 28, "dark block": 3}


def package(bench, change="pass", values=VALUES, head=""):
    """A package by hand: thresholds, and does wrong what `change` says."""
    folder = bench.workspace / "package"
    folder.mkdir()
    code = head + PREDICT.replace("CHANGE", change).replace("VALUES", repr(values))
    texts = {
        "model.safetensors": "",
        "config.json": json.dumps({"task": "organ_segmentation"}),
        "label_map.json": json.dumps({"names": list(VALUES), "values": VALUES}),
        "predict.py": code,
        "metadata.json": "{}",
        "MODEL_CARD.md": "",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    sums = [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in texts.items()]
    (folder / "SHA256SUMS").write_text("".join(sums))


def verify(bench):
    bench.organs(3)
    bench.write()
    return bench.probe("verify_package", "--package", "package", "--index", "train_index.jsonl")


def test_a_trained_package_passes(trained_masks):
    facts = trained_masks.probe("verify_package", "--package", "package", "--index", "train_index.jsonl")
    assert facts["ok"], facts
    assert facts["schema_valid"] and facts["on_input_grid"] and facts["output_follows_image"] and facts["cases"] == 4
    assert set(facts["voxels"]) == {"ball", "dark block"} and facts["largest_change"] > 0


def test_a_right_package_by_hand_passes(organs):
    package(organs)
    facts = verify(organs)
    assert facts["ok"], facts
    assert facts["voxels"]["ball"] > 0 and facts["voxels"]["dark block"] == 0


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("mask = mask[1:]", "the mask has shape [23, 20, 12], the input [24, 20, 12]"),
        ("affine[0, 3] += 1", "the mask's affine is not the input's"),
        ("mask[0, 0, 0] = 1", "values that the label map lacks: [1.0]"),
        ("mask = mask.astype(np.float32)", "not whole numbers"),
        ("mask[:] = 28", "the masks do not change when the image does"),
        ("mask[:] = 0", "all masks are empty"),
        ("path = path.with_name('other')", "cases must hold one entry for each input"),
    ],
)
def test_a_wrong_mask_is_named(organs, change, problem):
    package(organs, change)
    facts = verify(organs)
    assert not facts["ok"] and any(problem in error for error in facts["errors"]), facts["errors"]


def test_other_values_and_our_code_are_refused(organs):
    package(organs, values={"ball": 1, "dark block": 2}, head="import shared.training\n")
    facts = verify(organs)
    assert facts["imports_of_ours"] and not facts["ok"]
    predict = organs.workspace / "package" / "predict.py"
    predict.write_text(predict.read_text().replace("import shared.training\n", ""))
    sums = organs.workspace / "package" / "SHA256SUMS"
    lines = [line for line in sums.read_text().splitlines() if "predict.py" not in line]
    digest = hashlib.sha256(predict.read_bytes()).hexdigest()
    sums.write_text("\n".join([*lines, f"{digest}  predict.py"]) + "\n")
    facts = organs.probe("verify_package", "--package", "package", "--index", "train_index.jsonl")
    assert facts["schema_valid"] is False and "other labels or label_values" in facts["errors"][0]


def test_batches_of_patches_pass(trained_masks):
    facts = trained_masks.probe("verify_batches", "--folder", "/workspace", "--config", "config.yaml")
    assert facts["ok"], facts
    assert facts["batches"]["train"]["shape"] == [4, 1, 24, 12, 20] == facts["batches"]["val"]["shape"]
    assert facts["batches"]["train"]["labels"]["ball"] > 0 and facts["batches"]["val"]["std"] > 0
    assert facts["forward"]["logits_shape"] == [4, 3, 24, 12, 20] and facts["forward"]["gradients"]
    assert facts["counts"] == {"train": 4, "val": 2} and facts["label_names"] == ["ball", "dark block"]


def test_wrong_classes_lost_structures_and_bad_samples_are_named(organs):
    organs.organs(3)
    organs.write()
    kept = (organs.data / "mask0.nii.gz").read_bytes()
    (organs.data / "mask0.nii.gz").write_bytes(b"torn")
    facts = organs.probe("verify_batches")
    assert "mask0.nii.gz cannot be read" in facts["bad_samples"]["s0"] and facts["errors"] == [], facts
    (organs.data / "mask0.nii.gz").write_bytes(kept)
    path, kept = organs.workspace / "patches.py", '"labels": item["labels"][0].round().long()'
    assert kept in path.read_text()
    path.write_text(path.read_text().replace(kept, kept.replace("item", "5 + 0 * item", 1)))
    facts = organs.probe("verify_batches")
    assert any("class numbers [5] are not in 0..2" in error for error in facts["errors"]), facts["errors"]
    path.write_text(path.read_text().replace("5 + 0 *", "0 *"))
    facts = organs.probe("verify_batches")
    assert any("none of the 8 patches that were drawn holds a structure" in e for e in facts["errors"]), facts["errors"]
