"""HTML pages from templates: one file each, with nothing to load and nothing that runs.

What a template is filled with is escaped and loses its control characters, unless it says `|safe`, as of a drawing.
"""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""Should anything ever slip through the escaping, a browser neither loads nor runs it."""


def page(template: Path, **facts: object) -> str:
    """The HTML file of a template that extends `frame.html`, which wants `title`."""
    return _environment(template.parent).get_template(template.name).render(policy=POLICY, **facts)


def printable(text: str) -> str:
    """Without control characters: names come from files of strangers, and a terminal obeys some of them."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "�" for sign in text)


@cache
def _environment(folder: Path) -> Environment:
    return Environment(
        loader=FileSystemLoader([folder, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _shown(value: object) -> object:
    return printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
