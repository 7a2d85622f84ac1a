"""Does a text parse as what its name says it is? Nothing is executed to find out."""

import ast
import json
import re
import warnings
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import NoReturn

import yaml

from services.tool_runner.tools.context import Execute
from services.tool_runner.tools.text import numbered


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
    match PurePosixPath(path).suffix.lower():
        case ".py":
            return python_problem(path, text)
        case ".json" | ".ipynb":
            return _json_problem(path, text, text)
        case ".jsonl":
            return _json_lines_problem(path, text)
        case ".yaml" | ".yml":
            return _yaml_problem(path, text)
        case ".sh" | ".bash":
            return await _shell_problem(path, text, execute)
        case _:
            return None


def python_problem(path: str, text: str) -> Problem | None:
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
        yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        return _problem(path, "YAML", text, line, error.problem or str(error))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return _problem(path, "YAML", text, 1, str(error))
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
