"""Rules as they are written, in YAML, which JSON is, too."""

import re
from collections.abc import Hashable, Sequence
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from shared.contracts.rules import Rules
from shared.dataset.rules.found import RulesError

_TEXT, _BOOL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:bool"


def faults(model: type[BaseModel], error: ValidationError) -> str:
    """What pydantic found, and where something stands that is not known, what is."""
    said = []
    for item in error.errors()[:8]:
        text = f"{'.'.join(map(str, item['loc'])) or 'rules'}: {item['msg']}"
        if item["type"] == "extra_forbidden" and (known := _fields(model, item["loc"][:-1])):
            text += f" (there are {', '.join(known)})"
        said.append(text)
    return "; ".join(said)


def _fields(kind: Any, path: Sequence[str | int]) -> list[str]:
    """Names of the fields that stand at a place of a model; none where it is no model."""
    models = _models(kind)
    for step in path:
        if isinstance(step, str):
            kinds = [one.model_fields[step].annotation for one in models if step in one.model_fields]
            models = [found for kind in kinds for found in _models(kind)] or models
    return sorted({name for one in models for name in one.model_fields})


def _models(kind: Any) -> list[type[BaseModel]]:
    """The models that an annotation names, within lists and alternatives, too."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [kind]
    return [found for one in get_args(kind) for found in _models(one)]


class _Loader(yaml.SafeLoader):
    """`yes` and `no` are text, and so is all that stands before a colon: `1.0` and `null` may be classes."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                key.tag = _TEXT
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [one for one in some if one[0] != _BOOL] for first, some in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(_BOOL, re.compile("true|false", re.IGNORECASE), list("tTfF"))


def read_rules(text: str | bytes, name: str = "this") -> Rules:
    """Raises RulesError in words that a core can act on."""
    try:
        # A few references could stand for a gigabyte.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, _Loader)):
            raise RulesError(f"{name} holds a YAML reference (`*name`); write it out")
        return Rules.model_validate(yaml.load(text, _Loader))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise RulesError(f"{name} is no YAML: {' '.join(str(error).split())[:300]}") from None
    except ValidationError as error:
        raise RulesError(f"{name} is no set of rules: {faults(Rules, error)}") from None
