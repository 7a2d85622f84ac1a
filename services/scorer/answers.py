"""The result of a predict job, of any task: data that strangers wrote, bounded, parsed strictly and never executed."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from shared.contracts.scoring import Gate

MAX_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Answers:
    cases: Mapping[str, object]
    rest: Mapping[str, object]
    """What stands beside the cases."""


def parse(data: bytes) -> Answers:
    """JSON with an object "cases"; ValueError says what is wrong, in words of ours only."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"{len(data)} bytes of predictions, at most {MAX_BYTES} are read")
    try:
        found = json.loads(data.decode(), parse_constant=_refuse, object_pairs_hook=_unique)
    except UnicodeDecodeError:
        raise ValueError("the predictions are not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the predictions are not JSON (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise ValueError("the predictions are nested too deeply") from None
    if not isinstance(found, dict) or not isinstance(found.get("cases"), dict):
        raise ValueError('the predictions are no JSON object with an object "cases"')
    return Answers(cases=found["cases"], rest={key: given for key, given in found.items() if key != "cases"})


def all_cases(missing: int, asked: int) -> Gate:
    """Of 20 and more cases one in twenty may go unanswered; it counts as wrong either way."""
    allowed = int(0.05 * asked) if asked >= 20 else 0
    return Gate(
        name="all_cases_predicted",
        passed=missing <= allowed,
        evidence=f"{missing} of {asked} cases have no prediction; {allowed} may fail",
    )


def _refuse(constant: str) -> float:
    raise ValueError(f"the predictions hold {constant}, which is not JSON")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("the predictions name a key twice")
    return found


def error_text(answer: object, otherwise: str) -> str:
    """Why an answer is none."""
    if answer is None:
        return "no prediction"
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        return plain(answer["error"], 200) or "an error without a text"
    return otherwise


def plain(text: str, length: int = 40) -> str:
    """Letters, digits and simple punctuation only: what a package wrote ends up before people and language models."""
    return re.sub(r"[^\w .,:;()/+-]", "?", text[:length])
