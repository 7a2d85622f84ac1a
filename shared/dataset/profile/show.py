"""A profile as text for a terminal of 100 columns, in words that a person who runs a hospital's computers knows."""

from collections.abc import Iterator, Sequence

from shared.contracts.profile import Candidate, FileGroup, Profile, TableFacts

WIDTH = 100
_LABEL = 12
_GROUPS = 12
_ARRAYS = 6
_TABLES = 6
_WARNINGS = 20
_KINDS = {
    "volume": "volume(s)", "picture": "picture(s)", "slices": "slice(s) of volumes", "mask": "mask(s)",
    "table": "table(s)", "text": "text(s)", "annotation": "annotation(s)", "other": "other file(s)",
}  # fmt: skip
_TASKS = {
    "diagnosis": "diagnosis (a class for each image)",
    "organ_segmentation": "segmentation of organs (a mask for each image)",
    "anomaly_detection": "segmentation of lesions (a mask for each image)",
    "report_generation": "reports (a text for each image)",
}
_SOURCES = (
    ("patients", "patients", "Nothing tells patients apart: each image counts as one."),
    ("classes", "labels", "Nothing tells classes apart."),
    ("splits", "splits", ""),
    ("texts", "texts", ""),
)


def show(profile: Profile) -> str:
    """What there is, what may tell cases apart, what can be learned, and what is wrong, worst first."""
    lines = [*_heading(profile), *_groups(profile.groups), *_tables(profile.tables), *_candidates(profile)]
    lines += [*_tasks(profile), *_warnings(profile)]
    return "\n".join(lines)


def _heading(profile: Profile) -> Iterator[str]:
    yield f"{_count(profile.files, 'file')}, {_bytes(profile.size)}; {profile.images:,} are images or masks"
    kinds = {"2": "pictures (2D)", "3": "volumes (3D)"}
    found = [f"{count:,} {kinds.get(key, key)}" for key, count in profile.dimensions.items()]
    if found:
        yield from _entry("images", " and ".join(found))
    if profile.modalities:
        said = ", ".join("CT by its values" if name == "CT?" else name for name in profile.modalities)
        yield from _entry("modality", said)


def _groups(groups: Sequence[FileGroup]) -> Iterator[str]:
    if groups:
        yield from _title("Files")
    for one in groups[:_GROUPS]:
        yield from _wrapped(
            f"{one.files:,} {_KINDS[one.kind].replace('(s)', '' if one.files == 1 else 's')}: {one.pattern}",
            "  ",
            "      ",
        )
        if facts := "; ".join(_facts(one)):
            yield from _wrapped(facts, "      ", "      ")
        if one.arrays:
            some = [f"{name} ({said})" for name, said in list(one.arrays.items())[:_ARRAYS]]
            more = _more(len(one.arrays) - _ARRAYS, "array")
            yield from _wrapped(f"holds {', '.join(some)}{more}", "      ", "      ")
    if len(groups) > _GROUPS:
        yield f"  and {len(groups) - _GROUPS} more groups of files"


def _facts(one: FileGroup) -> Iterator[str]:
    if one.shape:
        unit = "pixels" if one.dimensions == 2 else "voxels"
        yield f"{' x '.join(map(str, one.shape))} {unit}"
    if one.spacing:
        yield f"{' x '.join(f'{step:g}' for step in one.spacing)} mm"
    if one.channels > 1:
        yield f"{one.channels} channels"
    if one.kind == "mask" and one.values:
        yield f"values {_values(one.values)}"
    elif one.low is not None and one.high is not None and one.kind in ("volume", "picture", "slices"):
        unit = " HU" if one.hu else ""
        yield f"values {one.low:g} to {one.high:g}{unit}"
    if one.modality:
        yield one.modality
    if one.unreadable:
        yield f"{one.unreadable} of {one.looked_at} looked at cannot be read"


def _values(values: Sequence[int]) -> str:
    if len(values) > 3 and list(values) == list(range(values[0], values[-1] + 1)):
        return f"{values[0]} to {values[-1]}"
    return ", ".join(map(str, values[:12])) + (f" and {len(values) - 12} more" if len(values) > 12 else "")


def _tables(tables: Sequence[TableFacts]) -> Iterator[str]:
    if tables:
        yield from _title("Tables")
    for one in tables[:_TABLES]:
        sheet = f", sheet {one.sheet}" if one.sheet else ""
        yield from _wrapped(f"{one.file}{sheet}: {_count(one.rows, 'row')}", "  ", "      ")
        yield from _wrapped(
            ", ".join(column.told for column in one.columns[:15]) + _more(len(one.columns) - 15, "column"),
            "      ",
            "      ",
        )
    if len(tables) > _TABLES:
        yield f"  and {len(tables) - _TABLES} more tables"


def _candidates(profile: Profile) -> Iterator[str]:
    yield from _title("What tells cases apart")
    for label, field, nothing in _SOURCES:
        found: tuple[Candidate, ...] = getattr(profile, field)
        if not found and nothing:
            yield from _entry(label, nothing)
        for place, one in enumerate(found[:4]):
            yield from _entry("" if place else label, _candidate(one))
        if len(found) > 4:
            yield from _entry("", f"and {len(found) - 4} more")
    for place, where in enumerate(profile.masks[:6]):
        yield from _entry("" if place else "masks", where)


def _candidate(one: Candidate) -> str:
    share = "" if one.share > 0.995 else f", {_percent(one.share)} of the images"
    shown = [f"{value} {count:,}" for value, count in list(one.values.items())[:6]]
    more = one.distinct - len(shown)
    values = (
        f": {', '.join(shown)}" + (f" and {more:,} more" if more > 0 else "")
        if max(one.values.values(), default=0) > 1
        else ""
    )
    # Headers are read of some files.
    seen = " in those looked at" if one.source.header else ""
    return f"{one.where} ({_count(one.distinct, 'value')}{seen}{share}){values}"


def _tasks(profile: Profile) -> Iterator[str]:
    yield from _title("What the files themselves allow")
    if not profile.tasks:
        yield "  Nothing: no classes, masks or texts were found that belong to images."
    for task, share in profile.tasks.items():
        yield f"  {_percent(share):>5} of the images: {_TASKS.get(task, task)}"
    for what, convert in profile.not_read.items():
        yield from _wrapped(f"not read yet: {what}; convert to {convert}", "  ", "      ")


def _warnings(profile: Profile) -> Iterator[str]:
    if profile.warnings:
        yield from _title("What to look at, worst first")
    for text in profile.warnings[:_WARNINGS]:
        yield from _wrapped(text, "  - ", "    ")
    if len(profile.warnings) > _WARNINGS:
        yield f"  and {len(profile.warnings) - _WARNINGS} more"
    if profile.skipped:
        yield from _title("What was not looked at")
    for text in profile.skipped[:12]:
        yield from _wrapped(text, "  - ", "    ")


def _title(text: str) -> Iterator[str]:
    yield ""
    yield text


def _entry(label: str, text: str) -> Iterator[str]:
    yield from _wrapped(text, f"  {label:<{_LABEL - 2}}", " " * _LABEL)


def _wrapped(text: str, first: str, rest: str) -> Iterator[str]:
    """Lines of 100 columns; a path that is longer breaks behind a slash."""
    line, start = first, len(first)
    for word in text.split():
        while word:
            room = WIDTH - len(line) - (len(line) > start)
            if len(word) <= room:
                line += (" " if len(line) > start else "") + word
                break
            at = word.rfind("/", 0, room) + 1
            if len(word) > WIDTH - len(rest) and (at > 0 or len(line) == start):
                at = at or room
                line, word = line + (" " if len(line) > start else "") + word[:at], word[at:]
            yield line
            line, start = rest, len(rest)
    yield line


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _more(number: int, what: str) -> str:
    return f" and {_count(number, 'more ' + what)}" if number > 0 else ""


def _percent(share: float) -> str:
    if 0 < share < 0.01 or 0.99 < share < 1:
        return f"{share:.1%}"
    return f"{share:.0%}"


def _bytes(size: int) -> str:
    for unit, step in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size / 1e3:.0f} kB"
