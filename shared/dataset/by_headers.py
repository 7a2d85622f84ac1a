"""Files that DICOM headers hold together: those of a series, or of what `case` names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from shared.contracts.rules import Rules
from shared.dataset.inside import Taken
from shared.dataset.reasons import Expected
from shared.dataset.series import common, headers

if TYPE_CHECKING:
    from shared.dataset.gather import Account

NO_SERIES = "file without a DICOM series: leave it out of the pattern, or use another `case`"
NO_IMAGE_OBJECT = Expected("DICOM object that marks or describes images: nothing to do", "no_image")
_OTHER_OBJECTS = {"SEG", "RTSTRUCT", "RTDOSE", "RTPLAN", "SR", "PR", "KO", "REG", "DOC"}
HEADER = "header."
"""Before a DICOM keyword, where `case` or `names` of a table mean one."""


def with_headers(rules: Rules, root: Path, taken: list[Taken], account: Account) -> list[Taken]:
    """With the DICOM headers that `case` names as further fields; files without them are left out."""
    names = [one for one in rules.case if one.startswith(HEADER)] if isinstance(rules.case, tuple) else []
    if not names:
        return taken
    read = headers(root, [one.file for one in taken], [name.removeprefix(HEADER) for name in names])
    kept = []
    for one in taken:
        fields = {name: read[one.file].get(name.removeprefix(HEADER), "") for name in names}
        if all(fields.values()):
            kept.append(replace(one, fields={**one.fields, **fields}))
        else:
            account.leave(f"file whose headers lack {' or '.join(names)}: name fields of its path in `case`", one.file)
    return kept


def by_series(rules: Rules, root: Path, taken: Sequence[Taken], account: Account) -> dict[str, list[list[Taken]]]:
    uids = headers(root, [one.file for one in taken], ("SeriesInstanceUID", "Modality"))
    groups: dict[str, list[Taken]] = defaultdict(list)
    for one in taken:
        values = uids.get(one.file)
        if values and values.get("Modality") in _OTHER_OBJECTS:
            account.leave(NO_IMAGE_OBJECT, one.file)
        elif values and values.get("SeriesInstanceUID"):
            groups[values["SeriesInstanceUID"]].append(one)
        else:
            account.leave(NO_SERIES, one.file)
    folders = {uid: common([one.file for one in some]) for uid, some in groups.items()}
    alone = Counter(folders.values())
    return {
        (folders[uid] if alone[folders[uid]] == 1 else f"{folders[uid]}:{uid}"): [some] for uid, some in groups.items()
    }
