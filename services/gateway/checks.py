"""What a person sends, looked at before anything is written. Every refusal says what to do instead."""

import json
import os
from collections.abc import Mapping
from typing import Any

from services.gateway import folders
from shared.contracts.base import Ref
from shared.contracts.cards import parse_card
from shared.contracts.runs import DataCard
from shared.errors import UserError
from shared.models import make_core
from shared.settings import Settings

MAX_REQUIREMENT = 4000


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


def core(name: str, environ: Mapping[str, str] = os.environ) -> str:
    """`anthropic:` and `openai:` need a key, or the base URL of an endpoint of your own that asks for none."""
    name = name.strip()
    kind, _, rest = name.partition(":")
    if kind in ("anthropic", "openai") and rest:
        wanted = [f"{kind.upper()}_API_KEY", f"{kind.upper()}_BASE_URL"]
        if not any(environ.get(variable) for variable in wanted):
            raise UserError(
                f"The core {name} needs {wanted[0]} (or {wanted[1]} for an endpoint of your own) in the environment of "
                "`m3builder up`. Set it, run `m3builder down` and `m3builder up`, or use the core `playbook`, "
                "which needs no account."
            )
        if environ.get("M3_MODEL_ENDPOINT") != "inside":
            raise UserError(
                f"The core {name} would be told file names, tables and errors as they are. If its endpoint may have "
                "them, set M3_MODEL_ENDPOINT=inside in the environment of `m3builder up`; or use the core `playbook`."
            )
    # Building it reads a transcript through, and refuses what does not exist.
    make_core(name)
    return name


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
