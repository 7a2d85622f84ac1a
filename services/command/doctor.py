"""What this machine and the models of a core have to offer, looked at without starting or changing anything."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

import services
from shared.embedded.home import Home
from shared.embedded.nats import nats_binary
from shared.embedded.ports import port_is_free
from shared.embedded.s3 import weed_binary
from shared.embedded.system import SERVERS, status
from shared.errors import M3Error, Unavailable, UserError
from shared.models import cores, make_core
from shared.models.catalogue import Endpoint, find, read_catalogue
from shared.models.endpoint import EndpointCore
from shared.models.trial import TOOLS_OFF, Trial
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
        *_cores(settings.models_file),
        *_places(settings),
        *_ports(settings),
    ]


async def try_cores(spec: str, models_file: Path | None) -> list[Finding]:
    """Each model of a core is tried, with a few requests of a few hundred tokens, up to its first fault."""
    findings = []
    for name in dict.fromkeys(cores(spec).values()):
        core = make_core(name, models_file)
        if isinstance(core, EndpointCore):
            findings += [one async for one in _model(core)]
        else:
            findings.append(Finding(core.name, "needs no model", "ok"))
    return findings


async def _model(core: EndpointCore) -> AsyncIterator[Finding]:
    name, listing, trial = core.name, core.listing, Trial(core)
    try:
        listing.key()
        await trial.answers()
        yield Finding(name, f"answers at {listing.address}", "ok")
        tools = await trial.calls_a_tool()
        yield Finding(
            "tools", "calls them" if tools else f"answers in prose instead: {TOOLS_OFF}", "ok" if tools else "bad"
        )
        if listing.endpoint.own:
            whole = await trial.remembers()
            cut = "forgets how a long request begins: raise OLLAMA_CONTEXT_LENGTH, --ctx-size or --max-model-len"
            yield Finding("long requests", "reads them whole" if whole else cut, "ok" if whole else "bad")
        sees = await trial.sees()
        unsaid = ", and is shown none before `vision: true` stands in M3_MODELS_FILE" * (listing.model.vision is None)
        yield Finding("vision", f"reads pictures{unsaid}" if sees else "reads no pictures", "ok" if sees else "note")
    except (UserError, Unavailable) as error:
        yield Finding(name, str(error), "bad")
        return
    yield _told(listing.endpoint)
    size = f"{listing.model.context:,} tokens of context, {core.max_output:,} a reply"
    if not listing.known:
        size += ", by default: it is not listed, give M3_MODELS_FILE its figures"
    yield Finding("size", size, "ok" if listing.known else "note")
    price = "; ".join(str(one) for one in listing.model.usd) or ("costs nothing" if listing.priced else "")
    yield Finding(
        "price",
        price or "not known, so a run's cost is not either: M3_MODELS_FILE can tell it",
        "ok" if price else "note",
    )


def _told(endpoint: Endpoint) -> Finding:
    if endpoint.inside:
        return Finding("endpoint", "inside the hospital: it is told what stands in the data", "ok")
    pictures = "and is shown pictures" if endpoint.pixels else "and is shown no picture"
    text = f"outside the hospital: it gets surrogates for names, paths, dates and texts of the data, {pictures}"
    return Finding("endpoint", f"{text}; `inside: true` in M3_MODELS_FILE says otherwise", "note")


def _installed() -> Iterator[Finding]:
    for name, binary in (("nats-server", nats_binary), ("S3 server", weed_binary)):
        try:
            yield Finding(name, str(binary()), "ok")
        except M3Error as error:
            yield Finding(name, str(error), "bad")
    found = {name: _version(name) for name in (*_ML, *_trained_with())}
    yield from (Finding(name, version, "ok") for name in _ML if (version := found[name]))
    if missing := [name for name, version in found.items() if not version]:
        yield Finding("for training", f"not installed: {', '.join(missing)}; pip install 'm3builder[ml,score]'", "bad")


def _trained_with() -> list[str]:
    """Distributions that runner and scorer need, as our own metadata name them; none where there are no metadata."""
    try:
        asked = metadata.requires("m3builder") or []
    except metadata.PackageNotFoundError:
        return []
    found = [re.match(r"""([\w.-]+).*extra == ["'](?:score|ml)["']""", one) for one in asked]
    return [one[1] for one in found if one]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


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


def _cores(models_file: Path | None) -> Iterator[Finding]:
    try:
        places = read_catalogue(models_file).endpoints
    except UserError as error:
        yield Finding("models", str(error), "bad")
        return
    reached = [
        name
        for name in places
        for listing in [find(f"{name}:any", read_catalogue(models_file))]
        if listing and any(os.environ.get(listing.variable(what)) for what in ("API_KEY", "AUTH_TOKEN", "BASE_URL"))
    ]
    told = f"a key or address is set for {', '.join(reached)}" if reached else "no key or address is set"
    yield Finding("core", f"playbook needs no account; {told}; `m3builder doctor --core NAME` tries one", "ok")


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
