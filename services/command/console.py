"""What all commands share: where they print, and the gateway that they ask."""

import os
from collections.abc import Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from services.gateway.client import Gateway
from shared.embedded.home import Home
from shared.errors import UserError
from shared.settings import Settings

Word = TypeVar("Word", bound=str)

out, err = Console(), Console(stderr=True)


def connect() -> Gateway:
    return Gateway(known(Settings()))


def known(settings: Settings) -> Settings:
    """With address and token of the system in the home folder, unless M3_GATEWAY_URL names another."""
    memory = Home(settings.home.absolute()).recall()
    ours = memory.settings(settings) if memory else settings
    elsewhere = "M3_GATEWAY_URL" in os.environ and settings.gateway_url != ours.gateway_url
    return settings if elsewhere else ours


def progress(what: str) -> Progress:
    """A bar of bytes on a terminal, nothing in a pipe."""
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)


def some(text: str, known: Sequence[Word], option: str) -> tuple[Word, ...]:
    """The words of a list with commas, in the order of those that are known."""
    found = {word.strip() for word in text.split(",") if word.strip()}
    if unknown := found - {*known}:
        raise UserError(f"{option} takes {', '.join(known)}, not {', '.join(sorted(unknown))}.")
    return tuple(word for word in known if word in found)
