"""Does a text parse as what its name says it is? Nothing is executed to find out.

The parsers run in the runner's own process, so they get a bounded text, and YAML is read without being put together:
a few lines of aliases merged into each other would take for ever.
"""

import ast
import asyncio
import json
import re
import warnings
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NoReturn

import yaml

from services.tool_runner.tools.context import Execute
from services.tool_runner.tools.text import numbered

MAX_CHECKED, MAX_YAML = 300_000, 60_000
"""Characters; a longer text is taken as it is."""


@dataclass(frozen=True)
class Problem:
    """Why a text does not parse; `line` counts from 1."""

    path: str
    kind: str
    line: int
    message: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.path} does not parse as {self.kind}, line {self.line}: {self.message}\n{self.excerpt}"


async def find_problem(path: str, text: str, execute: Execute) -> Problem | None:
    """None when the text parses, or is of no kind that is parsed."""
    text = text.removeprefix("\ufeff") if not path.endswith((".json", ".jsonl")) else text
    if len(text) > MAX_CHECKED:
        return None
    match PurePosixPath(path).suffix.lower():
        case ".py":
            return await asyncio.to_thread(python_problem, path, text)
        case ".json" | ".ipynb":
            return await asyncio.to_thread(_json_problem, path, text, text)
        case ".jsonl":
            return await asyncio.to_thread(_json_lines_problem, path, text)
        case ".yaml" | ".yml" if len(text) <= MAX_YAML:
            return await asyncio.to_thread(_yaml_problem, path, text)
        case ".sh" | ".bash":
            return await _shell_problem(path, text, execute)
        case _:
            return None


def python_problem(path: str, text: str) -> Problem | None:
    if len(text) > MAX_CHECKED:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text, path)
    except SyntaxError as error:
        return _problem(path, "Python", text, error.lineno or 1, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return _problem(path, "Python", text, 1, str(error) or type(error).__name__)
    return None


def _json_problem(path: str, text: str, whole: str, offset: int = 0) -> Problem | None:
    def refuse(name: str) -> NoReturn:
        raise ValueError(f"{name} is not JSON; use null")

    try:
        json.loads(text, parse_constant=refuse)
    except json.JSONDecodeError as error:
        hint = " (JSON has no comments)" if re.match(r"\s*(//|#|/\*)", text[error.pos :]) else ""
        return _problem(path, "JSON", whole, error.lineno + offset, f"{error.msg} at column {error.colno}{hint}")
    except (ValueError, RecursionError) as error:
        return _problem(path, "JSON", whole, 1 + offset, str(error))
    return None


def _json_lines_problem(path: str, text: str) -> Problem | None:
    for number, line in enumerate(text.split("\n")):
        if line.strip() and (problem := _json_problem(path, line, text, number)):
            return problem
    return None


def _yaml_problem(path: str, text: str) -> Problem | None:
    try:
        foreign = _foreign_tag(yaml.compose(text, yaml.SafeLoader))
        if foreign is not None:
            return _problem(path, "YAML", text, foreign.start_mark.line + 1, f"the tag {foreign.tag!r} is not known")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return _problem(path, "YAML", text, line, error.problem or str(error))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return _problem(path, "YAML", text, 1, str(error))
    return None


def _foreign_tag(root: yaml.Node | None) -> yaml.Node | None:
    """A node that a safe loader would not build. An alias is the node that it stands for, so each is seen once."""
    waiting, seen = [root] if root else [], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.tag not in yaml.SafeLoader.yaml_constructors and node.tag != "tag:yaml.org,2002:merge":
            return node
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.MappingNode):
            waiting += [part for pair in node.value for part in pair]
    return None


async def _shell_problem(path: str, text: str, execute: Execute) -> Problem | None:
    done = await execute(["bash", "-n"], seconds=20, stdin=text.encode(), probe=True)
    if done.exit_code == 0:
        return None
    message = done.output.decode("utf-8", "replace").strip() or f"bash -n ended with {done.outcome}"
    found = re.search(r"line (\d+): (.*)", message)
    line, said = (int(found[1]), found[2]) if found else (1, message[:300])
    return _problem(path, "shell", text, line, said)


def _problem(path: str, kind: str, text: str, line: int, message: str) -> Problem:
    lines = text.split("\n")
    line = min(max(1, line), len(lines))
    return Problem(path, kind, line, message, numbered(lines, line))
