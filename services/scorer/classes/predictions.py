"""Reading a package's predictions: data that strangers wrote, bounded, parsed strictly and never executed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.scorer.answers import all_cases, error_text, parse, plain
from services.scorer.patients import Floats, Ints
from shared.contracts.scoring import Gate

TOLERANCE = 0.01
"""By how much the probabilities of a case may miss a sum of 1."""


@dataclass(frozen=True)
class Predictions:
    """Scores in the order of the cases asked for. A case without a usable answer has uniform scores (one label a
    sample), or 0.5 for each label (several)."""

    scores: Floats
    answered: npt.NDArray[np.bool_]
    failed: Mapping[str, str]
    """Case -> why there is no usable answer."""
    gates: tuple[Gate, ...]

    @property
    def predicted(self) -> Ints:
        """Of one label a sample: the number of the most probable one, -1 where there is no usable answer."""
        return np.where(self.answered, self.scores.argmax(axis=1), -1).astype(np.int64)


def unusable(cases: Sequence[str], labels: Sequence[str], gate: Gate, several: bool = False) -> Predictions:
    """No case has an answer, for the reason that `gate` gives."""
    return Predictions(
        scores=np.full((len(cases), len(labels)), 0.5 if several else 1 / len(labels)),
        answered=np.zeros(len(cases), dtype=np.bool_),
        failed=dict.fromkeys(cases, gate.name),
        gates=(gate,),
    )


def read_predictions(data: bytes, cases: Sequence[str], labels: Sequence[str], several: bool = False) -> Predictions:
    """Judge `{"cases": {sample_id: {"probabilities": {label: p}} | {"error": text}}}` against what was asked for.

    Where `several` labels may hold, `"multi_label": true` stands beside the cases and probabilities need no sum of 1.

    Never raises for what the bytes hold: whatever is wrong fails a gate, and the case counts as wrong.
    Evidence gives counts, never the names of test cases.
    """
    try:
        given = parse(data)
    except ValueError as error:
        gate = Gate(name="predictions_readable", passed=False, evidence=str(error))
        return unusable(cases, labels, gate, several)
    readable = Gate(name="predictions_readable", passed=True, evidence=f"{len(given.cases)} answers")
    result = unusable(cases, labels, readable, several)
    answers, scores, failed = given.cases, result.scores, {}
    missing = 0
    strange: set[str] = set()
    labels_off = values_off = 0
    for row, case in enumerate(cases):
        answer = answers.get(case)
        chances = answer.get("probabilities") if isinstance(answer, dict) and answer.get("error") is None else None
        if not isinstance(chances, dict):
            missing += 1
            failed[case] = error_text(answer, "no probabilities")
            continue
        if set(chances) != set(labels):
            labels_off += 1
            strange |= set(chances) - set(labels)
            failed[case] = "the labels are not those of the label map"
            continue
        figures = [chances[label] for label in labels]
        problem = _problem(figures, several)
        if problem:
            values_off += 1
            failed[case] = problem
            continue
        scores[row] = figures
    unknown = len(set(answers) - set(cases))
    off = f"; not in the label map: {', '.join(sorted(map(plain, strange))[:3])}" if strange else ""
    gates = (
        readable,
        _as_many(given.rest.get("multi_label") is True, several),
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
            evidence=f"{values_off} cases whose probabilities are no finite numbers from 0 to 1"
            + ("" if several else " with the sum 1"),
        ),
    )
    return Predictions(scores, np.array([case not in failed for case in cases], dtype=np.bool_), failed, gates)


def _as_many(given: bool, several: bool) -> Gate:
    """A softmax where several labels may hold, or the other way round: probabilities that mean something else."""
    words = {True: "several labels that may hold", False: "one label a sample"}
    evidence = f"the package answers with {words[given]}, the index has {words[several]}"
    return Gate(name="labels_a_sample", passed=given == several, evidence=evidence)


def _problem(figures: Sequence[object], several: bool) -> str:
    numbers = []
    for figure in figures:
        # bool is an int to Python; a huge int overflows when it becomes a float.
        if isinstance(figure, bool) or not isinstance(figure, int | float) or not -1 <= figure <= 2:
            return "a probability is no number from 0 to 1"
        numbers.append(float(figure))
    if not all(math.isfinite(number) and 0 <= number <= 1 + 1e-6 for number in numbers):
        return "a probability is no number from 0 to 1"
    if not several and abs(sum(numbers) - 1) > TOLERANCE:
        return "the probabilities do not sum to 1"
    return ""
