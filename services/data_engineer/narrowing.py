"""Which of a dataset's classes or structures a request limits itself to: `liver only`, `normal ignored`."""

import re
from collections import Counter
from collections.abc import Sequence

from shared.agent.brief import Brief
from shared.contracts.cases import Coverage
from shared.contracts.questions import Option, Question
from shared.dataset.tables.words import says_nothing, words
from shared.vocabulary.reading import found, plain, read, special

_SUBJECT = ("finding", "anatomy")
_OTHERS = ("modality", "who", "language")
KEY, ALL = "only", "all"
"""Key of the question which classes or structures are meant, and the answer that sets no limit."""
MOST = 60
"""Names that are offered as options."""


def limited(brief: Brief, coverage: Coverage) -> tuple[str, ...] | Question:
    """Names that the request, or a person's answer, limits the run to; a question where that leaves too little."""
    names = coverage.label_names
    answers = [answer for key, answer in brief.answers.items() if key.startswith(KEY)]
    if len(names) < 2 or (answers and answers[-1].strip().lower() == ALL):
        return names
    wanted = called(answers[-1], names) if answers else narrowed(brief.requested.requirement, names)
    classes = coverage.task == "diagnosis"
    several = sum(coverage.counts.values()) > coverage.cases
    if len(wanted) > (classes and not several):
        return wanted
    found = f"is {wanted[0]} alone, and a classifier needs two classes" if wanted else "is nothing that its files name"
    what = "classes" if classes else "structures"
    return Question(
        key=f"{KEY}-{len(answers) + 1}" if answers else KEY,
        text=f"The request asks for a part of the dataset, which {found}. Which {what} are to be used? "
        f"Name them with commas between, or say {ALL}.",
        options=(
            *(Option(value=name, says=_cases(coverage.counts.get(name))) for name in names[:MOST]),
            Option(value=ALL, says="use everything"),
        ),
        wants="text",
    )


def _cases(many: int | None) -> str:
    return "" if many is None else f"{many:,} case{'' if many == 1 else 's'}"


def narrowed(requirement: str, names: Sequence[str]) -> tuple[str, ...]:
    """Names that are wanted: all where the request sets no limit, none where it sets one that no name answers to."""
    seen = read(_listed(requirement))
    kept = tuple(names)
    limits = [part for part in seen.limited if _of_names(part, names)]
    if limits or any(concept == "others" for part in seen.left_out for *_, concept in found("limit", part)):
        kept = called(" ".join(limits), names) or called(seen.text, names)
    dropped = set(called(" ".join(seen.left_out), names)) - set(called(seen.text, names))
    return tuple(name for name in kept if name not in dropped)


def called(text: str, names: Sequence[str]) -> tuple[str, ...]:
    """Names that `text` says in full; by what is left of it, those whose concept it says (`Leber`), then a part."""
    many = Counter(words(plain(_listed(text))))
    full = [name for name in names if _words(name) <= many.keys()]
    # `liver tumours` says `liver` no second time.
    chosen = [
        name
        for name in full
        if min(many[word] for word in _words(name)) > sum(_words(name) < _words(one) for one in full)
    ]
    said = many.keys() - set[str]().union(*map(_words, chosen))
    about = _concepts(text) - set[str]().union(*map(_concepts, chosen))
    meant = [name for name in names if name not in full and _named(name, about)]
    said -= set[str]().union(*map(_words, meant))
    part = [name for name in names if any(len(word) > 2 and word.isalpha() for word in _words(name) & said)]
    return tuple(name for name in names if name in {*chosen, *meant, *part})


def _listed(text: str) -> str:
    """`L1 to L3` as `L1 L2 L3`."""

    def each(found: re.Match[str]) -> str:
        first, last = int(found[2]), int(found[3])
        return " ".join(f"{found[1]}{n}" for n in range(first, last + 1)) if first < last < first + MOST else found[0]

    return re.sub(r"\b([A-Za-z]*)(\d+) ?(?:[-–]|to|bis) ?\1(\d+)\b", each, text)


def _named(name: str, about: set[str]) -> bool:
    """Whether all findings of a name, else its anatomy, are among concepts or kinds of them."""
    own = next((some for kind in _SUBJECT if (some := read(name).concepts(kind))), frozenset[str]())
    return bool(own) and all(any(f"{one}/".startswith(f"{other}/") for other in about) for one in own)


def _words(name: str) -> set[str]:
    return {"normal"} if says_nothing(name) else set(words(plain(name)))


def _concepts(text: str) -> set[str]:
    """The most special ones of findings and anatomy."""
    seen = read(text)
    return special(one for kind in _SUBJECT for one in seen.concepts(kind))


def _of_names(part: str, names: Sequence[str]) -> bool:
    """Whether what stands nearest to `only` is of a kind with classes and structures; `CT only` limits neither."""
    limits = [(start, end) for start, end, concept in found("limit", part) if concept == "only"]
    near = [
        (min(max(start - b, a - end) for a, b in limits), kind in _OTHERS)
        for kind in (*_SUBJECT, *_OTHERS)
        for start, end, _ in found(kind, part)
    ]
    return not min(near)[1] if near else bool(called(part, names))
