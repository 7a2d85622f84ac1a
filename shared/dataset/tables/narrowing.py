"""Which of a dataset's classes or structures a request limits itself to: `liver only`, `normal ignored`."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import pairwise

from shared.dataset.tables.words import says_nothing, words
from shared.vocabulary.reading import BREAK, Reading, found, plain, read, special

_SUBJECT = ("finding", "anatomy")
_OTHERS = ("modality", "who", "language")
_RANGE = 60
"""Names of a range at most, such as `L1 to L3`."""
_ENUMERATED = 3
"""Words of a part of a sentence that is a name in an enumeration."""
_TOLD_APART = re.compile(
    r"\b(?:tell|distin|discrimin|different|differenz|separat|classif)\w* ([^.;:]+?) from ([^.;:]+)"
    r"|\bdisting\w+ ([^.;:]+?) (?:de|du|des|d['’]une?|da|dai|dalla|del)\b([^.;:]+)"
    r"|([^.;:]+?) von ([^.;:]+?) (?:zu )?(?:unterscheid|abgrenz|trenn)\w+"
    r"|\b(?:between|zwischen|entre|tra) ([^.;:]+?) (?:and|und|et|y|e) ([^.;:]+)"
    r"|([^.;:]+?) (?:vs\.?|versus|contre|contra|gegen) ([^.;:]+)",
    re.IGNORECASE,
)
_LISTED = re.compile(r"\(([^()]+)\)|: *([^.;:\n]+)")
_EXAMPLES = re.compile(r"\W*(?:e\.? ?g|i\.? ?a|such|like|incl|for ex|z\.? ?b|u\.? ?a|par ex|p\. ?ej|ad es)\b", re.I)
_SHORT = 4
"""Letters of a name that may be the beginning of a word."""
_SIDES = (
    frozenset(("left", "l", "lt", "link", "linke", "linken", "linker", "gauche", "izquierdo", "izquierda", "sinistra")),
    frozenset(
        ("right", "r", "rt", "recht", "rechte", "rechten", "rechter", "droit", "droite", "derecho", "derecha", "destra")
    ),
)


def narrowed(requirement: str, names: Sequence[str], masks: bool = False, lesions: bool = False) -> tuple[str, ...]:
    """Names that are wanted: all where the request sets no limit, none where it sets one that no name answers to.

    Structures of `masks` that a request names are all that it wants, unless it speaks of all or of others, or wants
    `lesions` and names where they lie. Of classes that alone is no limit, since whoever wants to find one needs the
    others, but `A versus B` and `tell A from B` are.
    """
    seen = read(listed(requirement))
    limits = _limits(seen, names)
    kept = tuple(names)
    if not masks and (apart := _told_apart(requirement, names)):
        kept = apart
    elif limits or any(concept == "others" for part in seen.left_out for *_, concept in found("limit", part)):
        kept = called(" ".join(limits), names) or called(seen.text, names)
    elif masks and (enumerated := _enumerated(requirement, names)):
        kept = enumerated
    elif masks and not _collective(seen.text, names):
        kept = _wanted(seen.text, names, lesions) or kept
    gone, text = called(" ".join(seen.left_out), names), called(seen.text, names)
    named = [called(one, names, concepts=False) for one in (" ".join(seen.left_out), seen.text)]
    dropped = (set(gone) - set(text)) | (set(named[0]) - set(named[1]))
    return tuple(name for name in kept if name not in dropped)


def _wanted(text: str, names: Sequence[str], lesions: bool) -> tuple[str, ...]:
    """Structures that are named; none where that does not settle it."""
    spelt = called(text, names, concepts=False)
    about = _concepts(text) - set[str]().union(*map(_concepts, spelt))
    # `Niere` and `mass` are a kidney and a tumour; `heart` is more than the myocardium.
    told = {name: _concepts(name) for name in names}
    exact = special(about) & read(text).concepts("finding")  # `Zyste` is what a request calls a cyst
    meant = {
        name
        for name, own in told.items()
        if own and own <= about and (_words(name) & {_leaf(one) for one in own} or own <= exact)
    }
    chosen = _of_side(text, [name for name in names if name in {*spelt, *meant}])
    return chosen if not lesions or any(read(name).concepts("finding") for name in chosen) else ()


def _enumerated(requirement: str, names: Sequence[str]) -> tuple[str, ...]:
    """Structures that stand in brackets or behind a colon, several, where each part of the list names one: `organs at
    risk (brainstem, both parotids)`."""
    for match in _LISTED.finditer(requirement):
        text = match[1] or match[2]
        parts = [called(part, names) for part in re.split(r"[,/]| (?:and|und|et|y|e|en) ", text) if part.strip()]
        if len(parts) > 1 and all(parts) and not _EXAMPLES.match(text):
            return tuple(name for name in names if any(name in part for part in parts))
    return ()


def _collective(text: str, names: Sequence[str]) -> bool:
    """Whether a text speaks of all structures; `every polyp` is all of one."""
    rests = [text[end:].split() for _, end, _ in found("collective", text)]
    return not all(rest and called(rest[0], names, concepts=False) for rest in rests)


def _told_apart(requirement: str, names: Sequence[str]) -> tuple[str, ...]:
    """Classes on both sides of `A versus B`, `between A and B` or `tell A from B`; none without such words."""
    for match in _TOLD_APART.finditer(requirement):
        sides = [called(side, names) for side in match.groups() if side]
        if all(sides) and len(set().union(*sides)) > max(map(len, sides)):
            return tuple(name for name in names if any(name in side for side in sides))
    return ()


def _leaf(concept: str) -> str:
    return _bent(words(concept.split("/")[-1])[-1])


def _of_side(text: str, found: Sequence[str]) -> tuple[str, ...]:
    """Where a text speaks of one side alone, no name of the other."""
    sides = [side for side in _SIDES if not side.isdisjoint(words(plain(text)))]
    if len(sides) != 1:
        return tuple(found)
    other = next(side for side in _SIDES if side not in sides)
    return tuple(name for name in found if other.isdisjoint(words(plain(name))))


def _limits(seen: Reading, names: Sequence[str]) -> list[str]:
    """The parts that say what alone is wanted, each with those names before it that are parts by themselves: `liver,
    spleen and kidneys only`."""
    parts = [part.strip() for part in seen.text.split(BREAK)]
    taken: dict[int, str] = {}
    for number, part in enumerate(parts):
        alone = any(concept == "alone" for *_, concept in found("limit", part))
        if alone or (part in seen.limited and _of_names(part, names)):
            taken[number] = part
            while number and len(words(parts[number - 1])) <= _ENUMERATED and called(parts[number - 1], names):
                number -= 1
                taken[number] = parts[number]
    return [taken[number] for number in sorted(taken)]


def called(text: str, names: Sequence[str], concepts: bool = True) -> tuple[str, ...]:
    """Names that `text` says in full; by what is left of it, those whose concept it says (`Leber`), then a part or what
    it is short for (`MYO`, `IVC`). Where it speaks of one side alone, no name of the other."""
    asked = plain(listed(text))
    written = words(asked)
    # `brain stem` is a Brainstem.
    many = Counter(map(_bent, [*written, *(one + other for one, other in pairwise(written))]))
    # Of `A` or a name in other letters nothing is a word.
    full = [name for name in names if (own := _words(name)) and own <= many.keys()]
    # `liver tumours` says `liver` no second time.
    chosen = [
        name
        for name in full
        if min(many[word] for word in _words(name)) > sum(_words(name) < _words(one) for one in full)
    ]
    said = many.keys() - set[str]().union(*map(_words, chosen))
    about = _concepts(text) - set[str]().union(*map(_concepts, chosen))
    meant = [name for name in names if name not in full and _named(name, about)] if concepts else []
    said -= set[str]().union(*map(_words, meant))
    part = [name for name in names if any(len(word) > 2 and word.isalpha() for word in _words(name) & said)]
    short = [name for name in names if _shortened(name, said, asked)]
    return _of_side(text, [name for name in names if name in {*chosen, *meant, *part, *short}])


def _shortened(name: str, said: Collection[str], asked: str) -> bool:
    """Whether a name is the beginning of a word that is said, or one of both is the initials of the other."""
    own = words(plain(name))
    begins = len(own) == 1 and 3 <= len(own[0]) <= _SHORT and any(word.startswith(own[0]) for word in said)
    # Names may hold any sign: letters alone are put into a pattern.
    initials = name.isupper() and name.isalpha() and len(name) <= _SHORT
    full = " ".join(rf"\b{letter}[a-z]+" for letter in name) if initials else r"(?!)"
    return (
        begins
        or bool(re.search(full, asked.replace(" s ", " "), re.IGNORECASE))  # of `Parkinson's`
        or (len(own) > 1 and "".join(word[0] for word in own).upper() in asked.split())
    )


def _bent(word: str) -> str:
    """One form of a word: `artery` of `arteries`, `hippocamp` of `hippocampi` and `hippocampus`, `niere` of
    `nieren`."""
    if len(word) > 5 and word.endswith("en"):
        return word[:-1]
    for ending, instead in (("ie", "y"), ("us", ""), ("ae", "a"), ("i", "")):
        if len(word) > 6 and word.endswith(ending):
            return word.removesuffix(ending) + instead
    return word


def listed(text: str) -> str:
    """`L1 to L3` as `L1 L2 L3`."""

    def each(found: re.Match[str]) -> str:
        first, last = int(found[2]), int(found[3])
        return " ".join(f"{found[1]}{n}" for n in range(first, last + 1)) if first < last < first + _RANGE else found[0]

    return re.sub(r"\b([A-Za-z]*)(\d+) ?(?:[-–]|to|through|thru|bis|hasta) ?\1(\d+)\b", each, text)


def _named(name: str, about: set[str]) -> bool:
    """Whether all findings of a name, else its anatomy, are among concepts or kinds of them."""
    own = next((some for kind in _SUBJECT if (some := read(name).concepts(kind))), frozenset[str]())
    return bool(own) and all(any(f"{one}/".startswith(f"{other}/") for other in about) for one in own)


def _words(name: str) -> set[str]:
    return {"normal"} if says_nothing(name) else set(map(_bent, words(plain(name))))


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
