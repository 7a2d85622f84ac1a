"""Masks and score images of a package, as our program in the sandbox read and wrote them: stored without a look."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from shared.contracts.answers import MaskAnswer, MaskSuffix
from shared.contracts.base import Contract, Ref
from shared.store import Store
from shared.store.paths import UnsafePath, open_inside


class Told(Contract):
    """What the program says of a case: for `MaskAnswer`, but with suffixes of files that it wrote."""

    error: str | None = Field(default=None, max_length=500)
    unreadable: bool = False
    mask: MaskSuffix | None = None
    fractions: int = Field(default=0, ge=0)
    outside: int = Field(default=0, ge=0)
    score: MaskSuffix | None = None
    score_error: str | None = Field(default=None, max_length=500)


def mask_result(
    task: str,
    folder: Path,
    found: Mapping[str, Any],
    answers: Mapping[str, Any],
    samples: Mapping[str, str],
    store: Store,
) -> dict[str, Any]:
    """The result of a predict job: sample_id -> a `MaskAnswer` as JSON, for each of `samples`. Blocks.

    `found` is what stands beside the cases in the package's predictions.json, `answers` what the program told of them
    by input name, `samples` input name -> sample_id, `folder` holds the files `<input name>.mask<suffix>` and `.score`.
    """
    cases = {sample: _collect(folder, name, answers.get(name), store) for name, sample in samples.items()}
    return {
        "task": task,
        "labels": found.get("labels", []),
        "label_values": found.get("label_values", {}),
        "cases": {sample: case.model_dump(mode="json", exclude_defaults=True) for sample, case in cases.items()},
    }


def _collect(folder: Path, name: str, answer: Mapping[str, Any] | None, store: Store) -> MaskAnswer:
    if answer is None:
        return MaskAnswer(error="no prediction was returned")

    def stored(what: str, suffix: MaskSuffix | None) -> Ref | None:
        if suffix is None:
            return None
        with open_inside(folder, f"{name}.{what}{suffix}") as stream:
            return store.put_stream("packages", stream)

    try:
        told = Told.model_validate(answer)
        if told.error is not None or told.mask is None:
            return MaskAnswer(error=told.error or "the answer names no mask", unreadable=told.unreadable)
        return MaskAnswer(
            mask=stored("mask", told.mask),
            suffix=told.mask,
            fractions=told.fractions,
            outside=told.outside,
            score=stored("score", told.score),
            score_error=told.score_error,
        )
    except (ValidationError, FileNotFoundError, UnsafePath):
        return MaskAnswer(error="what was read of the answer was not kept")
