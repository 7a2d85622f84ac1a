"""The scorer's own table goes into a report: a key that one of the two calls by another name would go unseen."""

import json

from services.gateway.report.facts import Details, Facts
from services.gateway.report.page import drawings
from services.gateway.report.text import text
from services.scorer.copies import SPLITS
from services.scorer.lock import check_and_seal
from services.scorer.scoring import score
from shared.contracts.data import DatasetLocked, DatasetPrepared, IndexRow, PackedSample, PackList
from tests.gateway import reported

LABELS = reported.DIAGNOSES


def test_what_the_scorer_notes_of_a_diagnosis_is_what_the_report_shows() -> None:
    told = [event for _, event in reported.events()]
    prepared = next(event for event in told if isinstance(event, DatasetPrepared))
    locked = next(event for event in told if isinstance(event, DatasetLocked))
    rows = [
        IndexRow(sample_id=name, patient=name, label=LABELS[place % 3], files=(name,), split=side)
        for side in SPLITS
        for place in range(12)
        for name in [f"{side}{place}"]
    ]
    packs = []
    for row in rows:
        pack = reported.OTHER.model_copy(update={"bucket": "sealed" if row.split == "test" else "data"})
        packs.append(PackedSample(sample_id=row.sample_id, pack=pack, files=("x",)))
    sealed = check_and_seal(rows, prepared.meta, PackList(samples=tuple(packs)))
    assert sealed.problems == {}
    cases: dict[str, object] = {"test11": {"error": "unreadable header"}}
    for place in range(11):
        sure = 0.4 + 0.05 * place
        rest = {label: (1 - sure) / 2 for label in LABELS}
        cases[f"test{place}"] = {"probabilities": rest | {LABELS[place % 3 if place > 1 else 2]: sure}}
    found = score(
        sealed, prepared, locked.model_copy(update={"manifest_sha256": sealed.manifest_sha256}), "auc_macro", None,
        json.dumps({"cases": cases}).encode(), store=None,  # type: ignore[arg-type]
    )  # fmt: skip
    details = Details.model_validate_json(json.dumps(found.details))
    facts = Facts.of(reported.events(), details=details)
    assert [figure.title for figure in drawings(facts)] == ["Confusion matrix", "ROC curves", "Reliability"]
    caption = drawings(facts)[0].caption
    assert "covid-19: 3 of 4 right, 1 as normal" in caption and "pneumonia: 3 of 4 right, 1 as normal" in caption
    assert "normal: 3 of 4 right, 1 as no answer" in caption
    words = " ".join(text(facts).split())
    assert "12 test cases, 1 without a usable answer. case chosen as probability of the truth sample patient" in words
    assert "12 worst 0.000 test11 test11" in words
    assert "sample patient no answer test11 test11 unreadable header" in words
    assert "2 answered wrong. sample patient truth answer probability test1 test1 pneumonia normal 0.450" in words
    assert details.why
