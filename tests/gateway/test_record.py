"""The record of runs whose events and turns lie on a real bus: nothing left out that belongs in it."""

import json

import httpx

from services.gateway.record import Record
from shared.bus import Bus
from tests.gateway.story import REF, SCRIPT, Story


async def test_the_record_is_the_whole_story(http: httpx.AsyncClient, bus: Bus) -> None:
    story = Story(bus)
    await story.finished()
    listed = {one["name"]: one for one in (await http.get(f"/runs/{story.run_id}/artifacts")).json()}
    assert listed["record"]["ref"] is None and listed["rules"]["ref"] == REF.model_dump()
    told = json.loads((await http.get(listed["record"]["url"])).content)
    assert told["request"]["requirement"] == "classify chest CT"
    assert told["plan"]["refused"] == [{"dataset_id": "two", "reason": "is MRI"}]
    assert told["card"]["name"] == "One"
    assert told["rules"]["coverage"]["cases"] == 9 and told["lock"]["counts"]["test"] == {"a": 3}
    assert told["lock"]["leakage"]["checks"] == {"same_patient": 0}
    assert told["module"]["module"]["loss"] == "ce"
    assert (told["hyper_parameters"], told["validation"]) == ({"lr": 0.001}, {"auc": 0.9})
    assert told["score"]["controls"][0]["name"] == "majority" and told["score"]["gates"][0]["passed"]
    assert (told["status"], told["level"], told["end"]["level"]) == ("succeeded", "useful", "useful")
    (intake, train) = told["jobs"].values()
    assert [one["attempt"] for one in train["started"]] == [1, 2] and train["finished"]["metrics"] == {"auc": 0.9}
    assert intake["finished"]["outcome"] == "ok"
    assert told["spent"]["turns"] == 6
    assert [one["event_id"] for one in told["events"]] == [
        event.event_id for _, event in await bus.events(story.run_id)
    ]
    assert {role: len(turns) for role, turns in told["turns"].items()} == {
        "task_manager": 2, "data_engineer": 2, "module_architect": 1, "model_trainer": 2
    }  # fmt: skip
    script = told["turns"]["data_engineer"][0]["calls"][0]
    assert script["arguments"] == {"script": SCRIPT}
    assert (script["ok"], script["seconds"], script["isolation"], script["exit_code"]) == (True, 3, "landlock", 0)
    assert told["turns"]["task_manager"][0]["calls"][0]["result"] == "done"
    Record.model_validate(told)


async def test_the_record_does_not_repeat_what_the_data_engineer_saw(http: httpx.AsyncClient, bus: Bus) -> None:
    story = Story(bus)
    await story.finished()
    seen, _ = await bus.entries(story.run_id, "data_engineer")
    assert any("case_17" in entry.model_dump_json() for entry in seen)
    assert "case_17" not in (await http.get(f"/runs/{story.run_id}/artifacts/record")).text


async def test_the_record_of_a_run_that_has_just_begun(http: httpx.AsyncClient) -> None:
    run_id = (await http.post("/runs", json={"requirement": "classify chest CT"})).json()["run_id"]
    told = (await http.get(f"/runs/{run_id}/artifacts/record")).json()
    assert told["status"] == "running" and len(told["events"]) == 1
    assert told["plan"] is told["score"] is told["package"] is None
