"""Cores by name: `playbook`, `scripted:<transcript>`, and models behind an SDK; one for all roles or one a role."""

from pathlib import Path

from shared.agent.core import Core
from shared.contracts.base import AGENTS, AgentName
from shared.errors import UserError
from shared.models.catalogue import find, read_catalogue
from shared.models.endpoint import TIMEOUT_SECONDS


def cores(spec: str) -> dict[AgentName, str]:
    """The core of each role: `strong,task_manager=small` is small for one of them and strong for the others.

    Raises UserError for a role that does not exist, or one that is left without a core.
    """
    if spec.startswith("scripted:"):  # a path may hold anything
        return dict.fromkeys(AGENTS, spec)
    found: dict[AgentName, str] = {}
    for part in spec.split(","):
        role, named, core = (text.strip() for text in part.partition("="))
        if not named:
            found = dict.fromkeys(AGENTS, role) | found
            continue
        wanted = [one for one in AGENTS if one == role]
        if not wanted:
            raise UserError(f"the core {part!r} is for no role of ours; they are: {', '.join(AGENTS)}")
        found |= dict.fromkeys(wanted, core)
    if missing := [role for role in AGENTS if role not in found]:
        raise UserError(
            f"{spec!r} leaves {', '.join(missing)} without a core: begin with one for all, as in `A,{spec}`"
        )
    return found


def make_core(spec: str, models_file: Path | None = None, seconds: float = TIMEOUT_SECONDS) -> Core:
    """Build one core, whose endpoint has `seconds` for a reply. Raises UserError for one that does not exist."""
    kind, _, argument = spec.partition(":")
    if kind == "playbook" and not argument:
        from shared.models.playbook import PlaybookCore

        return PlaybookCore()
    if kind == "scripted" and argument:
        from shared.models.scripted import ScriptedCore

        return ScriptedCore(argument)
    catalogue = read_catalogue(models_file)
    listing = find(spec, catalogue)
    if listing is None:
        raise UserError(
            f"there is no core {spec!r}: take 'playbook', a model ({', '.join(catalogue.models)}), <endpoint>:<model> "
            f"with one of the endpoints {', '.join(f'{name}:' for name in catalogue.endpoints)} (others go into "
            "M3_MODELS_FILE), or 'scripted:<recorded transcript>' to replay a run"
        )
    if listing.endpoint.protocol == "anthropic":
        from shared.models.anthropic import AnthropicCore

        return AnthropicCore(listing, timeout=seconds)
    from shared.models.openai import OpenAICore

    return OpenAICore(listing, timeout=seconds)
