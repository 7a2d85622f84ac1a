"""Nothing may be asked for while something is erased: what is just being stored is named by nobody yet."""

from collections.abc import Iterator
from contextlib import contextmanager

from shared.errors import UserError


class Quiet:
    """Of one gateway."""

    def __init__(self) -> None:
        self._asking = 0
        self._alone = False

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Hold around a request that may lead to something being stored. Raises UserError while all is to be quiet."""
        if self._alone:
            raise UserError("Something is being erased. Ask again in a minute.")
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold while erasing. Raises UserError while anything is asked for, such as an upload."""
        if self._alone or self._asking:
            raise UserError("Something else is being asked for just now, such as an upload. Ask again once it is done.")
        self._alone = True
        try:
            yield
        finally:
            self._alone = False
