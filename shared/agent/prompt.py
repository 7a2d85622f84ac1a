"""What a language model is given: the static part first and byte-stable, the tool list from the argument models."""

import json
from pathlib import Path
from typing import Any

from shared.agent.brief import Brief
from shared.agent.role import Role

COMMON = Path(__file__).with_name("common.md")


def system_prompt(role: Role) -> str:
    """What every role is told, then the role's own prompt; the same bytes in every run, for the providers' caches."""
    return COMMON.read_text(encoding="utf-8") + "\n" + role.prompt.read_text(encoding="utf-8")


def tool_schemas(role: Role) -> list[dict[str, Any]]:
    """Name, description and JSON Schema of every tool and submission, in a stable order."""
    listed = [(tool.tool, tool) for tool in role.tools] + [(item.tool, item.answer) for item in role.submissions]
    schemas = []
    for name, model in sorted(listed):
        schema = terse(model.model_json_schema())
        description = schema.pop("description", "")
        schemas.append({"name": name, "description": description, "input_schema": schema})
    return json.loads(json.dumps(schemas, sort_keys=True))  # type: ignore[no-any-return]


def terse(schema: Any) -> Any:
    """A JSON Schema without what a reader of it does not need: titles, and null where a field may be left out."""
    if isinstance(schema, list):
        return [terse(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: terse(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    match kept:
        case {"anyOf": [dict(kind), {"type": "null"}], "default": None, **rest}:
            return kind | rest
    return kept


BOOKKEEPING = ("kind", "run_id", "event_id", "caused_by", "sender", "at", "spent", "budget", "asked_by", "seed")
"""What programs need of an event and its reader does not."""


def opening(brief: Brief) -> str:
    """The first message: what the roles before handed over, as JSON a person can read, without what is not set."""
    documents = brief.model_dump(mode="json", exclude={"order", "role", "cards", "secret"}, exclude_defaults=True)
    for event in documents.values():
        for name in BOOKKEEPING if isinstance(event, dict) else ():
            event.pop(name, None)
    if planned := documents.get("planned"):
        # What other roles are to do, and why other datasets were not taken, is not this one's work.
        if brief.role != "task_manager":
            planned["plan"].pop("refused", None)
            planned["plan"]["instructions"] = planned["plan"].get("instructions", {}).get(brief.role, "")
        for name in ("path", "archive", "looked_at"):
            planned.get("card", {}).pop(name, None)
    return "The request and the documents of the roles before you:\n" + json.dumps(
        documents, indent=1, ensure_ascii=False
    )
