"""Structures of masks get their values: drafts of masks become what intake draws (`MaskSpec`)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from shared.contracts.cases import MaskSpec, Shape
from shared.contracts.rules import MaskRule, Rules
from shared.dataset.rules.found import RulesError
from shared.dataset.rules.marked import annotation_drafts, listed_drafts, object_drafts, rle_drafts
from shared.dataset.rules.marked_tables import region_drafts
from shared.dataset.rules.marks import NO_IMAGE, Data, Draft, Drafts, each, file_drafts, renamed, values_of
from shared.dataset.tables.cells import nearest
from shared.dataset.tables.forms import structure
from shared.imaging.errors import BadImage
from shared.imaging.masks import read_label_map
from shared.imaging.order import natural

LOOKED_AT = 50
"""Masks that are opened where the rules do not name their values."""
MOST = 1000
_MAKERS = {
    "rle": rle_drafts, "boxes": region_drafts, "polygons": region_drafts, "coco": listed_drafts,
    "label_studio": listed_drafts, "cvat": listed_drafts, "via": listed_drafts,
    "yolo": annotation_drafts, "voc": annotation_drafts, "labelme": annotation_drafts,
    "dicom_seg": object_drafts, "rtstruct": object_drafts,
}  # fmt: skip
_FROM_ZERO = ("yolo", "boxes", "polygons")
"""Kinds whose `values` are numbers of classes."""


@dataclass
class Masks:
    specs: list[tuple[MaskSpec, ...] | None]
    """Of each case; None where it is left out."""
    values: dict[str, int] = field(default_factory=dict)
    """Structure -> value in the cases' masks."""
    told: bool = True
    """Whether it is known without opening the masks which case has which structure."""


def masks(rules: Rules, data: Data) -> Masks:
    """Masks of each case. Raises RulesError."""
    made = [_MAKERS.get(rule.kind, file_drafts)(rule, data) for rule in rules.masks]
    used = {file for drafts in made for draft in each(drafts) for file in draft.files}
    data.account.leave(NO_IMAGE, *[file for file in dict.fromkeys(data.lone) if file not in used])
    drafts: list[list[Draft] | None] = []
    for several in zip(*made, strict=True):
        lacking = any(one is None for one in several)
        drafts.append(None if lacking else [draft for one in several for draft in one or ()])
    if any("*" in draft.names for draft in each(drafts)):
        return _unnamed(rules, drafts, data)
    for draft in each(drafts):
        _rename(draft)
        _keep_only(draft)
    _check_only(rules, made)
    vocabulary = _vocabulary(rules, drafts)
    specs = [None if some is None else _specs(some, vocabulary) for some in drafts]
    return Masks(specs, _by_name(vocabulary), all(map(_told, each(drafts))))


def _rename(draft: Draft) -> None:
    """What files call a structure becomes its name by `named`."""
    if draft.rule.named:
        called = renamed(draft.rule)
        draft.names = {value: called(name) for value, name in draft.names.items()}
        draft.marks = [replace(mark, structure=called(mark.structure)) for mark in draft.marks]


def _keep_only(draft: Draft) -> None:
    chosen = {structure(name) for name in draft.rule.only}
    if not chosen:
        return
    draft.marks = [mark for mark in draft.marks if structure(mark.structure) in chosen]
    # A colour that was not asked for is background, not unknown.
    draft.names = {
        value: name if structure(name) in chosen else ""
        for value, name in draft.names.items()
        if structure(name) in chosen or draft.rule.kind == "palette"
    }


def _check_only(rules: Rules, made: Sequence[Sequence[Drafts]]) -> None:
    for rule, drafts in zip(rules.masks, made, strict=True):
        there = (
            {name for draft in each(drafts) for name in _named(draft)} | set(rule.values) | set(rule.colors.values())
        )
        for name in rule.only:
            if there and structure(name) not in {structure(one) for one in there}:
                raise RulesError(f"`only` of masks names {name!r}, which no mask has{nearest(name, natural(there))}")


def _named(draft: Draft) -> list[str]:
    return [name for name in (*draft.names.values(), *(mark.structure for mark in draft.marks)) if name]


def _vocabulary(rules: Rules, drafts: Sequence[list[Draft] | None]) -> dict[str, tuple[str, int]]:
    """Form of a name -> its usual spelling and its value: the dataset's own where there is one label file with values,
    else 1, 2, ... in natural order."""
    spellings: dict[str, Counter[str]] = {}
    for draft in each(drafts):
        for name in dict.fromkeys(_named(draft)):
            spellings.setdefault(structure(name), Counter())[name] += 1
    for rule in rules.masks:
        _from_rule(rule, spellings)
    usual = {form: min(names, key=lambda name: (-names[name], name)) for form, names in spellings.items()}
    own = _own_values(rules)
    if own is not None:
        # What a file names beside what the rules do comes behind.
        more = (form for form in usual if form not in own)
        own |= {form: number for number, form in enumerate(more, max(own.values(), default=0) + 1)}
        return {form: (name, own[form]) for form, name in usual.items()}
    ordered = natural(usual.values())
    return {form: (name, ordered.index(name) + 1) for form, name in usual.items()}


def _from_rule(rule: MaskRule, spellings: dict[str, Counter[str]]) -> None:
    """Structures that the rule names, so that a structure has its value also where no case of a few has it."""
    chosen = {structure(name) for name in rule.only}
    listed = [name for name, value in rule.values.items() if value or rule.kind in _FROM_ZERO] + [*rule.named]
    literal = [rule.structure] if rule.structure and "{" not in rule.structure else []
    for name in (*listed, *rule.colors.values(), *literal):
        if name and (not chosen or structure(name) in chosen):
            spellings.setdefault(structure(name), Counter())[name] += 1 << 40


def _own_values(rules: Rules) -> dict[str, int] | None:
    rule = rules.masks[0]
    if len(rules.masks) > 1 or rule.kind not in ("file", "array") or not rule.values or rule.structure:
        return None
    return {structure(name): int(value) for value, name in values_of(rule).items()}


def _by_name(vocabulary: dict[str, tuple[str, int]]) -> dict[str, int]:
    return dict(sorted(vocabulary.values(), key=lambda pair: pair[1]))


def _specs(drafts: Sequence[Draft], vocabulary: dict[str, tuple[str, int]]) -> tuple[MaskSpec, ...]:
    made = []
    for draft in drafts:
        # Of label files that hold more than what was asked for, the rest is background, not unknown.
        rest = {"nonzero": 0} if draft.rule.only and draft.rule.kind in ("file", "array") else {}
        values = rest | {value: vocabulary[structure(name)][1] if name else 0 for value, name in draft.names.items()}
        shapes = tuple(
            Shape(value=vocabulary[structure(mark.structure)][1], kind=mark.kind, numbers=mark.numbers)
            for mark in draft.marks
        )
        if any(values.values()) or shapes:
            rule = draft.rule
            made.append(
                MaskSpec(
                    kind=rule.kind,
                    files=draft.files,
                    array=draft.array,
                    index=draft.index,
                    values=values,
                    shapes=shapes,
                    order=rule.order,
                    start=rule.start,
                    size=draft.size,
                )
            )
    return tuple(made)


def _told(draft: Draft) -> bool:
    """Whether it is known without opening the mask which structures it has."""
    by_value = draft.rule.kind in ("file", "array", "palette") and not draft.by_name
    return not by_value or "nonzero" in draft.names


def _unnamed(rules: Rules, drafts: Sequence[list[Draft] | None], data: Data) -> Masks:
    """Label files whose values nobody names: they keep their values, and a few are opened to list them."""
    if len(rules.masks) > 1:
        raise RulesError("with several rules of masks each needs `values`, `structure` or names of its own")
    rule = rules.masks[0]
    values = _values_in([draft for draft in each(drafts)], data.root, data)
    names = {f"structure {value}": value for value in values}
    if rule.only:
        forms = {structure(name): value for name, value in names.items()}
        for name in rule.only:
            if structure(name) not in forms:
                raise RulesError(f"`only` of masks names {name!r}, which no mask has{nearest(name, names)}")
        names = {name: forms[structure(name)] for name in rule.only}
    kept = {"nonzero": 0} | {str(value): value for value in names.values()} if rule.only else {"*": 1}
    specs: list[tuple[MaskSpec, ...] | None] = []
    for some in drafts:
        made = (
            MaskSpec(kind=rule.kind, files=one.files, array=one.array, index=one.index, values=kept)
            for one in some or ()
        )
        specs.append(None if some is None else tuple(made))
    return Masks(specs, names, False)


def _values_in(drafts: Sequence[Draft], root: Path, data: Data) -> list[int]:
    values: set[int] = set()
    step = max(1, -(-len(drafts) // LOOKED_AT))
    for draft in drafts[::step]:
        try:
            labels, _ = read_label_map([root / file for file in draft.files], draft.array, index=draft.index)
        except (BadImage, MemoryError):
            continue  # intake says what is wrong with it
        values.update(int(value) for value in np.unique(labels))
        if len(values) > MOST:
            data.account.problems.append(
                f"masks hold over {MOST} different values (such as {draft.files[0]}), so they are no label images; "
                "name other files, or another kind of mask"
            )
            break
    return sorted(values - {0})[:MOST]
