"""What the probes look for where the answer is a text. Standalone: imports nothing of ours."""

from collections.abc import Mapping, Sequence
from typing import Any

TASK = "report_generation"
IGNORED = -100
"""Marks in a batch's labels where a report has ended; the loss passes over it."""


def are_reports(labels: Any, vocabulary: int) -> bool:
    """Whether a batch's labels are token numbers (B, L), of a dataset that has a vocabulary."""
    return bool(vocabulary and labels.ndim == 2 and not labels.is_floating_point())


def describe_labels(split: str, labels: Any, vocabulary: int, errors: list[str]) -> dict[str, int]:
    """Tokens of the reports that were drawn, and how many of these are alike."""
    there = labels != IGNORED
    lengths = there.sum(1)
    outside = sorted({int(number) for number in labels[there] if not 0 <= number < vocabulary})
    if outside:
        errors.append(f"{split}: token numbers {outside[:10]} are not in 0..{vocabulary - 1}")
    if not bool(lengths.min()):
        errors.append(f"{split}: {int((lengths == 0).sum())} reports have no token")
    if bool((there.int().diff(dim=1) > 0).any()):
        errors.append(f"{split}: labels have {IGNORED} before the end of a report; it marks what comes after it")
    return {
        "tokens": int(lengths.sum()),
        "longest": int(lengths.max()),
        "different reports": len({tuple(row) for row in labels.tolist()}),
    }


def image_faults(model: Any, batch: Mapping[str, Any]) -> list[str]:
    """Does the answer change when each case is given another's images? The published module's did not."""
    import torch

    others = {**batch, "image": batch["image"].roll(1, 0)}
    if torch.equal(batch["image"], others["image"]):
        return []
    model.eval()
    with torch.no_grad():
        moved = (model(**batch)["logits"] - model(**others)["logits"]).abs().max()
    return [] if float(moved) > 0 else ["the logits do not change when the images do: the model does not see them"]


def schema_faults(found: Any, names: Sequence[str]) -> list[str]:
    """What is wrong with the form of predictions.json."""
    if not isinstance(found, dict) or found.get("task") != TASK:
        return [f"predictions.json must be an object with task {TASK}"]
    cases = found.get("cases")
    if not isinstance(cases, list) or [c.get("input") for c in cases if isinstance(c, dict)] != list(names):
        return ["cases must hold one entry for each input, under the input's name and in their order"]
    faults = []
    for case in cases:
        if "error" in case:
            faults.append(f"{case['input']} could not be predicted: {case['error']}")
        elif not isinstance(case.get("report"), str) or not case["report"].strip():
            faults.append(f"{case['input']} must have a report, a text that is not empty: {case.get('report')!r}")
    return faults


def judge(cases: Sequence[Mapping[str, Any]], pairs: Sequence[tuple[str, str]], facts: dict[str, Any]) -> None:
    """Texts of samples and of their altered copies. One text for everything is no reading of images."""
    texts = {str(case["input"]): " ".join(str(case["report"]).split()) for case in cases}
    facts["different_reports"] = len(set(texts.values()))
    facts["largest_change"] = float(max(texts[plain] != texts[altered] for plain, altered in pairs))
    facts["output_follows_image"] = facts["different_reports"] > 1
    if not facts["output_follows_image"]:
        facts["errors"].append(
            f"the report is the same for {len(texts)} inputs, altered ones among them: the model does not use the "
            "image; train longer, or on more cases"
        )
