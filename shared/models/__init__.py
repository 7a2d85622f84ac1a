"""Cores by name: `playbook`, `scripted:<transcript>`, and models behind an SDK."""

from shared.agent.core import Core
from shared.errors import UserError


def make_core(spec: str) -> Core:
    """Build the core that a run names. Raises UserError for one that does not exist; asks no endpoint yet."""
    kind, _, argument = spec.partition(":")
    if kind == "playbook" and not argument:
        from shared.models.playbook import PlaybookCore

        return PlaybookCore()
    if kind == "scripted" and argument:
        from shared.models.scripted import ScriptedCore

        return ScriptedCore(argument)
    if kind == "anthropic" and argument:
        from shared.models.anthropic import AnthropicCore

        return AnthropicCore(argument)
    if kind == "openai" and argument:
        from shared.models.openai import OpenAICore

        return OpenAICore(argument)
    raise UserError(
        f"there is no core {spec!r}: take 'playbook', 'anthropic:<model>', 'openai:<model>' (also for local servers, "
        "with OPENAI_BASE_URL), or 'scripted:<recorded transcript>' to replay a run"
    )
