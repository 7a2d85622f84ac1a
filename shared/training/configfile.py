"""A template's configuration: YAML against a typed model. What is unknown or wrong is refused together, by name."""

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

Model = TypeVar("Model", bound=BaseModel)


class ConfigError(ValueError):
    """Names every wrong or unknown key, one a line."""


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def load_config(path: str | Path, model: type[Model]) -> Model:
    """Raises ConfigError with everything that is wrong."""
    path = Path(path)
    if not path.is_file():
        raise ConfigError(f"{path} does not exist")
    try:
        found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not YAML: {error}") from None
    try:
        return model.model_validate({} if found is None else found)
    except ValidationError as error:
        raise ConfigError(
            "\n".join([f"{path.name} has {error.error_count()} problem(s):", *map(_line, error.errors())])
        ) from None


def _line(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"]) or "the file"
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"- unknown key {key}"
    return f"- {key}: {problem['msg']}, not {problem['input']!r}"
