"""Intake jobs by the runner in the real sandbox, with real store and bus: decoded once, resumed, nothing trusted."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from services.scorer.lock.copies import compare
from services.scorer.lock.seal import seal
from services.scorer.residual import residual
from services.tool_runner.intake.cache import Cache, Index
from shared.bus import Bus
from shared.contracts.base import Ref, new_run_id
from shared.contracts.cases import CaseTable, Proposal
from shared.contracts.data import DatasetFacts, IndexRow, SealedSplit, StoredCase
from shared.contracts.rules import Rules
from shared.contracts.training import JobFinished, JobSpec
from shared.dataset.intake.groups import digest
from shared.looks import FLAT, RECORD
from shared.settings import Settings
from shared.store import Store
from tests.cases import begun
from tests.runner.jobs import as_words, runner_folder, skip_without_sandbox

DRIVER = Path(__file__).with_name("intake_driver.py")
RULES: dict[str, Any] = {
    "task": "diagnosis",
    "dimensions": 2,
    "images": [{"files": "{label}/{patient}_{number}.png"}],
    "patient": {"field": "patient"},
    "label": {"source": {"field": "label"}},
}


@dataclass
class Scene:
    """A dataset of pictures in two folders, and a run that has planned it."""

    settings: Settings
    bus: Bus
    store: Store
    data: Path
    run_id: str
    dataset_id: str
    jobs: list[str] = field(default_factory=list)

    def draw(self, label: str, numbers: Sequence[int]) -> None:
        (self.data / label).mkdir(exist_ok=True)
        for number in numbers:
            pixels = np.random.default_rng(number).integers(0, 255, (24, 32)).astype(np.uint8)
            Image.fromarray(pixels).save(self.data / label / f"Smith{number // 2:03d}_{number:03d}.png")

    def job(self, **inputs: Any) -> JobSpec:
        given = {"rules": RULES} | inputs
        refs = {
            name: self.store.put_bytes("work" if name == "rules" else "sealed", json.dumps(value).encode())
            for name, value in given.items()
        }
        self.jobs.append(f"intake-{len(self.jobs)}-{self.run_id}")
        return JobSpec(
            job_id=self.jobs[-1], run_id=self.run_id, kind="intake", asked_by="scorer", caused_by="x", inputs=refs
        )

    def start(self, spec: JobSpec | None, cases: int = 2000, home: Path | None = None) -> "subprocess.Popen[str]":
        """A runner with the job, or one that only helps others; `home` is its own where it is not the first."""
        if home:
            runner_folder(self.settings, home)
        given = as_words(self.settings, home=str(home or self.settings.home))
        return subprocess.Popen(
            [sys.executable, str(DRIVER), given, str(cases), *([spec.model_dump_json()] if spec else [])],
            stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    async def run(self, cases: int = 2000, **inputs: Any) -> JobFinished:
        spec = self.job(**inputs)
        process = self.start(spec, cases)
        _, errors = await asyncio.to_thread(process.communicate, None, 120)
        skip_without_sandbox(errors)
        assert process.returncode == 0, errors[-3000:]
        done = (await self.bus.state(self.run_id)).jobs_done[spec.job_id]
        print(done.summary)
        return done

    def table(self, done: JobFinished) -> CaseTable:
        assert done.outcome == "ok", done.summary
        return CaseTable.model_validate_json(self.store.get_bytes(done.outputs["cases"]))


@pytest.fixture
async def scene(settings: Settings, bus: Bus, tmp_path: Path) -> Scene:
    data = tmp_path / "data"
    data.mkdir()
    runner_folder(settings, tmp_path)
    settings = settings.model_copy(update={"data_roots": (data,)})
    store = Store.connect(settings)
    await asyncio.to_thread(store.ensure_buckets)
    run_id = new_run_id()
    made = Scene(settings, bus, store, data, run_id, f"d-{run_id}")
    made.draw("ill", range(0, 10))
    made.draw("well", range(10, 20))
    await planned(made)
    return made


async def planned(scene: Scene, **fields: Any) -> None:
    for event in begun(scene.run_id, {"path": str(scene.data)}, dataset_id=scene.dataset_id, **fields):
        await scene.bus.append(event)


async def test_cases_come_canonical_and_a_second_run_decodes_only_what_is_new(scene: Scene) -> None:
    first = await scene.run()
    table = scene.table(first)
    assert first.metrics == {"cases": 20, "decoded": 20, "left_out": {}}
    assert {case.label for case in table.cases} == {"ill", "well"} and len({case.patient for case in table.cases}) == 10
    assert {case.wrapping.kinds["format"] for case in table.cases} == {(digest(".png"),)}
    assert table.looks is not None and table.looks.bucket == "sealed" and table.coverage.cases == 20
    looks = np.frombuffer(scene.store.get_bytes(table.looks), RECORD)
    assert (looks["kind"] == FLAT).all() and len({bytes(look["content"]) for look in looks}) == 20
    for case in table.cases:
        [ref] = case.images
        assert ref.bucket == "cases" and ref.media_type == "image/png" and case.mask is None
        number = int(case.key.rpartition("_")[2].removesuffix(".png"))
        pixels = np.random.default_rng(number).integers(0, 255, (24, 32)).astype(np.uint8)
        (folder := scene.settings.home / "got").mkdir(exist_ok=True)
        scene.store.get_file(ref, folder / "image.png")
        assert (np.asarray(Image.open(folder / "image.png")) == pixels).all()
    again = await scene.run()
    assert again.metrics == {"cases": 20, "decoded": 0, "left_out": {}} and scene.table(again) == table
    scene.draw("well", [20])
    changed = scene.data / "ill" / "Smith000_000.png"
    Image.fromarray(np.eye(40, dtype=np.uint8) * 200).save(changed)
    grown = await scene.run()
    assert grown.metrics == {"cases": 21, "decoded": 2, "left_out": {}}
    before = {case.key: case.images for case in table.cases}
    differs = {case.key for case in scene.table(grown).cases if case.images != before.get(case.key)}
    assert len(differs) == 2


@pytest.mark.slow
async def test_a_runner_that_is_killed_in_the_middle_goes_on_where_it_stopped(scene: Scene) -> None:
    spec = scene.job()
    process = scene.start(spec, cases=3)
    async with asyncio.timeout(60):
        async for progress in scene.bus.follow_log(scene.run_id, spec.job_id):
            if int(progress.text.split()[1]) >= 6:  # batches end in any order, and the last is smaller
                break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    next_one = scene.start(spec, cases=3)
    _, errors = await asyncio.to_thread(next_one.communicate, None, 120)
    assert next_one.returncode == 0, errors
    done = (await scene.bus.state(scene.run_id)).jobs_done[spec.job_id]
    assert done.attempts == 2 and len(scene.table(done).cases) == 20
    assert 0 < int(str(done.metrics["decoded"])) <= 14


@pytest.mark.slow
async def test_runners_share_an_intake_and_one_that_is_killed_costs_no_more_than_its_batch(scene: Scene) -> None:
    alone = scene.table(await scene.run(cases=2))
    homes = [scene.settings.home, scene.settings.home / "other"]
    scene.run_id = new_run_id()
    scene.dataset_id = f"d-{scene.run_id}"
    await planned(scene)
    spec = scene.job()
    helper = scene.start(None, home=homes[1])
    owner = scene.start(spec, cases=2)
    async with asyncio.timeout(120):
        while not list(homes[1].glob("runner/jobs/batch-*/out/*")):  # noqa: ASYNC110  (another process makes it)
            await asyncio.sleep(0.01)
    os.killpg(helper.pid, signal.SIGKILL)
    helper.communicate()
    _, errors = await asyncio.to_thread(owner.communicate, None, 120)
    assert owner.returncode == 0, errors
    done = (await scene.bus.state(scene.run_id)).jobs_done[spec.job_id]
    assert scene.table(done) == alone and done.metrics["decoded"] == 20 and done.attempts == 1
    ours, theirs = ([log.name for log in home.glob(f"runner/logs/{scene.run_id}/batch-*")] for home in homes)
    assert ours and theirs and len({*ours, *theirs}) == 10
    assert len({*ours} & {*theirs}) <= 1, "no more is done twice than what the killed runner was at"


@pytest.mark.slow
async def test_an_intake_that_is_stopped_keeps_what_was_decoded(scene: Scene) -> None:
    spec = scene.job()
    process = scene.start(spec, cases=2)
    async with asyncio.timeout(60):
        async for progress in scene.bus.follow_log(scene.run_id, spec.job_id):
            if int(progress.text.split()[1]) >= 4:
                break
    await scene.bus.desire(spec.job_id, "cancel")
    _, errors = await asyncio.to_thread(process.communicate, None, 120)
    assert process.returncode == 0, errors
    done = (await scene.bus.state(scene.run_id)).jobs_done[spec.job_id]
    assert done.outcome == "cancelled" and "stopped" in done.summary
    again = await scene.run()
    assert len(scene.table(again).cases) == 20 and 0 < int(str(again.metrics["decoded"])) <= 16


async def test_bad_files_and_handed_back_cases_are_left_out_with_reason_and_remedy(scene: Scene) -> None:
    good = (scene.data / "ill" / "Smith000_000.png").read_bytes()
    (scene.data / "ill" / "Jones_901.png").write_bytes(good[:60])
    Image.new("L", (30, 30), 7).save(scene.data / "ill" / "Jones_902.png")
    Image.new("L", (31, 30), 7).save(scene.data / "ill" / "Jones_903.png")
    table = scene.table(await scene.run())
    assert len(table.cases) == 20 and sorted(len(keys) for keys in table.left_out.values()) == [1, 2]
    assert all("Jones" not in reason for reason in table.left_out)
    key = table.cases[4].key
    sealed = SealedSplit(
        rows=(IndexRow(sample_id="case_ab", patient="p", files=("case_ab/image.png",), split="train"),),
        stored=(StoredCase(sample_id="case_ab", images=table.cases[4].images),), keys=(key,),
        facts=DatasetFacts(task="diagnosis", dimensions=2, grouping="stated", grouping_from="x", split_from="made"),
        seed="00",
    )  # fmt: skip
    rules = RULES | {"leave_out": {"case_ab": "the label says the opposite: Dr. Who"}}
    done = await scene.run(rules=rules, sealed=sealed.model_dump(mode="json"))
    smaller = scene.table(done)
    assert len(smaller.cases) == 19 and key not in {case.key for case in smaller.cases}
    [reason] = [reason for reason, keys in smaller.left_out.items() if keys == (key,)]
    assert "handed" in reason and "Who" not in reason and done.metrics["decoded"] == 0


async def test_a_file_that_changes_while_it_is_read_makes_no_case(scene: Scene) -> None:
    for number in (900, 901, 902):
        pixels = np.random.default_rng(number).integers(0, 255, (2500, 2500)).astype(np.uint8)
        Image.fromarray(pixels).save(scene.data / "ill" / f"Smith900_{number}.png", compress_level=1)
    spec = scene.job()
    process = scene.start(spec)
    jobs = scene.settings.home / "runner" / "jobs"
    async with asyncio.timeout(60):
        while not list(jobs.glob("*/out/*")):  # noqa: ASYNC110  (another process makes it)
            await asyncio.sleep(0.01)
    touched = scene.data / "ill" / "Smith900_902.png"
    os.utime(touched, (1, 1))
    _, errors = await asyncio.to_thread(process.communicate, None, 120)
    assert process.returncode == 0, errors
    table = scene.table((await scene.bus.state(scene.run_id)).jobs_done[spec.job_id])
    [(reason, keys)] = table.left_out.items()
    assert reason.startswith("changed while it was read") and len(keys) == 1 and "902" in keys[0]
    again = await scene.run()
    assert again.metrics == {"cases": 23, "decoded": 1, "left_out": {}}


async def test_rules_that_find_nothing_or_are_none_end_the_job_with_the_words_for_it(scene: Scene) -> None:
    none = await scene.run(rules=RULES | {"images": [{"files": "none/{patient}_{label}.nii.gz"}]})
    refused = await scene.run(rules={"task": "diagnosis"})
    assert refused.outcome == "failed" and "no set of rules: dimensions: Field required" in refused.summary
    assert none.outcome == "ok" and none.metrics["cases"] == 0 and scene.table(none).coverage.problems


@pytest.mark.slow
async def test_a_script_s_list_replaces_the_patterns_and_cannot_leave_the_dataset(scene: Scene) -> None:
    (scene.settings.home / "secret.png").write_bytes((scene.data / "ill" / "Smith000_000.png").read_bytes())

    def line(key: str, file: str) -> str:
        return json.dumps({"key": key, "images": [[{"files": [file]}]], "patient": key, "label": "ill"})

    async def listed(*lines: str) -> JobFinished:
        rules = {"task": "diagnosis", "dimensions": 2, "listed": "cases/list.jsonl"}
        spec = scene.job(rules=rules)
        ref: Ref = scene.store.put_bytes("work", "\n".join(lines).encode())
        spec = spec.model_copy(update={"inputs": spec.inputs | {"listed": ref}})
        process = scene.start(spec)
        _, errors = await asyncio.to_thread(process.communicate, None, 120)
        assert process.returncode == 0, errors
        return (await scene.bus.state(scene.run_id)).jobs_done[spec.job_id]

    good = line("a", "ill/Smith000_000.png"), line("b", "well/Smith005_010.png")
    table = scene.table(await listed(*good))
    assert table.by_script and [case.key for case in table.cases] == ["a", "b"]
    for path in ("../secret.png", "/etc/passwd"):
        done = await listed(*good, line("c", path))
        assert done.outcome == "failed" or "c" not in {case.key for case in scene.table(done).cases}
    (scene.data / "link.png").symlink_to(scene.settings.home / "secret.png")
    done = await listed(*good, line("c", "link.png"))
    assert [case.key for case in scene.table(done).cases] == ["a", "b"]


async def test_the_table_has_what_the_search_proposes_without_a_word_of_whoever_wrote_the_rules(scene: Scene) -> None:
    scene.draw("odd", range(20, 30))
    table = scene.table(await scene.run())
    best = table.proposals[0]
    assert best.coverage.label_names == ("ill", "odd", "well") and not table.limited
    assert best.rules["images"] != RULES["images"], "the rules were another's"
    found = [one.rules for one in table.proposals]
    same = scene.table(await scene.run(rules=best.rules))
    assert same.rules == Rules.model_validate(best.rules) and [one.rules for one in same.proposals] == found
    assert not any(one.apart for one in same.proposals), "what is among the proposals is not compared"
    # Rules of another find the same cases, so that nothing was chosen.
    assert residual([same], "x", 30).bits == residual([table], "x", 30).bits == {"rules": 1, "handed back": 1}
    assert best.apart is not None and best.apart.absent == best.apart.regrouped == best.apart.relabelled == 0
    label: Any = best.rules["label"]
    part = scene.table(await scene.run(rules=best.rules | {"label": label | {"only": ["ill", "well"]}}))
    assert [one.rules for one in part.proposals] == found
    assert {one.coverage.label_names for one in part.limited} == {("ill", "well")}
    assert residual([part], "x", 20).a_case < 1


async def test_cases_are_compared_as_the_plan_bounds_them_and_without_those_handed_back(scene: Scene) -> None:
    scene.run_id, scene.jobs = new_run_id(), []
    await planned(scene, max_train=6, max_test=4)
    table = scene.table(await scene.run(rules=RULES | {"leave_out": {"ill/Smith000_000.png": "blurred"}}))
    (told, *_) = [one.apart for one in table.proposals]
    assert told is not None and told.cases == len(table.cases) < 20 and told.absent == 0


@pytest.mark.slow
async def test_a_search_is_made_once_for_the_same_files_and_words(scene: Scene) -> None:
    async def searches() -> dict[str, Ref]:
        head = await scene.bus.intake_head(scene.dataset_id)
        assert head
        return Index.model_validate_json(scene.store.get_bytes(head)).searches

    first = scene.table(await scene.run())
    known = await searches()
    (ref,) = known.values()
    kept = [Proposal.model_validate_json(line) for line in scene.store.get_bytes(ref).splitlines()]
    assert kept == [one.model_copy(update={"apart": None}) for one in first.proposals]
    # What is known is taken for what it says: the second run makes no search of its own.
    said = first.proposals[0].model_copy(update={"says": "known"}).model_dump_json().encode()
    put = scene.store.put_bytes("sealed", said, "application/x-ndjson")
    cache = Cache(scene.bus, scene.store, scene.dataset_id)
    await cache.add(searches=dict.fromkeys(known, put))
    assert [one.says for one in scene.table(await scene.run()).proposals] == ["known"]
    scene.draw("odd", range(20, 22))
    assert scene.table(await scene.run()).proposals[0].coverage.cases == 22
    assert len(await searches()) == 2


async def test_caps_of_the_plan_hold_before_anything_is_decoded(scene: Scene) -> None:
    scene.run_id, scene.jobs = new_run_id(), []
    await planned(scene, max_train=6, max_test=4)
    done = await scene.run()
    assert done.metrics["decoded"] == done.metrics["cases"] and 4 <= int(str(done.metrics["cases"])) <= 14


async def test_the_table_tells_whose_cases_are_by_the_files_and_names_nobody(scene: Scene) -> None:
    rows = [f"{label}/Smith{n // 2:03d}_{n:03d}.png,P{n // 4 + 1}" for n in range(20) for label in ("ill", "well")]
    (scene.data / "cases.csv").write_text("\n".join(["image,patient", *rows]))
    table = scene.table(await scene.run(rules={**RULES, "patient": None}))
    assert len({case.patient for case in table.cases}) == 20
    (one,) = table.persons
    assert one.stated and set(one.of) == {case.key for case in table.cases} and set(one.of.values()) == set(range(5))
    # So the lock keeps together whom the rules take apart.
    sealed = seal(table, compare(table.cases), "5eed" * 8).sealed
    people = {(one.of[key], row.patient, row.split) for key, row in zip(sealed.keys, sealed.rows, strict=True)}
    assert len(people) == 5 and {side for _, _, side in people} == {"train", "val", "test"}
