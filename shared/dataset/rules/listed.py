"""Cases that a script of the Data Engineer listed (`Rules.listed`), checked."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from shared.contracts.cases import CaseSpec
from shared.contracts.wrapping import Groups
from shared.dataset.files.listing import Listing
from shared.dataset.rules.coverage import files_of
from shared.dataset.rules.found import Account, RulesError
from shared.dataset.rules.reading import faults
from shared.dataset.rules.targets import Patients
from shared.imaging.order import natural_key

HANDED_OVER = "listed.jsonl"
"""Name under which a job gets the list, whatever it was called where it was written."""
_MOST = 1 << 33
"""Bytes."""


def read(name: str, workspace: Path | None, listing: Listing, account: Account) -> list[CaseSpec]:
    """Cases of a JSON Lines file, sorted by key. Raises RulesError where it is not what it should be."""
    path = _place(name, workspace)
    cases: dict[str, CaseSpec] = {}
    there = set(listing.files)
    with path.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                # Of whom a case is, headers tell, not a script.
                case = CaseSpec.model_validate_json(line).model_copy(update={"groups": Groups()})
            except ValidationError as error:
                raise RulesError(f"{name}, line {number} is no case: {faults(CaseSpec, error)}") from None
            if case.key in cases:
                raise RulesError(f"{name}, line {number}: the key {case.key!r} stands twice; keys are unique")
            missing = sorted(files_of([case]) - there)
            if missing:
                account.leave(
                    "listed file that the dataset does not have: write paths relative to it, as they are in it",
                    f"{case.key}: {missing[0]}",
                )
            else:
                cases[case.key] = case
    if not cases and not account.left_out:
        raise RulesError(f"{name} lists no case")
    return sorted(cases.values(), key=lambda case: natural_key(case.key))


def _place(name: str, workspace: Path | None) -> Path:
    if workspace is None:
        raise RulesError("`listed` names a file of the workspace, and there is none here")
    real = workspace.resolve()
    for one in (name, HANDED_OVER):
        path = (real / one).resolve()
        if path.is_relative_to(real) and path.is_file() and path.stat().st_size <= _MOST:
            return path
    raise RulesError(f"`listed` names {name!r}, which is no file of the workspace")


def grouping(cases: Sequence[CaseSpec]) -> Patients:
    """How sure the patients of listed cases are: nobody but the script knows."""
    alone = len({case.patient for case in cases}) == len(cases)
    says = "a script lists them" + (", each case as a patient of its own" if alone else "")
    return Patients([case.patient for case in cases], "inferred" if alone else "derived", says)
