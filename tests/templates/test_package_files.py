"""A package has every file that its predict.py leads to, and what it cannot have is named with what to change."""

import json

import pytest

from shared.training.exported import package_cli
from shared.training.imports import needed
from shared.training.package import described, write_package
from tests.templates.test_training_library import FACTS


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    (folder / "layers").mkdir(parents=True)
    (folder / "predict.py").write_text(
        "from shared.training.exported import package_cli\n\n\ndef late():\n    import model\n"
    )
    (folder / "model.py").write_text(
        "import torch\nfrom layers.norm import Norm\nfrom shared.imaging.volume import read\n"
    )
    (folder / "layers" / "norm.py").write_text("from PIL import Image\n\nclass Norm: ...\n")
    (folder / "train.py").write_text("import transformers\n")
    return folder


def test_imports_are_followed_through_the_workspace(workspace, tmp_path):
    write_package(
        tmp_path / "package",
        predict=workspace / "predict.py",
        save_weights=lambda path: path.write_bytes(b"weights"),
        config={},
        facts=FACTS,
    )
    package = tmp_path / "package"
    files = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    assert {"predict.py", "model.py", "layers/norm.py", "package_cli.py", "imaging/volume.py"} <= files
    assert "train.py" not in files
    assert (package / "predict.py").read_text().startswith("import package_cli\n")
    pinned = (package / "environment.txt").read_text()
    assert "torch==" in pinned and "pillow==" in pinned and "transformers" not in pinned


def test_the_card_says_which_channel_stood_in_for_which(workspace, tmp_path, monkeypatch):
    monkeypatch.chdir(workspace)
    told = {"channels": ["T1", "T1C"], "stood_in": {"T1C for T1": 6}}
    (workspace / "label_map.json").write_text(json.dumps({"names": ["a"]} | told))
    package, save = tmp_path / "package", lambda path: path.write_bytes(b"weights")
    write_package(package, predict=workspace / "predict.py", save_weights=save, config={}, facts=FACTS)
    assert "lacked a channel had another in its place: T1C for T1 in 6." in (package / "MODEL_CARD.md").read_text()
    assert json.loads((package / "label_map.json").read_text()).items() >= told.items()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("from shared.training.cache import ArrayCache", "model.py line 1 imports shared.training.cache.ArrayCache"),
        ("import torhc", "model.py line 1 imports torhc, which is not installed here"),
    ],
)
def test_what_a_package_cannot_have_is_named_in_two_lines(workspace, line, told):
    (workspace / "model.py").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"^[^\n]+\n[^\n]+$") as caught:
        needed(workspace / "predict.py")
    assert told in str(caught.value)


def test_a_missing_predict_py_is_named(workspace):
    (workspace / "predict.py").unlink()
    with pytest.raises(ValueError, match=r"predict.py is missing\nwrite it"):
        needed(workspace / "predict.py")


def test_a_network_is_told_by_the_object_itself():
    from torch import nn

    class Scaled(nn.Linear):
        def extra_repr(self):
            return "scaled"

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.silent = Scaled(2, 3), nn.ReLU()

    assert described(Network()) == "Network(body: Scaled(scaled))"
    assert described(nn.functional.cross_entropy) == "cross_entropy" and described(None) == ""


def test_a_folder_of_channels_has_to_name_them_in_their_order(tmp_path):
    channels = ("T2", "FLAIR", "T1 post")

    def case(*names):
        folder = tmp_path / f"case{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for name in names:
            (folder / name).touch()
        return folder

    package_cli.named(case("1_T2.nii.gz", "2_flair.nii.gz", "3_T1_post.nii.gz", ".DS_Store"), channels)
    package_cli.named(case("image.nii.gz"), channels)  # one file holds them all, as where cases are scored
    package_cli.named(case("one.nii.gz", "other.nii.gz"), ())  # of one channel, and of views, any name will do
    for names in (
        ("flair.nii.gz", "t1_post.nii.gz", "t2.nii.gz"),
        ("1_T2.nii.gz", "2_FLAIR.nii.gz", "3_T1.nii.gz"),
        ("a.nii.gz", "b.nii.gz", "c.nii.gz"),
    ):
        with pytest.raises(ValueError, match=r"the channels are T2, FLAIR, T1 post: .* 1_T2, 2_FLAIR, 3_T1 post"):
            package_cli.named(case(*names), channels)
