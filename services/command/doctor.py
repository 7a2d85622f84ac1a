"""What this machine has to offer, looked at without starting or changing anything."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import services
from services.gateway import checks
from shared.embedded.home import Home, port_is_free
from shared.embedded.nats import nats_binary
from shared.embedded.s3 import weed_binary
from shared.embedded.system import SERVERS, status
from shared.errors import M3Error, UserError
from shared.settings import Settings

Verdict = Literal["ok", "note", "bad"]

_ML = ("torch", "torchvision", "monai", "transformers", "nnunetv2")
_ENOUGH_DISK_GB = 10.0


@dataclass(frozen=True)
class Finding:
    what: str
    found: str
    verdict: Verdict
    """`note` is worth knowing, `bad` keeps runs from succeeding."""


def examine(settings: Settings) -> list[Finding]:
    """Takes a second or two: the isolation level is tried out, the GPU asked."""
    return [
        Finding("Python", f"{sys.version.split()[0]} at {sys.executable}", "ok"),
        *_installed(),
        _isolation(settings),
        _gpu(),
        *_cores(),
        *_places(settings),
        *_ports(settings),
    ]


def _installed() -> Iterator[Finding]:
    for name, binary in (("nats-server", nats_binary), ("S3 server", weed_binary)):
        try:
            yield Finding(name, str(binary()), "ok")
        except M3Error as error:
            yield Finding(name, str(error), "bad")
    for package in _ML:
        try:
            yield Finding(package, metadata.version(package), "ok")
        except metadata.PackageNotFoundError:
            yield Finding(package, "not installed: pip install 'm3builder[ml]'", "bad")


def _isolation(settings: Settings) -> Finding:
    # In a process of its own, as the runner does it: dropping root cannot be undone.
    code = (
        "import sys; from pathlib import Path; from services.tool_runner.sandbox import detect, drop_root; "
        "drop_root(int(sys.argv[1]), [Path(sys.prefix)]); print(detect(sys.argv[2]))"
    )
    asked = [sys.executable, "-c", code, str(settings.runner_uid), settings.isolation]
    env = dict(os.environ) | {"PYTHONPATH": str(Path(services.__path__[0]).parent)}
    done = subprocess.run(asked, env=env, cwd="/", capture_output=True, text=True, timeout=60, check=False)
    level = done.stdout.strip()
    if done.returncode != 0:
        return Finding("isolation", (done.stderr.strip().splitlines() or ["unknown"])[-1], "bad")
    told = {
        "bwrap": "bwrap: namespaces, no network, cleared environment",
        "landlock": "landlock: files and TCP by Landlock, seccomp; bubblewrap would be stronger",
        "none": "none: code written by a core runs unconfined, as asked for by M3_ISOLATION",
    }
    return Finding("isolation", told[level], "ok" if level == "bwrap" else "note")


def _gpu() -> Finding:
    smi = shutil.which("nvidia-smi")
    if not smi:
        return Finding("GPU", "none; training runs on the CPU", "note")
    query = [smi, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        asked = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("GPU", f"nvidia-smi fails: {error}", "note")
    return Finding("GPU", "; ".join(asked.stdout.strip().splitlines()) or "none", "ok")


def _cores() -> Iterator[Finding]:
    yield Finding("core playbook", "needs no account", "ok")
    for provider in ("anthropic", "openai"):
        try:
            checks.core(f"{provider}:any")
            yield Finding(f"core {provider}", "a key or base URL is set", "ok")
        except UserError:
            yield Finding(f"core {provider}", "no key and no base URL is set", "note")


def _places(settings: Settings) -> Iterator[Finding]:
    home = Home(settings.home.absolute())
    there = next(folder for folder in (home.root, *home.root.parents) if folder.exists())
    free = shutil.disk_usage(there).free / 1e9
    writable = os.access(there, os.W_OK)
    text = f"{home.root}, {free:.0f} GB free" + ("" if writable else ", not writable: set M3_HOME")
    yield Finding("home", text, "bad" if not writable else "ok" if free >= _ENOUGH_DISK_GB else "note")
    memory = home.recall()
    for root in settings.data_roots or (memory.data_roots if memory else ()) or (home.data,):
        yield Finding("data root", f"{root}{'' if Path(root).is_dir() else ' (made by `up`)'}", "ok")


def _ports(settings: Settings) -> Iterator[Finding]:
    home = Home(settings.home.absolute())
    memory = home.recall()
    if memory is None:
        yield Finding("ports", "none taken yet; `m3builder up` picks free ones", "ok")
        return
    running = [one.name for one in status(home) if one.state == "running"]
    if running:
        yield Finding("system", f"{len(running)} processes run; gateway on port {memory.ports['gateway']}", "ok")
    if not {*SERVERS, "gateway"} & set(running):
        taken = [f"{name} {port}" for name, port in memory.ports.items() if not port_is_free(port)]
        text = f"taken by somebody else: {', '.join(taken)}; `up` will pick others" if taken else "remembered and free"
        yield Finding("ports", text, "note" if taken else "ok")
