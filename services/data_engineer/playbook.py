"""The Data Engineer's expert: have the rules searched for, take those that explain the files, ask where two do."""

from collections.abc import Generator, Sequence
from typing import Any

import yaml
from pydantic import JsonValue

from services.data_engineer.narrowing import CLASSES, limited, unreadable
from shared.agent.brief import Brief
from shared.agent.calls import call, submit, text_of
from shared.contracts.cases import Coverage, Proposal
from shared.contracts.data import PreparedDataset
from shared.contracts.questions import NO, Option, Question
from shared.contracts.runs import Claim, Infeasibility, WorkReturned
from shared.contracts.tools import ProposeRules, ReadFiles, WriteFiles
from shared.contracts.transcript import Call, Observation
from shared.errors import GateFailed, UserError

Script = Generator[tuple[Call, ...], Observation, None]
RULES = "dataset.yaml"


def playbook(brief: Brief) -> Script:
    """Search, limit to what was asked for, submit. Without rules it ends in a claim that a probe confirms."""
    assert brief.planned is not None
    if brief.handed_back:
        yield from again(brief.handed_back)
    proposals = yield from search(brief, brief.planned.plan.labels)
    best, notes = proposals[0], [proposals[0].says]
    names = best.coverage.label_names
    if brief.answers.get(CLASSES) == NO:
        said = f"a person said that {', '.join(names)} are not the classes that are meant"
        raise GateFailed(f"{said}: name the column or folder that tells them in a new request", "dataset_lockable")
    wanted = undecided(proposals, brief.answers) or unreadable(brief, best) or limited(brief, best.coverage)
    if isinstance(wanted, Question):
        judged = yield (submit("ask_person", wanted),)
        raise UserError("a question was not accepted: " + "; ".join(judged.notes))
    if wanted != names:
        best = (yield from search(brief, wanted))[0]
        if set(got := best.coverage.label_names) != set(wanted):
            raise UserError(f"the rules could not be limited to {', '.join(wanted)}: they give {', '.join(got)}")
        others = ", ".join(name for name in names if name not in wanted)
        notes = [best.says, f"limited to {', '.join(wanted)}, as was asked; the dataset also has {others}"[:500]]
    written = call(WriteFiles(files={RULES: as_yaml(best.rules)}, overwrite=True))
    if claim := claim_of(best.coverage):
        yield (written, submit("declare_infeasible", claim))
    judged = yield (written, submit("submit_dataset", PreparedDataset(rules_path=RULES, notes=tuple(notes))))
    raise GateFailed("the rules that explain most were not accepted: " + "; ".join(judged.notes), "dataset_lockable")


def search(brief: Brief, only: Sequence[str]) -> Generator[tuple[Call, ...], Observation, list[Proposal]]:
    """Rules that explain the files, best first, limited to the names `only`; without any it ends in a claim."""
    assert brief.planned is not None
    plan = brief.planned.plan
    searched = yield (
        call(
            ProposeRules(
                task=plan.task,
                dimensions=plan.dimensions,
                only=tuple(only),
                target=brief.requested.requirement[:500],
                answers=brief.answers,
            )
        ),
    )
    result = searched.results[0]
    if not result.ok and "proposals" not in result.data:
        raise UserError(f"the rules could not be searched for: {result.summary[:1000]}")
    listed = result.data.get("proposals")
    proposals = [Proposal.model_validate(one) for one in (listed if isinstance(listed, list) else [])]
    if not proposals:
        yield from without_rules(brief, str(result.data.get("why") or result.summary))
    return proposals


def again(back: WorkReturned) -> Script:
    """The rules without what was handed back: single cases by their ids, or a split that divides a patient."""
    read = yield (call(ReadFiles(paths=(f"/workspace/{RULES}",))),)
    rules = yaml.safe_load(text_of(read.results[0], f"/workspace/{RULES}"))
    if not isinstance(rules, dict):
        raise UserError(f"work came back ({back.reason}), and the rules that it was made by are gone")
    samples = back.evidence.get("samples")
    if isinstance(samples, dict) and samples:
        rules["leave_out"] = {**rules.get("leave_out", {}), **{str(name): str(why) for name, why in samples.items()}}
        note = f"{len(samples)} cases that were handed back are left out"
    elif rules.get("split"):
        del rules["split"]
        note = f"the split of the dataset is not used: {back.reason}"
    else:
        gates = back.evidence.get("gates")
        gate = next(iter(gates), "") if isinstance(gates, dict) else ""
        raise GateFailed(f"no rules can mend what came back: {back.reason}", gate or "dataset_lockable")
    judged = yield (
        call(WriteFiles(files={RULES: as_yaml(rules)}, overwrite=True)),
        submit("submit_dataset", PreparedDataset(rules_path=RULES, notes=(note[:500],))),
    )
    raise GateFailed("the mended rules were not accepted: " + "; ".join(judged.notes), "dataset_lockable")


def undecided(proposals: Sequence[Proposal], answers: dict[str, str]) -> Question | None:
    """The decision that only a person can take, if the best proposals differ in one."""
    key = proposals[0].key
    rivals = [one for one in proposals if key and one.key == key]
    if len(rivals) < 2 or key in answers:
        return None
    return Question(
        key=key,
        text=f"The files support {len(rivals)} answers about equally. Which {key.replace('_', ' ')} is meant?",
        options=tuple(Option(value=one.choice, says=one.says) for one in rivals),
    )


def claim_of(coverage: Coverage) -> Infeasibility | None:
    """The honest end where the rules explain the files and the files cannot bear a model."""
    held = [name for name, many in coverage.counts.items() if many]
    claim: Claim | None = None
    if coverage.cases and coverage.patients == 1:
        claim, reason = "one_patient", f"all {coverage.cases} cases belong to one patient: nothing can be held out"
    elif coverage.cases and coverage.task == "diagnosis" and len(held) == 1:
        claim, reason = "one_class", f"all {coverage.cases} cases have the one class {held[0]!r}"
    if claim is None:
        return None
    evidence: dict[str, JsonValue] = {"counts": dict(coverage.counts), "patients": coverage.patients}
    return Infeasibility(claim=claim, reason=reason, rules_path=RULES, evidence=evidence)


def without_rules(brief: Brief, why: str) -> Script:
    """No rules explain the files: say what is so. What is not read is not supported; the rest is a claim."""
    assert brief.planned is not None
    profile = brief.planned.card.profile
    evidence: dict[str, JsonValue] = {"search": why[:2000]}
    claims: list[tuple[Claim, str]] = []
    if profile and not profile.images:
        claims.append(("no_images", "the dataset holds no image"))
    unread = "; ".join(f"{what}: {remedy}" for what, remedy in profile.not_read.items()) if profile else ""
    told = unread or f"no rules were found for these files, though they may hold what is to be learned. {why[:1200]}"
    claims.append(("nothing_readable", "no image of the dataset can be read"))
    claims.append(("one_patient", "all images belong to one patient: nothing can be held out"))
    claims.append(("not_supported", f"not supported yet: {told}"))
    claims.append(("no_targets", f"nothing in the files says what is to be learned: {why[:1500]}"))
    tried: list[str] = []
    for claim, reason in claims:
        judged = yield (submit("declare_infeasible", Infeasibility(claim=claim, reason=reason, evidence=evidence)),)
        tried += judged.notes
    raise UserError(f"no rules explain these files ({why[:1000]}), and no honest end was confirmed: {'; '.join(tried)}")


def as_yaml(rules: Any) -> str:
    return str(yaml.safe_dump(rules, sort_keys=False, allow_unicode=True, width=110))
