"""Services of ours as processes, as a cluster starts them: told everything by their environment."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from shared.settings import Settings

REPOSITORY = Path(__file__).parents[1]


def environment(settings: Settings, **changed: object) -> dict[str, str]:
    """The process environment of a service that has these settings, but for what `changed` says."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("M3_")}
    told = settings.model_dump(mode="json", exclude_defaults=True)
    for name in ("nats_password", "s3_secret_key"):
        if secret := getattr(settings, name):
            told[name] = secret.get_secret_value()
    given: Mapping[str, object] = told | changed
    words = {f"M3_{k.upper()}": v if isinstance(v, str) else json.dumps(v, default=str) for k, v in given.items()}
    return inherited | words | {"PYTHONPATH": str(REPOSITORY)}


def start(module: str, env: Mapping[str, str], *argv: str) -> "subprocess.Popen[str]":
    """`python -m module`; what it says is in its stderr."""
    command = [sys.executable, "-m", module, *argv]
    return subprocess.Popen(command, env=dict(env), stderr=subprocess.PIPE, text=True, cwd="/")
