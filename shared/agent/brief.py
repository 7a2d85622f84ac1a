"""What a role is told when it is woken. Recorded in the transcript: a resumed role starts from the same words."""

from pydantic import Field

from shared.contracts.base import AgentName, Contract, RunId
from shared.contracts.data import DatasetLocked, DatasetPrepared
from shared.contracts.modules import ModuleAssembled
from shared.contracts.runs import DataCard, RunRequested, TaskPlanned, WorkReturned
from shared.contracts.state import RunState
from shared.contracts.weights import Offered


class Brief(Contract):
    """The documents of the roles before, and what is being asked now. Holds nothing of the test set but counts."""

    run_id: RunId
    role: AgentName
    order: str
    """event_id of the fact that asks for this work; a new order starts a new segment of the transcript."""
    requested: RunRequested
    cards: tuple[DataCard, ...] = ()
    """Registered datacards; for the Task Manager only."""
    planned: TaskPlanned | None = None
    prepared: DatasetPrepared | None = None
    locked: DatasetLocked | None = None
    assembled: ModuleAssembled | None = None
    handed_back: WorkReturned | None = None
    answers: dict[str, str] = {}
    """Key -> what a person answered. The answers to the Data Engineer, who sees test labels, it alone reads."""
    actions_left: int | None = Field(default=None)
    weights: tuple[Offered, ...] = ()
    """What is on the shelf; for the two roles that build and train."""
    secret: str = ""
    """Of the run, in hexadecimal: what its surrogates are made with. Only for a model outside of the hospital, which
    never gets it (`shared.disclosure`)."""
    train_seconds: float = 3600.0
    """Wall time that one training job may take."""


def make_brief(
    role: AgentName,
    order: str,
    state: RunState,
    cards: tuple[DataCard, ...],
    train_seconds: float,
    weights: tuple[Offered, ...] = (),
) -> Brief:
    """Only what the role may know: the index (which names test samples) and the sealed split stay behind."""
    if state.requested is None:
        raise ValueError(f"run {state.run_id} was never requested")
    later = role in ("module_architect", "model_trainer")
    bound = state.budget.actions
    return Brief(
        run_id=state.run_id,
        role=role,
        order=order,
        requested=state.requested,
        cards=tuple(card.for_planning() for card in cards) if role == "task_manager" else (),
        planned=state.planned,
        # Its coverage and notes name files and people.
        prepared=state.prepared if role == "data_engineer" else None,
        locked=state.locked if later else None,
        assembled=state.assembled if later else None,
        handed_back=state.handed_back if state.handed_back and state.handed_back.target == role else None,
        answers={
            key: value
            for key, value in state.answers.items()
            if role == "data_engineer" or state.askers.get(key) != "data_engineer"
        },
        actions_left=None if bound is None else max(0, bound - state.spent.actions),
        weights=weights if later else (),
        train_seconds=state.budget.train_seconds or train_seconds,
    )
