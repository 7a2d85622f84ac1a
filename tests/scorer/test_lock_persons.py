"""Patients of the rules against what the files say: joined where a header or column says so, else a gate."""

from collections.abc import Mapping, Sequence

import pytest
from case_tables import labelled, locked, problems, table

from shared.contracts.cases import CaseRecord, CaseTable, Persons

SIX = {f"key{number}": number // 6 for number in range(60)}
"""Six cases in turn are of one person; the rules take each for a patient of its own."""
WHERE = "column patient of cases.csv"


def told(stated: bool, of: Mapping[str, int] = SIX, cases: Sequence[CaseRecord] = ()) -> CaseTable:
    given = table(cases or labelled(60))
    return given.model_copy(update={"persons": (Persons(where=WHERE, stated=stated, of=dict(of)),)})


@pytest.mark.parametrize("named", [60, 24])
def test_people_of_a_header_or_column_are_joined_also_where_it_names_some_only(named: int) -> None:
    of = dict(list(SIX.items())[:named])
    lock = locked(told(True, of))
    people: dict[int, set[tuple[str, str]]] = {}
    for key, row in zip(lock.sealed.keys, lock.sealed.rows, strict=True):
        if key in of:
            people.setdefault(of[key], set()).add((row.patient, row.split))
    assert len(people) == named // 6 and all(len(found) == 1 for found in people.values())
    assert sum(lock.patients.values()) == 60 - named + named // 6
    assert f"{named - named // 6} patients of the rules count as one with another" in " ".join(lock.leakage.notes)
    assert WHERE not in lock.view.model_dump_json()


@pytest.mark.parametrize("named", [60, 24])
def test_people_read_off_names_that_stand_on_two_sides_are_a_gate(named: int) -> None:
    of = dict(list(SIX.items())[:named])
    (name, evidence), *others = problems(told(False, of)).items()
    assert (name, others) == ("person_on_one_side", []) and f"by {WHERE} " in evidence
    assert f"of {named // 6} people stand on two sides" in evidence
    # Rules that take them together lock.
    together = [case.model_copy(update={"patient": f"p{number // 6}"}) for number, case in enumerate(labelled(60))]
    assert problems(told(False, of, together)) == {}


@pytest.mark.parametrize("stated", [True, False])
def test_a_given_split_that_parts_somebody_is_a_gate(stated: bool) -> None:
    sides = ["train"] * 40 + ["val"] * 8 + ["test"] * 12
    cases = [case.model_copy(update={"split": side}) for case, side in zip(labelled(60), sides, strict=True)]
    found = problems(told(stated, SIX, cases))
    assert set(found) == {"person_on_one_side"} and "drop a `split`" in found["person_on_one_side"]
    apart = {key: person for key, person in SIX.items() if person not in (6, 7)}
    assert problems(told(stated, apart, cases)) == {}
