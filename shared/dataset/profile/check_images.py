"""Images that differ from the others: sizes, spacing, dimensions, values; and personal data in headers."""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from statistics import median
from typing import TYPE_CHECKING

from shared.dataset.files.looking import Look
from shared.dataset.profile.findings import DOUBTFUL, NOTE, UNUSABLE, Findings
from shared.dataset.survey.family import Family
from shared.dataset.survey.naming import evenly
from shared.imaging.errors import BadImage
from shared.imaging.formats import stem_of
from shared.imaging.headers import dicom_values

if TYPE_CHECKING:
    from shared.dataset.survey.survey import Survey

MOST_HEADERS = 300
MOST_PIXELS = 48
MOST_FOLDERS = 60
_FACTOR = 3.0
"""So many times smaller or larger than the median is worth a word."""
_RARE = 0.1
_FEW = 5
_PERSONAL = ("PatientName", "PatientBirthDate", "PatientAddress", "PatientTelephoneNumbers", "OtherPatientIDs",
             "ReferringPhysicianName", "OperatorsName", "PerformingPhysicianName", "InstitutionAddress",
             "PatientMotherBirthName", "PatientComments")  # fmt: skip
_BLANK = ("anon", "removed", "deidentified", "de-identified", "xxx", "unknown", "none", "^", "")


def check_images(seen: "Survey", found: Findings) -> None:
    """Looks at more headers, evenly drawn over the image families."""
    images = seen.images
    total = sum(len(one.units) for one in images)
    looks: dict[str, Look] = {}
    for one in images:
        most = max(3, MOST_HEADERS * len(one.units) // max(1, total))
        mine = {}
        for at in evenly(one.units, most):
            look = seen.looker.header(one.listing.files[at])
            if look and look.header:
                mine[look.file] = look
        _frames(mine, one, found)
        looks |= mine
    if looks and len(looks) < total:
        found.skipped.append(f"headers of {len(looks):,} of {total:,} images were looked at")
    for one in images:
        _slices(seen, one, found)
    _more_pixels(seen)
    _dimensions(seen, found)
    _spacing(looks, found)
    _sizes(looks, found)
    _values(seen, found)
    _personal(seen, found)


def _more_pixels(seen: "Survey") -> None:
    """As many as time allows; what is found stays with the survey's looker."""
    images = [one for one in seen.images if one.kind != "slices"]
    total = sum(len(one) for one in images)
    for one in images:
        for at in evenly(one.at, max(2, MOST_PIXELS * len(one) // max(1, total))):
            if seen.looker.left > 0:
                seen.looker.pixels(one.listing.files[at])


def _slices(seen: "Survey", family: Family, found: Findings) -> None:
    """Of folders of slices: numbers that are missing, slices of other sizes, several series."""
    if not family.folders:
        return
    files, ends = seen.listing.files, [*family.units[1:], None]
    gaps, sizes, series = [], [], []
    looked = evenly(list(zip(family.units, ends, strict=True)), MOST_FOLDERS)
    for start, end in looked:
        first, last = (bisect_left(family.at, at) if at is not None else len(family.at) for at in (start, end))
        names = [files[at] for at in family.at[first:last]]
        folder = names[0].rpartition("/")[0]
        numbers = sorted({int(digits[-1][:18]) for name in names if (digits := re.findall(r"\d+", stem_of(name)))})
        missing = numbers[-1] - numbers[0] + 1 - len(numbers) if len(numbers) == len(names) else 0
        if 0 < missing < len(numbers) / 4:
            gaps.append(f"{folder} ({missing} missing between {numbers[0]} and {numbers[-1]})")
        heads = [look.header for at in (0, len(names) // 2, -1) if (look := seen.looker.header(names[at]))]
        shapes = {head.shape for head in heads if head}
        if len(shapes) > 1:
            sizes.append(f"{folder} ({' and '.join(' x '.join(map(str, shape)) for shape in sorted(shapes))})")
        if len({head.dicom.get("SeriesInstanceUID", "") for head in heads if head}) > 1:
            series.append(folder)
    of = f"of {len(looked):,} folders of slices looked at"
    found.add(
        UNUSABLE, sizes, f"{of} hold slices of several sizes", "leave out the slices of the rarer size, or the folder"
    )
    found.add(DOUBTFUL, series, f"{of} hold several DICOM series", "let the rules take a series as a case")
    found.add(NOTE, gaps, f"{of} have numbers missing", "their slices are taken as they are; expect jumps")


def _frames(looks: Mapping[str, Look], family: Family, found: Findings) -> None:
    long = [
        file for file, look in looks.items() if look.header and look.header.frames > 1 and look.header.dimensions == 3
    ]
    if long:
        edges = sorted({look.header.frames for look in looks.values() if look.header and look.header.frames > 1})
        shown = ", ".join(map(str, edges[:4]))
        found.add(DOUBTFUL, long, f"of {len(looks):,} volumes looked at have a fourth axis (length {shown})",
                  "say whether it holds channels or times (`axis4`)")  # fmt: skip


def _dimensions(seen: "Survey", found: Findings) -> None:
    counts: Counter[int] = Counter()
    example: dict[int, str] = {}
    for one in seen.images:
        if one.dimensions:
            counts[one.dimensions] += one.count
            example.setdefault(one.dimensions, one.listing.files[one.at[0]])
    flat: list[str] = []
    for one in seen.images:
        for look in one.looks:
            if look.header and one.kind == "volume" and look.header.dimensions == 2 and not one.entries:
                flat.append(look.file)
    found.add(DOUBTFUL, flat, "image(s) with two dimensions among volumes", "leave them out")
    if len(counts) > 1:
        less = counts.most_common()[-1][0]
        what = f"image(s) have {less} dimensions where the others have {5 - less}"
        found.add(DOUBTFUL, [example[less]], what, "rules take one kind; say which one is meant", counts[less])


def _spacing(looks: Mapping[str, Look], found: Findings) -> None:
    spacings = {file: look.header.spacing for file, look in looks.items() if look.header and look.header.spacing}
    bad = [file for file, steps in spacings.items() if any(not math.isfinite(step) or step <= 0 for step in steps)]
    found.add(UNUSABLE, bad, "image(s) with voxels of no size", "export them again; their geometry is unknown")
    usable = {file: steps for file, steps in spacings.items() if file not in set(bad)}
    odd: dict[str, str] = {}
    spread = 1.0
    for axis in range(3):
        column = {file: steps[axis] for file, steps in usable.items() if len(steps) > axis}
        middle, out = outliers(column)
        odd |= {file: f"{column[file]:g} mm where most have {middle:g} mm" for file in out}
        rest = [step for file, step in column.items() if file not in out]
        if len(rest) >= _FEW:
            spread = max(spread, max(rest) / min(rest))
    found.add(DOUBTFUL, _told(odd), "image(s) have a spacing far from that of the others",
              "check the unit (mm, cm or m), or leave them out")  # fmt: skip
    if spread > _FACTOR:
        found.say(NOTE, f"Spacing differs {spread:.1f} times between images: they are resampled to one when trained on")


def _sizes(looks: Mapping[str, Look], found: Findings) -> None:
    shapes = {file: look.header.shape for file, look in looks.items() if look.header}
    odd: dict[str, str] = {}
    for axes in (2, 3):
        mine = {file: shape for file, shape in shapes.items() if len(shape) == axes}
        for axis in range(axes):
            middle, out = outliers({file: float(shape[axis]) for file, shape in mine.items()})
            odd |= {file: f"{' x '.join(map(str, mine[file]))}; the median of this axis is {middle:g}" for file in out}
    found.add(DOUBTFUL, _told(odd), "image(s) have a size far from that of the others",
              "look at them: another region, a localiser, or a part cut out")  # fmt: skip


def _told(odd: Mapping[str, str]) -> list[str]:
    return [f"{file} ({why})" for file, why in odd.items()]


def outliers(values: Mapping[str, float]) -> tuple[float, list[str]]:
    """Median, and names far from it on a log scale: beyond 6 deviations and 3 times. None of a mixture."""
    logs = {name: math.log(value) for name, value in values.items() if value > 0}
    if len(logs) < _FEW:
        return (median(values.values()) if values else 0.0), []
    middle = median(logs.values())
    deviation = 1.4826 * median(abs(value - middle) for value in logs.values())
    far = max(math.log(_FACTOR), 6 * deviation)
    out = [name for name, value in logs.items() if abs(value - middle) > far]
    return math.exp(middle), out if len(out) <= max(1, _RARE * len(logs)) else []


def _values(seen: "Survey", found: Findings) -> None:
    looks = [look for one in seen.images for look in _known(seen, one)]
    constant = [look.file for look in looks if look.pixels and look.pixels.constant]
    of = f"of {len(looks):,} images looked into"
    found.add(UNUSABLE, constant, f"{of} have one value only", "leave them out: they show nothing")
    solid = [look for one in seen.images if one.dimensions == 3 for look in _known(seen, one)]
    grey = [look for look in solid if look.pixels and not look.pixels.hu]
    modalities = {look.header.modality for look in solid if look.header}
    if len(solid) >= _FEW and 0 < len(grey) < len(solid) and len(modalities) == 1:
        less = grey if len(grey) * 2 <= len(solid) else [look for look in solid if look not in grey]
        kind = "grey values" if less is grey else "Hounsfield units"
        what = f"of {len(solid):,} volumes looked into hold {kind} and the others do not"
        found.add(DOUBTFUL, [look.file for look in less], what, "use one kind, or leave the fewer out")
    colours = Counter(look.header.colour for look in looks if look.header)
    if len(colours) > 1 and min(colours.values()) / len(looks) < 0.3:
        usual = colours.most_common(1)[0][0]
        rare = [look.file for look in looks if look.header and look.header.colour != usual]
        found.add(NOTE, rare, f"{of} are {'grey' if usual else 'colour'} and the others not",
                  "nothing to do: they are brought to one kind in training")  # fmt: skip


def _known(seen: "Survey", family: Family) -> list[Look]:
    """All looks into pixels of a family's files."""
    return [look for look in seen.looker.known.values() if look.pixels and family.has(look.file)]


def _personal(seen: "Survey", found: Findings) -> None:
    """Intake drops all header text: this is to know that the raw folder is confidential."""
    held: Counter[str] = Counter()
    examples: list[str] = []
    looked = 0
    for one in (*seen.images, *(mask for mask in seen.families if mask.role == "mask")):
        for look in one.looks[:6]:
            if not look.header or not look.header.dicom:
                continue
            looked += 1
            try:
                values = dicom_values(seen.root / look.file, _PERSONAL)
            except BadImage:
                continue
            named = {key for key, text in values.items() if not _blank(text, look.header.dicom.get("PatientID", ""))}
            held.update(named)
            examples += [look.file] if named else []
    if held:
        names = ", ".join(key for key, _ in held.most_common(4))
        found.add(DOUBTFUL, examples, f"of {looked:,} DICOM files looked into name a person ({names})",
                  "intake drops all header text; keep this folder as confidential as patient records")  # fmt: skip


def _blank(text: str, patient: str) -> bool:
    low = text.lower().strip()
    return low in _BLANK or low == patient.lower() or any(word in low for word in _BLANK[:5])
