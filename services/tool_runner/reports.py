"""The reports that a package wrote: texts of a stranger, bounded and cleaned before they are stored."""

from collections.abc import Mapping
from typing import Any

from shared.reporttext import MAX_CHARACTERS, clean

_LONGEST = 500
"""Characters of an error that a package gives for a case."""


def report_result(task: str, answers: Mapping[str, Any], samples: Mapping[str, str]) -> dict[str, Any]:
    """The result of a predict job: sample_id -> {"report": text} or {"error"}, for each of `samples`.

    `answers` are the cases of the package's predictions.json by input name, `samples` input name -> sample_id.
    """
    return {"task": task, "cases": {sample: _collect(answers.get(name)) for name, sample in samples.items()}}


def _collect(answer: Mapping[str, Any] | None) -> dict[str, str]:
    if answer is None:
        return {"error": "no prediction was returned"}
    text = answer.get("report")
    if answer.get("error") is not None or not isinstance(text, str):
        return {"error": clean(str(answer.get("error") or "the answer holds no report as text")[:_LONGEST])}
    if len(text) > MAX_CHARACTERS:
        return {"error": f"the report has {len(text)} characters, at most {MAX_CHARACTERS} are read"}
    return {"report": clean(text)}
