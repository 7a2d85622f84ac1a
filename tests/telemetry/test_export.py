"""What one process tells: model calls, cost, GPUs; and to whom: collectors with TLS, that hang, or that are away."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from shared.embedded.certificate import write_key_pair
from shared.settings import Settings
from shared.telemetry import METRICS, Metrics, Name
from tests.telemetry.receiver import Receiver, Seen, receiving, unnamed

SMI = """#!/bin/sh
echo "GPU-a, 37, 1024, 8192"
echo "GPU-of-somebody-else, 90, 1, 2"
"""
"""What the driver's own tool says: UUID, % of the time, MiB used, MiB there."""
WORKS = 120
"""Seconds after which a process is taken for one that waits for its collector."""


def work(
    settings: Settings, folder: Path, endpoint: str, *arguments: str, **more: str
) -> subprocess.CompletedProcess[str]:
    (folder / "nvidia-smi").write_text(SMI)
    (folder / "nvidia-smi").chmod(0o755)
    # What the HTTP client would put before the exporter's own.
    inherited = {
        name: value for name, value in os.environ.items() if name not in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    }
    environment = inherited | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "M3_HOME": str(settings.home),
        "M3_NATS_URL": settings.nats_url,
        "M3_OTLP_ENDPOINT": endpoint,
        "ANTHROPIC_API_KEY": "secret-key",
    }
    command = [sys.executable, "-m", "tests.telemetry.worker", *arguments]
    return subprocess.run(command, env=environment | more, capture_output=True, text=True, timeout=WORKS)


def test_a_model_call_its_cost_and_the_gpu_are_told_and_no_word_of_it(bus_settings: Settings, tmp_path: Path) -> None:
    with receiving() as receiver:
        done = work(bus_settings, tmp_path, receiver.endpoint)
    assert done.returncode == 0, done.stderr
    chats = [span for span in receiver.spans if span.name == "chat a-model"]
    turns = [span for span in receiver.spans if span.name.startswith("invoke_agent ")]
    assert len(chats) == len(turns) == 2
    assert {chat.parent for chat in chats} == {turn.parent for turn in turns}, "an open turn is nobody's parent"
    for chat, turn in zip(chats, turns, strict=True):
        assert turn.began <= chat.began and chat.ended <= turn.ended
        assert (chat.attributes[Name.PROVIDER], chat.attributes[Name.OUTCOME]) == ("anthropic", "ok")
        assert turn.attributes[Name.INPUT_TOKENS] > 0 and turn.attributes[Name.OUTPUT_TOKENS] > 0

    told = {metric: [one for one in receiver.figures if one.name == metric.name] for metric in METRICS}
    tokens = {one.attributes[Name.TOKEN_TYPE]: one.value for one in told[Metrics.TOKENS]}
    assert tokens["input"] == sum(turn.attributes[Name.INPUT_TOKENS] for turn in turns)
    assert max(one.value for one in told[Metrics.COST]) > 0 and max(one.value for one in told[Metrics.TURNS]) == 2
    assert {one.attributes[Name.OUTCOME] for one in told[Metrics.CHAT]} == {"ok"}
    gpu = {metric.name: (one.attributes, one.value) for metric in METRICS for one in told[metric] if "hw." in one.name}
    own = {Name.GPU: "GPU-a"}
    assert gpu == {
        "hw.gpu.utilization": (own, 0.37),
        "hw.gpu.memory.usage": (own, 1 << 30),
        "hw.gpu.memory.limit": (own, 8 << 30),
    }
    assert not unnamed(receiver)
    for body in receiver.bodies:
        for word in (b"Meier", b"1907-Feb-30", b"secret-key", b"one class only"):
            assert word not in body


@pytest.mark.slow
def test_a_collector_may_want_tls_and_a_header(bus_settings: Settings, tmp_path: Path) -> None:
    pair = write_key_pair(tmp_path, "collector")
    with receiving(pair) as receiver:
        done = work(
            bus_settings, tmp_path, receiver.endpoint, "idle",
            OTEL_EXPORTER_OTLP_CERTIFICATE=str(pair[0]), OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20t0ken",
        )  # fmt: skip
        heard = len(receiver.bodies)
        stranger = work(bus_settings, tmp_path, receiver.endpoint, "idle")
    assert done.returncode == stranger.returncode == 0
    assert heard and len(receiver.bodies) == heard, "without its authority nothing is told"
    assert {headers["authorization"] for headers in receiver.headers} == {"Bearer t0ken"}


@contextmanager
def hanging() -> Iterator[tuple[str, list[socket.socket]]]:
    """Takes every connection, and never says a word."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take() -> None:
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", taken
        server.shutdown(socket.SHUT_RDWR)
    for one in taken:
        one.close()


@pytest.mark.slow
def test_a_collector_that_hangs_or_is_away_holds_nothing_up(bus_settings: Settings, tmp_path: Path) -> None:
    with hanging() as (endpoint, taken):
        # The SDK would wait for the answer, and at the end once more, for longer than we do.
        done = work(bus_settings, tmp_path, endpoint, OTEL_EXPORTER_OTLP_TIMEOUT=str(10 * WORKS))
        assert done.returncode == 0 and done.stdout, done.stderr
        assert taken, "it was asked"
    away = work(bus_settings, tmp_path, endpoint, "idle")
    assert away.returncode == 0 and away.stdout
    assert away.stderr.count("opentelemetry.exporter") == 1, "it is said, and not at every try"


@pytest.mark.parametrize(("protocol", "says"), [("grpc", "opentelemetry-exporter-otlp-proto-grpc"), ("smoke", "smoke")])
def test_what_cannot_be_spoken_is_said_and_work_goes_on(
    protocol: str, says: str, bus_settings: Settings, tmp_path: Path
) -> None:
    with receiving() as receiver:
        done = work(bus_settings, tmp_path, receiver.endpoint, "idle", OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
    assert done.returncode == 0 and says in done.stderr
    assert not receiver.bodies


def test_names_stand_once() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert bool(metric.bounds) == (metric.kind == "histogram") and list(metric.bounds) == sorted({*metric.bounds})
    known = Seen("gateway", "publish evt", "t", "s", "", {Name.MESSAGING_SYSTEM: "nats"}, 0, 0, 0)
    stranger = replace(known, name="smuggle evt", attributes={"patient.name": "x"})
    assert not unnamed(Receiver(spans=[known]))
    assert unnamed(Receiver(spans=[known, stranger])) == {"smuggle", "patient.name"}
