"""Masks of cases as mask rules find them: which files and which marked regions, under the names of structures."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from shared.contracts.rules import MaskRule, Rules
from shared.contracts.values import Source
from shared.dataset.files import patterns
from shared.dataset.files.inside import filled
from shared.dataset.files.listing import Listing
from shared.dataset.rules.found import Account, Found, RulesError
from shared.dataset.rules.gather import compiled, fields_of, joined, zeros_apart
from shared.dataset.rules.reasons import Expected
from shared.dataset.rules.sources import Sources
from shared.dataset.shapes.annotations import Mark
from shared.dataset.tables.cells import comparable, nearest, present
from shared.dataset.tables.forms import same, structure
from shared.dataset.tables.keys import Named, match
from shared.imaging.formats import BY_SUFFIX, suffix_of
from shared.imaging.nrrd_names import segments
from shared.imaging.order import natural_key

NO_MASK = Expected(
    "image without a mask: add its mask, or set `missing: empty` where no mask means that nothing is there", "unmasked"
)
LACKS_MASK = "image without a mask of which `marked` says that something is there: add its mask, or correct the table"
SOME_SLICES = "case with masks of some of its slices only: add the others, empty ones where nothing is marked"
NO_IMAGE = Expected("mask without its image: add the image, or nothing to do", "no_image")
OF_FILES = frozenset({"file", "palette", "array", "dicom_seg", "rtstruct"})
"""Kinds whose `files` are images themselves, so that they are no images of a case."""
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass
class Draft:
    """One mask of a case; structures still have names only."""

    rule: MaskRule
    files: tuple[str, ...] = ()
    names: dict[str, str] = field(default_factory=dict)
    """Value in the file, as text -> structure. `nonzero`: all that is not 0; `*`: whatever occurs."""
    marks: list[Mark] = field(default_factory=list)
    """With the names of structures, where regions are marked by numbers."""
    size: tuple[int, int] | None = None
    array: str | None = None
    index: int | None = None
    by_name: bool = False
    """Whether `names` are those that the file itself gives."""


Drafts = list[Draft] | None
"""Masks of a case by one rule, none where nothing is marked; None where the case is left out and accounted for."""


@dataclass(frozen=True)
class Hit:
    file: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class Data:
    """What rules are carried out on."""

    root: Path
    listing: Listing
    images: Sequence[str]
    """Image files that rules do not exclude, those of masks included."""
    found: Sequence[Found]
    sources: Sources
    account: Account
    lone: list[str] = field(default_factory=list)
    """Masks that one of the rules found no case for."""

    @cached_property
    def places(self) -> dict[str, int]:
        """Key of a case -> its place in `found`."""
        return {case.key: place for place, case in enumerate(self.found)}


def mask_files(rules: Rules, images: Sequence[str]) -> set[str]:
    """Image files that rules for masks take, and files of arrays that hold values. Raises RulesError."""
    taken = [pattern for rule in rules.masks if rule.kind in OF_FILES for pattern in compiled(rule.files, "masks")]
    sources = [one.file for one in rules.sources() if one.file is not None]
    taken += compiled(sources, "files of arrays")
    return {file for file in images if patterns.first_match(taken, file) is not None} if taken else set()


def file_drafts(rule: MaskRule, data: Data) -> list[Drafts]:
    """Of kinds file, palette and array: label images, or one file a structure."""
    if not rule.files:
        if rule.kind != "array" or rule.array is None:
            raise RulesError(f"a mask of kind {rule.kind} needs `files`" + (" or `array`" * (rule.kind == "array")))
        return [[_drafted(rule, case, case.images[0][0].files, {})] for case in data.found]
    made: list[Drafts] = []
    found = by_table(rule, data) if rule.table or rule.column else by_fields(rule, data)
    for case, keyed in zip(data.found, found, strict=True):
        slices: dict[str, list[list[Hit]]] = {}
        for place, hits in enumerate(keyed):
            for hit in hits:
                slices.setdefault(_structure(rule, hit) or "", [[] for _ in keyed])[place].append(hit)
        if not all(all(some) for some in slices.values()):
            data.account.lack(SOME_SLICES, case.key)
            made.append(None)
        elif slices:
            made.append([draft for some in slices.values() for draft in _of_structure(rule, case, some, data.root)])
        else:
            made.append(without(rule, case.key, data))
    return made


def without(rule: MaskRule, key: str, data: Data) -> Drafts:
    """What a case without a mask is."""
    told = data.sources.of(rule.marked)[data.places[key]] if rule.marked else ()
    no = set(map(comparable, rule.unmarked))
    said = {"0" if comparable(text) in no else "1" for text in told} if no else set(map(present, told))
    if said == {"1"}:
        data.account.lack(LACKS_MASK, key)
        return None
    if rule.missing == "empty" or said == {"0"}:
        return []
    data.account.lack(NO_MASK, key)
    return None


def _of_structure(rule: MaskRule, case: Found, slices: Sequence[Sequence[Hit]], root: Path) -> list[Draft]:
    """Masks of one structure, or of one label image. `slices`: a list for each slice, or one for the whole case."""
    hits = [hit for some in slices for hit in some]
    volumes = all(
        known is not None and known.kind == "volume" for known in (BY_SUFFIX.get(suffix_of(hit.file)) for hit in hits)
    )
    whole = volumes or len(case.by_file) == 1 or len(hits) == 1
    groups = [[hit] for hit in hits] if whole else [hits]
    made = [_drafted(rule, case, [hit.file for hit in some], some[0].fields) for some in groups]
    return [one for draft in made for one in _by_its_names(draft, root)]


def _drafted(rule: MaskRule, case: Found, files: Sequence[str], fields: Mapping[str, str]) -> Draft:
    array = filled(rule.array, case.fields) if rule.array else rule.array
    if rule.array and array is None:
        raise RulesError(f"masks: array {rule.array!r} names a field that `images` do not have")
    index = case.images[0][0].index if rule.kind == "array" else None
    return Draft(rule, tuple(files), _names(rule, fields), array=array, index=index)


def _by_its_names(draft: Draft, root: Path) -> list[Draft]:
    """A draft for each layer, by the names in the file itself, where rules give no numbers or know one of these:
    numbers of readers differ, names do not lie. The draft as it is where a file has no names that are of use."""
    rule = draft.rule
    own = segments(root / draft.files[0]) if rule.kind == "file" and "nonzero" not in draft.names else {}
    called, known = renamed(rule), {structure(name) for name in (*rule.values, *rule.named)}
    if not own or (rule.values and not any(structure(called(name)) in known for name in own.values())):
        return [draft]
    layers = sorted({layer for layer, _ in own})
    named = ({str(value): name for (place, value), name in own.items() if place == layer} for layer in layers)
    made = zip(layers, named, strict=True)
    return [replace(draft, names=names, index=layer if layers != [0] else None, by_name=True) for layer, names in made]


def renamed(rule: MaskRule) -> Callable[[str], str]:
    """What a structure is called by `named`; names that it does not know stay as they are."""
    exact = {structure(text): name for name, texts in rule.named.items() for text in (name, *texts) if "*" not in text}
    parts = [
        (re.compile(".*".join(map(re.escape, map(same, text.split("*"))))), name)
        for name, texts in rule.named.items()
        for text in texts
        if "*" in text
    ]

    def called(text: str) -> str:
        form = same(text)
        fitting = (name for pattern, name in parts if pattern.fullmatch(form))
        return exact.get(structure(text)) or next(fitting, text)

    return called


def by_fields(rule: MaskRule, data: Data) -> list[list[list[Hit]]]:
    """Of each case the files of `rule` that share its fields: one list for the case, or where the files go with its
    slices one list a slice. Where patterns of images have different fields, each case goes by its own, and no mask of
    a case that shares more of them goes with one that shares fewer. Raises RulesError where no file fits or no field is
    shared."""
    where = f"masks ({rule.kind})"
    hits: list[list[list[Hit]]] = [[[]] for _ in data.found]
    any_file = False
    for pattern in compiled(rule.files, where):
        own: list[list[list[Hit]]] = [[[]] for _ in data.found]
        fitting = [(file, pattern.match(file)) for file in _candidates(rule, data)]
        left = [Hit(file, fields) for file, fields in fitting if fields is not None]
        any_file |= bool(left)
        places: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for index, case in enumerate(data.found):
            there = {**case.fields, **case.by_file[0][1]}
            places[tuple(name for name in pattern.fields if name in there)].append(index)
        # Entries are joined by their numbers.
        if left and data.found and not any(places) and data.found[0].images[0][0].index is None:
            there = dict.fromkeys((*data.found[0].fields, *data.found[0].by_file[0][1]), "")
            raise RulesError(
                f"{where}: {pattern.pattern!r} shares no field with `images`, so masks cannot be joined; give the part "
                f"that is the same in both one name, such as {{case}}{nearest('case', there)}; or, where a column "
                "tells which mask is whose, give `table` and `column`"
            )
        for shared in sorted(places, key=len, reverse=True):
            if shared or len(places) == 1:
                left = _join(own, left, shared, places[shared], data)
        hits = [
            one if rule.take == "first" and any(one) else _added(one, other)
            for one, other in zip(hits, own, strict=True)
        ]
        if left:
            data.lone.extend(hit.file for hit in left)
    if not any_file:
        raise _none_fits(rule, data)
    return hits


def _join(
    hits: list[list[list[Hit]]], masks: Sequence[Hit], shared: Sequence[str], places: Sequence[int], data: Data
) -> list[Hit]:
    """Add to `hits` the masks of the cases at these places, by the fields that they share. -> Masks of none of them."""
    groups: dict[tuple[str, ...], list[Hit]] = defaultdict(list)
    for hit in masks:
        groups[tuple(joined(hit.fields[name]) for name in shared)].append(hit)
    called = [_keys(data.found[index], shared) for index in places]
    alike = zeros_apart(groups, {key for keys in called for key in keys})
    used: set[tuple[str, ...]] = set()
    for index, keys in zip(places, called, strict=True):
        keys = [alike.get(key, key) for key in keys]
        used.update(keys)
        held = [sorted(groups.get(key, ()), key=lambda hit: natural_key(hit.file)) for key in keys]
        hits[index] = _added(hits[index], held)
    return [hit for key, several in groups.items() if key not in used for hit in several]


def _none_fits(rule: MaskRule, data: Data) -> RulesError:
    alike = nearest(rule.files[0], data.listing.files[:5000])
    return RulesError(f"masks ({rule.kind}): no file fits {', '.join(rule.files)}{alike}")


def by_table(rule: MaskRule, data: Data) -> list[list[list[Hit]]]:
    """Of each case the files of `rule` that its rows name in `column`, as one list: by path, name or a field of
    `files`, as keys name images. Fields that the images have, too, must agree. Raises RulesError."""
    if rule.table is None or rule.column is None:
        raise RulesError("masks that a table leads to need `table` and `column`, whose cells name the masks")
    cells = data.sources.of(Source(table=rule.table, column=rule.column))
    hits = [
        Hit(file, fields)
        for pattern in compiled(rule.files, "masks")
        for file in _candidates(rule, data)
        if (fields := pattern.match(file)) is not None
    ]
    if not hits:
        raise _none_fits(rule, data)
    named = match((text for some in cells for text in some), [Named(hit.file, (hit.file,), hit.fields) for hit in hits])
    for text, fits in list(named.ambiguous.items())[:5]:
        data.account.conflicts.append(f"{rule.column} {text!r} fits several masks: {', '.join(fits)}; it is not used")
    there = fields_of(data.found)
    made: list[list[list[Hit]]] = []
    for case, some in zip(data.found, cells, strict=True):
        mine = [hits[place] for text in some for place in named.cases.get(text, ())]
        held = [hit for hit in mine if all(_agree(hit, case, name) for name in hit.fields if name in there)]
        made.append([list({hit.file: hit for hit in held}.values())])
    used = {hit.file for keyed in made for hit in keyed[0]}
    data.lone.extend(file for file in dict.fromkeys(hit.file for hit in hits) if file not in used)
    return made


def _agree(hit: Hit, case: Found, name: str) -> bool:
    """Whether a field says the same of both; what differs between a case's files binds nothing."""
    return name not in case.fields or joined(case.fields[name]) == joined(hit.fields[name])


def _candidates(rule: MaskRule, data: Data) -> Sequence[str]:
    return data.images if rule.kind in OF_FILES else data.listing.files


def _keys(case: Found, shared: Sequence[str]) -> list[tuple[str, ...]]:
    """One key where all files of the case agree, else one a file."""
    if all(name in case.fields for name in shared):
        return [tuple(joined(case.fields[name]) for name in shared)]
    keys = []
    for _, fields in case.by_file:
        known = {**case.fields, **fields}
        if all(name in known for name in shared):
            keys.append(tuple(joined(known[name]) for name in shared))
    return keys or [()]


def _added(one: list[list[Hit]], other: list[list[Hit]]) -> list[list[Hit]]:
    """Files by a further pattern of the same rule."""
    if len(one) == len(other):
        return [first + second for first, second in zip(one, other, strict=True)]
    return other if any(other) else one


def _structure(rule: MaskRule, hit: Hit) -> str | None:
    """Name of the structure that a whole file marks; None for a label image."""
    template = rule.structure
    if template is None and "structure" in hit.fields and not rule.values and rule.kind != "palette":
        template = "{structure}"
    if template is None:
        return None
    for name in _FIELD.findall(template):
        if name not in hit.fields:
            raise RulesError(
                f"structure {template!r} names a field that `files` does not have{nearest(name, hit.fields)}"
            )
    return _FIELD.sub(lambda found: hit.fields[found[1]], template).strip()


def _names(rule: MaskRule, fields: Mapping[str, str]) -> dict[str, str]:
    if rule.kind == "palette":
        if not rule.colors:
            raise RulesError("a mask of kind palette needs `colors`: #rrggbb -> structure")
        return {_colour(colour): name for colour, name in rule.colors.items()}
    name = _structure(rule, Hit("", fields))
    if name is not None:
        return {"nonzero": name}
    return values_of(rule) or {"*": ""}


def values_of(rule: MaskRule) -> dict[str, str]:
    """Value as text -> structure, without background. Raises RulesError where two structures have one value."""
    found: dict[str, str] = {}
    for name, value in rule.values.items():
        if value < 0 or (value and str(value) in found):
            raise RulesError(f"`values` of masks: {name!r} has the value {value}; values are 1 or more, each one once")
        if value:
            found[str(value)] = name
    return found


def _colour(text: str) -> str:
    digits = text.strip().lower().lstrip("#")
    if not re.fullmatch("[0-9a-f]{6}", digits):
        raise RulesError(f"`colors` of masks: {text!r} is no colour; write it as '#rrggbb'")
    return f"#{digits}"


def each(made: Sequence[Drafts]) -> Iterator[Draft]:
    return (draft for drafts in made if drafts for draft in drafts)
