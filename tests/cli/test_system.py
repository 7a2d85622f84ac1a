"""The embedded system as real processes: up, twice up, a killed part, down, and up again with everything there."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.gateway.client import Gateway
from shared.contracts.base import SERVICES
from shared.embedded import processes
from shared.embedded.home import Home, choosing_ports
from shared.embedded.system import SERVERS, System, attach, down, inherited, status, up
from shared.errors import ServerUnfit, UserError
from shared.settings import Settings

CARD = '{"dataset name": "Some CT", "dataset description": "CT of something", "dataset path": "/placeholder"}'


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def system(settings: Settings) -> Iterator[System]:
    try:
        yield up(settings)
    finally:
        down(Home(settings.home))


def pids(home: Home) -> dict[str, int | None]:
    return {one.name: one.pid for one in status(home)}


def test_all_of_it_is_up_and_ready(system: System) -> None:
    found = system.status()
    assert [one.name for one in found] == [*SERVERS, *SERVICES]
    assert all(one.state == "running" and one.ready for one in found), found
    assert all(one.resident_mb and one.resident_mb > 5 for one in found)
    assert (system.home.memory.stat().st_mode & 0o777) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look as another user")
def test_another_user_of_the_machine_reads_nothing(system: System) -> None:
    """Started in each folder, so that no closed folder above the home stands in for its own mode."""
    home = system.home
    for folder in (home.root, *(path for path in home.root.iterdir() if path.is_dir())):
        look = ["find", ".", "(", "-type", "f", "-o", "-type", "d", ")", "-readable"]
        seen = subprocess.run(
            look, cwd=folder, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=False
        )
        assert not seen.stdout, (folder, seen.stdout)
        assert "Permission denied" in seen.stderr
    for pid in pids(home).values():
        umask = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Umask"))
        assert int(umask.split()[1], 8) == 0o077, umask


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_another_user_of_the_machine_starts_and_fetches_nothing(system: System) -> None:
    """Neither by HTTP, which wants a token, nor by the command, which cannot read it."""
    code = (
        "import encodings.idna, os, sys, urllib.request, urllib.error\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for body in (None, b'{}'):\n"
        "    try: urllib.request.urlopen(urllib.request.Request(sys.argv[1] + '/runs', body))\n"
        "    except urllib.error.HTTPError as error: print(error.code)\n"
        "try: open(sys.argv[2])\n"
        "except PermissionError: print('closed')\n"
    )
    argv = [sys.executable, "-c", code, system.settings.gateway_url, "system.json"]
    done = subprocess.run(argv, cwd=system.home.root, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["401", "401", "closed"], done


def test_a_home_that_is_shared_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(UserError, match="a folder of your own"):
        up(Settings(home=tmp_path))
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777


def test_the_runner_is_not_root(system: System, settings: Settings) -> None:
    record = processes.load("tool_runner", system.home.run)
    assert record
    lines = Path(f"/proc/{record.pid}/status").read_text().splitlines()
    uid = int(next(line for line in lines if line.startswith("Uid:")).split()[2])
    assert uid == (settings.runner_uid if os.geteuid() == 0 else os.geteuid())


def test_no_key_of_a_model_provider_reaches_the_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "DEEPSEEK_API_KEY", "ANTHROPIC_AUTH_TOKEN", "VLLM_BASE_URL"):
        monkeypatch.setenv(name, "secret")
        assert name not in inherited("tool_runner")
        assert name not in inherited("scorer")
        assert inherited("task_manager")[name] == "secret"


def test_up_twice_changes_nothing(system: System, settings: Settings) -> None:
    before = pids(system.home)
    told: list[str] = []
    up(settings, tell=told.append)
    assert pids(system.home) == before
    assert told == ["all of it runs already"]


def test_up_restarts_what_died_and_only_that(system: System, settings: Settings) -> None:
    before = pids(system.home)
    victim = before["scorer"]
    assert victim
    os.kill(victim, signal.SIGKILL)
    _until(lambda: {one.name: one.state for one in status(system.home)}["scorer"] == "died")
    up(settings)
    after = {one.name: one for one in status(system.home)}
    assert after["scorer"].ready and after["scorer"].restarts == 1
    assert {name: pid for name, pid in pids(system.home).items() if name != "scorer"} == {
        name: pid for name, pid in before.items() if name != "scorer"
    }


def test_down_and_up_again_loses_nothing(system: System, settings: Settings) -> None:
    with Gateway(system.settings) as gateway:
        gateway.add_dataset(CARD, here=False)
        run_id = gateway.request_run("segment the liver in MRI")
    ran = [pid for pid in pids(system.home).values() if pid]
    down(system.home)
    assert {one.state for one in status(system.home)} == {"stopped"}
    assert not [pid for pid in ran if processes.start_ticks(pid)]
    down(system.home)

    again = up(settings)
    assert again.settings.gateway_url == system.settings.gateway_url
    with Gateway(again.settings) as gateway:
        assert [card.dataset_id for card in gateway.datasets()] == ["some-ct"]
        assert gateway.run(run_id).requirement == "segment the liver in MRI"


@pytest.mark.slow
def test_other_data_roots_restart_what_has_to_know_them(system: System, settings: Settings, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "file").write_text("x")
    before = pids(system.home)
    up(settings, [tmp_path])
    after = pids(system.home)
    assert after["gateway"] != before["gateway"] and after["nats"] == before["nats"]
    found = attach(settings)
    assert found and found.settings.data_roots == (tmp_path.resolve(),)
    with Gateway(found.settings) as gateway:
        gateway.add_dataset(CARD, tmp_path / "set")


def test_a_process_of_somebody_else_is_never_stopped(system: System) -> None:
    """The pid of a record may by now belong to another process: this test's own."""
    record = processes.load("scorer", system.home.run)
    assert record
    stranger = processes.Record("scorer", os.getpid(), record.start_ticks, record.boot_id, "")
    assert not stranger.alive
    assert processes.stop([stranger]) == []


def test_a_service_that_does_not_start_is_told_with_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path / "home")
    monkeypatch.setenv("M3_CONCURRENCY", "many")
    try:
        with pytest.raises(ServerUnfit, match=r"(?s) ended before it was ready.*M3_CONCURRENCY.*m3builder up"):
            up(settings)
    finally:
        down(Home(settings.home))


def test_a_data_root_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder"):
        up(Settings(home=tmp_path / "home"), [tmp_path / "nowhere"])
    assert {one.state for one in status(Home(tmp_path / "home"))} == {"stopped"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only a runner that drops from root has another user than we")
def test_as_root_a_data_root_that_the_runner_cannot_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o700)
    with pytest.raises(UserError, match="chmod"):
        up(Settings(home=tmp_path / "home"), [tmp_path / "private"])


def _until(true: Callable[[], bool], seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_of_two_that_start_together_one_chooses_its_ports_first() -> None:
    second = threading.Event()

    def wait_for_turn() -> None:
        with choosing_ports():
            second.set()

    with choosing_ports():
        thread = threading.Thread(target=wait_for_turn)
        thread.start()
        assert not second.wait(0.2)
    assert second.wait(10)
    thread.join()
