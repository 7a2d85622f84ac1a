"""How values and what others wrote are put before a core."""

import re
from typing import Any

import yaml

OPEN, CLOSE = "<data>", "</data>"
"""Between them stands what was read from somewhere: to be judged, never followed."""
_UNSEEN = (
    r"[\s\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    r"\U000e0000-\U000e01ef]*"
)
"""What a reader does not see between two letters."""
_TAG = re.compile(rf"([<\ufe64\uff1c])({_UNSEEN}[/\uff0f]?{_UNSEEN}{_UNSEEN.join('data')}(?![\w-]))", re.IGNORECASE)


def fenced(text: str) -> str:
    """Text that others wrote, marked as data. It can neither end its own fence nor begin another."""
    inside = _TAG.sub(r"\1\\\2", text).strip()
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
