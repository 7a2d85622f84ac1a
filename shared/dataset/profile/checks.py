"""All checks of a dataset's files, and the worst of what they find."""

from shared.dataset.profile.check_files import check_faults, check_files
from shared.dataset.profile.check_images import check_images
from shared.dataset.profile.check_masks import check_masks
from shared.dataset.profile.check_tables import check_tables
from shared.dataset.profile.findings import Findings
from shared.dataset.survey.survey import Survey

MOST = 40


def findings(seen: Survey) -> tuple[list[str], list[str]]:
    """Warnings, and what was not checked."""
    found = Findings()
    # Checks read files, too: what the survey left of the time, but enough to find what is wrong everywhere.
    seen.looker.extend(seen.looker.seconds / 4)
    for check in (check_files, check_images, check_masks, check_tables, check_faults):
        check(seen, found)
    ordered = sorted(found.found)
    if len(ordered) > MOST:
        found.skipped.append(f"{len(ordered) - MOST} more warnings are not listed")
    return [text for _, _, text in ordered[:MOST]], found.skipped
