"""Classes that are grades: what the search takes for their order, and what rules make of it."""

from pathlib import Path

import pytest
from resolve_files import carried_out, picture, text

from shared.dataset.profile.profile import profile
from shared.dataset.propose import propose
from shared.dataset.propose.grades import from_least

NONE_TO_SEVERE = ("none", "mild", "moderate", "severe")


@pytest.mark.parametrize(
    ("names", "said", "order"),
    [
        ("severe moderate none mild", "", NONE_TO_SEVERE),
        ("NonDemented VeryMildDemented MildDemented ModerateDemented", "", None),
        ("kein gering mäßig hochgradig", "", None),
        ("Grade_III Grade_I Grade_II", "", ("Grade_I", "Grade_II", "Grade_III")),
        ("normal stage2 stage1", "", ("normal", "stage1", "stage2")),
        ("0 2 1 4 3", "KL grade", ("0", "1", "2", "3", "4")),
        ("0 2 1 4 3", "diagnosis", ()),
        ("0 1 2 9", "grade", ()),
        ("mild severe", "severity", ()),
        ("covid pneumonia normal", "stage of the disease", ()),
        ("mild severe unknown", "", ()),
        ("ward1 ward2 ward3", "", ()),
    ],
)
def test_the_order_of_names(names: str, said: str, order: tuple[str, ...] | None) -> None:
    found = from_least({name: name for name in names.split()}, said)
    assert found == (tuple(names.split()) if order is None else order)


def test_codes_say_where_names_without_a_degree_stand() -> None:
    eye = {"0": "No DR", "1": "Mild", "2": "Moderate", "3": "Severe", "4": "Proliferative DR"}
    assert from_least(eye, "") == tuple(eye.values())
    turned = dict(zip(eye, reversed(eye.values()), strict=True))
    assert from_least(turned, "") == tuple(eye.values()), "codes may go down"
    assert from_least({"1": "moderate", "2": "Severe", "3": "mild", "4": "scarred"}, "severity") == ()
    kinds = {"1": "cyst", "2": "stone", "3": "tumour"}
    assert from_least(kinds, "finding") == () and from_least(kinds, "stage") == ("cyst", "stone", "tumour")


def test_a_data_dictionary_gives_classes_their_order(tmp_path: Path) -> None:
    rows = []
    for number in range(40):
        picture(tmp_path / f"knees/{number:03d}.png", *range(number))
        rows.append(f"{number:03d},{number % 4},{number % 2 + 1},{50 + number}\n")
    text(tmp_path / "export.csv", "record_id,oa,side,years\n" + "".join(rows))
    text(
        tmp_path / "dictionary.csv",
        "Variable,Label,Choices\nrecord_id,Record,\n"
        'oa,How much arthrosis there is,"0, none | 1, doubtful | 2, clear | 3, severe"\n'
        'side,Side,"1, right | 2, left"\nyears,Age,\n',
    )
    told = profile(tmp_path).for_rules()["tables"]
    assert any("oa (0 = none, 1 = doubtful, 2 = clear, 3 = severe), side (1 = right, 2 = left)" in one for one in told)
    best = propose(tmp_path, "diagnosis", target="tell how much arthrosis a knee has")[0]
    assert best.rules["label"]["order"] == ["none", "doubtful", "clear", "severe"]
    assert best.coverage.ordered and best.coverage.label_names == ("none", "doubtful", "clear", "severe")
    assert "grades from none to severe" in best.says


def test_rules_give_classes_their_order_and_name_all_of_them(tmp_path: Path) -> None:
    for number, grade in enumerate(("severe", "none", "mild", "none")):
        picture(tmp_path / f"{grade}/{number}.png")
    label = {"source": {"field": "grade"}, "order": ["none", "mild", "moderate", "severe"]}
    found = carried_out(tmp_path, images="{grade}/{n}.png", label=label).coverage
    assert found.ordered and found.label_names == ("none", "mild", "severe") and not found.problems
    found = carried_out(tmp_path, images="{grade}/{n}.png", label=label | {"order": ["none", "mild"]}).coverage
    assert "`order` of `label` does not say where these classes stand: severe" in found.problems
    kinds = carried_out(tmp_path, images="{grade}/{n}.png", label={"source": {"field": "grade"}}).coverage
    assert not kinds.ordered and kinds.label_names == ("mild", "none", "severe")
    with pytest.raises(ValueError, match="`order` is of classes of which a case has one"):
        carried_out(tmp_path, images="{grade}/{n}.png", label=label | {"separator": "|"})
