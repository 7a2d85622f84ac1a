"""What a person reads of a profile: plain text of 100 columns."""

from pathlib import Path

from shared.contracts.profile import Candidate, FileGroup, Profile
from shared.contracts.values import Source
from shared.dataset.profile.profile import profile
from shared.dataset.profile.show import WIDTH, show
from tests.dataset.survey_layouts import LAYOUTS


def lines(name: str, root: Path) -> list[str]:
    LAYOUTS[name].make(root)
    return show(profile(root)).splitlines()


def test_classes_in_folders_with_a_split(tmp_path: Path) -> None:
    text = lines("split_and_classes", tmp_path / "data")
    assert text[0] == "48 files, 0.0 MB; 48 are images or masks" or text[0].endswith("48 are images or masks")
    assert "  images    48 pictures (2D)" in text
    assert "  classes   folder 3 (2 values): NORMAL 24, PNEUMONIA 24" in text
    assert "  splits    folder 2 (3 values): train 28, test 12, val 8" in text
    assert "   100% of the images: diagnosis (a class for each image)" in text


def test_masks_beside_volumes(tmp_path: Path) -> None:
    text = "\n".join(lines("file_a_structure", tmp_path / "data"))
    assert "  8 volumes: ct/{part1}.nii.gz\n      14 x 12 x 8 voxels; 0.8 x 0.8 x 2 mm; values" in text
    assert "  16 masks: {part1}/{part2}.nii.gz\n      14 x 12 x 8 voxels; 0.8 x 0.8 x 2 mm; values 1\n" in text
    assert "CT by its values" in text and "Nothing tells classes apart." in text


def test_columns_say_what_they_are(tmp_path: Path) -> None:
    text = " ".join(" ".join(lines("lists_of_findings", tmp_path / "data")).split())
    assert "entries.csv: 30 rows Image Index (names the images), Finding Labels" in text
    assert "column Patient ID of entries.csv (15 values): 0 2" in text
    assert "column Finding Labels of entries.csv (4 values): Mass 18" in text


def test_long_names_break_behind_a_slash_and_stay_within_the_width() -> None:
    path = "/".join(f"a-folder-with-a-rather-long-name-{number}" for number in range(6)) + "/" + "x" * 150 + ".png"
    told = Profile(
        digest="", files=1, size=3_000_000_000, images=1,
        groups=(FileGroup(pattern=path, files=1, suffix=".png", kind="picture", example=path),),
        labels=(Candidate(source=Source(value="x"), where=path, distinct=2, share=0.4), ),
        warnings=(f"1 file of 0 bytes, such as {path}: copy it again",), skipped=(path,),
    )  # fmt: skip
    text = show(told)
    assert max(map(len, text.splitlines())) <= WIDTH and text.startswith("1 file, 3.0 GB")
    assert "".join(text.split()).count("".join(path.split())) == 4
    assert any(line.endswith("name-1/") for line in text.splitlines())


def test_an_empty_folder(tmp_path: Path) -> None:
    text = show(profile(tmp_path))
    assert "0 files" in text and "Nothing: no classes, masks or texts" in text and "No file is an image" in text
