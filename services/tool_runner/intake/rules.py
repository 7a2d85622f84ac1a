"""What an intake job is told, read as data, and what it tells of cases that it left out."""

import hashlib
import re
from collections.abc import Iterable, Sequence

from shared.contracts.cases import CaseSpec
from shared.contracts.data import SealedSplit
from shared.contracts.rules import Rules
from shared.contracts.runs import TaskPlan
from shared.dataset.intake.choose import choose
from shared.dataset.rules import reading
from shared.dataset.rules.found import RulesError
from shared.errors import ToolRefused

_MAX_RULES = 256 << 10
_NUMBERS = re.compile(r"\d+(?:[.,]\d+)*")


def read_rules(text: bytes) -> Rules:
    """Raises ToolRefused for what is no set of rules."""
    if len(text) > _MAX_RULES:
        raise ToolRefused(
            f"the rules are larger than {_MAX_RULES >> 10} kB; say how cases are found, not which they are"
        )
    try:
        return reading.read_rules(text)
    except RulesError as error:
        raise ToolRefused(str(error)) from None


def handed_back(rules: Rules, sealed: bytes | None) -> frozenset[str]:
    """Keys of the cases that later roles handed back, which know them by the ids of the split that they saw."""
    split = SealedSplit.model_validate_json(sealed) if sealed is not None else None
    known = {row.sample_id: key for row, key in zip(split.rows, split.keys, strict=True)} if split else {}
    return frozenset(known.get(name, name) for name in rules.leave_out)


def choose_by(plan: TaskPlan, specs: Sequence[CaseSpec], run_id: str) -> list[CaseSpec]:
    """Cases within the caps of the plan; another run draws others, a second lock of a run the same."""
    seed = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:4])
    return list(
        choose(specs, max_train=plan.max_train, max_test=plan.max_test, balance=plan.balance_classes, seed=seed)
    )


def grouped(left_out: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """(reason, key) -> reason -> keys. Reasons that differ in numbers alone are one, told without them."""
    groups: dict[str, dict[str, str]] = {}
    for reason, key in left_out:
        groups.setdefault(_NUMBERS.sub("...", reason), {})[key] = reason
    return {
        (plain if len(set(found.values())) > 1 else next(iter(found.values()))): tuple(found)
        for plain, found in groups.items()
    }
