"""How long the whole intake job of 10,000 pictures takes, and a second run's on the same data, which decodes nothing.

    python -m bench.intake_again [PICTURES]

The embedded system, the rules found by the playbook, runs cancelled at the lock; the time is from JobStarted to
JobFinished. Grey pictures of 256 x 256 in two class folders. Bar: 60 s, and 5 s for the second run. Exit code 1 where
one is missed.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from bench.intake_speed import make_pictures
from services.gateway.client import Gateway
from shared.contracts.base import Event
from shared.contracts.events import decode_event
from shared.contracts.training import JobFinished, JobStarted
from shared.embedded.home import Home
from shared.embedded.system import down, up
from shared.settings import Settings

CARD = {
    "dataset name": "Many Pictures",
    "dataset description": "2D chest X-ray pictures for disease diagnosis, in a folder a class",
}


def main() -> int:
    pictures = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(prefix="bench-intake-again-") as name:
        Path(name).chmod(0o755)
        data = Path(name) / "data"
        made = data / "made"
        made.mkdir(parents=True)
        for number, file in enumerate(make_pictures(made, pictures)):
            label = data / ("clear", "opaque")[number % 2]
            label.mkdir(exist_ok=True)
            (made / file).rename(label / f"P{number:05}.png")
        made.rmdir()
        settings = up(Settings(home=Path(name) / "home"), (data,)).settings
        try:
            with Gateway(settings) as gateway:
                gateway.add_dataset(json.dumps(CARD), data)
                first, second = (seconds(gateway) for _ in range(2))
        finally:
            down(Home(Path(name) / "home"))
    print(f"{pictures} pictures: {first:.1f} s (60), again {second:.1f} s (5); load {os.getloadavg()[0]:.1f}")
    return 0 if first <= 60 and second <= 5 else 1


def seconds(gateway: Gateway) -> float:
    run_id = gateway.request_run("Diagnose chest X-rays.", core="playbook", dataset="many-pictures")
    events: list[Event] = []
    for item in gateway.follow(run_id):
        if item.kind[0].isupper():
            events.append(decode_event(item.data.encode()))
        if item.kind in (JobFinished.__name__, "RunFinished", "QuestionAsked"):
            break
    gateway.cancel(run_id)
    started = next(event for event in events if isinstance(event, JobStarted))
    if not isinstance(events[-1], JobFinished) or events[-1].outcome != "ok":
        raise SystemExit(f"{run_id} took nothing in: {events[-1]}")
    return (events[-1].at - started.at).total_seconds()


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
