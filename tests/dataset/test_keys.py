import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.dataset.tables.forms import same
from shared.dataset.tables.keys import Named, match, match_values


def cases(*files: str, **fields: list[str]) -> list[Named]:
    return [Named(file, (file,), {name: texts[at] for name, texts in fields.items()}) for at, file in enumerate(files)]


@pytest.mark.parametrize(
    "key",
    ["a/img_007.nii.gz", "img_007.nii.gz", "img_007", "IMG_007", "IMG-7", "img 7", "a\\img_007.nii.gz", "./a/img_007",
     "/a/img_007.NII.GZ", "img_007.png", " img_007 ", "data/x/a/img_007.nii.gz"],
)  # fmt: skip
def test_a_key_names_a_file_as_people_write_it(key: str) -> None:
    found = match([key], cases("a/img_007.nii.gz", "a/img_070.nii.gz", "b/img_0071.nii.gz"))
    assert found.cases == {key: (0,)}


def test_exact_forms_come_before_loose_ones() -> None:
    found = match(["7", "007"], cases("7.png", "007.png"))
    assert found.cases == {"7": (0,), "007": (1,)}
    found = match(["A.png"], cases("a.png", "A.png"))
    assert found.cases == {"A.png": (1,)}


def test_what_fits_two_is_told_and_not_guessed() -> None:
    found = match(["1"], cases("a/1.png", "b/1.png"), "stem")
    assert not found.cases and found.ambiguous == {"1": ("1", "1")}
    found = match(["07"], cases("7.png", "007.png"))
    assert not found.cases and "07" in found.ambiguous
    found = match(["7", "07"], cases("007.png", "12.png"))
    assert not found.cases and set(found.ambiguous) == {"7", "07"}


def test_a_loose_form_takes_nothing_from_an_exact_one() -> None:
    found = match(["train/1.png", "test/1.png"], cases("test/1.png", "test/2.png"))
    assert found.cases == {"test/1.png": (0,)} and found.unknown == ["train/1.png"]


def test_a_table_of_patients_names_all_their_images() -> None:
    named = cases("p1/a.png", "p1/b.png", "p2/a.png", patient=["p1", "p1", "p2"])
    assert match(["P1", "P2", "P3"], named).cases == {"P1": (0, 1), "P2": (2,)}
    found = match(["p1", "p2"], named, "folder")
    assert found.cases == {"p1": (0, 1), "p2": (2,)} and found.names == "folder"


def test_bids_subjects_and_other_prefixes() -> None:
    named = cases("sub-01/x.nii", "sub-02/x.nii", subject=["01", "02"])
    assert match(["sub-01", "sub-02"], named).cases == {"sub-01": (0,), "sub-02": (1,)}
    assert match(["I2511", "I2512"], cases("2511.pt", "2512.pt")).cases == {"I2511": (0,), "I2512": (1,)}
    # Two words before the number are two names.
    assert not match(["CN_12"], cases("AD_12.nii")).cases


def test_numbers_that_people_write_apart_in_another_way() -> None:
    found = match_values(["TC/2020/00123", "A20 005181", "9/9"], [["TC202000123"], ["A20005181"], ["99"]], "header.X")
    assert found.cases == {"TC/2020/00123": (0,), "A20 005181": (1,)} and found.unknown == ["9/9"]
    # Two keys for one number are not told apart.
    assert not match_values(["TC-2020-0-7", "TC/2020/07"], [["TC202007"]], "header.X").cases


def test_keys_woven_of_folders_and_the_beginning_of_a_name() -> None:
    named = cases("case2/case2_day1/scans/slice_0065_44_36.png", "case2/case2_day9/scans/slice_0065_44_36.png")
    found = match(["case2_day1_slice_0065", "case2_day9_slice_0065", "case2_day9_slice_0066"], named)
    assert found.cases == {"case2_day1_slice_0065": (0,), "case2_day9_slice_0065": (1,)}
    assert found.unknown == ["case2_day9_slice_0066"]


def test_keys_that_names_of_several_begin_with() -> None:
    there = cases("A/AN-001_1.png", "A/AN-001_2.png", "B/BA-7/img1.jpg", "T/TS031_long.png", "T/TS031_2_x.png")
    found = match(["AN-001", "BA-7", "TS-031", "TS-031_2", "AN-0011", "S"], there, "path")
    # Of several keys the longest counts, and one number begins names by chance.
    assert found.cases == {"AN-001": (0, 1), "TS-031": (3,), "TS-031_2": (4,)}
    assert found.unknown == ["BA-7", "AN-0011", "S"]
    assert not match(["AN-001", "AN-002"], cases("AN-001_a/AN-002_b.png"), "path").cases, "two as long"


def test_several_fields_woven() -> None:
    named = [Named("a", ("x.png",), {"site": "GE", "n": "7"}), Named("b", ("y.png",), {"site": "U", "n": "07"})]
    assert match(["GE-07", "U-7"], named, "{site}-{n}").cases == {"GE-07": (0,), "U-7": (1,)}


def test_paths_of_another_machine() -> None:
    named = cases("CT/Stone/Stone- (1).jpg", "CT/Cyst/Cyst- (1).jpg")
    keys = ["/content/data/CT all/Stone/Stone- (1).jpg", "/content/data/CT all/Cyst/Cyst- (1).jpg"]
    assert match(keys, named).cases == {keys[0]: (0,), keys[1]: (1,)}


def test_paths_of_another_machine_with_names_of_letters_and_numbers() -> None:
    there = cases("png/1/a1f2.png", "png/1/77b0.png", "png/2/c9d9.png")
    found = match(["/mnt/x/1/s1/a1f2.dcm", "/mnt/x/1/s1/77b0.dcm", "/mnt/x/2/s2/c9d9.dcm"], there, "path")
    assert sorted(found.cases.values()) == [(0,), (1,), (2,)]


def test_a_key_of_several_names_of_a_path() -> None:
    named = cases("w/A/GE/07/pre/T1.nii.gz", "w/A/GE/07/pre/T2.nii.gz", "w/U/12/pre/T1.nii.gz", "x/B-1/B-1_dwi.nii.gz")
    found = match(["GE_7_T1", "GE-07-T2", "U_12_T1", "A/GE/T1", "B-1_dwi", "GE_T1_07", "GE_12_T1"], named)
    assert found.cases == {"GE-07-T2": (1,), "U_12_T1": (2,), "B-1_dwi": (3,)}
    assert set(found.ambiguous) == {"GE_7_T1", "A/GE/T1"} and found.unknown == ["GE_T1_07", "GE_12_T1"]


def test_several_names_of_a_path_that_fit_two_are_not_guessed() -> None:
    found = match(["P_1"], cases("a/P/1.png", "b/P/1.png", "b/Q/1.png"))
    assert not found.cases and found.ambiguous == {"P_1": ("a/P/1.png", "b/P/1.png")}


def test_two_suffixes() -> None:
    named = cases("images/1_IM-0001-4001.dcm.png", "images/1_IM-0001-3001.dcm.png")
    assert match(["1_IM-0001-4001"], named).cases == {"1_IM-0001-4001": (0,)}


def test_a_key_of_several_lines_names_several() -> None:
    named = cases("c/0.png", "c/1.png", "d/0.png")
    assert match(["c/0.png\nc/1.png", "d/0.png"], named).cases == {"c/0.png\nc/1.png": (0, 1), "d/0.png": (2,)}


def test_the_files_of_one_case_are_no_contradiction() -> None:
    named = [Named("p1", ("p1/1.png", "p1/2.png"), {}), Named("p2", ("p2/1.png",), {})]
    assert match(["p1", "p2"], named).cases == {"p1": (0,), "p2": (1,)}


def test_auto_takes_what_fits_most() -> None:
    named = cases(*(f"s{n % 5}_{n}.png" for n in range(20)), number=[str(n) for n in range(20)])
    assert match([str(n) for n in range(20)], named).names == "number"
    assert match([f"s{n % 5}_{n}" for n in range(20)], named).names == "path"


def test_names_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ValueError, match="auto, path, name, stem, folder, patient"):
        match(["1"], cases("a.png", patient=["1"]), "subject")


def test_values_of_another_table() -> None:
    found = match_values(["1", "2", "9"], [["1"], ["1", "2"], []], "links.uid")
    assert found.cases == {"1": (0, 1), "2": (1,)} and found.unknown == ["9"]


WORD = st.text("abAB019_- .", min_size=1, max_size=6).filter(lambda text: text.strip(" .") == text)


@given(st.lists(st.tuples(WORD, WORD), min_size=1, max_size=8, unique=True))
def test_every_whole_path_names_its_own_file(paths: list[tuple[str, str]]) -> None:
    files = ["/".join(path) + ".png" for path in paths]
    found = match(files, cases(*files), "path")
    assert found.cases == {file: (at,) for at, file in enumerate(files)}


def _digits(text: str) -> list[str]:
    """Of a name as it is, and without the marks in it."""
    return ["".join(one for one in same(form) if one.isdigit()) for form in (text, re.sub(r"[_. -]", "", text))]


@given(st.lists(WORD, min_size=1, max_size=8, unique=True), st.lists(WORD, min_size=1, max_size=8, unique=True))
def test_a_key_never_names_what_looks_different(keys: list[str], names: list[str]) -> None:
    found = match(keys, cases(*(f"{name}.png" for name in names)), "stem")
    for key, hits in found.cases.items():
        # `00_0A` is `000A` without its marks, though zeros that lead a number say nothing.
        here, there = _digits(key), _digits(names[hits[0]])
        assert len(hits) == 1 and any(one == other for one, other in zip(here, there, strict=True))
    assert set(found.cases) | set(found.ambiguous) | set(found.unknown) == set(keys)


def test_twenty_thousand_keys_take_seconds() -> None:
    named = cases(*(f"images/{n % 100}/scan_{n:06d}.png" for n in range(20_000)))
    start = time.process_time()
    found = match((f"Scan-{n}" for n in range(20_000)), named)
    assert len(found.cases) == 20_000 and time.process_time() - start < 20
