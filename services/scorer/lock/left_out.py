"""How much of a dataset is no case, and whether that may be: whoever leaves cases out can choose the easy ones."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from services.scorer.rows import counted_as
from shared.contracts.cases import CaseTable, Coverage, Lossless
from shared.contracts.data import IndexRow
from shared.contracts.scoring import Gate

BOUND = 0.2
"""Share of the candidate images above which a score is at most valid, unless the settings say another."""
GATE = "cases_left_out"
_EXPECTED: Mapping[Lossless, str] = {
    "untargeted": "cases not asked for, or without a class or report",
    "unmasked": "images without a mask",
    "no_image": "files that are no image of a case",
}


def reasons_told(table: CaseTable, contradictions: int) -> dict[str, int]:
    """For later roles: counts under words of ours, since reasons may be those of the Data Engineer."""
    told = {words: table.coverage.lossless.get(kind, 0) for kind, words in _EXPECTED.items()}
    told |= {
        "files, rows or cases left out by the rules for other reasons": table.coverage.lost,
        "cases left out when they were read": sum(map(len, table.left_out.values())),
        "cases that are exact copies of one another with different labels": contradictions,
    }
    return {reason: count for reason, count in told.items() if count}


def left_out(table: CaseTable, rows: Sequence[IndexRow], bound: float = BOUND, approved: bool = False) -> Gate:
    """Judge what is no case of the lock: `rows` are all of it, `bound` the share of the candidate images that may be
    none. More may where a person, who is told the share with the split, has `approved` it and so the rules; of a
    script's list nobody can say so."""
    coverage = table.coverage
    gone = sum(map(len, table.left_out.values())) + len(table.cases) - len(rows)
    by_rules, afterwards = _share_of_files(coverage), gone / (len(rows) + gone) if gone else 0.0
    share = by_rules + (1 - by_rules) * afterwards
    text = (
        f"{share:.1%} of the candidate images are no case, for other reasons than that they were not asked for or have "
        f"no target; up to {bound:.0%} do not matter"
    )
    # Caps take cases away that nobody lost: then nothing is known of classes.
    if not coverage.label_values and len(table.cases) + sum(map(len, table.left_out.values())) == coverage.cases:
        text += "".join(_by_class(coverage.counts, rows))
    approved = approved and not table.by_script
    text += "; a person who was told so has approved the split" * (approved and share > bound)
    return Gate(name=GATE, passed=share <= bound or approved, evidence=text)


def _share_of_files(coverage: Coverage) -> float:
    """Image files that no case uses and that were to be expected in one."""
    each = max(1.0, coverage.used / (coverage.cases or 1))
    count = coverage.lossless.get
    expected = each * count("untargeted", 0) + max(1.0, each / 2) * count("unmasked", 0) + count("no_image", 0)
    lost = coverage.files - coverage.used - expected
    return max(0.0, lost / coverage.files) if coverage.files else 0.0


def _by_class(before: dict[str, int], rows: Sequence[IndexRow]) -> Iterable[str]:
    after = Counter(name for row in rows for name in counted_as(row))
    lost = [f"{name} {count - after[name]} of {count}" for name, count in sorted(before.items()) if count > after[name]]
    if lost:
        yield f"; of the cases that rules found, by class: {', '.join(lost[:20])}"
