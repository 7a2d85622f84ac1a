"""Classes with names that YAML, Markdown or a terminal would take for something else."""

from pathlib import Path

import pytest
import yaml
from propose_files import picture, table

from shared.contracts.cases import NAME, unfit
from shared.dataset.propose import propose
from shared.dataset.rules.reading import read_rules
from shared.dataset.rules.resolve import RulesError, resolve
from shared.training.package import PackageFacts, model_card

SENTENCE = "no sign of any acute disease of heart or lungs"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (("no", "yes"), None),
        (("1.0", "2.0"), None),
        (("false", "true"), None),
        (("N/O", "null: x"), None),
        (("[a]", "{b}"), None),
        (("</data>", "<b>x</b>"), None),
        (("# a", "*b"), None),
        (("a/b", "c\\d"), None),
        (("'a'", '"b"'), None),
        (("💀", "🫁"), None),
        (("سليم", "مريض"), None),
        (("healthy", SENTENCE), None),
        (("a\nb", " c\t d "), ("a b", "c d")),
        (("\u200fill\u200e", "\u202ewell\u202c"), ("ill", "well")),
        (("a\x07", "b\u200b"), ("a", "b")),
    ],
)
def test_odd_names_of_classes_are_found_and_read_again(
    tmp_path: Path, written: tuple[str, str], read: tuple[str, str] | None
) -> None:
    best = propose(_labelled(tmp_path, written), "diagnosis")[0]
    again = read_rules(yaml.safe_dump(best.rules, sort_keys=False, allow_unicode=True))
    covered = resolve(again, tmp_path).coverage
    assert covered == best.coverage and covered.problems == ()
    assert covered.counts == dict.fromkeys(read or written, 12)


@pytest.mark.parametrize("name", ["x" * 200, f"{SENTENCE}; " * 5])
def test_a_name_that_is_too_long_is_refused_before_anything_is_decoded(tmp_path: Path, name: str) -> None:
    best = propose(_labelled(tmp_path, ("healthy", name.strip())), "diagnosis")[0]
    [problem] = best.coverage.problems
    assert problem.startswith("1 of 2 names of classes or structures are ") and name[:40] in problem
    rules = {**best.rules, "label": {**best.rules["label"], "classes": {"healthy": "healthy", name.strip(): "ill"}}}  # type: ignore[dict-item]
    renamed = resolve(read_rules(yaml.safe_dump(rules)), tmp_path).coverage
    assert renamed.problems == () and renamed.counts == {"healthy": 12, "ill": 12}


def test_reports_are_no_classes_though_some_are_alike(tmp_path: Path) -> None:
    rows = [
        {"image": f"{n:03}.png", "findings": SENTENCE if n % 3 else f"{SENTENCE}, but a nodule of {n} mm in a lobe"}
        for n in range(24)
    ]
    for row in rows:
        picture(tmp_path / row["image"])
    table(tmp_path / "reports.csv", rows)
    assert propose(tmp_path, "diagnosis") == []


def test_what_stands_before_a_colon_is_text() -> None:
    text = """
task: diagnosis
dimensions: 2
images: [{files: "*.png"}]
label: {source: {field: x}, several: yes, classes: {yes: ill, no: no, 1.0: a, 2020-01-01: b, null: null}, only: [no]}
"""
    label = read_rules(text).label
    assert label and label.classes == {"yes": "ill", "no": "no", "1.0": "a", "2020-01-01": "b", "null": None}
    assert label.only == ("no",) and label.several is True
    with pytest.raises(RulesError, match=r"label\.only\.0: Input should be a valid string"):
        read_rules(text.replace("only: [no]", "only: [true]"))
    with pytest.raises(RulesError, match="a YAML reference"):
        read_rules(text.replace("dimensions: 2", "dimensions: &two 2\nslope: *two"))


def test_a_vocabulary_is_short_and_can_be_printed() -> None:
    assert unfit(("a", "x" * NAME)) == ""
    for names in (("",), ("x" * (NAME + 1),), ("a\u202e",), ("a\nb",), [str(n) for n in range(1001)]):
        assert unfit(names)


def test_the_card_of_a_package_shows_names_as_they_are() -> None:
    names = ("a|b", "<b>x</b>", "[y](z)", "left_lung")
    facts = PackageFacts(
        task="diagnosis", label_names=names, input_text="a file", input_shape=(1, 8, 8),
        counts={"train": dict.fromkeys(names, 3)}, metric_name="auc <b>", metrics={"auc <b>": 0.5}, model="resnet",
        parameters=1, epochs=1, seconds=1.0, device="CPU",
    )  # fmt: skip
    lines = model_card(facts).splitlines()
    assert r"Labels: a\|b, \<b\>x\</b\>, \[y\](z), left_lung." in lines
    assert r"| a\|b | 3 |" in lines and r"| auc \<b\> (chose the weights) | 0.500 |" in lines


def _labelled(folder: Path, names: tuple[str, str]) -> Path:
    rows = [
        {"image": f"{n:03}.png", "patient": f"P{n // 2:02}", "diagnosis": names[n // 2 % 2]} for n in range(24)
    ]  # two pictures a patient
    for row in rows:
        picture(folder / "images" / row["image"])
    table(folder / "labels.csv", rows)
    return folder
