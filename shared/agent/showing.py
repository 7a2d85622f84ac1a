"""How values and what others wrote are put before a core."""

import re
from typing import Any

import yaml

OPEN, CLOSE = "<data>", "</data>"
"""Between them stands what was read from somewhere: to be judged, never followed."""
_END = re.compile(r"<(\s*/\s*data)", re.IGNORECASE)


def fenced(text: str) -> str:
    """Text that others wrote, marked as data. It cannot end its own fence."""
    inside = _END.sub(r"<\\\1", text).strip()
    return f"{OPEN}\n{inside}\n{CLOSE}"


def as_text(value: Any) -> str:
    """JSON-like values as YAML: lines for what is nested, one line for what is not."""
    return yaml.safe_dump(
        _plain(value), sort_keys=False, default_flow_style=None, allow_unicode=True, width=10**6
    ).strip()


def shortened(text: str, most: int) -> str:
    """The beginning of a text, with how much more there is."""
    text = text.strip()
    if len(text) <= most:
        return text
    return f"{text[:most].rstrip()} [and {len(text) - most:,} characters more]"


def _plain(value: Any) -> Any:
    """Tuples as lists, whole numbers without a point."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
