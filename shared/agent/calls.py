"""Making calls from argument models, and reading their results, so that a playbook cannot misspell a field."""

import json
from collections.abc import Mapping

import yaml

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
    """Edits that give keys of a YAML file new values, its comments kept, and the text after them.

    A key is named `section.key`, or `key` where it stands in none. One that its section lacks is added to it, a section
    that is not there is set before `training:`; without that, the file is not one of a template and stays as it is.
    """
    edits: list[Call] = []
    for name, value in values.items():
        found = _edit(text, name, value if isinstance(value, str) else json.dumps(value))
        if found and found[0] != found[1] and text.count(found[0]) == 1:
            edits.append(call(EditFiles(path=path, old=found[0], new=found[1])))
            text = text.replace(*found)
    return edits, text


def _edit(text: str, name: str, value: str) -> tuple[str, str] | None:
    """Old and new text. The old begins at the section where the key's own line stands in several."""
    try:
        file = yaml.compose(text, yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    section, _, key = name.rpartition(".")
    head, inside = _at(file, section) if section else (file, file)
    _, old = _at(inside, key)
    if head and old:
        start = old.start_mark.index
        end = start + len(text[start : old.end_mark.index].rstrip())
        line = text.rfind("\n", 0, start) + 1
        first = line if text.count(text[line:end]) == 1 else head.start_mark.index
        return text[first:end], text[first:start] + value
    place = head or _at(file, "training")[0]
    if not place or not section:
        return None
    whole = text[place.start_mark.index :].split("\n", 1)[0]
    return whole, f"{whole}\n  {key}: {value}" if head else f"{section}:\n  {key}: {value}\n{whole}"


def _at(node: yaml.Node | None, name: str) -> tuple[yaml.Node, yaml.Node] | tuple[None, None]:
    """A key of a mapping and its value."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next(((key, value) for key, value in pairs if key.value == name), (None, None))
