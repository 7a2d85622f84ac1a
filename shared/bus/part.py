"""What every part of the bus stands on."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from nats.js.api import RawStreamMsg

from shared.bus.connection import Connection
from shared.bus.consume import RETRY_DELAYS
from shared.settings import Settings

log = logging.getLogger(__name__)
T = TypeVar("T")


def readable(message: RawStreamMsg, decode: Callable[[bytes], T]) -> T | None:
    """What a stored message says; None, and a line in the log, for one that `decode` refuses with ValueError.

    Nobody can take a message out of the stream, so one that is no good must stop no reader.
    """
    try:
        return decode(message.data or b"")
    except ValueError as error:
        log.error("message %s on %s is passed over: %s", message.seq, message.subject, str(error).partition("\n")[0])
        return None


class Part:
    """One subject area of the bus; `Bus` is all of them over one connection."""

    def __init__(
        self, connection: Connection, settings: Settings, retry_delays: Sequence[float] = RETRY_DELAYS
    ) -> None:
        self.connection = connection
        self.settings = settings
        self.retry_delays = retry_delays
