"""Reading a package's predictions: data that strangers wrote, bounded, parsed strictly and never executed."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from services.scorer.metrics import Floats, Ints
from shared.contracts.scoring import Gate

MAX_BYTES = 64 * 1024 * 1024
TOLERANCE = 0.01
"""By how much the probabilities of a case may miss a sum of 1."""


@dataclass(frozen=True)
class Predictions:
    """Scores in the order of the cases asked for. A case without a usable answer has uniform scores and predicts -1."""

    scores: Floats
    predicted: Ints
    failed: Mapping[str, str]
    """Case -> why there is no usable answer."""
    gates: tuple[Gate, ...]


def unusable(cases: Sequence[str], labels: Sequence[str], gate: Gate) -> Predictions:
    """No case has an answer, for the reason that `gate` gives."""
    return Predictions(
        scores=np.full((len(cases), len(labels)), 1 / len(labels)),
        predicted=np.full(len(cases), -1),
        failed=dict.fromkeys(cases, gate.name),
        gates=(gate,),
    )


def read_predictions(data: bytes, cases: Sequence[str], labels: Sequence[str]) -> Predictions:
    """Judge `{"cases": {sample_id: {"probabilities": {label: p}} | {"error": text}}}` against what was asked for.

    Never raises for what the bytes hold: whatever is wrong fails a gate, and the case counts as wrong.
    Evidence gives counts, never the names of test cases.
    """
    try:
        answers = parse(data).cases
    except ValueError as error:
        return unusable(cases, labels, Gate(name="predictions_readable", passed=False, evidence=str(error)))
    result = unusable(cases, labels, Gate(name="predictions_readable", passed=True, evidence=f"{len(data)} bytes"))
    scores, failed = result.scores, {}
    missing = 0
    strange: set[str] = set()
    labels_off = values_off = 0
    for row, case in enumerate(cases):
        answer = answers.get(case)
        given = answer.get("probabilities") if isinstance(answer, dict) and answer.get("error") is None else None
        if not isinstance(given, dict):
            missing += 1
            failed[case] = error_text(answer, "no probabilities")
            continue
        if set(given) != set(labels):
            labels_off += 1
            strange |= set(given) - set(labels)
            failed[case] = "the labels are not those of the label map"
            continue
        figures = [given[label] for label in labels]
        problem = _problem(figures)
        if problem:
            values_off += 1
            failed[case] = problem
            continue
        scores[row] = figures
    predicted = scores.argmax(axis=1)
    predicted[[row for row, case in enumerate(cases) if case in failed]] = -1
    unknown = len(set(answers) - set(cases))
    off = f"; not in the label map: {', '.join(sorted(map(plain, strange))[:3])}" if strange else ""
    gates = (
        *result.gates,
        all_cases(missing, len(cases)),
        Gate(name="no_unknown_cases", passed=not unknown, evidence=f"{unknown} predictions for cases not asked for"),
        Gate(
            name="labels_in_map",
            passed=not labels_off,
            evidence=f"{labels_off} cases with labels other than the {len(labels)} of the label map{off}",
        ),
        Gate(
            name="probabilities_valid",
            passed=not values_off,
            evidence=f"{values_off} cases whose probabilities are no finite numbers from 0 to 1 with the sum 1",
        ),
    )
    return Predictions(scores=scores, predicted=predicted.astype(np.int64), failed=failed, gates=gates)


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


def _problem(figures: Sequence[object]) -> str:
    numbers = []
    for figure in figures:
        # bool is an int to Python; a huge int overflows when it becomes a float.
        if isinstance(figure, bool) or not isinstance(figure, int | float) or not -1 <= figure <= 2:
            return "a probability is no number from 0 to 1"
        numbers.append(float(figure))
    if not all(math.isfinite(number) and 0 <= number <= 1 + 1e-6 for number in numbers):
        return "a probability is no number from 0 to 1"
    if abs(sum(numbers) - 1) > TOLERANCE:
        return "the probabilities do not sum to 1"
    return ""


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
