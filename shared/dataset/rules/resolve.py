"""Rules carried out on a dataset: its cases (`CaseSpec`), and what they cover. Decodes no image.

    python -m shared.dataset.rules.resolve RULES.yaml [--root DIR] [--out specs.jsonl] [--workspace DIR] [--persons]

Writes the cases to `--out`, a `CaseSpec` a line, and `coverage.json` beside it, with `--persons` also `persons.jsonl`
(whose each case is by what the files say, whatever the rules make of it); the last line on stdout is {"coverage",
"left_out": reason -> the first 50}. `--root` is $M3_DATA when it is not given.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shared.contracts.cases import CaseSpec, Coverage, MaskSpec
from shared.contracts.rules import Rules, Split
from shared.contracts.wrapping import Groups
from shared.dataset.files.listing import Listing, list_files
from shared.dataset.intake.groups import groups_of
from shared.dataset.intake.intake_records import PERSONS, SPECS
from shared.dataset.rules import listed
from shared.dataset.rules.coverage import cover
from shared.dataset.rules.found import Account, Found, RulesError
from shared.dataset.rules.gather import gather, unused
from shared.dataset.rules.marks import Data, mask_files
from shared.dataset.rules.persons import persons
from shared.dataset.rules.reading import read_rules
from shared.dataset.rules.sources import Sources
from shared.dataset.rules.structures import Masks, masks
from shared.dataset.rules.targets import Label, Patients, labels, numbers, patients, sides, texts
from shared.dataset.rules.told import excluded, with_fields

__all__ = ["Resolution", "RulesError", "resolve"]

SHOWN = 50
"""Files, rows and cases of one reason that the program prints."""


@dataclass(frozen=True)
class Resolution:
    """The cases of a dataset, sorted naturally by key."""

    cases: list[CaseSpec]
    coverage: Coverage
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """Reason, with its remedy -> all files, rows and keys of cases."""


def resolve(rules: Rules, root: Path, listing: Listing | None = None, workspace: Path | None = None) -> Resolution:
    """The cases that `rules` find below `root`; `workspace` holds the file of `Rules.listed`.

    Whatever the data hold is accounted for in `coverage` and `left_out`. Raises RulesError, in words that say what to
    change, for rules that cannot be carried out: a pattern, field, column, table or class that there is not.
    """
    listing = listing if listing is not None else list_files(root)
    account = Account()
    if rules.listed is not None:
        cases = listed.read(rules.listed, workspace, listing, account)
        _drop(rules, [case.key for case in cases], account)
        cases = [case for case in cases if case.key not in account.dropped]
        return _resolved(rules, listing, cases, listed.grouping(cases), account, None)
    images = unused(rules, listing, account)
    told = with_fields(rules, Path(root), listing, account)
    found = gather(rules, Path(root), images, mask_files(rules, images), account, told)
    sources = Sources(rules, Path(root), listing, found, account)
    _drop(rules, [case.key for case in found], account, sources)
    people = patients(rules, found, sources, account)
    drawn = masks(rules, Data(Path(root), listing, images, found, sources, account)) if rules.masks else None
    cases = _specs(rules, found, sources, people, drawn, account)
    return _resolved(rules, listing, cases, people, account, drawn)


def _specs(
    rules: Rules, found: Sequence[Found], sources: Sources, people: Patients, drawn: Masks | None, account: Account
) -> list[CaseSpec]:
    nothing: list[None] = [None] * len(found)
    named: Sequence[Label] = labels(rules.label, found, sources, account) if rules.label else nothing
    written = texts(rules.text, found, sources, account) if rules.text else nothing
    split: Sequence[Split | None] = sides(rules, found, sources, account) if rules.split else nothing
    slopes = numbers(sources.of(rules.slope), found, "slope", account) if rules.slope else nothing
    intercepts = numbers(sources.of(rules.intercept), found, "intercept", account) if rules.intercept else nothing
    no_masks: Sequence[tuple[MaskSpec, ...] | None] = [()] * len(found)
    cases = []
    for index, case in enumerate(found):
        shapes = (drawn.specs if drawn else no_masks)[index]
        patient = people.names[index]
        lacking = (
            patient is None
            or shapes is None
            or (rules.label is not None and named[index] is None)
            or (rules.text is not None and written[index] is None)
            or (rules.split is not None and split[index] is None)
        )
        if case.key not in account.dropped and not lacking and patient is not None and shapes is not None:
            cases.append(
                CaseSpec(
                    key=case.key,
                    images=case.images,
                    patient=patient,
                    label=named[index],
                    text=written[index],
                    masks=shapes,
                    slope=slopes[index],
                    intercept=intercepts[index],
                    split=split[index],
                    groups=_groups(rules, sources, index),
                )
            )
    return cases


def _groups(rules: Rules, sources: Sources, index: int) -> Groups:
    """From the tables that the rules use, without the columns of the class."""
    columns = (name for one in (rules.label.tables if rules.label else ()) for name in one.columns)
    classes = {*columns, *(one.column for one in rules.label_sources())}
    told = {column: value for (_, column), value in sources.opened(index).items() if column not in classes}
    return groups_of(told)


def _drop(rules: Rules, keys: Sequence[str], account: Account, sources: Sources | None = None) -> None:
    """Leave out the cases that rules name (`leave_out`) or exclude by a value of theirs."""
    dropped = {key: f"handed back: {rules.leave_out[key]}" for key in keys if key in rules.leave_out}
    for one in (one for one in rules.exclude if one.of == "case"):
        values = sources.of(one.source) if sources and one.source else []
        for key, some in zip(keys, values, strict=False):
            if excluded(one, some):
                dropped.setdefault(key, f"excluded by the rules: {one.reason}")
    for key, reason in dropped.items():
        account.drop(reason, key)


def _resolved(
    rules: Rules,
    listing: Listing,
    cases: list[CaseSpec],
    people: Patients,
    account: Account,
    drawn: Masks | None,
) -> Resolution:
    left_out = {reason: list(dict.fromkeys(names)) for reason, names in account.left_out.items()}
    ordered = dict(sorted(left_out.items(), key=lambda item: (-len(item[1]), item[0])))
    return Resolution(cases, cover(rules, listing, cases, people, account, ordered, drawn), ordered)


def _rules(path: Path) -> Rules:
    try:
        return read_rules(path.read_bytes(), path.name)
    except OSError as error:
        raise RulesError(f"{path.name} cannot be read ({error.strerror})") from None


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", type=Path)
    parser.add_argument("--root", type=Path, default=os.environ.get("M3_DATA"))
    parser.add_argument("--out", type=Path, default=Path(SPECS))
    parser.add_argument("--workspace", type=Path, default=None, help="the folder of the rules when it is not given")
    parser.add_argument("--persons", action="store_true", help="compare with what the files say of patients")
    asked = parser.parse_args(words)
    if asked.root is None:
        parser.error("--root or $M3_DATA says where the dataset is")
    try:
        listing = list_files(asked.root)
        done = resolve(_rules(asked.rules), Path(asked.root), listing, asked.workspace or asked.rules.parent)
    except (RulesError, NotADirectoryError) as error:
        print(error, file=sys.stderr)
        return 2
    with asked.out.open("w", encoding="utf-8") as lines:
        lines.writelines(f"{case.model_dump_json()}\n" for case in done.cases)
    asked.out.with_name("coverage.json").write_text(done.coverage.model_dump_json(), encoding="utf-8")
    if asked.persons:
        lines = [f"{one.model_dump_json()}\n" for one in persons(Path(asked.root), listing, done.cases)]
        asked.out.with_name(PERSONS).write_text("".join(lines), encoding="utf-8")
    shown = {reason: names[:SHOWN] for reason, names in done.left_out.items()}
    print(json.dumps({"coverage": done.coverage.model_dump(mode="json"), "left_out": shown}, ensure_ascii=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
