"""Does the index hold? Pure: what the probe `verify_index` found -> problems."""

from shared.agent.brief import Brief
from shared.agent.role import Facts
from shared.contracts.data import PreparedDataset
from shared.contracts.runs import Infeasibility


def check_dataset(answer: PreparedDataset, facts: Facts, brief: Brief) -> list[str]:
    """Every row opens, no patient crosses, every class stands on every side, no copy stands on two sides."""
    problems = [str(error) for error in _list(facts, "errors")]
    if facts.get("missing_count"):
        problems.append(f"{facts['missing_count']} files do not exist, such as {_list(facts, 'missing_files')[:3]}")
    if facts.get("unreadable_count"):
        problems.append(f"{facts['unreadable_count']} files cannot be read, such as {_list(facts, 'unreadable')[:3]}")
    for key, text in (
        ("patients_on_both_sides", "patients stand on more than one side of the split"),
        ("duplicates_across_splits", "samples with the same content stand on different sides"),
        ("files_outside", "files lie outside of the dataset"),
        ("labels_not_in_meta", "labels are missing from label_names"),
        ("label_in_attributes", "attributes give the label away"),
        ("mask_faults", "masks do not fit their images or label_values"),
    ):
        if found := _list(facts, key):
            problems.append(f"{facts.get(f'{key}_count', len(found))} {text}, such as {found[:3]}")
    counts = facts.get("counts")
    counts = counts if isinstance(counts, dict) else {}
    for split in ("train", "val", "test"):
        side = counts.get(split)
        if not isinstance(side, dict) or not side:
            problems.append(f"the index has no {split} rows")
    labels, needed = facts.get("labels"), 1 if facts.get("several_labels") else 2
    if isinstance(labels, dict) and len(labels) < needed and brief.planned and brief.planned.plan.task == "diagnosis":
        problems.append(f"a diagnosis needs two classes or more; the index has {list(labels)}")
    return problems


def check_infeasible(answer: Infeasibility, facts: Facts, brief: Brief) -> list[str]:
    """The probe `verify_infeasible` has looked at the dataset itself: the claim must hold there."""
    problems = [str(error) for error in _list(facts, "errors")]
    if not answer.evidence:
        problems.append("an honest end needs evidence: what did you look at, and what did it show?")
    if facts.get("holds") is not True and not problems:
        problems.append(f"the probe could not confirm the claim {answer.claim}")
    return problems


def _list(facts: Facts, key: str) -> list[object]:
    value = facts.get(key)
    return list(value) if isinstance(value, list) else []
