"""A run is one trace over all services, also past a wait for a person, a killed process and a cancelled end."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from services.gateway.client import Gateway
from shared.embedded.home import Home
from shared.embedded.nats import start_nats
from shared.embedded.ports import free_port
from shared.settings import Settings
from tests.telemetry.receiver import Receiver, above, receiving, tree, unnamed

pytestmark = pytest.mark.timeout(600)

CARD = {"dataset name": "Ward 7", "dataset description": "3D chest CT for disease diagnosis", "dataset path": "/x"}
SERVICES = {
    "gateway": "services.gateway",
    "task_manager": "services.task_manager",
    "tool_runner": "services.tool_runner",
    "scorer": "services.scorer",
    "data_engineer": "tests.telemetry.engineer",
}


@dataclass
class Processes:
    home: Home
    environment: dict[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        ready = self.home.ready_file(name)
        ready.unlink(missing_ok=True)
        with self.home.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", SERVICES[name]],
                env=self.environment | {"M3_READY_FILE": str(ready)}, stdout=log, stderr=log,
            )  # fmt: skip

    def until(self, true: Callable[[], bool], seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, "\n".join(
                self.home.log(name).read_text()[-2000:] for name in self.running
            )
            time.sleep(0.1)

    def end(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(30)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found


@pytest.fixture
def processes(settings: Settings, receiver: Receiver, tmp_path: Path) -> Iterator[Processes]:
    # A server of its own: services would also take up what other tests have left on the shared one.
    server = start_nats(tmp_path / "nats")
    data, home = tmp_path / "data", Home(tmp_path / "home")
    data.mkdir()
    (data / "Meier_Hans.png").write_bytes(b"pixels")
    home.make(settings.runner_uid)
    found = Processes(
        home,
        {name: value for name, value in os.environ.items() if not name.startswith("M3_")}
        | {
            "M3_HOME": str(home.root),
            "M3_NATS_URL": server.url,
            "M3_S3_ENDPOINT": settings.s3_endpoint,
            "M3_S3_ACCESS_KEY": settings.s3_access_key,
            "M3_S3_SECRET_KEY": settings.s3_secret_key.get_secret_value(),
            "M3_GATEWAY_URL": f"http://127.0.0.1:{free_port()}",
            "M3_GATEWAY_TOKEN": "secret",
            "M3_DATA_ROOTS": json.dumps([str(data)]),
            "M3_OTLP_ENDPOINT": receiver.endpoint,
            "M3_ACK_WAIT_SECONDS": "3",
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
        },
    )
    try:
        for name in SERVICES:
            found.start(name)
        found.until(lambda: all(home.ready_file(name).exists() for name in SERVICES))
        yield found
    finally:
        found.end()
        server.stop()


def test_a_run_is_one_trace_without_a_gap_or_a_name(processes: Processes, receiver: Receiver, tmp_path: Path) -> None:
    with Gateway(Settings(gateway_url=processes.environment["M3_GATEWAY_URL"], gateway_token="secret")) as gateway:
        run_id = gateway.request_run("Diagnose the disease of Meier, Hans, in 3D chest CT")
        processes.until(lambda: gateway.run(run_id).status == "waiting_for_answer")
        gateway.add_dataset(json.dumps(CARD), tmp_path / "data")
        processes.until(lambda: processes.running["data_engineer"].poll() is not None)
        processes.start("data_engineer")
        kinds = [item.kind for item in _until(gateway, run_id, "WorkReturned")]
        gateway.cancel(run_id)
        kinds += [item.kind for item in _until(gateway, run_id, "RunFinished")]
    assert {"QuestionAsked", "DatasetAdded", "JobStarted", "JobFinished", "CancelRequested"} <= set(kinds)
    end = "publish evt.{run}.task_manager.RunFinished.all"
    receiver.until(lambda: any(span.name == end for span in receiver.spans))
    processes.end()

    spans = receiver.of_run(run_id)
    found = tree(spans)
    (root,) = found[""]
    assert (root.service, root.name) == ("gateway", "publish evt.{run}.gateway.RunRequested.all")
    assert {span.service for span in spans} == set(SERVICES)
    by_name = {span.name: span for span in spans}

    # What a person says later, and what the keeper and the scorer say, belongs to the run.
    for name in (
        "gateway.DatasetAdded.task_manager",
        "gateway.CancelRequested.all",
        "scorer.WorkReturned.data_engineer",
    ):
        assert f"publish evt.{{run}}.{name}" in by_name
    keeper = [span for span in spans if span.attributes.get("messaging.consumer.group.name") == "keeper"]
    assert by_name[end].parent in {span.id for span in keeper}

    # A turn leads to its calls, and the scorer to its job.
    turns = [span for span in spans if span.name == "invoke_agent task_manager"]
    assert [turn.attributes["m3builder.turn"] for turn in sorted(turns, key=lambda one: one.began)] == [1, 2, 3, 4]
    call = by_name["execute_tool read_files"]
    assert call.service == "tool_runner" and any(span in turns for span in above(call, spans))
    job = by_name["job intake"]
    assert job.service == "tool_runner" and "scorer" in {span.service for span in above(job, spans)}

    # The killed process has left its delivery, and what hung below it hangs there.
    received = [
        span
        for span in spans
        if span.name == "receive evt.{run}.task_manager.TaskPlanned.all" and span.service == "data_engineer"
    ]
    assert sorted(span.attributes["nats.num_delivered"] for span in received) == [1, 2]
    for span in received:
        assert found[span.id], "each did something"
    lost = {name for span in received for name in (one.name.split(" ")[0] for one in found[span.id]) if "lost" in name}
    again = [one.attributes for one in receiver.figures if one.name == "m3builder.redeliveries"]
    assert lost == {"attempt_lost"} and "lost" in {one["m3builder.redelivery"] for one in again}
    assert not unnamed(receiver)

    # Of a patient nothing leaves, not even in an error.
    broken = [span for span in spans if span.attributes.get("error.type") == "ValueError"]
    assert len(broken) == 2
    assert not any(span.events for span in receiver.spans)
    for body in receiver.bodies:
        assert b"Meier" not in body and b"Ward" not in body and b"chest" not in body


def _until(gateway: Gateway, run_id: str, kind: str) -> Iterator:
    for item in gateway.follow(run_id):
        yield item
        if item.kind == kind:
            return
