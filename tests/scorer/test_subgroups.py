"""The score by sex, age, scanner and site: groups of few patients have no figures, sites no names."""

import json

from case_tables import case, sealed_of, table
from scorer_world import running, scored

from services.scorer.classes import diagnosis
from services.scorer.findings import Asked, Findings
from services.scorer.subgroups import subgroups
from shared.bus import Bus
from shared.contracts.cases import CaseTable
from shared.contracts.data import IndexRow
from shared.contracts.scoring import RunScored
from shared.contracts.wrapping import Groups, Wrapping
from shared.settings import Settings
from shared.store import Store

COUNT = 48


def rows() -> list[IndexRow]:
    return [
        IndexRow(sample_id=f"s{n}", patient=f"p{n}", label=("dark", "light")[n % 2], files=("image.png",), split="test")
        for n in range(COUNT)
    ]


def found(test: list[IndexRow]) -> Findings:
    """Right of the first half, turned round of the second."""

    def light(row: IndexRow) -> float:
        return float((row.label == "light") ^ (int(row.sample_id[1:]) >= COUNT // 2))

    cases = {row.sample_id: {"probabilities": {"dark": 1 - light(row), "light": light(row)}} for row in test}
    answers = json.dumps({"cases": cases}).encode()
    return diagnosis.measure(Asked(sealed_of(test, names=("dark", "light")), "accuracy", answers, None))  # type: ignore[arg-type]


def test_each_group_has_the_figure_of_its_own_cases() -> None:
    test = rows()
    groups = {row.sample_id: Groups(sex="female" if n < 24 else "male") for n, row in enumerate(test)}
    female, male = subgroups(test, groups, found(test))
    assert isinstance(female, dict) and isinstance(male, dict)
    assert (female["by"], female["group"], female["value"], female["patients"]) == ("sex", "female", 1.0, 24)
    assert (male["group"], male["value"]) == ("male", 0.0)


def test_few_patients_have_no_figures_and_one_group_is_none() -> None:
    test = rows()
    ages = {row.sample_id: Groups(age="under 18" if n < 9 else "18 to 39", sex="male") for n, row in enumerate(test)}
    told = subgroups(test, ages, found(test))
    assert [line["group"] for line in told if isinstance(line, dict)] == ["18 to 39", "under 18"]
    assert told[1] == {"by": "age", "group": "under 18"}
    several = [row.model_copy(update={"patient": f"p{n // 4}"}) for n, row in enumerate(test)]
    sides = {row.sample_id: Groups(sex="female" if n < 24 else "male") for n, row in enumerate(test)}
    assert all(set(line) == {"by", "group"} for line in subgroups(several, sides, found(several)))  # type: ignore[arg-type]


def test_sites_and_unknown_makers_are_numbered_and_a_class_alone_has_no_auc() -> None:
    test = rows()
    groups = {
        row.sample_id: Groups(site=("a" if n % 3 else "b") * 12, manufacturer=("Siemens", "0" * 12)[n % 2])
        for n, row in enumerate(test)
    }
    told = {line["group"]: line for line in subgroups(test, groups, found(test)) if isinstance(line, dict)}
    assert list(told) == ["scanner 1", "Siemens", "site 1", "site 2"] and told["site 1"]["patients"] == 32
    only = [row for row in test if row.label == "dark"] + test[1:2]
    answers = {row.sample_id: {"probabilities": {"dark": 0.5, "light": 0.5}} for row in only}
    asked = Asked(sealed_of(only, names=("dark", "light")), "auc_macro", json.dumps({"cases": answers}).encode(), None)  # type: ignore[arg-type]
    sides = {row.sample_id: Groups(sex="female" if row.label == "dark" else "male") for row in only}
    female = subgroups(only, sides, diagnosis.measure(asked))[0]
    assert isinstance(female, dict) and "value" not in female and female["patients"] == 24


async def test_the_score_tells_them_and_later_roles_never_see_them(settings: Settings, bus: Bus) -> None:
    def made(_: Store) -> CaseTable:
        def groups(n: int) -> Groups:
            return Groups(sex=("female", "male")[n // 2 % 2], site="abcabcabcabc")

        # 60 test patients: no draw leaves fewer than ten of a sex
        return table([case(n, label=("dark", "light")[n % 2], wrapping=Wrapping(groups=groups(n))) for n in range(300)])

    def says(row: IndexRow, number: int) -> object:
        light = float(row.label == "light")
        return {"probabilities": {"dark": 1 - light, "light": light}}

    async with running(settings, bus, made, says, "auc_macro") as world:
        result = await scored(world)
        assert isinstance(result, RunScored) and result.details
        details = json.loads(await world.get(result.details))
        assert [(line["by"], line["patients"] >= 10) for line in details["subgroups"]] == [("sex", True)] * 2
        state = await bus.state(world.run_id)
        assert state.locked is not None
        view = await world.get(state.locked.view)
        assert b"female" not in view and b"abcabcabcabc" not in view
