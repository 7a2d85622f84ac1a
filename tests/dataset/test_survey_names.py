"""How names generalise, without a look into files; and what bounds a survey."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.dataset.files.patterns import compile
from shared.dataset.profile.profile import profile_of
from shared.dataset.survey.families import fine_groups, join
from shared.dataset.survey.naming import evenly, pattern_of
from shared.dataset.survey.splits import split_of
from shared.dataset.survey.survey import survey
from tests.dataset.survey_files import mask_picture, picture, table

NAMES: dict[str, tuple[list[str], set[str]]] = {
    "numbers": (["a/liver_001.nii.gz", "a/liver_014.nii.gz"], {"a/liver_{part1}.nii.gz"}),
    "a text that repeats": (
        [f"sub-{n:02d}/anat/sub-{n:02d}_T1w.nii.gz" for n in range(1, 9)],
        {"sub-{part1}/anat/sub-{part1}_T1w.nii.gz"},
    ),
    "names of people": (
        ["Smith/Smith_1.png", "Smith/Smith_2.png", "Jones/Jones_1.png", "Kim/Kim_1.png"],
        {"{part1}/{part1}_{part2}.png"},
    ),
    "dates": (
        [f"P{n:03d}/2019-0{n}-0{m}/IM{m:04d}.dcm" for n in range(1, 5) for m in (1, 2, 3)],
        {"P{part1}/2019-{part2}-{part3}/IM{part4}.dcm"},
    ),
    "brackets": (
        ["covid/patient7 (3).png", "covid/patient12 (1).png", "covid/patient8 (2).png"],
        {"covid/patient{part1} ({part2}).png"},
    ),
    "other suffixes, upper and lower case": (
        ["x/1.PNG", "x/2.png", "x/3.jpg", "x/4.jpg"],
        {"x/{part1}.PNG", "x/{part1}.jpg"},
    ),
    "numbers in suffixes": (["v/1.mp4", "v/2.mp4", "v/1.h5", "v/2.h5"], {"v/{part1}.mp4", "v/{part1}.h5"}),
    "sequences are no field": (
        [f"c{n}/c{n}_{name}.nii.gz" for n in range(1, 9) for name in ("t1", "t2", "flair")],
        {f"c{{part1}}/c{{part1}}_{name}.nii.gz" for name in ("t1", "t2", "flair")},
    ),
    "sides of a split": (
        [f"{side}/{side}_{n}.png" for side in ("train", "test") for n in range(5)],
        {"{part1}/{part1}_{part2}.png"},
    ),
    "one odd name": ([*(f"case_{n:03d}.nii.gz" for n in range(40)), "the mean of all.nii.gz"],
                     {"case_{part1}.nii.gz", "the mean of all.nii.gz"}),
    "a constant number": ([f"BraTS20_{n:03d}.nii" for n in range(5)], {"BraTS20_{part1}.nii"}),
    "braces and stars": (["{a}*1.png"], {"*a*1.png"}),
}  # fmt: skip


def patterns(files: list[str]) -> list[tuple[str, list[str]]]:
    files = sorted(files)
    found = []
    for group in join(fine_groups(files), files, lambda _: False):
        paths = sorted(files[at] for one in group.members for at in one.at)
        found.append((pattern_of(group.segments, group.suffix, paths), paths))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_names_generalise(name: str) -> None:
    files, expected = NAMES[name]
    assert {pattern for pattern, _ in patterns(files)} == expected


PART = st.text(st.sampled_from("abTt12_- .(){}*é"), min_size=1, max_size=7).filter(lambda text: text[0] != ".")
PATHS = st.lists(st.lists(PART, min_size=1, max_size=3).map("/".join), min_size=1, max_size=30, unique=True)


@given(PATHS)
@settings(max_examples=150, deadline=None)
def test_every_file_is_in_one_family_whose_pattern_takes_it(files: list[str]) -> None:
    found = patterns(files)
    assert sorted(file for _, paths in found for file in paths) == sorted(files)
    for pattern, paths in found:
        assert all(compile(pattern).match(path) is not None for path in paths)


def test_free_names_stay_one_family() -> None:
    words = [f"{a}{b}{c}x{n}".translate(str.maketrans("0123", "qrst")) for n, (a, b, c) in enumerate(
        (a, b, c) for a in "abcdef" for b in "ghijkl" for c in "mnopq")]  # fmt: skip
    assert len(patterns([f"img/{word}.png" for word in words])) == 1
    assert len(patterns([f"{word}/scan.png" for word in words])) == 1


def test_a_sample_is_even_and_hides_nothing_that_alternates() -> None:
    taken = evenly(range(100_000), 1000)
    assert len(set(taken)) == 1000 and taken[0] == 0 and max(taken) > 99_000
    for step in (2, 3, 4, 10, 100):
        assert {at % step for at in taken} == set(range(step))


@pytest.mark.parametrize(("text", "side"), [("imagesTr", "train"), ("Testing", "test"), ("val_data", "val"),
                                            ("train_val", None), ("contrast", None)])  # fmt: skip
def test_sides_of_a_split(text: str, side: str | None) -> None:
    assert split_of(text) == side


def test_without_time_names_alone_count_and_it_is_said(tmp_path: Path) -> None:
    for number in range(8):
        picture(tmp_path / f"images/{number}.png", number)
        mask_picture(tmp_path / f"masks/{number}.png")
    found = survey(tmp_path, budget=0.0)
    assert [one.role for one in found.families] == ["image", "mask"]
    assert any("the time for it was up" in text for text in found.skipped) and profile_of(found).files == 16


def test_of_a_large_table_the_rows_of_the_images_count(tmp_path: Path) -> None:
    names = [f"{number:07d}" for number in range(60_000)]
    for name in names[::600]:
        picture(tmp_path / f"img/{name}.png", int(name))
    table(tmp_path / "all.csv", ("id", "grade", "note"), *((name, int(name) // 600 % 3, "x" * 40) for name in names))
    found = survey(tmp_path)
    assert found.tables[0].total == 60_000 and len(found.tables[0].rows) < 25_000
    assert found.tables[0].share == 1 and found.labels[0].values == {"0": 34, "1": 33, "2": 33}
