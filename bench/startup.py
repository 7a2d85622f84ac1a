"""How long the embedded system takes to come up, and what one agent service needs.

Prints a table: `up` on a cold and a warm home until all is healthy, an agent service alone until it is ready, its
resident memory, and whether it has torch mapped. Exit code 1 when a bar of the design is missed. About a minute.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shared.embedded import processes
from shared.embedded.home import Home
from shared.embedded.system import System, attach, down, environment
from shared.settings import Settings

AGENT = "data_engineer"
UP_BAR, READY_BAR, MEMORY_BAR = 15.0, 1.0, 120.0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="m3-bench-") as folder:
        # The runner is not root and has to get there.
        Path(folder).chmod(0o755)
        home = Home(Path(folder) / "home")
        settings = Settings(home=home.root)
        try:
            rows = _measure(settings, home)
        finally:
            down(home)
    print(f"{'what':44}{'measured':>12}{'bar':>10}")
    for what, value, bar, unit in rows:
        print(f"{what:44}{value:>9.2f} {unit:<2}{bar:>7g} {unit}{'' if value <= bar else '   MISSED'}")
    return int(any(value > bar for _, value, bar, _ in rows))


def _measure(settings: Settings, home: Home) -> list[tuple[str, float, float, str]]:
    cold, system = _up(settings)
    down(home)
    warm, system = _up(settings)
    nothing, system = _up(settings)
    record = processes.load(AGENT, home.run)
    assert record
    time.sleep(1)
    resident = record.resident_mb() or 0.0
    torch = sum("libtorch" in line for line in Path(f"/proc/{record.pid}/maps").read_text().splitlines())
    ready = min(_ready_seconds(system, home) for _ in range(5))
    return [
        ("m3builder up, cold home, to all healthy", cold, UP_BAR, "s"),
        ("m3builder up, warm home, to all healthy", warm, UP_BAR, "s"),
        ("m3builder up when all runs already", nothing, UP_BAR, "s"),
        (f"{AGENT} alone to ready, best of 5", ready, READY_BAR, "s"),
        (f"{AGENT}, resident", resident, MEMORY_BAR, "MB"),
        (f"{AGENT}, mappings of libtorch", torch, 0, ""),
    ]


def _up(settings: Settings) -> tuple[float, System]:
    """The command as a person gives it, interpreter start included."""
    command = [sys.executable, "-m", "services.command.cli", "up"]
    began = time.monotonic()
    subprocess.run(
        command, env=dict(os.environ) | {"M3_HOME": str(settings.home)}, stdout=subprocess.DEVNULL, check=True
    )
    seconds = time.monotonic() - began
    system = attach(settings)
    assert system
    unhealthy = [one.name for one in system.status() if not one.ready]
    if unhealthy:
        raise SystemExit(f"not healthy: {', '.join(unhealthy)}")
    return seconds, system


def _ready_seconds(system: System, home: Home) -> float:
    """A second replica of the agent beside the running ones, from exec to its ready file."""
    ready = home.run / "bench.ready"
    ready.unlink(missing_ok=True)
    remembered = home.recall()
    assert remembered
    env = dict(os.environ) | environment(home, AGENT, system.settings, remembered) | {"M3_READY_FILE": str(ready)}
    began = time.monotonic()
    with (home.logs / "bench.log").open("ab") as log:
        process = subprocess.Popen([sys.executable, "-m", f"services.{AGENT}"], env=env, stdout=log, stderr=log)
    try:
        while not ready.exists():
            if process.poll() is not None or time.monotonic() - began > 60:
                raise SystemExit(f"{AGENT} did not become ready; see its log")
            time.sleep(0.005)
        return time.monotonic() - began
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
