"""Rules as they are written, in YAML, which JSON is, too."""

import re
from collections.abc import Hashable
from typing import Any

import yaml
from pydantic import ValidationError

from shared.contracts.rules import Rules
from shared.dataset.rules.found import RulesError

_TEXT, _BOOL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:bool"


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
        lines = [f"{'.'.join(map(str, item['loc'])) or 'rules'}: {item['msg']}" for item in error.errors()[:8]]
        raise RulesError(f"{name} is no set of rules: " + "; ".join(lines)) from None
