"""Making calls from argument models, and reading their results, so that a playbook cannot misspell a field."""

from collections.abc import Mapping

from shared.contracts.base import Contract, ToolArgs
from shared.contracts.tools import ToolResult
from shared.contracts.transcript import Call


def call(arguments: ToolArgs) -> Call:
    """The call of a tool; only what differs from the defaults is written."""
    return Call(name=arguments.tool, arguments=arguments.model_dump(mode="json", exclude_defaults=True))


def submit(tool: str, answer: Contract) -> Call:
    return Call(name=tool, arguments=answer.model_dump(mode="json", exclude_defaults=True))


def text_of(result: ToolResult, path: str) -> str:
    """The text of a file that read_files brought; empty when it could not be read."""
    files = result.data.get("files")
    facts = files.get(path) if isinstance(files, Mapping) else None
    return str(facts.get("text", "")) if isinstance(facts, Mapping) else ""
