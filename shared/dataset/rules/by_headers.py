"""Files that DICOM headers hold together: those of a series, or of what `case` names."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from shared.contracts.rules import Rules
from shared.dataset.files.inside import Taken
from shared.dataset.files.series import common, headers, unreadable
from shared.dataset.rules.found import Account, RulesError
from shared.dataset.rules.reasons import UNREAD, Expected
from shared.dataset.survey.naming import evenly
from shared.dataset.tables.words import words
from shared.imaging.dicom_notes import rejected_by
from shared.imaging.formats import kind_of

NO_SERIES = "file without a DICOM series: leave it out of the pattern, or use another `case`"
NO_IMAGE_OBJECT = Expected("DICOM object that marks or describes images: nothing to do", "no_image")
SCOUT = Expected("images by which a scan was planned (scout, localizer): nothing to do", "no_image")
CAPTURE = Expected("screen shots and reports beside the images of an examination: nothing to do", "no_image")
REJECTED = Expected("images that a rejection note (DICOM object KO) rejects: nothing to do", "no_image")
RAW = Expected("images for processing beside those for presentation: nothing to do", "no_image")
INTENT, _LOOKS = ("PresentationIntentType", "StudyInstanceUID"), 40
ABOUT_SERIES = ("SeriesDescription", "Modality", "SOPClassUID", "ImageType", "StudyInstanceUID")
_OTHER_OBJECTS = {"SEG", "RTSTRUCT", "RTDOSE", "RTPLAN", "SR", "PR", "KO", "REG", "DOC"}
_SCOUT_WORDS = {"scout", "localizer", "localiser", "topogram", "loc", "surview", "scanogram"}
_SURVEY = "survey"
"""Begins the name of a scout; a skeletal survey is none."""
_REPORT = re.compile(r"\b(?:dose|patient) (?:report|protocol|record|info)|screen ?(?:shot|save|capture)", re.I)
_CAPTURE_CLASS = "1.2.840.10008.5.1.4.1.1.7"
_SEVERAL = "ImageLaterality|Laterality"
HEADER = "header."
"""Before a DICOM keyword, where `case` or `names` of a table mean one."""


def checked(keyword: str) -> str:
    """A keyword, or several with `|` between them. Raises RulesError for what DICOM does not know."""
    from pydicom.datadict import tag_for_keyword

    for one in keyword.split("|"):
        if tag_for_keyword(one) is None:
            raise RulesError(
                f"DICOM has no header {one!r}; write its keyword, such as PatientID, or several as `{_SEVERAL}`"
            )
    return keyword


def with_headers(rules: Rules, root: Path, taken: list[Taken], account: Account) -> list[Taken]:
    """With the DICOM headers that `case` names as further fields; files without them are left out."""
    names = [one for one in rules.case if one.startswith(HEADER)] if isinstance(rules.case, tuple) else []
    if not names:
        return taken
    read = headers(root, [one.file for one in taken], [checked(name.removeprefix(HEADER)) for name in names])
    kept = []
    for one in taken:
        fields = {name: read[one.file].get(name.removeprefix(HEADER), "") for name in names}
        if all(fields.values()):
            kept.append(replace(one, fields={**one.fields, **fields}))
        else:
            lacking = (
                f"file whose headers lack {' or '.join(names)}: name another header of the same meaning beside it "
                f"(`{HEADER}{_SEVERAL}`), or fields of its path in `case`"
            )
            account.leave(UNREAD if unreadable(root, one.file) else lacking, one.file)
    return kept


def no_image(told: Mapping[str, str]) -> Expected | None:
    """Why a series is no image to learn from, by its headers (`ABOUT_SERIES`); None where it is one."""
    said = told.get("SeriesDescription", "")
    if told.get("Modality") in _OTHER_OBJECTS:
        return NO_IMAGE_OBJECT
    scout = words(said)[:1] == (_SURVEY,) or not _SCOUT_WORDS.isdisjoint(words(said))
    if scout or "LOCALIZER" in told.get("ImageType", "").upper().split("\\"):
        return SCOUT
    return CAPTURE if told.get("SOPClassUID", "").startswith(_CAPTURE_CLASS) or _REPORT.search(said) else None


def without_no_images(
    root: Path, groups: dict[str, list[list[Taken]]], account: Account
) -> dict[str, list[list[Taken]]]:
    """Volumes without those that are none by the headers of a file in their middle. Screen shots are left out beside
    other series of their examination only: some datasets hold nothing else."""
    one = {key: channels[0][len(channels[0]) // 2].file for key, channels in groups.items() if channels[0]}
    read = headers(root, [file for file in one.values() if kind_of(root / file) == "dicom"], ABOUT_SERIES)
    told = {key: read.get(file, {}) for key, file in one.items()}
    why = {key: no_image(values) for key, values in told.items()}
    study = {key: values.get("StudyInstanceUID", "") for key, values in told.items()}
    imaged = {study[key] for key, reason in why.items() if reason is None}
    kept = {}
    for key, channels in groups.items():
        reason = why.get(key)
        if reason is None or (reason is CAPTURE and study[key] not in imaged):
            kept[key] = channels
        else:
            account.leave(reason, *(part.file for some in channels for part in some))
    return kept


def without_objects(root: Path, taken: Sequence[Taken], account: Account) -> list[Taken]:
    """Without DICOM objects that hold no image (notes, reports), without screen shots beside other images of their
    examination, and without images that a rejection note rejects (IHE Image Object Change Management)."""
    drawn = evenly(taken, _LOOKS)
    files = [one.file for one in taken] if any(kind_of(root / one.file) == "dicom" for one in drawn) else []
    read = headers(root, files, (*ABOUT_SERIES, "SOPInstanceUID"))
    objects = {file for file, told in read.items() if told.get("Modality") in _OTHER_OBJECTS}
    account.leave(NO_IMAGE_OBJECT, *sorted(objects))
    uids = {uid for file in objects if read[file]["Modality"] == "KO" for uid in rejected_by(root / file)}
    rejected = {file for file, told in read.items() if told.get("SOPInstanceUID") in uids and file not in objects}
    account.leave(REJECTED, *sorted(rejected))
    shot = {file for file, told in read.items() if no_image(told) is CAPTURE and file not in rejected}
    imaged = {told.get("StudyInstanceUID") for file, told in read.items() if told and file not in shot | objects}
    shot = {file for file in shot if read[file].get("StudyInstanceUID", "") in imaged}
    account.leave(CAPTURE, *sorted(shot))
    return [one for one in taken if one.file not in objects | rejected | shot]


def without_raw(root: Path, taken: Sequence[Taken], account: Account) -> list[Taken]:
    """Without films as the detector gave them, where their examination has them as they are read, too."""
    files = [one.file for one in taken if kind_of(root / one.file) == "dicom"] if _tell_intent(root, taken) else []
    read = headers(root, files, INTENT)
    shown = {told.get(INTENT[1]) for told in read.values() if told.get(INTENT[0]) == "FOR PRESENTATION"}
    raw = {
        file for file, told in read.items() if told.get(INTENT[0]) == "FOR PROCESSING" and told.get(INTENT[1]) in shown
    }
    account.leave(RAW, *sorted(raw))
    return [one for one in taken if one.file not in raw]


def _tell_intent(root: Path, taken: Sequence[Taken]) -> bool:
    """Whether any of some evenly drawn files does."""
    drawn = [one.file for one in evenly(taken, _LOOKS) if kind_of(root / one.file) == "dicom"]
    return any(INTENT[0] in told for told in headers(root, drawn, INTENT[:1]).values())


def by_series(rules: Rules, root: Path, taken: Sequence[Taken], account: Account) -> dict[str, list[list[Taken]]]:
    uids = headers(root, [one.file for one in taken], ("SeriesInstanceUID",))
    groups: dict[str, list[Taken]] = defaultdict(list)
    for one in taken:
        values = uids.get(one.file)
        if values and values.get("SeriesInstanceUID"):
            groups[values["SeriesInstanceUID"]].append(one)
        else:
            account.leave(UNREAD if unreadable(root, one.file) else NO_SERIES, one.file)
    folders = {uid: common([one.file for one in some]) for uid, some in groups.items()}
    alone = Counter(folders.values())
    return {
        (folders[uid] if alone[folders[uid]] == 1 else f"{folders[uid]}:{uid}"): [some] for uid, some in groups.items()
    }
