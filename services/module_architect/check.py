"""Does the module stand? Pure: what the probe `verify_batches` found -> problems."""

from shared.agent.brief import Brief
from shared.agent.role import Facts
from shared.agent.showing import as_text
from shared.contracts.base import SEGMENTATIONS
from shared.contracts.modules import AssembledModule
from shared.training.checks import DataProblems, Problem


def check_module(answer: AssembledModule, facts: Facts, brief: Brief) -> list[str]:
    """Batches of train and val come, finite and of one shape, labels known, and the model takes them."""
    errors = facts.get("errors")
    problems = [str(error) for error in errors] if isinstance(errors, list) else []
    bad = facts.get("bad_samples")
    if isinstance(bad, dict) and bad:
        problems.append(str(DataProblems([Problem(name, str(wrong)) for name, wrong in bad.items()])))
    batches = facts.get("batches")
    batches = batches if isinstance(batches, dict) else {}
    for split in ("train", "val"):
        batch = batches.get(split)
        if not isinstance(batch, dict):
            problems.append(f"no batch of {split} could be drawn")
            continue
        if not batch.get("finite"):
            problems.append(f"batches of {split} hold NaN or infinity")
        if not batch.get("std"):
            problems.append(f"batches of {split} are constant: the images are lost on the way")
    if crossing := facts.get("patients_on_both_sides"):
        problems.append(f"patients stand in train and val: {crossing}")
    forward = facts.get("forward")
    if not isinstance(forward, dict) or forward.get("loss") is None:
        problems.append("the model could not be run on a batch")
    if not problems and not answer.confirmed and (odd := warnings(facts, brief)):
        problems = [*odd, "change that, or submit again with `confirmed` if it is meant"]
    if problems and facts.get("settled"):
        problems.append(f"what `auto` became: {as_text(facts['settled'])}")
    return list(dict.fromkeys(problems))


def warnings(facts: Facts, brief: Brief) -> list[str]:
    """Where plan, or what was measured of the cases, and the settings that the probe saw disagree."""
    config, batches = facts.get("config"), facts.get("batches")
    if brief.planned is None or brief.locked is None or not isinstance(config, dict) or not isinstance(batches, dict):
        return []
    plan, cases = brief.planned.plan, brief.locked.facts
    last = {key.rpartition(".")[2]: value for key, value in config.items()}
    found = []
    units = cases.measured.get("hu")
    if isinstance(units, int | float) and units >= 0.5 and last.get("intensity") in ("zscore", "minmax"):
        found.append(
            f"values are Hounsfield units in {units:.0%} of the training cases, and `intensity` {last['intensity']} "
            "takes each image by itself: the same tissue has another value in every crop; ct or window keeps the scale"
        )
    if "metric" in last and last["metric"] != plan.metric:
        found.append(f"the plan's metric is {plan.metric}, and the training selects by {last['metric']}")
    if plan.balance_classes and last.get("class_weights") == "none" and last.get("sampling") == "shuffled":
        found.append("the plan wants balanced classes, and neither `class_weights` nor `sampling` balances them")
    train = batches.get("train")
    shape = train.get("shape") if isinstance(train, dict) else None
    # Of volumes masks may be drawn slice by slice.
    fits = {cases.dimensions, 2} if plan.task in SEGMENTATIONS else {cases.dimensions}
    if isinstance(shape, list) and len(shape) - 2 not in fits:
        found.append(f"the cases have {cases.dimensions} dimensions, and batches have the shape {shape}")
    return found
