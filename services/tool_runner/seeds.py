"""What a fresh workspace starts with: an allow-list for each area, made from the run's events."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from services.tool_runner.mounts import Mounted
from services.tool_runner.sandbox import find_gpus
from services.tool_runner.sandbox.gpu import told
from services.tool_runner.views import write_build_seed
from shared.contracts.base import Service
from shared.contracts.data import ViewManifest
from shared.contracts.flow import stage_of
from shared.contracts.state import RunState

if TYPE_CHECKING:
    from shared.service import Context
    from shared.settings import Settings

Seed = Callable[[Path], Awaitable[None]]


def area_for(role: Service, state: RunState) -> str:
    """Name of the role's workspace. A new lock starts a new build workspace: nothing that was trained under the old
    split, and no index of it, is carried over."""
    area = stage_of(role).area
    return f"build-{state.locks}" if area == "build" and state.locks > 1 else area


def seed_for(area: str, state: RunState, context: Context, mounted: Mounted) -> Seed:
    """The function that fills a workspace which has no head yet."""

    async def plan(folder: Path) -> None:
        cards = [
            {
                "dataset_id": card.dataset_id,
                "name": card.name,
                "description": card.description,
                "here": card.here,
                "files": card.profile.for_planning().model_dump(mode="json", exclude_defaults=True)
                if card.profile
                else None,
            }
            for card in await context.bus.cards()
        ]
        _write(folder / "datacards.json", cards)

    async def data(folder: Path) -> None:
        assert state.planned is not None
        _write(folder / "plan.json", state.planned.plan.model_dump(mode="json"))
        card = state.planned.card
        _write(folder / "card.json", {"name": card.name, "description": card.description, **card.extra})
        # The plan's copy of the card has only what the Task Manager was told.
        whole = await context.bus.card(card.dataset_id)
        if whole and whole.profile:
            _write(folder / "profile.json", whole.profile.model_dump(mode="json"))

    async def build(folder: Path) -> None:
        assert state.planned is not None and state.locked is not None
        blob = await asyncio.to_thread(context.store.get_bytes, state.locked.view)
        manifest = ViewManifest.model_validate_json(blob)
        await asyncio.to_thread(write_build_seed, manifest, folder)
        plan = state.planned.plan.model_dump(mode="json")
        _write(folder / "plan.json", plan)
        _write(folder / "environment.json", environment_of(context.settings))

    return {"plan": plan, "data": data, "build": build}[area.split("-")[0]]


def environment_of(settings: Settings) -> dict[str, Any]:
    """Facts of the machine that a core should not have to guess."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    gpus = find_gpus(settings.gpus).devices
    return {
        "cpu_threads": min(settings.sandbox_cpu_threads, os.cpu_count() or 1),
        "memory_mb": min(settings.sandbox_memory_mb, pages // 2**20),
        "gpus": gpus,
        "gpu_memory": told() if gpus else [],
        "versions": {name: version(name) for name in ("torch", "monai", "transformers", "nnunetv2") if find_spec(name)},
    }


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
