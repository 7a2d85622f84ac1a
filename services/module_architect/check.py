"""Does the module stand? Pure: what the probe `verify_batches` found -> problems."""

from shared.agent.brief import Brief
from shared.agent.role import Facts
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
        shape = batch.get("shape")
        if not isinstance(shape, list) or len(shape) != len(answer.input_shape) + 1:
            problems.append(f"batches of {split} have shape {shape}, the summary says {list(answer.input_shape)}")
    if crossing := facts.get("patients_on_both_sides"):
        problems.append(f"patients stand in train and val: {crossing}")
    forward = facts.get("forward")
    if not isinstance(forward, dict) or forward.get("loss") is None:
        problems.append("the model could not be run on a batch")
    return list(dict.fromkeys(problems))
