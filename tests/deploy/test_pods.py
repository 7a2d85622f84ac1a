"""What the chart tells each pod starts its program, against a bus and a store that know only the services' users."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from shared.embedded.nats import start_nats
from shared.embedded.ports import free_port
from shared.embedded.s3 import identities, start_s3
from shared.settings import Settings
from tests.deploy.chart import REPOSITORY, Manifest, pods, rendered


def _environment(container: Manifest, secrets: dict[str, str], elsewhere: dict[str, str]) -> dict[str, str]:
    """A container's own variables and nothing of ours; addresses of the cluster replaced by those of the test."""
    told = {
        one["name"]: one.get("value") or secrets[one["valueFrom"]["secretKeyRef"]["key"]] for one in container["env"]
    }
    return told | elsewhere | {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}


def _status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.slow
def test_every_pod_becomes_ready_with_what_the_chart_tells_it(tmp_path: Path) -> None:
    found = list(pods(rendered("no-gpu")))
    [conf] = [one["data"]["users.conf"] for one in rendered("no-gpu") if one["kind"] == "ConfigMap"]
    [trial] = [spec["containers"][0] for name, _, spec in found if name.startswith("StatefulSet")]
    users = {one["name"]: one["valueFrom"]["secretKeyRef"]["key"] for one in trial["env"]}
    secrets = {user: f"pass{number}word" for number, user in enumerate(users.values())} | {"token": "t" * 32}
    for variable, user in users.items():
        conf = conf.replace(f"${variable}", json.dumps(secrets[user]))
    keys = {f"{user}-access-key": user for user in ("gateway", "scorer", "tool_runner")}
    secrets |= keys | {f"{user}-secret-key": f"secret-of-{user}" for user in keys.values()}

    store = start_s3(tmp_path / "s3", others=identities("m3-", lambda service: f"secret-of-{service}"))
    secrets |= {"m3builder-access-key": store.access_key, "m3builder-secret-key": store.secret_key.get_secret_value()}
    nats = start_nats(tmp_path / "nats", extra=conf)
    data = tmp_path / "data"
    data.mkdir()
    elsewhere = {"M3_NATS_URL": nats.url, "M3_S3_ENDPOINT": store.endpoint, "M3_ISOLATION": "auto"}
    running: dict[str, tuple[subprocess.Popen[bytes], int, Path]] = {}
    try:
        ordered = sorted(found, key=lambda one: not one[0].startswith("Job"))
        for name, metadata, spec in ordered:
            component, [container] = metadata["labels"]["app.kubernetes.io/component"], spec["containers"]
            if component in ("nats", "test"):
                continue
            port, log, home = free_port(), tmp_path / f"{component}.log", tmp_path / component
            (home / "runner").mkdir(parents=True)
            if os.geteuid() == 0:  # in a pod nobody is
                os.chown(home / "runner", Settings().runner_uid, -1)
            own = {"M3_HOME": str(home), "HOME": str(home), "M3_HEALTH_PORT": str(port)}
            if component == "gateway":
                own["M3_GATEWAY_URL"] = f"http://127.0.0.1:{free_port()}"
            argv = [sys.executable, *container["args"]]
            if any(one["name"] == "M3_DATA_ROOTS" for one in container["env"]):
                own["M3_DATA_ROOTS"] = json.dumps([str(data)])
            env = _environment(container, secrets, elsewhere | own)
            if name.startswith("Job"):
                done = subprocess.run(argv, env=env, cwd=home, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr
                continue
            with log.open("wb") as output:
                running[component] = (subprocess.Popen(argv, env=env, cwd=home, stderr=output), port, log)
        assert len(running) == 9
        end = time.monotonic() + 120
        for component, (process, port, log) in running.items():
            while _status(f"http://127.0.0.1:{port}/readyz") != 200:
                assert process.poll() is None and time.monotonic() < end, f"{component}: {log.read_text()[-2000:]}"
                time.sleep(0.2)
    finally:
        for process, _, _ in running.values():
            process.terminate()
        for process, _, _ in running.values():
            process.wait(60)
        nats.kill()
        store.stop()
