"""Whole runs as facts, for those who look at what a report makes of them. Nothing here was trained."""

import random
from dataclasses import replace
from typing import Any

from services.gateway.report.chosen import chosen
from services.gateway.report.facts import Bin, Case, Details, Facts, Picture, Pictures
from services.gateway.trace_model import Share
from shared.contracts.base import Event, Ref, Spent
from shared.contracts.data import DatasetLocked, DatasetPrepared, LeakageReport
from shared.contracts.modules import AssembledModule, ModuleAssembled
from shared.contracts.runs import AcceptableRange, Candidate, DataCard, RunFinished, RunRequested, TaskPlan, TaskPlanned
from shared.contracts.scoring import Control, Gate, Metric, RunScored
from shared.contracts.training import JobFinished, JobProgress, JobStarted, TrainingFinished
from tests.cases import coverage, dataset_facts, lock_fields

RUN = "r20260105-120000-abc123"
PACKAGE = Ref(bucket="packages", key="k", sha256="ab" * 32, size=1)
OTHER = Ref(bucket="data", key="k", sha256="0" * 64, size=1)
HOSTILE = "<script>alert(1)</script> \"q\" 'a' & | `x` [l](http://evil.example) \x1b[31m _red_"
DIAGNOSES = ("covid-19", "pneumonia", "normal")
TIERS = [
    {"tier": "one_case", "passed": True, "seconds": 2, "text": "loss 1.21"},
    {"tier": "one_batch", "passed": False, "seconds": 3, "text": "the loss of one batch fell from 1.2 to 1.1"},
]
RESTS_ON = ("This dataset was locked once and scored 2 times so far; its runs: 1.", "3.0% of the images are no case.")
NOTED = {"epochs": 12, "parameters": 1234567, "tiers": TIERS, "network": "resnet18, 3D", "loss": "name focal"}
ORGANS = ("liver", "spleen", "gall bladder")


def diagnosis_cases(names: tuple[str, ...] = DIAGNOSES, prefix: str = "held-out") -> tuple[Case, ...]:
    """30 cases of 3 classes: 24 right, 5 wrong, 1 without an answer."""
    dice = random.Random(3)
    cases = []
    for place in range(30):
        truth = names[place % 3]
        sample = {"sample_id": f"{prefix}-{place}", "patient": f"p{place // 2}", "label": truth}
        if place == 29:
            cases.append(Case(**sample, failed="unreadable header"))
            continue
        answer = names[(place + 1) % 3] if place % 6 == 5 or place == 4 else truth
        sure = dice.uniform(0.5, 0.98)
        rest = {name: (1 - sure) / 2 for name in names if name != answer}
        cases.append(Case(**sample, predicted=answer, probabilities={answer: sure, **rest}))
    return tuple(cases)


def label_cases(names: tuple[str, ...] = DIAGNOSES, prefix: str = "held-out") -> tuple[Case, ...]:
    """30 cases of which up to 3 labels hold: 5 wrong in one label, 1 without an answer."""
    dice = random.Random(4)
    cases = []
    for place in range(30):
        truth = tuple(name for number, name in enumerate(names) if place % (number + 2) == 0)
        sample = {"sample_id": f"{prefix}-{place}", "patient": f"p{place // 2}", "label": truth}
        if place == 29:
            cases.append(Case(**sample, failed="unreadable header"))
            continue
        chances = {name: dice.uniform(0.6, 0.98) if name in truth else dice.uniform(0.02, 0.4) for name in names}
        if place % 6 == 5 or place == 4:
            chances[names[2]] = 1 - chances[names[2]]
        said = tuple(name for name in names if chances[name] >= 0.5)
        cases.append(Case(**sample, predicted=said, probabilities=chances))
    return tuple(cases)


def mask_cases(names: tuple[str, ...] = ORGANS) -> tuple[Case, ...]:
    dice = random.Random(5)
    cases = []
    for place in range(9):
        each = {name: round(dice.uniform(0.5 + 0.1 * number, 0.97), 3) for number, name in enumerate(names)}
        mean = sum(each.values()) / len(each)
        cases.append(Case(sample_id=f"held-out-{place}", patient=f"p{place}", dice=mean, structures=each))
    return (*cases, Case(sample_id="held-out-9", patient="p9", failed="no mask", dice=0.0, structures={}))


def progress(epochs: int = 12, metric: str = "auc_macro") -> tuple[JobProgress, ...]:
    told = []
    for epoch in range(1, epochs + 1):
        known: dict[str, Any] = {"run_id": RUN, "job_id": "train-1", "step": epoch * 10, "epoch": float(epoch)}
        told.append(JobProgress(**known, loss=1.2 / epoch))
        told.append(JobProgress(**known, loss=1.2 / epoch, metric=0.9 - 0.4 / epoch, metric_name=metric))
    return (*told, JobProgress(run_id=RUN, job_id="train-1", epoch=epochs, metric=0.123, text="done"))


def events(
    run_id: str = RUN,
    *,
    masks: bool = False,
    own_code: tuple[str, ...] = (),
    gate_fails: bool = False,
    name: str = "Chest Set",
    details: Ref | None = None,
) -> list[tuple[int, Event]]:
    """A run from request to end, in order; `name` is where names of strangers stand."""
    made: list[Event] = []

    def add(kind: type[Event], sender: Any, **fields: Any) -> None:
        cause = made[-1] if made else None
        made.append(kind.make(run_id=run_id, sender=sender, cause=cause, **fields))

    classes = ORGANS if masks else DIAGNOSES
    task: Any = "organ_segmentation" if masks else "diagnosis"
    metric = "dice" if masks else "auc_macro"
    add(RunRequested, "gateway", requirement=f"Tell lungs apart in {name}")
    plan = TaskPlan(
        task=task, dataset_id="one", reason=f"its card states {name}", dimensions=3, modality="CT", anatomy="chest",
        refused=(Candidate(dataset_id="two", reason="is MRI"),), metric=metric,
        acceptable=AcceptableRange(metric=metric, floor=0.6, alarm=0.99, source="card"),
    )  # fmt: skip
    add(TaskPlanned, "task_manager", plan=plan, card=DataCard(dataset_id="one", name=name, description="CT"))
    counts = {side: {"all": many} if masks else dict.fromkeys(classes, many // 3)
              for side, many in (("train", 90), ("val", 15), ("test", 30))}  # fmt: skip
    patients = {"train": 45, "val": 8, "test": 15}
    found = coverage(
        task=task, grouping="inferred", grouping_from="the start of file names", left_out={"unreadable": 7}
    )
    add(DatasetPrepared, "data_engineer", rules=OTHER, coverage=found, notes=(f"odd spacing in {name}",))
    leakage = LeakageReport(
        checks={"same_patient": 0, "near_duplicate_in_given_split": 2},
        pairs=(("near_duplicate_in_given_split", "train-8", "[sealed]"),), notes=("Contents were compared.",),
    )  # fmt: skip
    known = dataset_facts(
        task=task, label_names=classes, grouping="inferred", grouping_from="the start of file names",
    )  # fmt: skip
    add(DatasetLocked, "scorer", **lock_fields(leakage=leakage, counts=counts, patients=patients, facts=known))
    module = AssembledModule(template=task, model="resnet10", loss="cross entropy", input_shape=(1, 32, 64, 64))
    add(ModuleAssembled, "module_architect", module=module, batch_shapes={}, workspace_sha256="2" * 64)
    add(JobStarted, "tool_runner", job_id="train-1", job="train", isolation="bwrap")
    add(JobFinished, "tool_runner", job_id="train-1", job="train", asked_by="model_trainer", outcome="ok", seconds=83,
        isolation="bwrap", metrics=NOTED, outputs={"package": PACKAGE}, own_code=own_code)  # fmt: skip
    add(TrainingFinished, "model_trainer", package=PACKAGE, validation={metric: 0.87}, attempts=1, seconds=83,
        hyper_parameters={"learning_rate": 0.001})  # fmt: skip
    each = (
        {organ: {"dice": 0.61 + 0.1 * place, "n": 9, "missed": 1, "invented": 0} for place, organ in enumerate(classes)}
        if masks
        else {label: {"n": 10, "auc": 0.93 - 0.05 * place, "sensitivity": 0.8} for place, label in enumerate(classes)}
    )
    gates = (
        Gate(name="split_unchanged", passed=True, evidence="as locked"),
        Gate(name="no_patient_on_both_sides", passed=not gate_fails, evidence=f"held-out-3 of {name}"),
    )
    level: Any = "ran" if gate_fails else "useful"
    add(RunScored, "scorer", metric=Metric(name=metric, value=0.877, low=0.812, high=0.941, n=30, patients=15),
        others=() if masks else (Metric(name="accuracy", value=0.8, low=0.7, high=0.9, n=30, patients=15),
                                     Metric(name="ece", value=0.07, low=0.02, high=0.1, n=30, patients=15)),
        per_class=each, controls=(Control(name="majority", value=0.5), Control(name="permutation", value=0.618)),
        permutation_p=0.001, level=level, locks=1, scorings=2, details=details, rests_on=RESTS_ON,
        gates=gates)  # fmt: skip
    add(RunFinished, "task_manager", end="failed_gate" if gate_fails else "succeeded", level=level, package=PACKAGE,
        gate="no_patient_on_both_sides" if gate_fails else None, spent=Spent(turns=9, actions=11))  # fmt: skip
    return list(enumerate(made, 1))


def diagnosis(**changed: Any) -> Facts:
    bins = (Bin(up_to=0.6, n=4, probability=0.55, right=0.5), Bin(up_to=1.0, n=26, probability=0.9, right=0.85))
    details = Details(labels=DIAGNOSES, cases=diagnosis_cases(), why=("beats all controls",), calibration=bins)
    return Facts.of(events(**changed), details=details, progress=progress(), shares=(share(),))


def several_labels(cases: tuple[Case, ...] = (), labels: tuple[str, ...] = DIAGNOSES, **changed: Any) -> Facts:
    bins = (Bin(up_to=0.4, n=50, probability=0.2, right=0.1), Bin(up_to=1.0, n=37, probability=0.8, right=0.9))
    details = Details(
        labels=labels, cases=cases or label_cases(), why=("beats all controls",), calibration=bins, multi_label=True,
        rules=("Several labels may hold of a sample.",),
    )  # fmt: skip
    return Facts.of(events(**changed), details=details, progress=progress())


def segmentation(**changed: Any) -> Facts:
    found = mask_cases()
    details = Details(
        labels=ORGANS, cases=found, worst=("held-out-9", "held-out-4"), rules=("A written rule.",), left_out=1
    )
    return Facts.of(events(masks=True, **changed), details=details, progress=progress(metric="dice"))


def seen(facts: Facts, note: str = "a window") -> Facts:
    """With a picture of each chosen case but the first, which could not be drawn."""
    shown = [one.case.sample_id for one in chosen(facts)]
    found = {name: Picture(b"\x89PNG//", 900, 300, notes=(note,)) for name in shown[1:]}
    found |= {name: Picture(problem=f"EOFError: {note}") for name in shown[:1]}
    colours = {name: f"#{place:06x}" for place, name in enumerate(facts.details.labels)}
    return replace(facts, pictures=Pictures(found, colours))


def share() -> Share:
    return Share(
        role="data_engineer", turns=4, actions=6, tokens=0, estimated=False, working=61.0, waiting=5.0, share=0.4
    )
