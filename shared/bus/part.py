"""What every part of the bus stands on."""

from collections.abc import Sequence

from shared.bus.connection import Connection
from shared.bus.consume import RETRY_DELAYS
from shared.settings import Settings


class Part:
    """One subject area of the bus; `Bus` is all of them over one connection."""

    def __init__(
        self, connection: Connection, settings: Settings, retry_delays: Sequence[float] = RETRY_DELAYS
    ) -> None:
        self.connection = connection
        self.settings = settings
        self.retry_delays = retry_delays
