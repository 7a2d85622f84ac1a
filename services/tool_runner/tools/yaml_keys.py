"""Dotted keys of a YAML text, such as `training.learning_rate`: read, and given new values where they stand, so that
comments, order and all other values stay."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import yaml
from pydantic import JsonValue

from services.tool_runner.tools.syntax import MAX_YAML
from shared.errors import ToolRefused


def as_config(name: str, text: str) -> dict[str, Any]:
    """A YAML mapping; `name` is what refusals begin with. Raises ToolRefused for what is none, is too long, or names
    parts of itself: those may grow without bound."""
    if len(text) > MAX_YAML:
        raise ToolRefused(f"{name} has more than {MAX_YAML:,} characters.")
    try:
        if any(isinstance(event, yaml.events.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise ToolRefused(f"{name} has aliases (*name), of which keys cannot be set; write the values out.")
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ToolRefused(f"{name} is no YAML: {error}") from None
    if not isinstance(found, dict):
        raise ToolRefused(f"{name} is not there, or has no keys; copy a template into the workspace first.")
    return found


def keys_of(config: Mapping[str, Any], prefix: str = "") -> list[str]:
    """All dotted keys but those of sections."""
    found = []
    for key, value in config.items():
        found += keys_of(value, f"{prefix}{key}.") if isinstance(value, dict) else [f"{prefix}{key}"]
    return found


def value_of(config: Mapping[str, Any], key: str) -> Any:
    """Raises KeyError where there is no such key."""
    inside: Any = config
    for part in key.split("."):
        if not isinstance(inside, dict):
            raise KeyError(key)
        inside = inside[part]
    return inside


def near(config: Mapping[str, Any], key: str) -> str:
    """` Near: ...` of keys like this one, or nothing."""
    known = keys_of(config)
    found = get_close_matches(key, known, n=3, cutoff=0.5)
    found += [one for one in known if one.rpartition(".")[2] == key.rpartition(".")[2] and one not in found]
    return f" Near: {', '.join(found[:3])}." if found else ""


def set_keys(name: str, text: str, values: Mapping[str, JsonValue]) -> str:
    """The text with these values; a key that is not there is added to its section. Raises ToolRefused."""
    as_config(name, text)
    for key, value in values.items():
        text = _set(name, text, key.split("."), value)
        if value_of(as_config(name, text), key) != value:
            raise ToolRefused(f"{name}: {key} cannot be set to {value!r} where it stands; edit its lines.")
    return text


def _set(name: str, text: str, parts: Sequence[str], value: JsonValue) -> str:
    label: Any = None
    node: Any = yaml.compose(text, yaml.SafeLoader)
    for depth, part in enumerate(parts):
        if not isinstance(node, yaml.MappingNode):
            if label is None or node.tag != "tag:yaml.org,2002:null":
                raise ToolRefused(f"{name}: {'.'.join(parts[:depth])} has a value, and so no key {part}.")
            return _replaced(text, label, node, _nested(parts[depth:], value))
        found = [pair for pair in node.value if pair[0].value == part]
        if not found:
            return _added(text, node, part, _nested(parts[depth + 1 :], value))
        label, node = found[-1]
    if isinstance(node, yaml.MappingNode):
        raise ToolRefused(f"{name}: {'.'.join(parts)} is a section; set its keys.")
    return _replaced(text, label, node, value)


def _nested(parts: Sequence[str], value: JsonValue) -> JsonValue:
    for part in reversed(parts):
        value = {part: value}
    return value


def _replaced(text: str, label: Any, node: Any, value: JsonValue) -> str:
    """In place of `node`, the value of the key `label`; a list of lines of its own becomes one line."""
    begin = node.start_mark.index
    if begin == node.end_mark.index or (isinstance(node, yaml.SequenceNode) and not node.flow_style):
        return f"{text[: label.end_mark.index]}: {_written(value)}{text[_end(text, node) :]}"
    return text[:begin] + _written(value) + text[_end(text, node) :]


def _end(text: str, node: Any) -> int:
    """A collection of lines, and a text of lines, end for YAML where the next thing begins."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    begin, end = node.start_mark.index, node.end_mark.index
    return int(begin + len(text[begin:end].rstrip()))


def _added(text: str, section: Any, part: str, value: JsonValue) -> str:
    """As the first key of a section."""
    line = f"{part}: {_written(value)}"
    if not section.value:
        return text[: section.start_mark.index] + f"{{{line}}}" + text[section.end_mark.index :]
    mark = section.value[0][0].start_mark
    behind = ", " if section.flow_style else "\n" + " " * mark.column
    return text[: mark.index] + line + behind + text[mark.index :]


def _written(value: JsonValue) -> str:
    return str(yaml.safe_dump([value], default_flow_style=True, width=10**9, allow_unicode=True)).strip()[1:-1]
