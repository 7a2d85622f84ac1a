"""What a survey says of layouts of real files: families, candidates, masks, tasks."""

import pytest

from shared.dataset.files.patterns import compile
from shared.dataset.profile.profile import MOST_BYTES, profile_of
from shared.dataset.profile.show import WIDTH, show
from shared.dataset.survey.survey import Survey, survey
from tests.dataset.survey_layouts import LAYOUTS


@pytest.fixture(scope="module", params=LAYOUTS)
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Survey]:
    root = tmp_path_factory.mktemp("layout") / "data"
    LAYOUTS[request.param].make(root)
    return request.param, survey(root)


def test_each_file_is_in_one_family_whose_pattern_takes_it(seen: tuple[str, Survey]) -> None:
    found = seen[1]
    assert sorted(file for one in found.families for file in one.files) == [*found.listing.files]
    for one in found.families:
        assert all(compile(one.pattern).match(file) is not None for file in one.files)


def test_what_it_says(seen: tuple[str, Survey]) -> None:
    name, found = seen
    told, layout = profile_of(found), LAYOUTS[name]
    assert told.dimensions == layout.dimensions
    assert told.tasks == pytest.approx(layout.tasks, abs=0.01)
    if layout.images:
        assert {one.pattern for one in found.images} == set(layout.images)
    if layout.masks:
        assert {one.pattern for one in found.families if one.role == "mask"} == set(layout.masks)
    for best, expected in ((found.labels, layout.label), (found.patients, layout.patient)):
        if expected:
            assert expected[0] in best[0].where and best[0].distinct == expected[1] and best[0].share > 0.95
    if layout.label is None:
        assert "diagnosis" not in told.tasks
    assert [*(found.splits[0].values if found.splits else ())] == [*(layout.split or ())]
    if layout.text:
        assert layout.text in found.texts[0].where and found.texts[0].share > 0.95
    if layout.masks:
        assert all(one.without == one.alone == 0 or "test" in name for one in found.masks)
    if layout.kind:
        assert found.masks[0].kind == layout.kind


def test_the_profile_is_small_and_shown_in_a_terminal(seen: tuple[str, Survey]) -> None:
    told = profile_of(seen[1])
    assert len(told.model_dump_json()) <= MOST_BYTES
    text = show(told)
    assert max(map(len, text.splitlines())) <= WIDTH and "\x1b" not in text
    assert all(task in ("diagnosis", "report_generation") or told.masks for task in told.tasks)
