"""Patients, classes, texts and the given split of cases, as the rules say."""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.contracts.cases import Grouping
from shared.contracts.rules import LabelRule, Rules, Split, TextRule
from shared.dataset.rules.arrays import Values
from shared.dataset.rules.found import Account, Found, RulesError
from shared.dataset.rules.reasons import Expected
from shared.dataset.rules.sources import Sources
from shared.dataset.tables.cells import comparable, mark, nearest, readable
from shared.dataset.tables.documents import headed
from shared.dataset.tables.forms import person, same
from shared.imaging.order import natural

LONGEST_TEXT = 20_000
NO_PATIENT = "case without a patient: fill in who it is, or name another source of patients"
NO_LABEL = Expected("case without a class: fill it in, or leave the file out", "untargeted")
NO_TEXT = Expected("case without a report: add its report, or leave the image out", "untargeted")
NO_SECTION = "report without the section that is asked for: name another one, or none"
LONG_TEXT = f"report of more than {LONGEST_TEXT} characters: shorten it"
NO_SIDE = "case that the dataset's split puts nowhere: add its value to `split`, or leave it out"
TWO_LABELS = (
    "case with two different classes: say which row counts (`only`, `rows` or `latest` of the table), or use "
    "`separator` where several may hold"
)
TWO_PATIENTS = "case with two different patients: say which row counts, or correct the table"
TWO_SIDES = "case on two sides of the dataset's split: correct the table"
UNSURE = "case with a mark that is neither yes nor no: correct it, or leave the case out"

Label = str | tuple[str, ...] | None


@dataclass
class Patients:
    names: list[str | None]
    grouping: Grouping
    says: str


def patients(rules: Rules, found: Sequence[Found], sources: Sources, account: Account) -> Patients:
    """The patient of each case; None where the case is left out."""
    if rules.patient is None:
        says = "each case counts as a patient of its own; nothing tells them apart"
        return Patients([case.key for case in found], "inferred", says)
    names = single(sources.of(rules.patient), found, account, NO_PATIENT, TWO_PATIENTS)
    written: dict[str, str] = {}
    names = [None if name is None else written.setdefault(person(name), name) for name in names]
    by_names = any(one.field is not None or one.value is not None for one in rules.patient.chain())
    grouping: Grouping = "derived" if by_names else "stated"
    return Patients(names, grouping, sources.in_words(rules.patient))


def single(values: Values, found: Sequence[Found], account: Account, none: str, several: str) -> list[str | None]:
    """The one value of each case; cases with none or several are accounted for as `none` and `several` say."""
    texts: list[str | None] = []
    for case, some in zip(found, values, strict=True):
        if len({_spelling(text) for text in some}) == 1:
            texts.append(some[0])
            continue
        texts.append(None)
        account.lack(several if some else none, case.key)
        if some and case.key not in account.dropped:
            account.conflicts.append(f"{case.key} has {' and '.join(some[:3])}; {several.partition(':')[0]}")
    return texts


def labels(rule: LabelRule, found: Sequence[Found], sources: Sources, account: Account) -> list[Label]:
    """The class of each case, or its classes in natural order; None where the case is left out."""
    if rule.columns:
        return _one_hot(rule, found, sources, account)
    if rule.source is None:
        raise RulesError("`label` needs `source`, or `table` with `columns`")
    values = sources.of(rule.source)
    mapping = _mapping(rule.classes)
    chosen = {same(name) for name in rule.only}
    if rule.separator is None:
        values = [tuple(name for text in some if (name := readable(text))) for some in values]
        if rule.classes:
            # Two spellings of one class are no contradiction.
            values = [_merged(some, mapping) for some in values]
        texts = single(values, found, account, NO_LABEL, TWO_LABELS)
        written: dict[str, str] = {}
        named = [_named(text, mapping, written, case, account) for text, case in zip(texts, found, strict=True)]
        return _only(named, chosen, rule.only, found, account)
    return _separated(rule, values, mapping, chosen, found, account)


def _mapping(classes: Mapping[str, str | None]) -> dict[str, str | None]:
    return {comparable(value): name for value, name in classes.items()}


def _merged(some: Sequence[str], mapping: Mapping[str, str | None]) -> tuple[str, ...]:
    if len(some) > 1 and len({mapping.get(comparable(text), text) for text in some}) == 1:
        return (some[0],)
    return tuple(some)


def not_taken(name: str) -> Expected:
    return Expected(f"class {name!r} that the rules leave out: nothing to do", "untargeted")


def not_asked(name: str) -> Expected:
    return Expected(f"class {name!r} that was not asked for (`only`): nothing to do", "untargeted")


def _named(
    text: str | None, mapping: Mapping[str, str | None], written: dict[str, str], case: Found, account: Account
) -> str | None:
    if text is None:
        return None
    if not mapping:
        return written.setdefault(_spelling(text), text)
    if comparable(text) not in mapping:
        shown = text if len(text) <= 60 else text[:57] + "..."
        account.lack(f"class {shown!r} that the rules do not list: add it to `classes` (null leaves it out)", case.key)
        return None
    name = mapping[comparable(text)]
    if name is None:
        account.lack(not_taken(text), case.key)
    return name


def _spelling(text: str) -> str:
    """One form for spellings of one class: accents do not count, either."""
    plain = "".join(one for one in unicodedata.normalize("NFD", text) if not "\u0300" <= one <= "\u036f")
    return same(plain) or text


def _only(
    named: list[str | None], chosen: set[str], only: Sequence[str], found: Sequence[Found], account: Account
) -> list[Label]:
    _check_only(only, {name for name in named if name})
    kept: list[Label] = []
    for name, case in zip(named, found, strict=True):
        if name is not None and chosen and same(name) not in chosen:
            account.lack(not_asked(name), case.key)
            name = None
        kept.append(name)
    return kept


def _check_only(only: Sequence[str], names: set[str]) -> None:
    there = {same(name) for name in names}
    for name in only:
        if names and same(name) not in there:
            raise RulesError(f"`only` names {name!r}, which no case has{nearest(name, natural(names))}")


def _separated(
    rule: LabelRule,
    values: Values,
    mapping: Mapping[str, str | None],
    chosen: set[str],
    found: Sequence[Found],
    account: Account,
) -> list[Label]:
    written: dict[str, str] = {}
    all_names: set[str] = set()
    kept: list[Label] = []
    for some, case in zip(values, found, strict=True):
        words = [word for text in some for part in text.split(rule.separator) if (word := readable(part))]
        if not words and rule.missing == "leave_out":
            account.lack(NO_LABEL, case.key)
            kept.append(None)
            continue
        unlisted = [word for word in words if mapping and comparable(word) not in mapping]
        if unlisted:
            account.lack(
                f"class {unlisted[0][:60]!r} that the rules do not list: add it to `classes` (null: it does not count)",
                case.key,
            )
            kept.append(None)
            continue
        names = [mapping[comparable(word)] if mapping else written.setdefault(_spelling(word), word) for word in words]
        held = {name for name in names if name is not None}
        all_names |= held
        kept.append(tuple(natural(name for name in held if not chosen or same(name) in chosen)))
    _check_only(rule.only, all_names)
    return kept


def _one_hot(rule: LabelRule, found: Sequence[Found], sources: Sources, account: Account) -> list[Label]:
    read = [_marks(one, found, sources) for one in rule.tables]
    _check_only(rule.only, {readable(name) for one in rule.tables for name in one.columns.values()})
    chosen = {same(name) for name in rule.only}
    kept: list[Label] = []
    for index, case in enumerate(found):
        told = [(one, marks[index]) for one, marks in zip(rule.tables, read, strict=True)]
        one, marks = next(((one, some) for one, some in told if some and any(some.values())), told[-1])
        reason = _unclear(rule, marks)
        if reason:
            account.lack(reason, case.key)
            if reason == TWO_LABELS and case.key not in account.dropped:
                account.conflicts.append(f"{case.key} has rows that contradict each other in {one.table}")
            kept.append(None)
            continue
        names = ((readable(name), (marks or {})[column]) for column, name in one.columns.items())
        held = list(dict.fromkeys(name for name, some in names if "1" in some))
        if rule.several:
            kept.append(tuple(natural(name for name in held if not chosen or same(name) in chosen)))
        elif len(held) != 1:
            which = "no class is" if not held else "several classes are"
            account.lack(f"case of which {which} marked: correct the table, or set `several: true`", case.key)
            kept.append(None)
        elif chosen and same(held[0]) not in chosen:
            account.lack(not_asked(held[0]), case.key)
            kept.append(None)
        else:
            kept.append(held[0])
    return kept


def _marks(rule: LabelRule, found: Sequence[Found], sources: Sources) -> list[dict[str, set[str]] | None]:
    """Of each case what its rows say in each column, as `mark` reads it; None where it has no row."""
    if rule.table is None:
        raise RulesError("`label` with `columns` needs `table`")
    called = {column: sources.columns(rule.table, column) for column in rule.columns}
    return [
        {column: {mark(row.get(names[index] or "", "")) for row in rows} - {""} for column, names in called.items()}
        if rows
        else None
        for index, rows in enumerate(sources.rows(rule.table))
    ]


def _unclear(rule: LabelRule, marks: Mapping[str, set[str]] | None) -> str | None:
    """Why the marks of a case say nothing; None where they do."""
    if marks is None or (not any(marks.values()) and not (rule.several and rule.missing == "none")):
        return NO_LABEL
    if any(len(some) > 1 for some in marks.values()):
        return TWO_LABELS
    if any("?" in some for some in marks.values()):
        return UNSURE
    if rule.several and rule.missing == "leave_out" and not all(marks.values()):
        return "case with an empty mark: fill it in, or set `missing: none` where empty means no"
    return None


def texts(rule: TextRule, found: Sequence[Found], sources: Sources, account: Account) -> list[str | None]:
    """The report of each case; None where the case is left out."""
    parts = [sources.of(source) for source in rule.sources]
    kept: list[str | None] = []
    for index, case in enumerate(found):
        some = [part[index] for part in parts]
        if any(len(values) > 1 for values in some):
            account.lack("case with two different reports: name the images of each in the table", case.key)
            account.conflicts.append(f"{case.key} has two different reports")
            kept.append(None)
            continue
        text = "\n\n".join(values[0].strip() for values in some if values and values[0].strip())
        reason: str | None = NO_TEXT if not text else None
        if text and rule.section:
            text = _section(text, rule.section)
            reason = NO_SECTION if not text else None
        if len(text) > LONGEST_TEXT:
            reason = LONG_TEXT
        if reason:
            account.lack(reason, case.key)
        kept.append(None if reason else text)
    return kept


def _section(text: str, name: str) -> str:
    wanted = same(name).rstrip("s")
    return next((body for heading, body in headed(text).items() if same(heading).rstrip("s") == wanted), "")


def sides(rules: Rules, found: Sequence[Found], sources: Sources, account: Account) -> list[Split | None]:
    """Where the dataset's split puts each case; None where the case is left out."""
    rule = rules.split
    assert rule is not None
    names: dict[str, Split] = {}
    given: tuple[tuple[Split, tuple[str, ...]], ...] = (("train", rule.train), ("val", rule.val), ("test", rule.test))
    for side, listed in given:
        for value in listed:
            if names.setdefault(comparable(value), side) != side:
                raise RulesError(f"`split` gives the value {value!r} to two sides")
    values = sources.of(rule.source)
    merged = [some[:1] if len({names.get(comparable(text)) for text in some}) == 1 else some for some in values]
    kept: list[Split | None] = []
    for case, text in zip(found, single(merged, found, account, NO_SIDE, TWO_SIDES), strict=True):
        kept.append(None if text is None else names.get(comparable(text)))
        if text is not None and kept[-1] is None:
            account.lack(NO_SIDE, case.key)
    seen = {comparable(text) for some in values for text in some}
    for value in (*rule.train, *rule.val, *rule.test):
        if found and comparable(value) not in seen:
            raise RulesError(f"`split` names {value!r}, which no case has{nearest(value, natural(seen))}")
    return kept


def numbers(values: Values, found: Sequence[Found], name: str, account: Account) -> list[float | None]:
    """Slope or intercept of each case; None where there is none, or none that is a number."""
    kept: list[float | None] = []
    bad: list[str] = []
    for some, case in zip(values, found, strict=True):
        try:
            kept.append(float(some[0]) if len(some) == 1 else None)
        except ValueError:
            kept.append(None)
            bad.append(f"{case.key}: {some[0]!r}")
    if bad:
        account.conflicts.append(f"{name} of {len(bad)} cases is no number: {bad[0]}")
    return kept
