"""What a person sends, looked at before anything is written. Every refusal says what to do instead."""

import difflib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from services.gateway import folders
from services.gateway.bodies import NewRun
from shared.contracts.base import Ref, new_run_id
from shared.contracts.cards import parse_card
from shared.contracts.questions import Question
from shared.contracts.runs import SWITCHES, Budget, DataCard, RunRequested, Switch
from shared.errors import NotFound, Unavailable, UserError
from shared.models import cores, make_core
from shared.models.endpoint import EndpointCore
from shared.models.trial import Trial
from shared.settings import Settings

MAX_REQUIREMENT = 4000
MAX_ANSWER = 4000


def request(body: NewRun, core: str, who: str, known: Sequence[DataCard], seconds: float) -> RunRequested:
    """The fact that a new run begins with, asked by `who`; `core` was looked at. `seconds` of training where the
    request names none: on record, so that all services know the same."""
    if body.unattended and body.approvals:
        raise UserError("An approval needs somebody to give it: leave out either `approvals` or `unattended`.")
    return RunRequested.make(
        run_id=new_run_id(),
        sender="gateway",
        cause=None,
        requirement=requirement(body.requirement),
        core=core,
        without=without(body.without, core),
        budget=body.budget.model_copy(update={"train_seconds": body.budget.train_seconds or seconds}),
        seed=body.seed,
        dataset=dataset(body.dataset, known) if body.dataset else None,
        approvals=body.approvals,
        unattended=body.unattended,
        asked_by=who,
    )


def requirement(text: str) -> str:
    text = text.replace("\0", "").strip()
    if not text:
        raise UserError(
            "The request is empty. Say in a sentence what the model should do, for example "
            '"classify pneumonia from chest CT".'
        )
    if len(text) > MAX_REQUIREMENT:
        raise UserError(f"The request has {len(text)} characters; say it in at most {MAX_REQUIREMENT}.")
    return text


def without(switches: Sequence[Switch], spec: str) -> tuple[Switch, ...]:
    """What a run goes without, each once and in order. The playbook has no prompts and keeps to its role."""
    found = tuple(one for one in SWITCHES if one in switches)
    mute = [one for one in found if one != "debugging"]
    if mute and "playbook" in cores(spec).values():
        raise UserError(f"The playbook is no language model and cannot go without {', '.join(mute)}: choose a model.")
    return found


async def core(spec: str, budget: Budget, models_file: Path | None) -> tuple[str, tuple[str, ...]]:
    """A core that may be asked for over HTTP, for all roles or one a role, and what to know of it; its models were
    there a moment ago."""
    spec, notes = spec.strip(), []
    for name in dict.fromkeys(cores(spec).values()):
        if name.partition(":")[0] == "scripted":
            raise UserError(
                "A transcript is replayed on the machine of the system only: `m3builder run --core scripted:FILE`."
            )
        found = make_core(name, models_file)
        if isinstance(found, EndpointCore):
            await _model(found, budget)
            if not found.listing.known:
                cost = "" if found.listing.priced else ", and its cost will not be known"
                notes.append(f"{found.name} is not listed: it works with the defaults{cost}.")
    return spec, tuple(notes)


async def _model(core: EndpointCore, budget: Budget) -> None:
    listing = core.listing
    listing.key()
    if budget.usd is not None and not listing.priced:
        raise UserError(
            f"The price of {core.name} is not known, so a budget in USD cannot be kept: put the price into the file "
            "that M3_MODELS_FILE names, or bound `tokens`."
        )
    try:
        await Trial(core).answers()
    except Unavailable as error:
        raise UserError(f"{error}. Nothing was started.") from None


def dataset(dataset_id: str, known: Sequence[DataCard]) -> str:
    """The id of a registered dataset whose data are here. NotFound names those whose ids or names are like it."""
    wish = dataset_id.strip()
    card = next((one for one in known if one.dataset_id == wish), None)
    if card is None:
        spellings = {text.lower(): one.dataset_id for one in known for text in (one.name, one.dataset_id)}
        near = difflib.get_close_matches(wish.lower(), spellings, n=5, cutoff=0.5)
        told = f" Nearest: {', '.join(dict.fromkeys(spellings[text] for text in near))}." if near else ""
        raise NotFound(f"There is no dataset {wish!r}.{told} `m3builder dataset list` shows all.")
    if not card.here:
        raise UserError(
            f"Of the dataset {wish!r} only the description is registered. Add its data: "
            "`m3builder dataset add DIR_OR_ARCHIVE --card FILE`."
        )
    return card.dataset_id


def answer(question: Question, value: str, known: Sequence[DataCard]) -> str:
    """The value as the question wants it. Letter case of an option does not matter."""
    value = value.replace("\0", "").strip()
    if not value:
        raise UserError(f"The answer to {question.key} is empty.")
    if len(value) > MAX_ANSWER:
        raise UserError(f"The answer has {len(value)} characters; say it in at most {MAX_ANSWER}.")
    if question.wants == "dataset":
        return dataset(value, known)
    if question.wants == "text" or value in question.values:
        return value
    alike = [option for option in question.values if option.lower() == value.lower()]
    if len(alike) != 1:
        offered = "; ".join(
            f"{option.value} ({option.says})" if option.says else option.value for option in question.options
        )
        raise UserError(f"{value!r} is none of the options of {question.key}. They are: {offered}.")
    return alike[0]


def cards(card: str | dict[str, Any] | list[Any], path: str | None, here: bool, settings: Settings) -> list[DataCard]:
    """The cards to register, each with its real folder, or with none when only the description is registered.

    `path` takes the place of the card's own path, and then there may be only one card.
    """
    found = _parsed(card, path or (None if here else "not here"))
    if not here:
        return [one.model_copy(update={"path": None}) for one in found]
    if path and len(found) > 1:
        raise UserError(f"One folder was given for {len(found)} cards. Register them one by one.")
    return [one.model_copy(update={"path": str(folders.check(str(one.path), settings))}) for one in found]


def uploaded_card(card: str | dict[str, Any] | list[Any], path: str | None, archive: Ref) -> list[DataCard]:
    """The one card whose data are the archive."""
    found = _parsed(card, "uploaded")
    if path or len(found) > 1:
        raise UserError("An archive is the data of one card, and takes the place of a path. Register them one by one.")
    return [found[0].model_copy(update={"path": None, "archive": archive})]


def _parsed(card: str | dict[str, Any] | list[Any], path: str | None) -> list[DataCard]:
    return parse_card(card if isinstance(card, str) else json.dumps(card), path=path)
