"""How well tried rules explain a dataset: one number, from what they cover."""

from shared.contracts.cases import Coverage, unfit
from shared.contracts.rules import Rules
from shared.dataset.propose.draft import Draft

MOST_EARNED = 0.65
"""What a draft can earn by being tried, beside its prior."""


def share_of(coverage: Coverage) -> float:
    """Of the image files that rules explain: those of cases, and those left out for a known, harmless reason."""
    return min(1.0, coverage.used / coverage.files) if coverage.files else 0.0


def score_of(draft: Draft, rules: Rules, coverage: Coverage) -> float:
    """Higher is better; below 0 where no model could be made of it."""
    unnamed = bool(unfit(coverage.label_names))  # which new names in the rules mend
    if len(coverage.problems) > unnamed or not coverage.cases:
        return -1.0
    lost = sum(count for reason, count in coverage.left_out.items() if reason.startswith("case "))
    targeted = coverage.cases / max(1, coverage.cases + lost)
    score = 0.4 * share_of(coverage) + 0.25 * targeted + draft.prior - 0.3 * unnamed
    score -= 0.05 * min(1.0, len(coverage.conflicts) / 10)
    if rules.text:
        unused = _unused_reports(rules, coverage)
        score -= 0.2 * unused / (unused + coverage.cases)
    if rules.task == "diagnosis" and coverage.counts:
        counts = sorted(coverage.counts.values())
        score -= 0.1 * (counts[-1] > 0.97 * sum(counts)) + 0.05 * (counts[0] < 2)
    if coverage.patients < 4 <= coverage.cases:
        score -= 0.2
    # Of two that explain the same, the plainer one.
    return round(score - 0.01 * len(rules.tables) - 0.005 * len(rules.masks), 4)


def _unused_reports(rules: Rules, coverage: Coverage) -> int:
    """Rows of the tables of reports that are of no case."""
    names = {source.table for source in rules.text.sources} if rules.text else set()
    rows = tuple(f"row of {rules.tables[name].file} whose " for name in names if name)
    return sum(count for reason, count in coverage.left_out.items() if rows and reason.startswith(rows))
