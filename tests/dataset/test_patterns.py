import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.dataset.files.patterns import PatternError, compile, first_match

NAME = st.text("abcXYZ019 -äß(", min_size=1, max_size=8).filter(lambda text: text.strip() == text)


@pytest.mark.parametrize(
    ("pattern", "path", "fields"),
    [
        ("imagesTr/{case}_{channel}.nii.gz", "imagesTr/la_003_0000.nii.gz", {"case": "la_003", "channel": "0000"}),
        ("{patient}_*.png", "P1_2_3.png", {"patient": "P1"}),
        ("{class}/{name}.png", "Pneumonia/person1.PNG", {"class": "Pneumonia", "name": "person1"}),
        ("sub-{s}/anat/sub-{s}_T1w.nii.gz", "sub-01/anat/sub-01_T1w.nii.gz", {"s": "01"}),
        ("sub-{s}/anat/sub-{s}_T1w.nii.gz", "sub-01/anat/sub-02_T1w.nii.gz", None),
        ("**/{x}.png", "a.png", {"x": "a"}),
        ("**/{x}.png", "b/c/a.png", {"x": "a"}),
        ("*.png", "b/a.png", None),
        ("a/**", "a/b/c", {}),
        ("a/**", "ab/c", None),
        ("./a/*.CSV", "A/x.csv", {}),
        ("{a}{b}", "xyz", {"a": "xy", "b": "z"}),
        ("{x}.png", ".png", None),
        ("a+(1)[x].png", "a+(1)[x].png", {}),
        ("Bilder/Gr\u00f6\u00dfe_{x}.png", "bilder/gro\u0308\u00dfe_1.png", {"x": "1"}),
    ],
)
def test_a_pattern_takes_a_path_or_not(pattern: str, path: str, fields: dict[str, str] | None) -> None:
    assert compile(pattern).match(path) == fields


@pytest.mark.parametrize("pattern", ["", " ", "/a", "C:/a", "a\\b", "{a", "a}", "{1}", "{}", "{a b}", "../x", "a/../b"])
def test_a_wrong_pattern_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(PatternError, match=r"pattern|`"):
        compile(pattern)


def test_too_many_wildcards_in_one_name_are_refused() -> None:
    with pytest.raises(PatternError, match="fewer"):
        compile("*a" * 9)
    assert compile("*/*/*/*/*/*/*/*/*/*").match("1/2/3/4/5/6/7/8/9/0") == {}


def test_a_literal_pattern_names_one_file() -> None:
    assert compile("Labels.csv").literal and compile("tab/größe.csv").literal
    assert not compile("*.csv").literal and not compile("{x}.csv").literal


@given(st.lists(NAME, min_size=1, max_size=4))
def test_every_path_is_taken_by_itself_by_stars_and_by_fields(parts: list[str]) -> None:
    path = "/".join(parts)
    assert compile(path).match(path.upper() if path.isascii() else path) == {}
    assert compile("/".join("*" for _ in parts)).match(path) == {}
    fields = compile("/".join(f"{{f{place}}}" for place in range(len(parts)))).match(path)
    assert fields == {f"f{place}": part for place, part in enumerate(parts)}
    assert compile("**").match(path) == {}
    assert compile("*").match(path) == ({} if len(parts) == 1 else None)


@given(NAME, NAME, NAME)
def test_fields_put_back_into_the_pattern_give_the_path(folder: str, name: str, tail: str) -> None:
    pattern = "{a}/{b}_{c}.nii.gz"
    path = f"{folder}/{name}_{tail}.nii.gz"
    fields = compile(pattern).match(path)
    assert fields is not None
    assert re.sub(r"\{(\w)\}", lambda found: fields[found[1]], pattern) == path


def test_the_first_pattern_that_fits_counts() -> None:
    patterns = [compile("{a}.png"), compile("{b}/{c}.png")]
    assert first_match(patterns, "x/y.png") == {"b": "x", "c": "y"}
    assert first_match(patterns, "x/y.jpg") is None
