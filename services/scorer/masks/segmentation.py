"""Scoring of a segmentation: masks against masks, one case in memory at a time."""

from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import JsonValue

from services.scorer.findings import DRAWS, Asked, Findings, metric_of, or_none, patient_numbers
from services.scorer.masks.anomalies import RULES as ANOMALY_RULES
from services.scorer.masks.anomalies import Anomalies
from services.scorer.masks.controls import MeanMask, constant, mean_mask, pair_scores, permutation
from services.scorer.masks.files import BadMask
from services.scorer.masks.lattice import lattice_shape, resampled, turned
from services.scorer.masks.overlap import RULES, Numbers, Overlaps, interval, mean, per_structure, tally
from services.scorer.masks.reader import MaskReader, read_mask
from services.scorer.masks.surface import RULES as SURFACE_RULES
from services.scorer.masks.surface import Surfaces, compare, spacing_of
from services.scorer.patients import Floats, Ints
from shared.contracts.scoring import Control, Gate, Metric

_WORST = 5


class _Comparison:
    """What is kept of the cases that were read: voxel counts, and both masks on a lattice."""

    def __init__(self, asked: Asked) -> None:
        cases, structures = len(asked.test), len(asked.facts.label_names)
        self.structures = structures
        self.shape = lattice_shape(asked.facts.dimensions, cases, structures)
        self.prior = MeanMask(asked.store, asked.facts, asked.stored(asked.train), self.shape)
        self.counts = np.zeros((3, cases, structures), dtype=np.int64)
        self.against = np.zeros((3, cases, structures), dtype=np.int64)
        self.voxels = np.zeros(cases, dtype=np.int64)
        self.answered = np.zeros(cases, dtype=np.bool_)
        self.surfaces = Surfaces(nsd=np.full((cases, structures), np.nan), hd95=np.full((cases, structures), np.nan))
        self.diagonal = np.zeros(cases)
        points: Any = (cases, int(np.prod(self.shape)))
        self.truths = np.zeros(points, dtype=self.prior.points.dtype)
        self.answers = np.zeros(points, dtype=self.prior.points.dtype)

    def add(self, case: int, truth: Numbers, answer: Numbers | None, affine: Floats | None) -> None:
        self.voxels[case] = truth.size
        self.truths[case] = resampled(turned(truth, affine), self.shape).reshape(-1)
        self.against[:, case] = self.prior.tally(truth, affine)
        spacing = spacing_of(affine, truth.ndim)
        self.diagonal[case] = np.linalg.norm(np.array(truth.shape) * spacing)
        self.surfaces.nsd[case], self.surfaces.hd95[case] = compare(truth, answer, self.structures, spacing)
        if answer is None:
            self.counts[0, case] = self.against[0, case]
            return
        self.answered[case] = True
        self.answers[case] = resampled(turned(answer, affine), self.shape).reshape(-1)
        self.counts[:, case] = tally(truth, answer, self.structures)

    def overlaps(self) -> Overlaps:
        return _overlaps(self.counts, self.answered)

    def distances(self, asked: Asked) -> tuple[Metric, ...]:
        """NSD and HD95 over cases, as Dice is; a figure without an interval is left out."""
        patients = patient_numbers(asked.test)
        found = []
        # A case without an answer counts, also where its truth is empty.
        kinds = (("nsd", self.surfaces.nsd, 0.0, 1.0), ("hd95", self.surfaces.hd95, self.diagonal, np.inf))
        for name, each, worst, top in kinds:
            scores = np.where(self.answered, mean(each), worst)
            counted = np.isfinite(scores)
            bounds = interval(scores, patients, DRAWS, asked.seed, top) if counted.any() else None
            if bounds:
                found.append(metric_of(name, float(mean(scores)), bounds, patients[counted]))
        return tuple(found)

    def controls(self, asked: Asked) -> tuple[tuple[Control, ...], float | None]:
        patients = patient_numbers(asked.test)
        found = [constant(self.counts[0], self.voxels, asked.facts.label_names)]
        if self.prior.masks:
            found.append(mean_mask(self.prior, _overlaps(self.against, np.ones_like(self.answered))))
        pairs = pair_scores(self.truths, self.answers, self.answered, self.structures)
        dealt, p = permutation(pairs, patients, self.shape, DRAWS, asked.seed)
        return (*found, *dealt), p


def measure(asked: Asked) -> Findings:
    facts, test = asked.facts, asked.test
    values = {name: facts.label_values[name] for name in facts.label_names}
    reader = MaskReader(asked.answers, asked.names, values, asked.store)
    if not (reader.readable and asked.compute):
        # What was not looked at is not said to have passed.
        judged = () if reader.readable else reader.gates()
        return Findings(gates=judged, cases=tuple(_table(asked, reader.failed, None)))
    compared = _Comparison(asked)
    anomalies = Anomalies(asked, reader) if facts.task == "anomaly_detection" else None
    lost = 0
    for case, (row, stored) in enumerate(zip(test, asked.stored(test), strict=True)):
        try:
            if stored.mask is None:
                raise BadMask("the truth is missing")
            grid, truth = read_mask(asked.store, stored.mask, list(values.values()))
        except BadMask as error:
            lost += 1
            reader.failed[row.sample_id] = f"truth: {error}"
            continue
        answer = reader.read(row.sample_id, grid)
        compared.add(case, truth, answer, grid.affine)
        if anomalies:
            anomalies.add(case, truth, answer, grid)
    gates = (
        *reader.gates(),
        Gate(name="truth_readable", passed=not lost, evidence=f"{lost} of {len(test)} sealed masks cannot be read"),
        *(anomalies.gates() if anomalies else ()),
    )
    if lost or not compared.answered.any():
        return Findings(gates=gates, cases=tuple(_table(asked, reader.failed, None)))
    found = compared.overlaps()
    scores, patients = found.scores(), patient_numbers(test)
    counted = np.isfinite(scores)
    value = float(mean(scores))
    figure = metric_of("dice", value, interval(scores, patients, DRAWS, asked.seed), patients[counted])
    controls, p = compared.controls(asked) if counted.any() else ((), None)
    more = anomalies.figures(scores) if anomalies else ()

    def part(places: Ints) -> Metric | None:
        some, people = scores[places], patient_numbers([test[place] for place in places])
        there = np.isfinite(some)
        bounds = interval(some, people, DRAWS, asked.seed) if there.any() else None
        return metric_of("dice", float(mean(some)), bounds, people[there]) if there.any() else None

    worst = [test[case].sample_id for case in np.argsort(scores, kind="stable")[:_WORST] if counted[case]]
    return Findings(
        gates=gates,
        cases=tuple(_table(asked, reader.failed, found)),
        figures=(*((figure, *compared.distances(asked)) if counted.any() else ()), *more),
        per_class=per_structure(found, facts.label_names, compared.surfaces.per_structure),
        controls=controls,
        permutation_p=p,
        details={
            "rules": [*RULES, *SURFACE_RULES, *(ANOMALY_RULES if anomalies else ())],
            "label_values": dict(values),
            "worst": list(worst),
            "left_out": int((~counted).sum()),
            **(anomalies.details() if anomalies else {}),
        },
        part=part,
    )


def _overlaps(counts: Ints, answered: npt.NDArray[np.bool_]) -> Overlaps:
    truth, answer, both = counts
    return Overlaps(truth=truth, answer=answer, both=both, answered=answered)


def _table(asked: Asked, failed: dict[str, str], found: Overlaps | None) -> list[JsonValue]:
    """A line a case: its score and each structure's Dice, null where it does not count."""
    scores, each = (found.scores(), found.dice()) if found else (None, None)
    table: list[JsonValue] = []
    for case, row in enumerate(asked.test):
        line: dict[str, JsonValue] = {"sample_id": row.sample_id, "patient": row.patient}
        if row.sample_id in failed:
            line["failed"] = failed[row.sample_id]
        if scores is not None and each is not None:
            line["dice"] = or_none(scores[case])
            line["structures"] = {name: or_none(d) for name, d in zip(asked.facts.label_names, each[case], strict=True)}
        table.append(line)
    return table
