"""A line of results for each run of the benchmark, and the file that they stand in."""

import os
from datetime import datetime
from pathlib import Path

from pydantic import Field, ValidationError

from shared.contracts.base import Contract, TaskKind
from shared.contracts.runs import Switch
from shared.errors import UserError

UNSERVED, LACKING = "unserved", "lacking"
"""Tasks of the requests that no dataset can serve, and of those whose dataset lacks what it is asked for."""


class Part(Contract):
    """What one role did in a run."""

    done: bool
    """Task Manager: the right dataset, without having been told it; Data Engineer: cases and a lock; Architect: a
    module that the probe took; Trainer: a package that the probe took (paper, section 3.5)."""
    turns: int = 0
    actions: int = 0
    iterations: int = 0
    """Of its own work: 1, and one for each turn in which something was refused or failed and had to be done again."""
    tokens: int = 0
    estimated: bool = False


class Setting(Contract):
    """What is tried: two runs of the same setting are the same experiment."""

    task: str
    """Name of the benchmark's task, `unserved N`, or `lacking` and the task whose dataset lacks it."""
    core: str
    round: int = Field(ge=0)
    """Also the seed of the replica, and which of the task's requests is asked."""
    size: str
    layout: str
    train_seconds: float
    without: tuple[Switch, ...] = ()
    """Parts of the system that were switched off."""
    real: bool = False
    """On the real dataset instead of a replica."""


class Result(Contract):
    setting: Setting
    kind: TaskKind | None
    """None of a request that cannot be served."""
    request: str
    dataset: str = ""
    """Id of the dataset that was taken."""
    right: bool
    """Whether that is the one which is meant; where none can serve, whether the run asked or said so."""
    asked: tuple[str, ...] = ()
    """Questions that a person was asked."""
    end: str
    level: str
    metric: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    patients: int = 0
    reached: float | None = None
    """In the benchmark's metric, where the plan has another one, too."""
    floor: float | None = None
    """Lower end of the benchmark's acceptable range, in its metric."""
    no_image: float | None = None
    greys: float | None = None
    network: float | None = None
    """What no image, grey values and a small network reach on this replica (`requests.json`)."""
    failed_gates: tuple[str, ...] = ()
    reason: str = ""
    parts: dict[str, Part] = {}
    """By role; of another system the one part that it has."""
    usd: float = 0.0
    seconds: float
    commit: str
    machine: str
    at: datetime

    @property
    def ran(self) -> bool:
        return self.level in ("ran", "valid", "useful")

    @property
    def valid(self) -> bool:
        return self.level in ("valid", "useful")

    @property
    def useful(self) -> bool:
        """By the scorer, on the dataset that is meant."""
        return self.level == "useful" and self.right

    @property
    def completed(self) -> bool:
        """As the paper counts (section 3.2): in the acceptable range. Here it also has to be valid, on the dataset that
        is meant."""
        inside = self.reached is not None and self.floor is not None and self.reached >= self.floor
        return self.valid and self.right and inside

    @property
    def actions(self) -> int:
        return sum(part.actions for part in self.parts.values())

    @property
    def turns(self) -> int:
        return sum(part.turns for part in self.parts.values())

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts.values())

    @property
    def iterations(self) -> int:
        """One, and all rounds of self-correction."""
        return 1 + sum(part.iterations - 1 for part in self.parts.values())


def read(path: Path) -> list[Result]:
    """The results in a file, none where there is no file. Raises UserError for a line that is no result."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines() if path.exists() else (), 1):
        try:
            found.append(Result.model_validate_json(line))
        except ValidationError as error:
            raise UserError(
                f"{path}, line {number}: no result of m3bench run ({error.errors()[0]['msg']}); name another file"
            ) from None
    return found


def append(path: Path, result: Result) -> None:
    """Add a line, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    draft.write_text(f"{before}{result.model_dump_json()}\n", encoding="utf-8")
    draft.rename(path)
