"""Files that are damaged, empty, copies, or of formats that are not read."""

import hashlib
import os
from array import array
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from shared.dataset.files.packed import Picked
from shared.dataset.profile.damaged import MOST_ENDS, is_cut
from shared.dataset.profile.findings import DOUBTFUL, NOTE, UNUSABLE, Findings
from shared.dataset.survey.naming import evenly
from shared.imaging.formats import BY_SUFFIX, sniffed

if TYPE_CHECKING:
    from shared.dataset.survey.survey import Survey

MOST_COPIES = 5000
_MOST_BYTES = 1 << 30
_ARCHIVES = (".zip", ".tar", ".tgz", ".7z", ".rar", ".bz2", ".xz", ".gz")
_AGAIN = "copy them again from their source"
_ALIKE = ({".tif", ".dcm"}, {".jpg", ".jpeg", ".jpe", ".jfif"}, {".tif", ".tiff"}, {".h5", ".hdf5", ".mat"})


def check_files(seen: "Survey", found: Findings) -> None:
    """Everything that names, sizes and bytes say without decoding."""
    families = [one for one in seen.families if one.role != "other" or one.preview]
    if not families:
        found.say(UNUSABLE, "No file is an image that is read: name the folder that holds them, or unpack its archives")
    _formats(seen, found)
    filled, empty = array("i"), array("i")
    for one in families:
        for at, size in zip(one.at, seen.listing.sizes.pick(one.at), strict=True):
            (filled if size else empty).append(at)
    without = Picked(seen.listing.files, empty)
    found.add(UNUSABLE, without, "file(s) of 0 bytes", _AGAIN)
    found.damaged |= set(without)
    with seen.looker.timed():
        _ends(seen, filled, found)
        _copies(seen, found)


def _formats(seen: "Survey", found: Findings) -> None:
    for one in seen.families:
        first = one.listing.files[one.at[0]]
        known = BY_SUFFIX.get(one.suffix)
        if known and known.convert:
            what = f"file(s) of a format that is not supported yet ({known.name}, {one.suffix})"
            found.add(DOUBTFUL, [first], what, f"convert to {known.convert}", len(one))
        elif not known and first.lower().endswith(_ARCHIVES):
            found.add(NOTE, [first], "archive(s) that are not opened", "unpack them if they hold cases", len(one))
        elif one.preview:
            found.add(NOTE, [first], "image(s) that repeat others", "they are left out; nothing to do", len(one))


def check_faults(seen: "Survey", found: Findings) -> None:
    """Files whose header or pixels could not be read: by what is wrong with them."""
    looked = len(seen.looker.known)
    kinds: dict[str, list[str]] = defaultdict(list)
    reasons: dict[str, str] = {}
    for look in seen.looker.known.values():
        if look.fault and look.file not in found.damaged:
            kind = "hold NaN or infinite values" if "NaN" in look.fault else "cannot be read"
            kinds[kind].append(look.file)
            reasons.setdefault(kind, look.fault)
    for kind, files in kinds.items():
        do = "intake leaves them out" if "NaN" in kind else "export them again from their source, or leave them out"
        what = f"of {looked:,} files looked into {kind}"
        found.add(UNUSABLE, [f"{files[0]} ({reasons[kind]})"], what, do, len(files))


def _ends(seen: "Survey", places: Sequence[int], found: Findings) -> None:
    """Files that are cut off, and files whose content is another format than their name says."""
    cut, other, closed = [], [], []
    looked = evenly(places, MOST_ENDS)
    for at in looked:
        file = seen.listing.files[at]
        if seen.looker.left <= 0:
            break
        try:
            if is_cut(seen.root / file, file.lower(), seen.listing.sizes[at]):
                cut.append(file)
            elif (content := _other_content(seen.root / file)) is not None:
                other.append(f"{file} (holds {content})")
        except OSError:
            closed.append(file)
    if len(looked) < len(places):
        found.skipped.append(f"both ends of {len(looked):,} of {len(places):,} image files were looked at")
    of = f"of {len(looked):,} image files looked at " if len(looked) < len(places) else "image file(s) "
    found.damaged |= {*cut, *closed}
    found.add(UNUSABLE, closed, "file(s) that may not be opened", "give everybody the right to read them")
    found.add(UNUSABLE, cut, f"{of}are cut off", _AGAIN)
    found.add(
        DOUBTFUL, other, f"{of}have content of another format than their name says", "give them their right ending"
    )


def _other_content(path: Path) -> str | None:
    suffix, content = path.suffix.lower(), sniffed(path)
    if not content or content == suffix or path.name.lower().endswith(".gz"):
        return None
    if any({content, suffix} <= group for group in _ALIKE):
        return None
    known = BY_SUFFIX.get(suffix)
    return content if known and known.kind in ("picture", "dicom") and content != ".nii" else None


def _copies(seen: "Survey", found: Findings) -> None:
    """Exact copies among images: of files of one size, by their middle and end, then by all of their bytes."""
    places = [one.units for one in seen.images]
    sizes = array("q", chain.from_iterable(map(seen.listing.sizes.pick, places)))
    np.frombuffer(sizes, np.int64).sort()
    candidates = 0
    chosen: dict[int, list[int]] = {}
    for size, run in groupby(sizes):
        count = sum(1 for _ in run)
        if size and count > 1:
            if candidates < MOST_COPIES:
                chosen[size] = []
            candidates += count
    for one in places:
        for at, size in zip(one, seen.listing.sizes.pick(one), strict=True):
            if size in chosen and len(chosen[size]) < MOST_COPIES:
                chosen[size].append(at)
    looked = list(islice(chain.from_iterable(chosen.values()), MOST_COPIES))
    groups: dict[tuple[int, bytes], list[int]] = defaultdict(list)
    for at in looked:
        if seen.looker.left <= 0:
            break
        groups[seen.listing.sizes[at], _digest(seen.root / seen.listing.files[at], whole=False)].append(at)
    copies: list[list[int]] = []
    read = 0
    for (size, _), members in groups.items():
        whole: dict[bytes, list[int]] = defaultdict(list)
        for at in members if len(members) > 1 else ():
            read += size
            if read <= _MOST_BYTES:
                whole[_digest(seen.root / seen.listing.files[at], whole=True)].append(at)
        copies += [one for one in whole.values() if len(one) > 1]
    if len(looked) < candidates:
        found.skipped.append(f"{len(looked):,} of {candidates:,} images of equal size were compared for copies")
    names = [[seen.listing.files[at] for at in members] for members in copies]
    found.add(DOUBTFUL, [" and ".join(one[:2]) for one in names for _ in one[1:]], "image(s) have an exact copy",
              "one of each is used; intake compares what they show, too")  # fmt: skip
    disagree = [" and ".join(one[:2]) for one in names if len(_classes(seen, one)) > 1]
    found.add(UNUSABLE, disagree, "image(s) stand under different classes as exact copies",
              "leave all copies out until somebody says which class is right")  # fmt: skip


def _classes(seen: "Survey", files: Sequence[str]) -> set[str]:
    label = next(iter(seen.labels), None)
    number_of = {file: next((one.number for one in seen.images if one.has(file)), None) for file in files}
    said = {label.of(number, file) for file, number in number_of.items() if number is not None} if label else set()
    return {value for value in said if value}


def _digest(path: Path, whole: bool) -> bytes:
    total = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            if whole:
                while block := stream.read(1 << 20):
                    total.update(block)
            else:
                size = stream.seek(0, os.SEEK_END)
                for start in (size // 2, max(0, size - 4096)):
                    stream.seek(start)
                    total.update(stream.read(4096))
    except OSError:
        return str(path).encode()
    return total.digest()
