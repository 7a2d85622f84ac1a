"""Texts that make a parser work for ever are answered; the parsers run in the runner's own process."""

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CHECK = """
import asyncio, resource, sys
from services.tool_runner.tools.syntax import find_problem
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
found = asyncio.run(find_problem(sys.argv[1], sys.stdin.read(), None))
print(found.kind if found else "taken")
"""


def aliases(item: str) -> str:
    """Ten levels of nine references to the level before: 9 ** 10 of them, if anybody counts."""
    lines = ["a: &a {x: 1}"]
    for number in range(10):
        name, before = chr(98 + number), chr(97 + number)
        lines.append(f"{name}: &{name} {item % ','.join([f'*{before}'] * 9)}")
    return "\n".join(lines)


WICKED = {
    "merged aliases.yaml": (aliases("{<<: [%s]}"), "taken"),
    "aliases.yaml": (aliases("[%s]"), "taken"),
    "itself.yaml": ("a: &a [*a]", "taken"),
    "nested.yaml": ("[" * 10_000, "YAML"),
    "base sixty.yaml": ("a: 1" + ":59" * 19_000, "taken"),
    "long.yaml": ("a: 1\n" * 400_000, "taken"),
    "nested.json": ("[" * 200_000, "JSON"),
    "digits.json": ("1" * 200_000, "JSON"),
    "nested.py": ("(" * 200_000, "Python"),
    "calls.py": ("a" + "()" * 100_000, "Python"),
    "sums.py": ("1" + "+1" * 100_000, "Python"),
    "long.py": ("x = " + "1<" * 900_000 + "1", "taken"),
}


@pytest.mark.parametrize("name", WICKED)
def test_it_comes_to_an_end(name: str) -> None:
    text, wanted = WICKED[name]
    argv = [sys.executable, "-c", CHECK, name]
    done = subprocess.run(argv, input=text, capture_output=True, text=True, cwd=REPOSITORY, timeout=200, check=False)
    assert done.stdout.strip() == wanted, done.stderr[-500:]
