"""The scorer's own table goes into a report: a key that one of the two calls by another name would go unseen."""

import json
from collections import Counter
from collections.abc import Sequence

from services.gateway.report.card import card
from services.gateway.report.facts import Details, Facts
from services.gateway.report.page import drawings, page
from services.gateway.report.text import text
from services.scorer.lock.seal import manifest_sha256
from services.scorer.scoring import Score, score
from shared.contracts.data import DatasetLocked, DatasetPrepared, IndexRow, SealedSplit, StoredCase
from shared.contracts.scoring import RunScored
from tests.cases import dataset_facts
from tests.gateway import reported

LABELS = reported.DIAGNOSES


def split_of(names: Sequence[str], labels: Sequence[str | tuple[str, ...]]) -> SealedSplit:
    """Twelve cases a side, each of a patient of its own, with these labels in turn."""
    rows = tuple(
        IndexRow(
            sample_id=name, patient=name, label=labels[place % len(labels)], files=(f"{name}/image.png",), split=side
        )
        for side in ("train", "val", "test")
        for place in range(12)
        for name in [f"{side}{place}"]
    )
    image = reported.OTHER.model_copy(update={"bucket": "cases"})
    return SealedSplit(
        rows=rows, stored=tuple(StoredCase(sample_id=row.sample_id, images=(image,)) for row in rows),
        keys=tuple(row.sample_id for row in rows), facts=dataset_facts(label_names=tuple(names)), seed="00",
    )  # fmt: skip


def scored_as(split: SealedSplit, answers: dict[str, object]) -> tuple[Score, DatasetLocked]:
    told = [event for _, event in reported.events()]
    prepared = next(event for event in told if isinstance(event, DatasetPrepared))
    locked = next(event for event in told if isinstance(event, DatasetLocked))
    same = {"manifest_sha256": manifest_sha256(split.rows), "rules_sha256": prepared.rules.sha256, "facts": split.facts}
    locked = locked.model_copy(update=same)
    answer = json.dumps(answers).encode()
    return score(split, prepared, locked, "auc_macro", None, answer, store=None), locked  # type: ignore[arg-type]


def test_what_the_scorer_notes_of_a_diagnosis_is_what_the_report_shows() -> None:
    split = split_of(LABELS, LABELS)
    cases: dict[str, object] = {"test11": {"error": "unreadable header"}}
    for place in range(11):
        sure = 0.4 + 0.05 * place
        rest = {label: (1 - sure) / 2 for label in LABELS}
        cases[f"test{place}"] = {"probabilities": rest | {LABELS[place % 3 if place > 1 else 2]: sure}}
    found, _ = scored_as(split, {"cases": cases})
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


def test_several_labels_are_shown_each_by_itself() -> None:
    names = ("effusion", "mass", reported.HOSTILE)
    told = [event for _, event in reported.events()]
    split = split_of(names, ((names[0],), (), names[:2], (names[2],), (), (names[1],)))
    cases: dict[str, object] = {"test11": {"error": "unreadable header"}}
    for row in [row for row in split.rows if row.split == "test"][:11]:
        cases[row.sample_id] = {"probabilities": {name: 0.8 if name in (row.label or ()) else 0.1 for name in names}}
    # Of test0 the effusion is missed, of test1 a mass is made up: the surer mistake.
    cases["test0"] = {"probabilities": dict(zip(names, (0.3, 0.2, 0.1), strict=True))}
    cases["test1"] = {"probabilities": dict(zip(names, (0.2, 0.9, 0.1), strict=True))}
    found, locked = scored_as(split, {"multi_label": True, "cases": cases})
    details = Details.model_validate_json(json.dumps(found.details))
    scored = next(event for event in told if isinstance(event, RunScored))
    scored = scored.model_copy(update={"per_class": found.per_class, "metric": found.metric, "others": found.others})
    held = [name for row in split.rows if row.split == "test" for name in (*(row.label or ()), "all")]
    locked = locked.model_copy(update={"counts": locked.counts | {"test": dict(Counter(held))}})
    changed = {"RunScored": scored, "DatasetLocked": locked}
    facts = Facts.of([(number, changed.get(event.kind, event)) for number, event in reported.events()], details=details)
    assert [figure.title for figure in drawings(facts)] == ["ROC curves", "Reliability"]
    caption = drawings(facts)[0].caption
    assert caption.startswith("Each label by itself on 11 test cases. mass AUC 0.") and "1 case without" in caption
    assert "up to 0.9: 2 answers" not in caption and "answers, 1.000 hold" in drawings(facts)[1].caption
    words = " ".join(text(facts, width=300).split())
    assert "label has it, found has it, missed lacks it, claimed lacks it, left has it, no answer" in words
    assert "effusion 3 1 0 7 0 of 1" in words and "mass 3 0 1 7 1 of 1" in words
    assert "accuracy counts a sample as right only where all its labels are" in words
    assert "test 12 30 effusion 4, mass 4," not in words and "test 12 15 effusion 4, mass 4," in words
    assert "2 answered wrong in one label or more." in words
    assert "test1 test1 none mass mass 0.900 test0 test0 effusion none effusion 0.300" in words
    assert "12 worst 0.000 test11 test11" in words and "2 worst 0.100 test1 test1" in words
    told_page = page(reported.seen(facts))
    assert "<script>" not in told_page and "least probability of what is true of a label 0.100" in told_page
    assert "test1" not in card(facts) and "effusion: n 4, auc" in card(facts).replace("\\", "")
