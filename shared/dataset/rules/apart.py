"""How the cases that rules find differ from those that other rules find. Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from shared.contracts.cases import Apart, CaseSpec

Label = str | tuple[str, ...] | None
Values = Mapping[str, int]
"""Structure -> its value in the masks."""


def apart(before: Sequence[CaseSpec], values: Values, after: Sequence[CaseSpec], new_values: Values) -> Apart | None:
    """What leads from the cases `before` to those `after`; a case is its images, whatever its key.

    None where more differs than an `Apart` can say: images, texts or marked regions, a split that is another, a label
    or a structure that there was not; and where one image is two cases.
    """
    there = {case.images: case for case in after}
    if len(there) < len(after) or len({case.images for case in before}) < len(before):
        return None
    pairs = [(case, there[case.images]) for case in before if case.images in there]
    names, new_names = ({value: name for name, value in one.items()} for one in (values, new_values))
    no_split = any(old.split for old, _ in pairs) and not any(new.split for _, new in pairs)
    alike = all(
        (old.text, old.masks, old.slope, old.intercept, None if no_split else old.split)
        == (new.text, new.masks, new.slope, new.intercept, new.split)
        for old, new in pairs
    )
    meant = _meant([(_label(old), _label(new)) for old, new in pairs])
    labels = set(meant.values())
    known = len(pairs) == len(after) and names.keys() == new_names.keys() and {_label(one) for one in after} <= labels
    if not (alike and known):
        return None
    renamed = {old: new for old, new in meant.items() if isinstance(old, str) and isinstance(new, str) and old != new}
    return Apart(
        cases=len(before),
        absent=len(before) - len(pairs),
        relabelled=sum(meant[_label(old)] != _label(new) for old, new in pairs),
        labels=len(labels),
        regrouped=_regrouped([(old.patient, new.patient) for old, new in pairs]),
        no_split=no_split,
        renamed=renamed | {name: new_names[value] for value, name in names.items() if new_names[value] != name},
    )


def _label(case: CaseSpec) -> Label:
    """The order of several says nothing."""
    return tuple(sorted(set(case.label))) if isinstance(case.label, tuple) else case.label


def _meant(pairs: Sequence[tuple[Label, Label]]) -> dict[Label, Label]:
    """Label -> the one that stands for it most often; of several that may hold each stands for itself."""
    often = Counter(pairs).most_common()
    return {old: new if isinstance(old, str) and isinstance(new, str) else old for (old, new), _ in reversed(often)}


def _regrouped(pairs: Sequence[tuple[str, str]]) -> int:
    """Cases outside of the largest common part of a patient before and after, each patient in one such part at most."""
    often = Counter(pairs)
    home: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (old, new), many in often.items():
        home[new][old] = many
    first = {new: old for new, olds in home.items() for old in [olds.most_common(1)[0][0]]}
    kept: dict[str, int] = {}
    for (old, new), many in often.items():
        if first[new] == old:
            kept[old] = max(kept.get(old, 0), many)
    return len(pairs) - sum(kept.values())
