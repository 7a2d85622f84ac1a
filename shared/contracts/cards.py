"""Reading datacards as people write them (paper, appendix 0.A.2): both spellings of every key."""

import json
import re
from collections.abc import Mapping

from pydantic import JsonValue

from shared.contracts.runs import DataCard
from shared.errors import UserError


def parse_card(text: str, where: str = "the card", path: str | None = None) -> list[DataCard]:
    """Read one card or a list of cards. Raises UserError that says what is wrong and what to do.

    `path` takes the place of the path in the card, which then need not have one.

    `dataset path` and `dataset_path` (and the other keys likewise) are the same key.
    """
    try:
        found = json.loads(text.lstrip("\ufeff"))
    except json.JSONDecodeError as error:
        raise UserError(f"{where} is not JSON: {error}. A card is an object with name, description and path.") from None
    entries = found if isinstance(found, list) else [found]
    if not entries:
        raise UserError(f"{where} is an empty list. A card is an object with name, description and path.")
    return [
        _card(entry, f"{where}, entry {number}" if len(entries) > 1 else where, path)
        for number, entry in enumerate(entries, 1)
    ]


def dataset_id(name: str) -> str:
    """A subject-safe id from a name: `MSD Pancreas` -> `msd-pancreas`."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not slug:
        raise UserError(f"the dataset name {name!r} has no letter or digit")
    return slug[:80]


def _card(entry: object, where: str, path: str | None) -> DataCard:
    if not isinstance(entry, Mapping):
        raise UserError(f"{where} is no JSON object with 'dataset name', 'dataset description' and 'dataset path'.")
    fields: dict[str, JsonValue] = {
        re.sub(r"[\s_-]+", "_", str(key).strip().lower()): value for key, value in entry.items()
    }
    values = {
        short: fields.pop(f"dataset_{short}", None) or fields.pop(short, None)
        for short in ("name", "description", "path")
    }
    values["path"] = path or values["path"]
    for short, value in values.items():
        if not isinstance(value, str) or not value.strip():
            raise UserError(
                f"{where} has no text under 'dataset {short}' (or 'dataset_{short}'). Add it and try again."
            )
    name = str(values["name"]).strip()
    return DataCard(
        dataset_id=dataset_id(name),
        name=name,
        description=re.sub(r"\s+", " ", str(values["description"])).strip(),
        path=str(values["path"]).strip(),
        extra=fields,
    )
