"""What a person sends, looked at before anything is written. Every refusal says what to do instead."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.contracts.cards import parse_card
from shared.contracts.runs import DataCard
from shared.errors import UserError
from shared.models import make_core

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


def cards(
    card: str | dict[str, Any] | list[Any], path: str | None, here: bool, roots: tuple[Path, ...]
) -> list[DataCard]:
    """The cards to register, each with its real folder, or with none when only the description is registered.

    `path` takes the place of the card's own path, and then there may be only one card.
    """
    found = parse_card(card if isinstance(card, str) else json.dumps(card))
    if not here:
        return [one.model_copy(update={"path": None}) for one in found]
    if path and len(found) > 1:
        raise UserError(f"One folder was given for {len(found)} cards. Register them one by one.")
    return [one.model_copy(update={"path": str(folder(path or str(one.path), roots))}) for one in found]


def folder(path: str, roots: tuple[Path, ...]) -> Path:
    """The real folder behind `path`, symbolic links followed, below one of the operator's data roots."""
    named = ", ".join(str(root) for root in roots) or "none is set"
    if not Path(path).is_absolute():
        raise UserError(f"The dataset path {path} is not absolute. Give the whole path, starting with /.")
    try:
        real = Path(path).resolve(strict=True)
    except (OSError, RuntimeError):
        raise UserError(f"The dataset path {path} does not exist on this machine. Check the spelling.") from None
    if not real.is_dir():
        raise UserError(f"The dataset path {path} is a file. Give the folder that holds the dataset.")
    if not any(real.is_relative_to(root.resolve()) for root in roots):
        raise UserError(
            f"{real} lies outside the data roots ({named}). Move the dataset below one of them, or name its folder "
            "with `m3builder up --data-root FOLDER`."
        )
    try:
        empty = not any(real.iterdir())
    except PermissionError:
        raise UserError(f"The dataset folder {real} cannot be read. Give its files read permission.") from None
    if empty:
        raise UserError(f"The dataset folder {real} is empty.")
    return real
