"""What rules make of a dataset, counted (`shared.contracts.cases.Coverage`)."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from shared.contracts.base import SEGMENTATIONS
from shared.contracts.cases import CaseSpec, Coverage, unfit
from shared.contracts.rules import Rules
from shared.dataset.files.listing import Listing
from shared.dataset.rules.found import Account
from shared.dataset.rules.reasons import lossless
from shared.dataset.rules.structures import Masks
from shared.dataset.rules.targets import Patients
from shared.imaging.order import natural

EXAMPLES = 3
_SHOWN = 5
_MOST_REASONS = 60
_MOST_CONFLICTS = 40
_LONGEST = 300


def cover(
    rules: Rules,
    listing: Listing,
    cases: Sequence[CaseSpec],
    people: Patients,
    account: Account,
    left_out: Mapping[str, Sequence[str]],
    drawn: Masks | None,
) -> Coverage:
    images = set(listing.images)
    used = files_of(cases) & images
    values = drawn.values if drawn else _values(cases, rules)
    counts = _counts(cases, drawn, values)
    one = not any(isinstance(case.label, tuple) for case in cases)
    order = rules.label.order if rules.label and one else ()
    held = values if rules.task in SEGMENTATIONS or values else _classes(cases)
    # What an order does not name comes last, and is a problem.
    label_names = (*(name for name in dict.fromkeys(order) if name in held), *natural(held.keys() - set(order)))
    conflicts = [*account.conflicts, *_twice(cases), *_torn(cases)]
    most = list(left_out.items())[:_MOST_REASONS]
    return Coverage(
        task=rules.task,
        dimensions=rules.dimensions,
        cases=len(cases),
        files=len(images),
        used=len(used),
        patients=len({case.patient for case in cases}),
        grouping=people.grouping,
        grouping_from=people.says,
        counts=counts,
        label_names=label_names,
        ordered=bool(order),
        label_values=values,
        splits=dict(sorted(Counter(case.split for case in cases if case.split is not None).items())),
        channels=_channels(rules),
        views=_views(cases),
        added_up=sum(map(_added_up, cases)),
        stood_in=dict(account.stood_in),
        left_out={_short(reason): len(names) for reason, names in most},
        lossless=lossless({reason: len(names) for reason, names in left_out.items()}),
        left_out_examples={_short(reason): tuple(map(_short, _spread(names))) for reason, names in most},
        unnamed={table: tuple(map(_short, names)) for table, names in account.unnamed.items()},
        conflicts=tuple(map(_short, _bounded(conflicts))),
        problems=tuple(map(_short, [*account.problems, *_problems(rules, cases, people, values, label_names)])),
        examples=_examples(cases),
    )


def files_of(cases: Sequence[CaseSpec]) -> set[str]:
    """All files of cases, those of masks included."""
    images = {file for case in cases for view in case.images for part in view for file in part.files}
    return images | {file for case in cases for mask in case.masks for file in mask.files}


def _classes(cases: Sequence[CaseSpec]) -> Counter[str]:
    found: Counter[str] = Counter()
    for case in cases:
        if case.label is not None:
            found.update((case.label,) if isinstance(case.label, str) else case.label)
    return found


def _values(cases: Sequence[CaseSpec], rules: Rules) -> dict[str, int]:
    """Of cases that a script listed, which name no structures; rules may."""
    called = {value: name for mask in rules.masks for name, value in mask.values.items()}
    values = {value for case in cases for mask in case.masks for value in mask.values.values()}
    values |= {shape.value for case in cases for mask in case.masks for shape in mask.shapes}
    return {called.get(value, f"structure {value}"): value for value in sorted(values - {0})}


def _counts(cases: Sequence[CaseSpec], drawn: Masks | None, values: Mapping[str, int]) -> dict[str, int]:
    classes = _classes(cases)
    counts = {name: classes[name] for name in natural(classes)}
    if drawn is None or not drawn.told:
        return counts
    by_value = {value: name for name, value in values.items()}
    held: Counter[str] = Counter()
    for case in cases:
        occurring = {value for mask in case.masks for value in mask.values.values()}
        occurring |= {shape.value for mask in case.masks for shape in mask.shapes}
        held.update(by_value[value] for value in occurring if value in by_value)
    return counts | {name: held[name] for name in natural(values)}


def _channels(rules: Rules) -> tuple[str, ...]:
    if rules.axis4 == "channels" and rules.channel_names:
        return rules.channel_names
    if len(rules.images) > 1:
        return tuple(entry.channel or f"channel {number}" for number, entry in enumerate(rules.images, 1))
    return tuple(entry.channel for entry in rules.images if entry.channel)


def _views(cases: Sequence[CaseSpec]) -> dict[str, int]:
    counts = Counter(len(case.images) for case in cases)
    return {str(many): counts[many] for many in sorted(counts)} if counts.keys() - {1} else {}


def _added_up(case: CaseSpec) -> bool:
    marked = [{value for value in mask.values.values() if value} for mask in case.masks if not mask.shapes]
    return sum(map(len, marked)) > len(set().union(*marked))


def _twice(cases: Sequence[CaseSpec]) -> list[str]:
    """Files that are an image of two cases: then two ids name one image."""
    holders: dict[tuple[str, str | None, int | None], list[str]] = defaultdict(list)
    for case in cases:
        for place in {(file, part.array, part.index) for view in case.images for part in view for file in part.files}:
            holders[place].append(case.key)
    return [
        f"{file} is in several cases: {', '.join(keys[:3])}" for (file, *_), keys in holders.items() if len(keys) > 1
    ]


def _torn(cases: Sequence[CaseSpec]) -> list[str]:
    sides: dict[str, set[str]] = defaultdict(set)
    for case in cases:
        if case.split is not None:
            sides[case.patient].add(case.split)
    torn = {patient: some for patient, some in sides.items() if len(some) > 1}
    if not torn:
        return []
    shown = ", ".join(f"{patient} ({' and '.join(sorted(some))})" for patient, some in list(torn.items())[:3])
    return [f"the dataset's split puts {len(torn)} patients on several sides: {shown}"]


def _problems(
    rules: Rules, cases: Sequence[CaseSpec], people: Patients, values: Mapping[str, int], names: Sequence[str]
) -> list[str]:
    if not cases:
        return ["no case: nothing fits all rules; see what was left out and why"]
    found = []
    if len({case.patient for case in cases}) == 1:
        found.append(f"all cases are of one patient ({people.says}), so nothing can be held out")
    if why := unfit(names):
        found.append(why)
    if rules.task == "diagnosis":
        classes = _classes(cases)
        several = any(isinstance(case.label, tuple) for case in cases)
        if not classes:
            found.append("no case has a class")
        elif rules.label and rules.label.order and (unplaced := natural(classes.keys() - set(rules.label.order))):
            found.append(f"`order` of `label` does not say where these classes stand: {', '.join(unplaced)}")
        elif len(classes) == 1 and not several:
            found.append(f"all cases have the one class {next(iter(classes))!r}; a classifier needs two")
        elif several and all(classes[name] == len(cases) for name in classes):
            found.append("all cases have the same classes; a classifier needs cases without them")
    if rules.task in SEGMENTATIONS:
        if not values:
            found.append("the masks name no structure")
        elif not any(case.masks for case in cases):
            found.append("no case has a mask with anything in it")
    if rules.task == "report_generation" and len({case.text for case in cases}) == 1 and len(cases) > 1:
        found.append("all cases have the same report")
    return found


def _examples(cases: Sequence[CaseSpec]) -> tuple[dict[str, JsonValue], ...]:
    """A case of each kind, the commonest first: kinds differ in views, channels, masks and depth of folders."""
    kinds: dict[tuple[int, ...], list[CaseSpec]] = {}
    for case in cases:
        first = case.images[0]
        kind = (len(case.images), len(first), len(case.masks), first[0].files[0].count("/"))
        kinds.setdefault(kind, []).append(case)
    most = sorted(kinds.values(), key=len, reverse=True)[:EXAMPLES]
    if len(kinds) == 1:
        return tuple(map(_example, most[0][:EXAMPLES]))
    return tuple(_example(some[0]) | {"cases like it": len(some)} for some in most)


def _example(case: CaseSpec) -> dict[str, JsonValue]:
    parts = [part for view in case.images for part in view]
    files = [file for part in parts for file in part.files]
    example: dict[str, JsonValue] = {"key": case.key, "patient": case.patient, "file": files[0]}
    if len(files) > 1:
        example["files"] = len(files)
    if case.label is not None:
        example["label"] = case.label if isinstance(case.label, str) else list(case.label)
    if case.text is not None:
        example["text"] = case.text[:120]
    if case.masks:
        masks = [mask.files[0] if mask.files else f"{len(mask.shapes)} marked regions" for mask in case.masks]
        example["masks"] = list(masks[:3])
    if case.split is not None:
        example["split"] = case.split
    return example


def _bounded(conflicts: Sequence[str]) -> list[str]:
    some = list(dict.fromkeys(conflicts))
    more = len(some) - _MOST_CONFLICTS
    return some[:_MOST_CONFLICTS] + ([f"and {more} more contradictions"] if more > 0 else [])


def _spread(names: Sequence[str]) -> Sequence[str]:
    """A few from all over: the first ones often lie in one folder."""
    return names[:: max(1, -(-len(names) // _SHOWN))]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
