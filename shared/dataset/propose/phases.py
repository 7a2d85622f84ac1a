"""Of the series of a multi-phase examination those of the phase that a request names, whatever each machine calls it:
`Abdomen_pv`, `Abd. portalvenös`, `ABD PORTAL`."""

import re
from collections import Counter, defaultdict

from shared.contracts.rules import Excluded
from shared.contracts.values import Source
from shared.dataset.files.series import headers
from shared.dataset.propose.draft import Draft
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.words import wanted
from shared.vocabulary.reading import plain

_PHASES = {
    "plain": r"nativ\w*|plain|unenhanced|non ?contrast|ne ?ct|ncct|ohne km|sans (?:injection|contraste)|sin contraste",
    "arterial": r"art|arter\w*",
    "portal venous": r"pv|port(?:al|o)\w*|ven|venous|venos\w*|veineu\w*",
    "delayed": r"delay\w*|late(?= phase)|spaet\w*|spate?|spat(?:phase|ven\w*)|tardi\w*|excret\w*|ausscheid\w*",
}
"""Phase after contrast -> words of descriptions and requests for it, without accents."""
_SPLIT = {phase: re.compile(rf"\b(?:{words})\b", re.I) for phase, words in _PHASES.items()}
_MOST_LOOKS = 400
_ENOUGH = 0.5
"""Share of the examinations that have the phase."""


def phase(text: str) -> str | None:
    """The one phase that a text names; None where it names none or several."""
    said = re.sub(r"(?<=[^\W\d])(?=\d)|(?<=\d)(?=[^\W\d])", " ", plain(text))
    found = [name for name, words in _SPLIT.items() if words.search(said)]
    return found[0] if len(found) == 1 else None


def with_phase(draft: Draft, survey: Survey, target: str) -> Draft | None:
    """The draft with the series of that phase alone, by their descriptions; None where the request or the headers name
    none, or all series are of one."""
    meant, piece = phase(wanted(target)[0]), draft.pieces[0]
    dicom = any(look.header and look.header.kind == "dicom" for look in piece.family.looks)
    if meant is None or not dicom or len(draft.pieces) > 1 or draft.case not in ("folder", "series"):
        return None
    looked = evenly(piece.files, _MOST_LOOKS)
    read = headers(survey.root, looked, ("SeriesDescription", "StudyInstanceUID"))
    called: Counter[str] = Counter()
    studies: dict[str, set[str | None]] = defaultdict(set)
    for told in read.values():
        text = told.get("SeriesDescription", "")
        called[text] += 1
        studies[told.get("StudyInstanceUID", "")].add(phase(text))
    kept = tuple(sorted(text for text in called if phase(text) == meant))
    several = len({one for held in studies.values() for one in held} - {None}) > 1
    if not several or sum(meant in held for held in studies.values()) < _ENOUGH * len(studies):
        return None
    aside = 1 - sum(called[text] for text in kept) / called.total()
    said = f"series that are not of the {meant} phase"
    exclude = (*draft.exclude, Excluded(source=Source(header="SeriesDescription"), unless=kept, reason=said))
    # The others are images that it leaves aside on purpose.
    made = draft.change(exclude=exclude, prior=draft.prior + 0.55 * aside + 0.1)
    return made.said("exclude", f"left out: {said}").decided("image", f"series of the {meant} phase")
