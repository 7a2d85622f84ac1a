"""What a language model is given: the static part first and byte-stable, the tool list from the argument models, and a
first message with what its role needs and nothing else."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from shared.agent.brief import Brief
from shared.agent.role import Role
from shared.agent.showing import as_text, fenced, shortened
from shared.contracts.runs import DataCard, Switch

COMMON = Path(__file__).with_name("common.md")
SOLO = Path(__file__).with_name("solo.md")
ONCE = Path(__file__).with_name("once.md")
OUTSIDE = Path(__file__).with_name("outside.md")
SECTIONS: Mapping[str, Switch] = {
    "Example": "few_shot",
    "Before you submit": "reflection",
    "What comes back": "debugging",
}
"""Headings of prompts whose sections a run can go without."""

CARDS_ROOM = 30_000
"""Characters that the datasets of the Task Manager's first message may have; descriptions are cut until they fit."""
CUTS = (4000, 1200, 500, 200, 80)
AWAY = 200
"""Of one that is not here and cannot be taken."""
CARD_WORDS = 800
"""Characters of a card's description for the roles behind the lock."""
EVIDENCE = 4000
"""Characters of what was handed back."""


def system_parts(role: Role, without: Collection[Switch] = ()) -> dict[str, str]:
    """What a role is told before anything of a run: title -> text, the same in every run, for endpoints' caches."""
    parts = {"rules for every role": _with_sections(COMMON.read_text(encoding="utf-8"), without)}
    if "debugging" in without:
        parts["first try"] = ONCE.read_text(encoding="utf-8")
    if role.team:
        parts["alone"] = SOLO.read_text(encoding="utf-8")
    for one in role.team or (role,):
        parts[f"role {one.name}"] = _with_sections(one.prompt.read_text(encoding="utf-8"), without)
    return parts


def system_prompt(role: Role, without: Collection[Switch] = (), outside: bool = False) -> str:
    """`outside`: for an endpoint that is shown surrogates."""
    told = OUTSIDE.read_text(encoding="utf-8") if outside else ""
    return "\n".join(system_parts(role, without).values()) + told


def _with_sections(text: str, without: Collection[Switch]) -> str:
    head, *sections = text.split("\n## ")
    kept = [one for one in sections if SECTIONS.get(one.partition("\n")[0]) not in without]
    return "\n## ".join([head, *kept]).rstrip() + "\n"


def tool_schemas(role: Role) -> list[dict[str, Any]]:
    """Name, description and JSON Schema of every tool and submission, in a stable order."""
    team = role.team or (role,)
    listed = {tool.tool: tool for one in team for tool in one.tools}
    models = listed | {item.tool: item.answer for one in team for item in one.submissions}
    schemas = []
    for name, model in sorted(models.items()):
        schema = terse(model.model_json_schema())
        description = schema.pop("description", "")
        schemas.append({"name": name, "description": description, "input_schema": schema})
    return json.loads(json.dumps(schemas, sort_keys=True))  # type: ignore[no-any-return]


UNSAID: tuple[dict[str, Any], ...] = (
    {"additionalProperties": {"$ref": "#/$defs/JsonValue"}},
    {"additionalProperties": False},
    {"default": {}},
    {"default": []},
    {"default": ""},
    {"default": False},
    {"minLength": 1},
    {"minItems": 1},
    {"minProperties": 1},
)
"""Parts of a JSON Schema that a reader of it does not need: they hold unless another one is said."""


def terse(schema: Any) -> Any:
    """A JSON Schema without what a reader of it does not need: titles, too, and null where a field may be left out."""
    if isinstance(schema, list):
        return [terse(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: terse(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str)) and {key: value} not in UNSAID
    }
    if "$defs" in kept:
        kept["$defs"].pop("JsonValue", None)
        kept = {key: value for key, value in kept.items() if value != {}}
    match kept:
        case {"anyOf": [dict(kind), {"type": "null"}], "default": None, **rest}:
            return kind | rest
    return kept


def opening(brief: Brief) -> str:
    """The first message."""
    return "\n\n".join(f"# {title}\n{text}" for title, text in opening_parts(brief).items())


def opening_parts(brief: Brief) -> dict[str, str]:
    """Title -> text of what a role needs to know of its run, without ids, hashes or zeros."""
    ours = {"Request": brief.requested.requirement}
    if brief.role == "task_manager" and brief.requested.dataset:
        ours["Chosen by the person who asks"] = brief.requested.dataset
    told = {title: fenced(text) for title, text in _from_others(brief).items()}
    return ours | told | ({"Budget": brief.budget} if brief.budget else {})


def _from_others(brief: Brief) -> dict[str, str]:
    """What was read from cards and files, measured, or written by another role: some of its words may be anybody's."""
    parts = {"Datasets": datasets(brief.cards)} if brief.role == "task_manager" else {}
    if brief.planned:
        plan = brief.planned.plan
        hidden = {"dataset_id", "reason", "refused", "instructions"}
        parts["Plan"] = as_text(plan.model_dump(mode="json", exclude_defaults=True, exclude=hidden))
        parts["From the Task Manager"] = plan.instructions.get(brief.role, "")
    if brief.planned and brief.role == "data_engineer":
        card = brief.planned.card
        told = {"name": card.name, "description": card.description, **card.extra, "files": brief.files or _files(card)}
        parts["Card of the dataset"] = as_text({name: one for name, one in told.items() if one})
    if brief.planned and brief.locked:
        card = brief.planned.card
        parts["Dataset, in the words of its card"] = f"{card.name}: {shortened(card.description, CARD_WORDS)}"
    if brief.locked:
        lock = brief.locked
        sides = {
            side: {"patients": lock.patients.get(side), **lock.counts[side]}
            for side in ("train", "val")
            if side in lock.counts
        }
        facts = lock.facts.model_dump(mode="json", exclude_defaults=True)
        parts["Cases, as trusted programs measured them"] = as_text({"cases": sides} | facts)
    if brief.assembled:
        made = brief.assembled
        module = made.module.model_dump(mode="json", exclude_defaults=True, exclude={"confirmed"})
        told = {**module, "config": made.config or made.settled, "probe": made.measured}
        parts["Module, as the probe saw it"] = as_text({name: one for name, one in told.items() if one})
    if brief.weights:
        shelf = [one.model_dump(mode="json", exclude_defaults=True) for one in brief.weights]
        parts["Weights on the shelf"] = as_text(shelf)
    elif brief.locked:
        parts["Weights on the shelf"] = "none"
    parts["Machine"] = as_text(brief.machine) if brief.machine else ""
    parts["Asked by you"] = as_text(brief.asked) if brief.asked else ""
    parts["Answered by a person"] = as_text(brief.answers) if brief.answers else ""
    if back := brief.handed_back:
        evidence = shortened(as_text({"reason": back.reason, "evidence": back.evidence}), EVIDENCE)
        parts[f"Handed back to you by {back.sender}"] = evidence
    return {title: text for title, text in parts.items() if text}


def datasets(cards: Collection[DataCard]) -> str:
    """All registered datasets, with descriptions as long as there is room for."""
    if not cards:
        return "None is registered."
    text = ""
    for cut in CUTS:
        listed = [
            {"dataset_id": card.dataset_id, "name": card.name, "here": card.here}
            | {"description": shortened(card.description, cut if card.here else min(cut, AWAY))}
            | ({"files": files} if (files := _files(card)) else {})
            for card in cards
        ]
        text = as_text(listed)
        if len(text) <= CARDS_ROOM:
            break
    return text


def _files(card: DataCard) -> dict[str, Any]:
    """What was seen in a dataset's files, in counts and words of ours."""
    if card.profile is None:
        return {}
    return card.profile.for_planning().model_dump(mode="json", exclude_defaults=True, exclude={"digest", "size"})
