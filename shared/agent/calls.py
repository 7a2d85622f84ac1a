"""Making calls from argument models, so that a playbook cannot misspell a tool or a field."""

from shared.contracts.base import Contract
from shared.contracts.tools import ToolArgs
from shared.contracts.transcript import Call


def call(arguments: ToolArgs) -> Call:
    """The call of a tool; only what differs from the defaults is written."""
    return Call(name=arguments.tool, arguments=arguments.model_dump(mode="json", exclude_defaults=True))


def submit(tool: str, answer: Contract) -> Call:
    return Call(name=tool, arguments=answer.model_dump(mode="json", exclude_defaults=True))
