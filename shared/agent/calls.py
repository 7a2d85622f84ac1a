"""Making calls from argument models, and reading their results, so that a playbook cannot misspell a field."""

import json
import re
from collections.abc import Mapping

from shared.contracts.base import Contract, ToolArgs
from shared.contracts.tools import EditFiles, ToolResult
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


def set_keys(path: str, text: str, values: Mapping[str, object]) -> tuple[list[Call], str]:
    """Edits that give keys of a YAML file new values, one a line with its comment kept, and the text after them.

    A key that the text does not have, or has twice, is left alone: the file's own default then holds.
    """
    edits: list[Call] = []
    for key, value in values.items():
        found = re.findall(rf"^( *{re.escape(key)}: *)([^#\n]*?)( *(?:#.*)?)$", text, re.MULTILINE)
        if len(found) != 1:
            continue
        head, old, tail = found[0]
        new = value if isinstance(value, str) else json.dumps(value)
        if old.strip() == new or text.count(head + old + tail) != 1:
            continue
        edits.append(call(EditFiles(path=path, old=head + old + tail, new=head + new + tail)))
        text = text.replace(head + old + tail, head + new + tail)
    return edits, text
