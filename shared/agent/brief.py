"""What a role is told when it is woken. Recorded in the transcript: a resumed role starts from the same words."""

from datetime import UTC, datetime

from pydantic import JsonValue

from shared.agent import budget
from shared.agent.tries import bound
from shared.contracts.base import AgentName, Contract, RunId, Spent
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
    files: dict[str, JsonValue] = {}
    """What trusted code saw in the dataset's files; for the Data Engineer only."""
    public: tuple[str, ...] = ()
    """Columns, and classes that many files have, which an endpoint outside is told; for the Data Engineer only."""
    planned: TaskPlanned | None = None
    prepared: DatasetPrepared | None = None
    locked: DatasetLocked | None = None
    assembled: ModuleAssembled | None = None
    handed_back: WorkReturned | None = None
    answers: dict[str, str] = {}
    """Key -> what a person answered. The answers to the Data Engineer, who sees test labels, it alone reads."""
    asked: dict[str, str] = {}
    """Key -> what this role had asked, with the options: it begins anew and has forgotten why."""
    budget: str = ""
    """What the run may use and has used, in sentences."""
    machine: dict[str, JsonValue] = {}
    """Where a role that builds and trains works: threads, memory, GPUs, versions."""
    weights: tuple[Offered, ...] = ()
    """What is on the shelf; for the two roles that build and train."""
    secret: str = ""
    """Of the run, in hexadecimal: what its surrogates are made with. Only for a model outside of the hospital, which
    never gets it (`shared.disclosure`)."""
    train_seconds: float = 3600.0
    """Wall time that one training job may take."""
    search_seconds: float | None = None
    """Of these, what comparing changes may take; None leaves it to the role."""


def make_brief(
    role: AgentName,
    order: str,
    state: RunState,
    cards: tuple[DataCard, ...],
    train_seconds: float,
    weights: tuple[Offered, ...] = (),
) -> Brief:
    """Only what the role may know: the index (which names test samples) and the sealed split stay behind. `cards` are
    all for the Task Manager, the dataset's whole one for the Data Engineer."""
    if state.requested is None:
        raise ValueError(f"run {state.run_id} was never requested")
    later = role in ("module_architect", "model_trainer")
    job = state.budget.train_seconds or train_seconds
    search = state.budget.search_seconds
    compared = "" if search is None else f", comparing changes of the module {search:g} s of them"

    def sender(key: str) -> str:
        return state.asked[key].sender if key in state.asked else ""

    used = budget.told(budget.bounds(state, Spent(), datetime.now(UTC)))
    return Brief(
        run_id=state.run_id,
        role=role,
        order=order,
        requested=state.requested,
        cards=tuple(card.for_planning() for card in cards) if role == "task_manager" else (),
        files=cards[0].profile.for_rules() if role == "data_engineer" and cards and cards[0].profile else {},
        planned=state.planned,
        # Its coverage and notes name files and people.
        prepared=state.prepared if role == "data_engineer" else None,
        locked=state.locked if later else None,
        assembled=state.assembled if later else None,
        handed_back=state.handed_back if state.handed_back and state.handed_back.target == role else None,
        answers={
            key: value
            for key, value in state.answers.items()
            if role == "data_engineer" or sender(key) != "data_engineer"
        },
        asked={
            key: "\n".join((one.text, *(f"{option.value}: {option.says}" for option in one.options)))
            for key in state.answers
            if sender(key) == role and (one := state.asked[key].question).wants != "approval"
        },
        budget=f"{used} {bound(job)}{compared}." if later else used,
        weights=weights if later else (),
        train_seconds=job,
        search_seconds=search,
    )
