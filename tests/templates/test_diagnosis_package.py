"""A package predicts on any machine and folder, from any format, and its output follows the image."""

import json
import shutil
import stat

import nibabel
import numpy as np
from PIL import Image


def cases_of(folder):
    return json.loads((folder / "predictions.json").read_text())["cases"]


def test_format_and_read_only_package(trained_3d, predict, tmp_path):
    package = tmp_path / "package"
    shutil.copytree(trained_3d.workspace / "package", package)
    package.chmod(stat.S_IRUSR | stat.S_IXUSR)
    before = sorted(item.name for item in package.iterdir())
    done = predict(package, tmp_path / "out", trained_3d.data / "s000", trained_3d.data / "s001")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert found["task"] == "diagnosis" and found["labels"] == ["plain", "left block", "right block"]
    assert [case["input"] for case in found["cases"]] == ["s000", "s001"]
    for case in found["cases"]:
        assert abs(sum(case["probabilities"].values()) - 1) < 1e-6
        assert case["label"] == max(case["probabilities"], key=case["probabilities"].get)
    assert sorted(item.name for item in package.iterdir()) == before


def test_same_scan_in_every_format_and_changed_scan(trained_3d, predict, tmp_path):
    planes = [np.asarray(Image.open(trained_3d.data / "s001" / f"{n}.png")) for n in range(9)]
    volume = np.stack(planes).astype(np.float32)
    np.save(tmp_path / "array.npy", volume)
    # D, H, W of ours are S, A, R of the file; an RAS+ file needs no turning.
    nibabel.save(nibabel.Nifti1Image(volume.transpose(2, 1, 0), np.diag([0.7, 0.7, 3.0, 1])), tmp_path / "scan.nii.gz")
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for number, plane in enumerate(planes):
        if number % 3:
            Image.fromarray(np.stack([plane] * 3, -1)).save(mixed / f"{number}.PNG")
        else:
            Image.fromarray(plane).save(mixed / f"{number}.bmp")
    changed = volume.copy()
    changed[:, :, :20] = 255 - changed[:, :, :20]
    np.save(tmp_path / "changed.npy", changed)
    inputs = [
        trained_3d.data / "s001",
        *(tmp_path / name for name in ("array.npy", "scan.nii.gz", "mixed", "changed.npy")),
    ]
    done = predict(trained_3d.workspace / "package", tmp_path / "out", *inputs)
    assert done.returncode == 0, done.stderr
    rows = [list(case["probabilities"].values()) for case in cases_of(tmp_path / "out")]
    for same in rows[1:4]:
        np.testing.assert_allclose(same, rows[0], atol=2e-3)
    assert np.abs(np.array(rows[4]) - rows[0]).max() > 1e-4


def test_bad_and_constant_inputs(trained_3d, predict, tmp_path):
    """One bad input costs only itself; a constant scan is no division by zero; all bad is exit code 1."""
    np.save(tmp_path / "flat.npy", np.full((9, 40, 40), 7.0))
    np.save(tmp_path / "nan.npy", np.full((9, 40, 40), np.nan))
    (tmp_path / "noise.png").write_bytes(b"no image")
    (tmp_path / "empty").mkdir()
    bad = [tmp_path / "nan.npy", tmp_path / "noise.png", tmp_path / "empty", tmp_path / "absent"]
    package = trained_3d.workspace / "package"
    done = predict(package, tmp_path / "out", *bad, tmp_path / "flat.npy")
    assert done.returncode == 0, done.stderr
    cases = cases_of(tmp_path / "out")
    assert all(set(case) == {"input", "error"} for case in cases[:4])
    assert np.isfinite(list(cases[4]["probabilities"].values())).all()
    done = predict(package, tmp_path / "out2", *bad)
    assert done.returncode == 1 and "nan.npy" in done.stderr and "Traceback" not in done.stderr


def test_changed_weights_are_refused(trained_3d, predict, tmp_path):
    package = tmp_path / "package"
    shutil.copytree(trained_3d.workspace / "package", package)
    weights = bytearray((package / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (package / "model.safetensors").write_bytes(weights)
    done = predict(package, tmp_path / "out", trained_3d.data / "s000")
    assert done.returncode == 1 and "model.safetensors has changed" in done.stderr
    assert not (tmp_path / "out").exists()


def test_verify_package_on_a_good_and_on_broken_packages(trained_3d, tmp_path):
    facts = trained_3d.probe("verify_package", "--package", "package", "--index", "train_index.jsonl")
    assert facts["ok"] and facts["errors"] == []
    assert facts["checksums_hold"] and facts["schema_valid"] and facts["output_follows_image"]
    assert facts["cases"] == 4 and facts["largest_change"] > 1e-4

    blind = trained_3d.workspace / "blind"
    shutil.copytree(trained_3d.workspace / "package", blind)
    script = (blind / "predict.py").read_text()
    (blind / "predict.py").write_text(script.replace("self.network(batch)", "self.network(batch * 0)"))
    facts = trained_3d.probe("verify_package", "--package", "blind", "--index", "train_index.jsonl")
    assert facts["checksums_hold"] is False and not facts["ok"]
    from shared.training.package import checksums

    (blind / "SHA256SUMS").write_text(checksums(blind))
    sample = str(trained_3d.data / "s000")
    facts = trained_3d.probe("verify_package", "--package", "blind", "--sample", sample)
    assert facts["checksums_hold"] is True and facts["output_follows_image"] is False and not facts["ok"]

    (blind / "model.py").write_text("import shared.training\n" + (blind / "model.py").read_text())
    facts = trained_3d.probe("verify_package", "--package", "blind", "--sample", sample)
    assert facts["imports_of_ours"] == ["model.py: import shared"]
    facts = trained_3d.probe("verify_package", "--package", "absent", "--sample", sample)
    assert facts["errors"] == ["absent is no folder"]
