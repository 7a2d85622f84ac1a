"""The profile of a dataset: a bounded summary of its survey, with what is wrong with the data.

python -m shared.dataset.profile.profile ROOT        prints the profile as one line of JSON
"""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from shared.contracts.profile import CODES, TELLING, Candidate, Column, FileGroup, Profile, TableFacts
from shared.dataset.files.held import SUFFIXES, in_brief
from shared.dataset.files.listing import Changing, list_files
from shared.dataset.profile.checks import findings
from shared.dataset.survey.column_looks import ColumnLook
from shared.dataset.survey.evidence import LIKELY, Evidence
from shared.dataset.survey.family import Family
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.survey import BUDGET, Survey, survey
from shared.dataset.survey.table_looks import TableLook
from shared.dataset.tables.cells import TableError
from shared.dataset.tables.mails import MAIL, read_mail
from shared.dataset.tables.separated import read_text
from shared.imaging.formats import BY_SUFFIX
from shared.imaging.nrrd_names import segments
from shared.imaging.order import natural_key

MOST_GROUPS = 40
MOST_TABLES = 20
MOST_COLUMNS = 40
MOST_CANDIDATES = 8
MOST_BYTES = 60_000
MOST_DOCUMENTS, DOCUMENT = 3, 1500
"""Texts for people, and characters of each."""
NAMED = 40
"""Masks whose names of segments are read."""
_LICENCE = re.compile(r"licen[cs]e", re.IGNORECASE)
READINGS = 3
"""How often files are looked at that change meanwhile."""
_LONGEST = 300


def profile(root: Path | str, budget: float = BUDGET) -> Profile:
    """Of `root` at one moment, with `budget` seconds at most for looks into files.

    Raises NotADirectoryError if it is no folder, Changing where its files change each time they are looked at.
    """
    for _ in range(READINGS):
        listing = list_files(root)
        try:
            seen = survey(root, budget, listing)
            found = profile_of(seen)
        except FileNotFoundError as error:
            changed = str(error.filename)
            continue
        changed = listing.changed([*seen.looker.known, *(table.file for table in seen.tables)]) or ""
        if not changed:
            return found
    raise Changing(
        f"the files change while they are looked at ({_cut(changed)} was the last); wait until copying has ended, and "
        "try again"
    )


def profile_of(seen: Survey) -> Profile:
    """The summary of a survey: 60 kB at most as JSON."""
    listing = seen.listing
    warnings, skipped = findings(seen)
    found = Profile(
        digest=listing.digest,
        files=len(listing.files),
        size=sum(listing.sizes),
        images=sum(len(one) for one in seen.families if one.role != "other"),
        dimensions=_dimensions(seen.images),
        modalities=_modalities(seen.images),
        documents=_documents(seen),
        groups=tuple(_group(one) for one in _shown(seen.families)),
        tables=tuple(_table(one) for one in seen.tables if one.columns and not _prose(one))[:MOST_TABLES],
        patients=_candidates(seen.patients),
        labels=_candidates(seen.labels),
        splits=_candidates(seen.splits),
        texts=_candidates(seen.texts),
        masks=tuple(_cut(one.where, 400) for one in seen.masks[:MOST_CANDIDATES]),
        tasks=_tasks(seen),
        not_read=_not_read(seen),
        warnings=tuple(_cut(text, 700) for text in warnings),
        skipped=tuple(map(_cut, [*seen.skipped, *skipped, *_left(seen)]))[:30],
        headers=_headers(seen),
        measured=_measured(seen),
    )
    return _bounded(found)


def _shown(families: Sequence[Family]) -> list[Family]:
    """Images and masks before the rest."""
    return sorted(families, key=lambda one: (one.role == "other", -len(one)))[:MOST_GROUPS]


def _dimensions(images: Sequence[Family]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in images:
        if one.dimensions:
            counts[str(one.dimensions)] += one.count
    return dict(sorted(counts.items()))


def _modalities(images: Sequence[Family]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for one in images:
        said = [look.header.modality for look in one.looks if look.header and look.header.modality]
        counts.update(said)
        if not said and one.hu:
            counts["CT?"] += sum(bool(look.pixels) for look in one.looks)
    return dict(counts.most_common(8))


def _group(one: Family) -> FileGroup:
    pixels = [look.pixels for look in one.looks if look.pixels]
    headers = [look.header for look in one.looks if look.header]
    spacings = [header.spacing for header in headers if header.spacing]
    axes = max(map(len, spacings), default=0)
    columns = list(zip(*[spacing for spacing in spacings if len(spacing) == axes], strict=True))
    values = sorted({value for held in pixels for value in held.values} - {0}) if one.role == "mask" else []
    modalities = Counter(header.modality for header in headers if header.modality)
    return FileGroup(
        pattern=_cut(one.pattern),
        files=len(one),
        suffix=one.suffix,
        kind=one.kind,
        example=_cut(one.listing.files[one.at[0]]),
        dimensions=one.dimensions if one.role != "other" or one.preview else None,
        shape=one.shape,
        spacing=tuple(round(sorted(column)[len(column) // 2], 4) for column in columns),
        channels=max(Counter(header.channels for header in headers).items(), key=lambda item: item[1])[0]
        if headers
        else 1,
        dtype=Counter(header.dtype for header in headers).most_common(1)[0][0] if headers else "",
        low=min((round(held.low, 3) for held in pixels), default=None),
        high=max((round(held.high, 3) for held in pixels), default=None),
        hu=one.hu,
        modality=modalities.most_common(1)[0][0] if modalities else None,
        values=tuple(values[:120]) if all(value < 1 << 16 for value in values) else (),
        arrays={_cut(name, 80): _cut(said, 120) for name, said in _arrays(one).items()},
        names=_names(one) if one.role == "mask" else {},
        unreadable=sum(bool(look.fault) for look in one.looks),
        looked_at=len(one.looks),
        opened=one.opened,
        empty=one.empty,
    )


def _prose(one: TableLook) -> bool:
    """A read-me: a text that is one record and no case's."""
    text = one.file.lower().endswith((".txt", ".md"))
    return text and one.total < 2 and one.key is None and one.pattern is None and not one.many


def _documents(seen: Survey) -> dict[str, str]:
    """Those nearest to the root first; licences say nothing of the data."""
    tables = {one.file for one in seen.tables if not _prose(one)}
    single = [file for one in seen.families if len(one) <= MOST_DOCUMENTS for file in one.files]
    lone = [file for file in single if file.lower().endswith((".txt", ".md", MAIL))]
    told = [file for file in lone if file not in tables and not _LICENCE.search(file)]
    found: dict[str, str] = {}
    for file in sorted(told, key=lambda file: (file.count("/"), natural_key(file)))[:MOST_DOCUMENTS]:
        try:
            text = read_mail(seen.root / file) if file.lower().endswith(MAIL) else read_text(seen.root / file).strip()
        except TableError:
            continue
        plain = "".join(sign for sign in text if sign.isprintable() or sign == "\n")
        found[_cut(file)] = plain if len(plain) <= DOCUMENT else plain[:DOCUMENT].rstrip() + " ..."
    return found


def _headers(seen: Survey) -> dict[str, dict[str, int]]:
    looks = [look.header.dicom for look in seen.looker.known.values() if look.header and look.header.dicom]
    found: dict[str, dict[str, int]] = {}
    for keyword in TELLING:
        values = Counter(_cut(told[keyword], 60) for told in looks if told.get(keyword))
        if len(values) > 1 or 0 < values.total() < len(looks):
            found[keyword] = dict(values.most_common(CODES))
    return found


def _names(one: Family) -> dict[str, int]:
    """Of segments, in some of its files."""
    if not one.suffix.endswith(".nrrd"):
        return {}
    some = (segments(one.listing.root / file) for file in evenly(one.files, NAMED))
    return dict(Counter(_cut(name, 60) for names in some for name in names.values()).most_common(CODES))


def _arrays(one: Family) -> dict[str, str]:
    """What one of its files holds."""
    return in_brief(one.listing.root / one.listing.files[one.at[0]]) if one.suffix in SUFFIXES else {}


def _table(one: TableLook) -> TableFacts:
    columns = one.written or one.columns
    if len(columns) > MOST_COLUMNS:
        first = [one for one in columns if one.names_files or one.names_people or one.words > 3]
        rest = [one for one in columns if one not in first and (len(one.values) > 1 or 0 < one.filled < 1)]
        kept = [*first, *rest][:MOST_COLUMNS]
        columns = [one for one in columns if one in kept]
    return TableFacts(file=_cut(one.pattern or one.many or one.file), sheet=one.sheet, rows=one.total,
                      columns=tuple(map(_column, columns)))  # fmt: skip


def _column(one: ColumnLook) -> Column:
    few = one.values if len(one.values) <= 20 else {}
    return Column(
        name=_cut(one.name, 80), kind=one.kind, filled=round(one.filled, 4), distinct=one.distinct,
        values={_cut(value, 60): count for value, count in few.items()}, names_files=round(one.names_files, 4),
        names_people=one.names_people,
        codes={_cut(code, 60): _cut(name, 60) for code, name in one.codes.items()} if len(one.codes) <= 20 else {},
    )  # fmt: skip


def _candidates(found: Sequence[Evidence]) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(
            source=one.source, where=_cut(one.where), distinct=one.distinct, share=round(one.share, 4),
            values={_cut(value, 60): count for value, count in list(one.values.items())[:20]}
            if len(one.values) <= 60 else {},
            columns=one.columns, separator=one.separator,
        )
        for one in found[:MOST_CANDIDATES]
    )  # fmt: skip


def _tasks(seen: Survey) -> dict[str, float]:
    """Share of images with a target, for each task; tasks for which there is none are missing."""
    label = max((one.share for one in seen.labels if one.score >= LIKELY * one.share), default=0.0)
    text = max((one.share for one in seen.texts), default=0.0)
    mask = _masked(seen)
    found = {"diagnosis": label, "organ_segmentation": mask, "anomaly_detection": mask, "report_generation": text}
    return {task: round(min(1.0, share), 4) for task, share in found.items() if share > 0}


def _masked(seen: Survey) -> float:
    """Images with a mask of any kind: families of images that share masks are counted once."""
    total = seen.units.total
    if not total:
        return 0.0
    by_images: dict[int, float] = defaultdict(float)
    others = 0.0
    for one in seen.masks:
        if one.family is not None and one.images and one.shares:
            for number, share in one.shares.items():
                by_images[number] = min(1.0, by_images[number] + share)
        else:
            others = max(others, one.share)
    counted = sum(share * len(seen.units.families[number].units) for number, share in by_images.items())
    return max(others, counted / total)


def _not_read(seen: Survey) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in seen.families:
        known = BY_SUFFIX.get(one.suffix)
        if known and known.convert:
            found[f"{known.name} ({one.suffix}, {len(one):,} files)"] = known.convert
        elif (
            one.role == "other" and not one.suffix and (ending := _ARCHIVE.search(one.listing.files[one.at[0]].lower()))
        ):
            found[f"archive ({ending[0]}, {len(one):,} files)"] = "unpacked files"
    return dict(list(found.items())[:12])


_ARCHIVE = re.compile(r"\.(?:zip|tar|tgz|7z|rar|gz|bz2|xz)$")


def _left(seen: Survey) -> list[str]:
    more = len(seen.families) - MOST_GROUPS
    return [f"{more} more groups of files are not listed"] if more > 0 else []


def _measured(seen: Survey) -> dict[str, JsonValue]:
    looked = seen.looker.known.values()
    return {
        "units": seen.units.total,
        "folders": len(seen.listing.folders),
        "headers": sum(bool(look.header) for look in looked),
        "decoded": sum(bool(look.pixels) for look in looked),
        "joined": len(seen.units.files),
        "seconds_looking": round(seen.looker.spent, 2),
    }


def _cut(text: str, most: int = _LONGEST) -> str:
    """Names and cells of a stranger's dataset end in a terminal: no control characters, no endless text."""
    text = "".join(sign if sign.isprintable() else "?" for sign in text[: most + 1])
    return text if len(text) <= most else text[: most - 3] + "..."


def _bounded(found: Profile) -> Profile:
    """What takes most room goes first: values of columns, then columns, then groups."""
    if len(found.model_dump_json()) <= MOST_BYTES:
        return found
    cuts = (
        {"tables": tuple(_fewer(one, 40, 6) for one in found.tables)},
        {"tables": tuple(_fewer(one, 20, 0) for one in found.tables[:12])},
        {"tables": tuple(_fewer(one, 12, 0) for one in found.tables[:8]), "groups": found.groups[:20]},
        {"tables": (), "groups": found.groups[:8], "warnings": found.warnings[:12], "skipped": found.skipped[:8]},
    )
    for cut in cuts:
        found = found.model_copy(update=cut)
        if len(found.model_dump_json()) <= MOST_BYTES:
            break
    return found.model_copy(
        update={"skipped": (*found.skipped, "columns and values of large tables are not all listed")}
    )


def _fewer(table: TableFacts, columns: int, values: int) -> TableFacts:
    kept = [one.model_copy(update={name: {} for name in ("values", "codes") if len(getattr(one, name)) > values})
            for one in table.columns[:columns]]  # fmt: skip
    return table.model_copy(update={"columns": tuple(kept)})


if __name__ == "__main__":
    print(profile(Path(sys.argv[1])).model_dump_json())
