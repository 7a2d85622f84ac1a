"""The patients of the rules, held against what the files say of people. Pure.

Where a header or a column says that two cases are of one person they are joined before the split is made: a merge costs
cases and never lets one person stand on both sides. What is only read off names may be wrong, so it is a gate.
"""

from collections import defaultdict
from collections.abc import Sequence

from services.scorer.lock.copies import Pair, equal
from shared.contracts.cases import CaseRecord, Persons
from shared.contracts.rules import Split
from shared.contracts.scoring import Gate


def same_person(cases: Sequence[CaseRecord], persons: Sequence[Persons]) -> list[Pair]:
    """Places of cases that headers or columns give to one person."""
    return [pair for source in persons if source.stated for pair in equal([source.of.get(case.key) for case in cases])]


def one_side(cases: Sequence[CaseRecord], sides: Sequence[Split], persons: Sequence[Persons]) -> Gate:
    """Whether everybody stands on one side of the split, by every trusted source."""
    torn = []
    for source in persons:
        where: defaultdict[int, set[Split]] = defaultdict(set)
        for case, side in zip(cases, sides, strict=True):
            if case.key in source.of:
                where[source.of[case.key]].add(side)
        if many := sum(len(found) > 1 for found in where.values()):
            torn.append(f"by {source.where} {many} of {len(where)} people")
    evidence = "; ".join(torn) or f"nobody by any of {len(persons)} sources"
    advice = ". Let `patient` take them together, or drop a `split` that parts them" if torn else ""
    return Gate(
        name="person_on_one_side", passed=not torn, evidence=f"{evidence} stand on two sides of the split{advice}"
    )
