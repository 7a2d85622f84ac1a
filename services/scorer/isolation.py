"""Whether what decides a score ran where it could not reach the answers. Pure."""

from collections.abc import Sequence

from shared.contracts.base import Event, Ref
from shared.contracts.scoring import Gate
from shared.contracts.training import JobFinished, JobStarted

GATE = "isolated"


def isolated(events: Sequence[Event], package: Ref, predict: str) -> Gate:
    """Whether every attempt of the jobs that made the package, and of the job `predict`, ran behind a wall that counts.

    At `bwrap` a job sees no file of the machine. At `landlock` it sees names and processes of others, so the runner
    must have neither raw data nor cases with their targets.
    """
    ended = {one.job_id: one for one in events if isinstance(one, JobFinished)}
    made = {job for job, one in ended.items() if package in one.outputs.values()}
    for job in list(made):  # and those that it goes on from
        while (tried := ended[job].tried if job in ended else None) and tried.continues and tried.continues not in made:
            made.add(job := tried.continues)
    attempts = [one for one in events if isinstance(one, JobStarted) and one.job_id in made | {predict}]
    weak = [one for one in attempts if one.isolation != "bwrap" and not (one.isolation == "landlock" and one.apart)]
    if not weak and {one.job for one in attempts} == {"train", "predict"}:
        where = " and ".join(dict.fromkeys(f"{one.job} ran at {one.isolation}" for one in attempts))
        return Gate(name=GATE, passed=True, evidence=where)
    where = " and ".join(dict.fromkeys(f"{one.job} ran at {one.isolation or 'no known level'}" for one in weak))
    advice = "bwrap is wanted, or landlock on a runner without the class `data` and without data roots"
    return Gate(name=GATE, passed=False, evidence=f"{where or 'the package was not trained and run here'}; {advice}")
