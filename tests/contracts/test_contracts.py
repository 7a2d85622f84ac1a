"""Contracts are frozen, closed and on record."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from shared.contracts.base import MAX_MESSAGE_BYTES, Spent
from shared.contracts.cards import parse_card
from shared.contracts.events import decode_event
from shared.contracts.runs import CancelRequested, RoleFailed, RunFinished, RunRequested, WorkReturned
from shared.contracts.state import fold
from shared.errors import UserError
from tests.contracts.golden import FOLDER, schemas


def request(run_id: str = "r1", **fields: object) -> RunRequested:
    return RunRequested.make(run_id=run_id, sender="gateway", cause=None, requirement="a model", **fields)


def test_schemas_are_those_on_record() -> None:
    recorded = {path.name: path.read_text() for path in FOLDER.glob("*.json")}
    assert recorded == schemas(), "a contract changed: look at it, then run 'make schemas'"


def test_an_event_survives_the_wire_and_names_its_subject() -> None:
    event = request()
    assert decode_event(event.encode()) == event
    assert event.subject() == "evt.r1.gateway.RunRequested.all"
    back = WorkReturned.make(run_id="r1", sender="model_trainer", cause=event, target="data_engineer", reason="x")
    assert back.subject() == "evt.r1.model_trainer.WorkReturned.data_engineer"


def test_unknown_fields_and_changes_are_refused() -> None:
    event = request()
    with pytest.raises(ValidationError):
        decode_event(event.encode()[:-1] + b', "more": 1}')
    with pytest.raises(ValidationError):
        event.requirement = "another"  # type: ignore[misc]


def test_a_message_over_the_limit_is_refused() -> None:
    event = RoleFailed.make(
        run_id="r1", sender="scorer", cause=None, end="crashed", reason="x" * (MAX_MESSAGE_BYTES + 1)
    )
    with pytest.raises(ValueError, match="Ref"):
        event.encode()


def test_ids_repeat_for_the_same_cause_only() -> None:
    first, again = request(), request()
    assert first.event_id == again.event_id
    assert CancelRequested.make(run_id="r1", sender="gateway", cause=first, salt="2").event_id != (
        CancelRequested.make(run_id="r1", sender="gateway", cause=first, salt="1").event_id
    )


@given(st.lists(st.integers(0, 3), min_size=1, max_size=12))
def test_the_fold_ignores_repeated_events(order: list[int]) -> None:
    asked = request()
    start = fold("r1", [(1, asked)])
    events = [
        asked,
        CancelRequested.make(run_id="r1", sender="gateway", cause=asked),
        WorkReturned.make(run_id="r1", sender="task_manager", cause=asked, target="data_engineer", reason="r"),
        RunFinished.make(run_id="r1", sender="task_manager", cause=asked, end="cancelled"),
    ]
    seen = [events[number] for number in order]
    unique = list(dict.fromkeys(order))
    repeated = fold("r1", enumerate(seen, 2), start)
    once = fold("r1", enumerate([events[number] for number in unique], 2), start)
    sequences = {"head": 0, "passed_over": frozenset()}
    assert repeated.model_copy(update=sequences) == once.model_copy(update=sequences)


def test_spending_adds_up() -> None:
    total = Spent(turns=1, actions=2, tokens_estimated=True) + Spent(turns=1, usd=0.5)
    assert (total.turns, total.actions, total.usd, total.tokens_estimated) == (2, 2, 0.5, True)


@pytest.mark.parametrize("key", ["dataset path", "dataset_path", "Dataset Path", "path"])
def test_cards_are_read_in_every_spelling(key: str) -> None:
    entry = {"dataset name": "A b", "dataset description": "CT\n  scans", key: "/x", "licence": "free"}
    text = json.dumps(entry)
    (card,) = parse_card(text)
    assert (card.dataset_id, card.description, card.path) == ("a-b", "CT scans", "/x")
    assert card.extra == {"licence": "free"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("not json", "not JSON"),
        ("[]", "empty list"),
        ('["x"]', "no JSON object"),
        ('{"dataset name": "A", "dataset description": "b"}', "dataset path"),
        ('{"dataset name": "!!", "dataset description": "b", "dataset path": "/x"}', "letter or digit"),
    ],
)
def test_a_bad_card_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        parse_card(text)


def test_times_are_aware() -> None:
    assert request().at.tzinfo is not None
    assert request().at <= datetime.now(UTC)
