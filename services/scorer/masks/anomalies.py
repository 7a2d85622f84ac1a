"""What an anomaly detection has beside the figures of every segmentation: lesions, healthy cases, the AUC of voxels."""

import numpy as np
from pydantic import JsonValue

from services.scorer.findings import DRAWS, Asked, metric_of, patient_numbers
from services.scorer.masks.files import Grid
from services.scorer.masks.lesions import SHARED, count_lesions
from services.scorer.masks.overlap import Numbers, interval, mean
from services.scorer.masks.pixel_scores import BadScores, pooled_auc, tally_scores, unscored
from services.scorer.masks.reader import MaskReader
from services.scorer.patients import Floats, over_patients
from shared.contracts.scoring import Gate, Metric
from shared.scorebins import BINS

RULES = (
    "A lesion is a connected part of one structure (also over corners). It is found when it and one lesion of the "
    f"answer share {SHARED:g} of their union; a lesion of the answer that finds none is false.",
    "lesion_sensitivity is the mean over the cases with lesions of the share that was found, 0 for a case without a "
    "usable answer; lesion_false_positives the mean over the answered cases of how many are false: better when lower.",
    "dice_healthy is 1 for a case without a lesion in which nothing was marked, else 0; dice_lesion the mean over the "
    "cases with a lesion. Both are there when the test set has cases of both kinds, and are no part of each other.",
    f"pixel_auc is the AUC over all voxels of the test set, from score images in {BINS} bins; a case without a usable "
    "score image has the lowest score in every voxel.",
)


class Anomalies:
    def __init__(self, asked: Asked, reader: MaskReader) -> None:
        self._asked, self._reader = asked, reader
        self._patients = patient_numbers(asked.test)
        cases = len(self._patients)
        self._lesions, self._found, self._false = np.zeros(cases), np.zeros(cases), np.zeros(cases)
        self._answered, self._marked = np.zeros(cases, dtype=np.bool_), np.zeros(cases, dtype=np.bool_)
        self._scores_given = sum(reader.score_of(name) is not None for name in asked.names)
        self._counts = np.zeros((cases if self._scores_given else 0, 2, BINS))
        self._bad_scores: dict[str, str] = {}

    def add(self, case: int, truth: Numbers, answer: Numbers | None, grid: Grid) -> None:
        structures = len(self._asked.facts.label_names)
        self._answered[case] = answer is not None
        self._marked[case] = answer is not None and bool(answer.any())
        self._lesions[case], self._found[case], self._false[case] = count_lesions(truth, answer, structures)
        if self._scores_given:
            self._counts[case] = self._tallied(self._asked.names[case], truth, grid)

    def _tallied(self, name: str, truth: Numbers, grid: Grid) -> Floats:
        score = self._reader.score_of(name)
        try:
            if isinstance(score, str):
                raise BadScores(score)
            if score is not None and name not in self._reader.failed:
                return tally_scores(self._asked.store, score, truth, grid)
        except BadScores as error:
            self._bad_scores[name] = str(error)
        return unscored(truth)

    def gates(self) -> tuple[Gate, ...]:
        """None where the package gave no score image: they are its own choice."""
        if not self._scores_given:
            return ()
        evidence = f"{len(self._bad_scores)} of {self._scores_given} score images cannot be used"
        reason = next(iter(self._bad_scores.values()), None)
        return (
            Gate(
                name="scores_readable",
                passed=not self._bad_scores,
                evidence=f"{evidence}: {reason}" if reason else evidence,
            ),
        )

    def figures(self, dice: Floats) -> tuple[Metric, ...]:
        """`dice` is (cases,) as the headline takes them."""
        sick = self._lesions > 0
        healthy = np.where(sick, np.nan, np.where(self._answered & ~self._marked, 1.0, 0.0))
        share = np.full(len(sick), np.nan)
        np.divide(self._found, self._lesions, out=share, where=sick)
        false = np.where(self._answered, self._false, np.nan)
        found = [self._mean("lesion_sensitivity", share), self._mean("lesion_false_positives", false, np.inf)]
        if sick.any() and not sick.all():
            found += [self._mean("dice_lesion", np.where(sick, dice, np.nan)), self._mean("dice_healthy", healthy)]
        if self._scores_given:
            found.append(self._auc())
        return tuple(one for one in found if one)

    def details(self) -> dict[str, JsonValue]:
        sick = self._lesions > 0
        return {
            "lesions": {
                "cases_with": int(sick.sum()),
                "cases_without": int((~sick).sum()),
                "clean_without": int((~sick & self._answered & ~self._marked).sum()),
                "lesions": int(self._lesions.sum()),
                "found": int(self._found.sum()),
                "false": int(self._false.sum()),
            },
            "score_images": {"given": self._scores_given, "unusable": dict(self._bad_scores)},
        }

    def _mean(self, name: str, scores: Floats, top: float = 1.0) -> Metric | None:
        counted = np.isfinite(scores)
        bounds = interval(scores, self._patients, DRAWS, self._asked.seed, top) if counted.any() else None
        return metric_of(name, float(mean(scores)), bounds, self._patients[counted]) if bounds else None

    def _auc(self) -> Metric | None:
        value = float(pooled_auc(self._counts, np.ones((1, len(self._counts))))[0])
        bounds = over_patients(
            self._patients, lambda weights: pooled_auc(self._counts, weights), DRAWS, self._asked.seed
        )
        return metric_of("pixel_auc", value, bounds, self._patients) if bounds else None
