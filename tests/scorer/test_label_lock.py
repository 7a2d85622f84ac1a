"""An index in which several labels may hold: what seals, and what each fault is told as."""

import pytest
from test_lock import META as SINGLE
from test_lock import pack

from services.scorer.lock.seal import check_and_seal, read_index
from shared.contracts.data import IndexMeta, IndexRow, PackList

LABELS = ("effusion", "mass", "hernia")
META = SINGLE.model_copy(update={"label_names": LABELS})
HELD = (("effusion",), (), ("effusion", "mass"), ("mass",), ("hernia", "mass"), ())


def rows(**of_number: dict[str, object]) -> list[IndexRow]:
    """24 patients, one sample each; `r7={...}` changes row 7. The first of test is 16."""
    found = []
    for number in range(24):
        split = "train" if number < 12 else "val" if number < 16 else "test"
        made = {"sample_id": f"s{number}", "patient": f"p{number}", "label": HELD[number % 6], "split": split}
        made |= {"files": (f"{number}.png",), "attributes": {"age": 40 + number % 7}}
        found.append(IndexRow(**made | of_number.get(f"r{number}", {})))
    return found


def seal(found: list[IndexRow], meta: IndexMeta = META):
    return check_and_seal(found, meta, PackList(samples=tuple(map(pack, found))))


def without(label: str, split: str) -> list[IndexRow]:
    return [
        row.model_copy(update={"label": tuple(name for name in row.label if name != label)})
        if row.split == split
        else row
        for row in rows()
    ]


def with_column(make) -> list[IndexRow]:
    return [row.model_copy(update={"attributes": {"x": make(row.label)}}) for row in rows()]


def test_it_seals_and_every_sample_is_counted_beside_its_labels() -> None:
    lines = "\n".join(row.model_dump_json() for row in rows()).encode()
    assert read_index(lines) == tuple(rows()) and b'"label":[]' in lines
    sealed = seal(list(read_index(lines)))
    assert not sealed.problems
    assert sealed.counts == {
        "train": {"all": 12, "effusion": 4, "mass": 6, "hernia": 2},
        "val": {"all": 4, "effusion": 2, "mass": 2},
        "test": {"all": 8, "effusion": 2, "mass": 4, "hernia": 2},
    }
    assert sealed.view.rows[1].label == ()


def test_a_label_that_the_test_set_lacks_is_no_fault() -> None:
    assert not seal(without("hernia", "test")).problems


@pytest.mark.parametrize(
    ("found", "gate", "says"),
    [
        (rows(r3={"label": "mass"}), "labels_alike", "1 rows have a label as a text where others have lists"),
        (rows(r16={"label": None}), "test_labelled", "s16"),
        (rows(r5={"label": ("mass", "mass")}), "labels_once", "1 rows list a label twice: s5"),
        (rows(r5={"label": ("mass", "scar")}), "labels_known", "s5"),
        (without("hernia", "train"), "labels_vary", "hernia in train"),
        (
            [row.model_copy(update={"label": (*row.label, "mass")}) if row.split == "test" else row
             for row in without("mass", "test")],
            None,
            "",
        ),
        ([row.model_copy(update={"label": ()}) if row.split == "test" else row for row in rows()],
         "labels_vary", "any label in test"),
        (with_column(lambda held: int("mass" in held)), "attributes_without_label", "x"),
        (with_column(lambda held: "no" if "hernia" in held else "yes"), "attributes_without_label", "x"),
        (with_column(lambda held: " | ".join(sorted(held)).title()), "attributes_without_label", "x"),
        (with_column(lambda held: list(held)), "attributes_without_label", "x"),
        (with_column(lambda held: len(held)), None, ""),
    ],
)  # fmt: skip
def test_each_fault_is_found_by_its_own_gate(found: list[IndexRow], gate: str | None, says: str) -> None:
    problems = seal(found).problems
    assert set(problems) == ({gate} if gate else set())
    assert says in problems.get(gate or "", "")
