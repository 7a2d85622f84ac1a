"""Masks that are drawn: run-length codes, COCO, YOLO, VOC, labelme, DICOM objects, arrays beside the image's."""

from collections.abc import Mapping, Sequence

from shared.contracts.rules import MaskKind, MaskRule
from shared.dataset.propose.called import structure
from shared.dataset.propose.draft import Draft
from shared.dataset.propose.inner_masks import array_masks
from shared.dataset.propose.legend import Legend, names_for, naming
from shared.dataset.propose.objects import structures
from shared.dataset.propose.regions import region_drafts
from shared.dataset.propose.tables import literal, with_table
from shared.dataset.survey.family import Family
from shared.dataset.survey.mark_files import kind_of_marks, listed_in, runs_in
from shared.dataset.survey.naming import evenly
from shared.dataset.survey.pieces import align, piece_of
from shared.dataset.survey.survey import Survey
from shared.dataset.tables.words import meant


def drawn_drafts(
    draft: Draft, survey: Survey, only: Sequence[str], target: str, hints: Mapping[str, str], legends: Sequence[Legend]
) -> list[Draft]:
    """The draft with each kind of drawn mask that the dataset has."""
    found = [*_objects(draft, survey), *_arrays(draft, survey, hints, legends)]
    if draft.dimensions == 2:
        usual = structure(only, draft.task, target)
        found += [*_runs(draft, survey, usual), *_listed(draft, survey, legends), *_files(draft, survey, legends)]
        found += region_drafts(draft, survey, usual, hints, legends)
    made = []
    for one, names in found:
        held, missing = meant(only, names)
        rules = tuple(rule.model_copy(update={"only": held if 0 < len(held) < len(set(names)) else rule.only})
                      for rule in one.masks)  # fmt: skip
        one = one.change(masks=rules, prior=one.prior + 0.3)
        if only and missing and names:
            one = one.said("missing", f"asked for, but no structure says so: {', '.join(missing)}")
        made.append(one)
    return made


_SHORTEST = 4
"""Letters of a word that may be another way to write one that holds it."""
_PROGRAMS: dict[MaskKind, str] = {
    "coco": "COCO", "label_studio": "Label Studio", "cvat": "CVAT", "via": "VIA",
}  # fmt: skip
Found = list[tuple[Draft, Sequence[str]]]


def _runs(draft: Draft, survey: Survey, usual: str) -> Found:
    found: Found = []
    for table in survey.tables:
        column = runs_in(table)
        if column is None or table.pattern:
            continue
        made = with_table(draft, survey, table)
        if made is None:
            continue
        drafted, name = made
        key = drafted.tables[name].key
        kinds = [one for one in table.columns if one.name not in (column, key) and 2 <= one.distinct <= 60
                 and one.kind in ("category", "id") and len(table.rows) > 1.2 * one.distinct]  # fmt: skip
        keys = len({row[key] for row in table.rows}) if key else 0
        kind = kinds[0].name if kinds and keys and len(table.rows) > 1.2 * keys else None
        rule = MaskRule(kind="rle", table=name, column=column, class_column=kind, structure=None if kind else usual)
        said = f"its masks are run-length codes in column {column} of {table.file}"
        drafted = drafted.change(masks=(rule,)).said("target", said).decided("mask", said.partition("masks are ")[2])
        found.append((drafted, list(kinds[0].values) if kind else []))
    return found


def _listed(draft: Draft, survey: Survey, legends: Sequence[Legend]) -> Found:
    files = [
        file
        for family in survey.families
        if family.suffix in (".json", ".xml", ".csv") and len(family) <= 40
        for file in family.files
    ]
    held = {file: one for file in files[:40] if (one := listed_in(survey.root / file))}
    # Files with the same pictures mark other things, or are another hand's: rivals.
    sets: list[list[str]] = []
    for file, listed in held.items():
        for group in sets:
            folders = {other.rpartition("/")[0] for other in group}
            apart = all(not listed.names & held[other].names for other in group)
            if listed.kind == held[group[0]].kind and (file.rpartition("/")[0] not in folders or apart):
                group.append(file)
                break
        else:
            sets.append([file])
    found: Found = []
    for group in sets:
        said = " and ".join(group[:3])
        kind = held[group[0]].kind
        rule = MaskRule(kind=kind, files=tuple(map(literal, group)))
        made = draft.change(masks=(rule,)).said("target", f"its masks are the annotations {said} ({_PROGRAMS[kind]})")
        names = dict.fromkeys(name for file in group for name in held[file].structures)
        found.append((made.decided("mask", said), list(names)))
        unread = sum(len(held[file].names - held[file].marked) for file in group) if kind in ("cvat", "via") else 0
        if alike := _alike(list(names)):
            # Whether two words are one thing is for a person to say.
            found[-1] = (made.decided("mask", f"{' and '.join(alike)} apart"), list(names))
            joined = made.change(masks=(rule.model_copy(update={"structure": alike[0]}),))
            found.append((joined.decided("mask", f"{' and '.join(alike)} as one structure"), [alike[0]]))
        elif unread:
            empty = made.change(masks=(rule.model_copy(update={"missing": "empty"}),))
            if any(one.unmarked for one in legends):
                found[-1] = (empty.decided("mask", said), list(names))
                continue
            # Whether nothing is there or nobody looked is, too; what it explains more tells nothing.
            found[-1] = (made.decided("mask", f"{said}, without pictures that have no mark"), list(names))
            empty = empty.change(prior=empty.prior - 0.4 * unread / max(1, draft.images) - 0.01)
            found.append((empty.decided("mask", f"{said}, where no mark means that nothing is there"), list(names)))
    return found


def _alike(names: Sequence[str]) -> Sequence[str]:
    """All names, the longest first, where each is a word that ends or begins with the shortest: `Osteolyse`, `Lyse`."""
    ranked = sorted(names, key=len, reverse=True)
    least = ranked[-1].casefold() if ranked else ""
    apart = [name for name in map(str.casefold, ranked) if not (name.startswith(least) or name.endswith(least))]
    return ranked if len(least) >= _SHORTEST and len(ranked) > 1 and not apart and all(map(str.isalpha, ranked)) else ()


def _files(draft: Draft, survey: Survey, legends: Sequence[Legend]) -> Found:
    """YOLO, VOC and labelme: a file an image."""
    found: Found = []
    for family in survey.families:
        if family.suffix not in (".txt", ".xml", ".json") or len(family) < 2:
            continue
        kind = _kind(survey, family)
        if kind is None:
            continue
        marks = piece_of(family, images=False)
        fit = align(marks, draft.channels[0].pieces[0])
        if fit is None or fit.share < 0.02:
            continue
        names = fit.names | {name: f"mark_{name}" for name in marks.fields if name not in fit.names}
        piece = marks.renamed(names)
        values = _numbers(survey, family, legends) if kind == "yolo" else {}
        # In YOLO a picture without a file has nothing marked; so a few without are healthy, most without unlabelled.
        missing = "empty" if kind == "yolo" and fit.share >= 0.5 else "leave_out"
        rule = MaskRule(kind=kind, files=(piece.pattern,), values=values, missing=missing)
        said = f"{marks.pattern} ({kind})"
        made = draft.change(masks=(rule,), others=(piece,), prior=draft.prior + 0.2 * fit.share)
        found.append((made.said("target", f"its masks are {said}").decided("mask", said), list(values)))
    return found


def _kind(survey: Survey, family: Family) -> MaskKind | None:
    kinds = [kind_of_marks(survey.root / file, family.suffix) for file in evenly(family.files, 8)]
    known = [kind for kind in kinds if kind]
    return known[0] if len(known) * 2 > len(kinds) else None


def _numbers(survey: Survey, family: Family, legends: Sequence[Legend]) -> dict[str, int]:
    """Names for the numbers of YOLO, which count from 0."""
    numbers = set()
    for file in evenly(family.files, 200):
        try:
            lines = (survey.root / file).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        numbers |= {int(line.split()[0]) for line in lines if line.strip() and line.split()[0].isdigit()}
    from_zero = [one for one in legends if 0 in one.values or not one.named.endswith(("from 1", "from 0"))]
    legend = naming(from_zero, numbers) if numbers else None
    return {name: value for value, name in legend.values.items()} if legend else {}


def _objects(draft: Draft, survey: Survey) -> Found:
    """DICOM SEG and RTSTRUCT, for DICOM images: each refers to its series."""
    if draft.dimensions != 3 or draft.pieces[0].family.suffix not in (".dcm", "", ".ima", ".dicom"):
        return []
    by_kind: dict[MaskKind, list[str]] = {}
    files: dict[MaskKind, list[str]] = {}
    for family in survey.families:
        modalities = {(look.header.modality or "") for look in family.looks if look.header}
        if family.role == "mask" and modalities & {"SEG", "RTSTRUCT"}:
            kind: MaskKind = "rtstruct" if "RTSTRUCT" in modalities else "dicom_seg"
            piece = piece_of(family, images=False)
            names = {name: f"object_{name}" for name in piece.fields}
            by_kind.setdefault(kind, []).append(piece.renamed(names).pattern)
            files.setdefault(kind, []).extend(family.files)
    found: Found = []
    for kind, patterns in by_kind.items():
        said = f"DICOM {'structure sets' if kind == 'rtstruct' else 'segmentations'} {' and '.join(patterns[:2])}"
        marked = structures(survey.root, files[kind], kind)
        rule = MaskRule(kind=kind, files=tuple(patterns), only=tuple(marked) if kind == "rtstruct" else ())
        made = draft.change(masks=(rule,), case="series")
        made = made.said("case", "a case is a DICOM series").said("target", f"its masks are the {said}")
        found.append((made.decided("mask", said), marked))
    return found


def _arrays(draft: Draft, survey: Survey, hints: Mapping[str, str], legends: Sequence[Legend]) -> Found:
    """An array that has the shape of the image's."""
    found = array_masks(draft, survey)
    if found is None:
        return []
    rule, values = found
    named = names_for(values - {0}, hints, legends)
    rule = rule.model_copy(update={"values": {name: value for value, name in named.items()}})
    where = " of ".join(one for one in (f"array {rule.array}" if rule.array else "", *rule.files) if one)
    made = draft.change(masks=(rule,)).said("target", f"its masks are the {where or 'arrays beside it'}")
    return [(made.decided("mask", where), list(named.values()))]
