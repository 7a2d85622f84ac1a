"""Notice, while a run is followed, that a process of the embedded system has died: nothing would come any more."""

import contextlib
import threading
from collections.abc import Callable, Iterator

from shared.embedded.home import Home
from shared.embedded.processes import load_all

SECONDS = 2.0


@contextlib.contextmanager
def guard(home: Home, act: Callable[[list[str]], None]) -> Iterator[None]:
    """Call `act` from a thread with the names of processes that have died, once for each death."""
    over = threading.Event()
    told: set[tuple[str, int]] = set()

    def look() -> None:
        while not over.wait(SECONDS):
            dead = [record for record in load_all(home.run) if not record.alive]
            new = [record.name for record in dead if (record.name, record.pid) not in told]
            told.update((record.name, record.pid) for record in dead)
            if new:
                act(new)

    thread = threading.Thread(target=look, name="guard", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
