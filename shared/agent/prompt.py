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
        schema = model.model_json_schema()
        description = schema.pop("description", "")
        schemas.append({"name": name, "description": description, "input_schema": schema})
    return json.loads(json.dumps(schemas, sort_keys=True))  # type: ignore[no-any-return]


def opening(brief: Brief) -> str:
    """The first message: what the roles before handed over, as JSON a person can read."""
    documents = brief.model_dump(mode="json", exclude={"order", "role", "cards"}, exclude_none=True)
    return "The request and the documents of the roles before you:\n" + json.dumps(
        documents, indent=1, ensure_ascii=False
    )
