"""Masks that are label images: which families mark which images, and what their values are called."""

import math
import re
from collections.abc import Mapping, Sequence

from shared.contracts.rules import MaskRule
from shared.dataset.propose.called import USUAL, structure
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.led import Led, led_by_tables
from shared.dataset.propose.legend import Legend, names_for, naming
from shared.dataset.propose.marked_by import with_marked
from shared.dataset.propose.mask_files import Source, is_rater, mask_sources
from shared.dataset.rules.structures import LOOKED_AT
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.words import meant, overlap, says_nothing, words

_VOID = "#e0e0c0"
"""Border that belongs to nothing in palettes of PASCAL VOC, whose tools many use."""
_NAMED = 0.15
"""For masks that the request's words tell from the others."""
_FORM = re.compile(r"\b(masks?|label(s|led|ed)?|segment\w*|annotat\w*|contours?|outlines?)\b", re.IGNORECASE)
"""Words of a request that say no more than that something is to be marked: `masksTr` was not meant by them."""


def mask_drafts(
    draft: Draft, survey: Survey, only: Sequence[str], target: str, hints: Mapping[str, str], legends: Sequence[Legend]
) -> list[Draft]:
    """The draft with each way to take its masks, likely ones first."""
    families = [family for family in survey.families if family.role == "mask"]
    sources = mask_sources(families, draft, survey.looker)
    if not sources:
        led = [made for one in led_by_tables(families, draft, survey)
               if (made := _led(one, survey, only, target, hints, legends))]  # fmt: skip
        led = [one.decided("mask", one.says["target"].partition("masks are ")[2]) for one in led] if led[1:] else led
        return sorted(led, key=lambda one: -one.prior)
    rows = sum(len(piece.rows) for piece in draft.channels[0].pieces)
    best = max(len(one.hits) for one in sources)
    sources = [one for one in sources if len(one.hits) >= 0.3 * best]
    special, asked = _special(sources), _FORM.sub(" ", target)
    found = [_with(draft, survey, [one], only, target, hints, legends, rows, _NAMED * bool(overlap(asked, text)))
             for one, text in zip(sources, special, strict=True)]  # fmt: skip
    singles = [one for one in sources if one.structure and "{" not in one.structure and not is_rater(one)]
    if 2 <= len(singles) <= 12:
        found.append(_with(draft, survey, singles, only, target, hints, legends, rows, 0.12))
    drafts = [one for one in found if one is not None]
    if len(sources) > 1:
        drafts = [one.decided("mask", one.says["target"].partition("masks are ")[2]) for one in drafts]
    return sorted(drafts, key=lambda one: -one.prior)


def _led(
    led: Led, survey: Survey, only: Sequence[str], target: str, hints: Mapping[str, str], legends: Sequence[Legend]
) -> Draft | None:
    """The draft with masks that a column leads to."""
    rows = sum(len(piece.rows) for piece in led.draft.channels[0].pieces)
    made = _with(led.draft, survey, [led.source], only, target, hints, legends, rows, 0.0)
    if made is None:
        return None
    masks = tuple(one.model_copy(update={"table": led.table, "column": led.column}) for one in made.masks)
    told = f"{made.says['target']}, by column {led.column} of {made.tables[led.table].file}"
    return made.change(masks=masks).said("target", told)


def _special(sources: Sequence[Source]) -> list[str]:
    """Words in the names of each kind of masks that no other has."""
    own = [set(words(re.sub(r"\{\w+\}", " ", source.what))) for source in sources]
    return [" ".join(found.difference(*own[:at], *own[at + 1 :])) for at, found in enumerate(own)]


def _with(
    draft: Draft, survey: Survey, sources: Sequence[Source], only: Sequence[str], target: str,
    hints: Mapping[str, str], legends: Sequence[Legend], rows: int, more: float,
) -> Draft | None:  # fmt: skip
    parts: list[tuple[Source, MaskRule, tuple[str, ...]]] = []
    missing: set[str] = set(only)
    own: list[str] = []
    usual = structure(only, draft.task, target) if len(sources) == 1 else USUAL
    for source in sources:
        rule, names = _rule(source, survey, hints, legends)
        if rule is None:
            return None
        # What the request calls them says nothing for these masks.
        own += names_of(rule) if rule.structure != USUAL else []
        if rule.structure == USUAL:
            rule, names = rule.model_copy(update={"structure": usual}), [usual]
        held, lacking = meant(only, names)
        missing &= set(lacking)
        parts.append((source, rule, held))
    if only and any(held for _, _, held in parts):
        parts = [(source, _only(rule, held), held) for source, rule, held in parts if held]
    told = draft.task == "anomaly_detection" and any(one.unmarked for one in legends)
    empty = told or _unmarked_are_normal(draft, sources)
    share = 1.0 if empty else len(frozenset.union(*[source.hits for source in sources])) / max(1, rows)
    likely = 0.25 * share + more
    likely += 0.25 * max(overlap(_FORM.sub(" ", target), source.what, *own) for source, _, _ in parts)
    if draft.task == "organ_segmentation":
        # A map of many structures is what organs are taught by; a binary one beside it is a body or a brain.
        likely += 0.06 * min(3.0, math.log2(max(len(source.values) or 1 for source in sources)))
    likely += 0.3 * (1 - len(missing) / len(only)) if only else 0.0
    what = " and ".join(dict.fromkeys(source.what for source in sources))
    bare = f" (images {'without one' if told else 'called normal'} show nothing)" if empty else ""
    made = draft.change(
        masks=tuple(rule.model_copy(update={"missing": "empty"}) if empty else rule for _, rule, _ in parts),
        others=tuple(piece for source, _, _ in parts for piece in source.pieces),
        prior=draft.prior + likely,
    ).said("target", f"its masks are {what}{bare}")
    if missing and only:
        made = made.said("missing", f"asked for, but no structure says so: {', '.join(sorted(missing))}")
    return made if empty else with_marked(made, survey, frozenset.union(*[source.hits for source in sources]))


def _unmarked_are_normal(draft: Draft, sources: Sequence[Source]) -> bool:
    """Whether folders or names say of images without a mask that they show nothing: `good`, `normal`."""
    files = [file for piece in draft.channels[0].pieces for file in piece.sample]
    hits = frozenset.union(*[source.hits for source in sources])
    normal = {
        file for file in files
        if any(map(says_nothing, file.split("/")[:-1]))
    }  # fmt: skip
    bare = [file in normal for file in files if file not in hits]
    # An organ may be marked in normal images, too, and then be missing in some.
    without = draft.task == "anomaly_detection" or len(normal & hits) <= 0.05 * len(hits)
    return bool(bare) and sum(bare) >= 0.95 * len(bare) and without


def _only(rule: MaskRule, held: tuple[str, ...]) -> MaskRule:
    return rule.model_copy(update={"only": held if len(held) < _many(rule) else rule.only})


def _many(rule: MaskRule) -> int:
    return len(rule.values) or len(rule.colors) or (1 if rule.structure and "{" not in rule.structure else 1000)


def names_of(rule: MaskRule) -> list[str]:
    return [*rule.values, *rule.colors.values(), *([rule.structure] if rule.structure else [])]


def _rule(
    source: Source,
    survey: Survey,
    hints: Mapping[str, str],
    legends: Sequence[Legend],
) -> tuple[MaskRule | None, list[str]]:
    """The rule, and the names that its structures have: USUAL where nothing names the only one."""
    files = tuple(piece.pattern for piece in source.pieces)
    if source.colours and (made := _palette(source, files, survey, legends)) is not None:
        return made
    if source.structure and "{" in source.structure:
        texts = dict.fromkeys(
            source.structure.replace("{structure}", value) for value in source.piece.column("structure")
        )
        return MaskRule(files=files, structure=source.structure), list(texts)
    legend = naming(legends, source.values)
    # Of a list without numbers only all values tell how it is counted.
    values = _occurring(source, survey) if legend and legend.counted and not hints else source.values
    if len(values) > 1:
        known = names_for(values, hints, legends)
        names = {name: value for value, name in known.items() if value}
        # What is called background is no structure, whatever its value.
        ground = set(values) - {0, *known}
        return MaskRule(files=files, values=names, only=tuple(names) if names and ground else ()), list(names)
    named, legend = legend, naming([one for one in legends if len(one.values) == 1], values)
    if legend is None and named is not None and source.structure is None:
        # The file has names for values that the few masks looked at do not have.
        return MaskRule(files=files, values={name: value for value, name in named.values.items()}), [
            *named.values.values()
        ]
    name = next(iter(legend.values.values())) if legend else source.structure or USUAL
    return MaskRule(files=files, structure=name), [name]


def _occurring(source: Source, survey: Survey) -> tuple[int, ...]:
    """Values of many of its masks, as far as time for looks allows."""
    survey.looker.extend(survey.looker.seconds / 4)
    files = evenly([file for piece in source.pieces for file in piece.files], LOOKED_AT)
    looks = [survey.looker.pixels(file) for file in files]
    found = {value for look in looks if look and look.pixels for value in look.pixels.values}
    return tuple(sorted({*found, *source.values} - {0}))


def _palette(
    source: Source, files: tuple[str, ...], survey: Survey, legends: Sequence[Legend]
) -> tuple[MaskRule | None, list[str]] | None:
    """None for one colour on black that nothing names: it marks what the files are about."""
    values = source.values if len(source.values) > 1 else _occurring(source, survey)
    occurring = {f"#{value:06x}" for value in values}
    if len(occurring) > 1:
        occurring.discard(_VOID)
    for legend in legends:
        if legend.colors and occurring - legend.background <= set(legend.colors):
            return MaskRule(kind="palette", files=files, colors=dict(legend.colors)), list(legend.colors.values())
    if len(values) == 1:
        return None
    if len(occurring) > 20:
        return None, []
    colors = {color: f"colour {color}" for color in sorted(occurring)}
    return MaskRule(kind="palette", files=files, colors=colors), list(colors.values())
