"""Handing work back to an earlier role: one submission that the later roles share."""

from collections.abc import Mapping

from shared.agent.brief import Brief
from shared.agent.calls import submit
from shared.agent.role import Facts, Submission
from shared.contracts.base import AGENTS, AgentName, Event, Spent
from shared.contracts.runs import MAX_RETURNS, ReturnedWork, WorkReturned
from shared.contracts.state import RunState
from shared.contracts.transcript import Call, Observation


def return_work(sender: AgentName) -> Submission:
    """The submission by which `sender` hands work back to a role before it."""

    def event(answer: ReturnedWork, facts: Facts, brief: Brief, state: RunState, spent: Spent) -> Event:
        return WorkReturned.make(
            run_id=brief.run_id,
            sender=sender,
            cause=brief.order,
            target=answer.target,
            reason=answer.reason,
            evidence=answer.evidence,
            spent=spent,
        )

    def check(answer: ReturnedWork, facts: Facts, brief: Brief) -> list[str]:
        earlier = AGENTS[: AGENTS.index(sender)]
        if answer.target not in earlier:
            return [f"work goes back to a role before yours ({', '.join(earlier)}), not to {answer.target}"]
        returned = facts.get("returned")
        times = returned.get(f"{sender}>{answer.target}", 0) if isinstance(returned, dict) else 0
        if isinstance(times, int) and times >= MAX_RETURNS:
            return [f"you have handed work back to {answer.target} {times} times, which is the most; end it yourself"]
        return []

    return Submission(tool="return_work", answer=ReturnedWork, check=check, event=event)


def bad_samples(seen: Observation) -> dict[str, str]:
    """Sample -> what is wrong with it, as the end of a training or the probe of a refused submission tells."""
    told = (seen.event or {}, *(result.data for result in seen.results))
    found = next((one["bad_samples"] for one in told if one.get("bad_samples")), {})
    return {name: str(wrong) for name, wrong in found.items()} if isinstance(found, dict) else {}


def hand_back(samples: Mapping[str, str], whose: str) -> Call:
    """The call that gives samples to the Data Engineer; `whose` begins the sentence: "the training refuses"."""
    name, wrong = next(iter(samples.items()))
    reason = f"{whose}: {len(samples)} samples, such as {name}: {wrong}"
    return submit(
        "return_work", ReturnedWork(target="data_engineer", reason=reason, evidence={"samples": dict(samples)})
    )
