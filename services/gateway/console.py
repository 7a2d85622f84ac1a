"""What all commands share: where they print, and the gateway that they ask."""

import os

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from services.gateway.client import Gateway
from shared.embedded.home import Home
from shared.settings import Settings

out, err = Console(), Console(stderr=True)


def connect() -> Gateway:
    return Gateway(gateway_url(Settings()))


def gateway_url(settings: Settings) -> str:
    """M3_GATEWAY_URL when it is set, else that of the system in the home folder."""
    if "M3_GATEWAY_URL" in os.environ:
        return settings.gateway_url
    memory = Home(settings.home.absolute()).recall()
    return memory.settings(settings).gateway_url if memory else settings.gateway_url


def progress(what: str) -> Progress:
    """A bar of bytes on a terminal, nothing in a pipe."""
    columns = (TextColumn(what), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=out, transient=True, disable=not out.is_terminal)
