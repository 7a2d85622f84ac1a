"""Forms in which names and keys are compared, from exact to loose."""

import re
import unicodedata

from shared.imaging.formats import suffix_of

_SHORTEST_CODE, _SHORTEST_MIXED = 6, 4
_DIGITS = re.compile(r"0*(\d+)")
_SIGNS, _LOOSE = re.compile(r"[\W_]+"), re.compile(r"(?<!\d)_|_(?!\d)")
_ZEROS, _BETWEEN = re.compile(r"(?<!\d)0+(?=\d)"), re.compile(r"(?<=[^\W\d_])[\s_.-]+(?=\d)")
_APART = re.compile(r"[\s_\-.]+")
DAY = re.compile(r"(?:19|20)\d\d[01]\d[0-3]\d")
"""A day as one number, which `same` makes of it."""
_DAY = re.compile(r"(?<!\d)((?:19|20)\d\d)[-_. ]([01]\d)[-_. ]([0-3]\d)(?:[ t]00:00(?::00)?)?(?!\d)")
_PREFIX = re.compile(r"(?:sub_|[a-z]+_?(?=\d))(.+)")


def base(path: str) -> str:
    """The last name of a path."""
    return path.replace("\\", "/").rstrip("/").rpartition("/")[2]


def stem(path: str) -> str:
    """The same without its suffix."""
    name = base(path)
    return name[: len(name) - len(suffix_of(name))]


def _zeroth(text: str) -> str:
    text = text.strip().replace("\\", "/").strip("/")
    while text.startswith("./"):
        text = text[2:].lstrip("/")
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def _first(text: str) -> str:
    return _zeroth(text).casefold()


def _second(text: str) -> str:
    text = _first(text)
    # Twice, since pictures of DICOM files are often called `x.dcm.png`.
    for _ in range(2 if "." in text else 0):
        suffix = suffix_of(text)
        text = text[: len(text) - len(suffix)]
    return text


def same(text: str) -> str:
    """One form for texts that differ in case, spaces, hyphens, leading zeros or suffixes only, and for days that are
    written `2020-01-08` and `20200108`."""
    return _DIGITS.sub(r"\1", _APART.sub("_", _DAY.sub(r"\1\2\3", _second(text))))


FORMS = (_zeroth, _first, _second, same)
"""From exact to loose; what is equal in one is in all that follow."""


def numbered(text: str) -> str:
    """One form for texts that differ in case, or as numbers in zeros before them, only."""
    return text.lstrip("0") or "0" if text.isdecimal() else text.casefold()


def code(text: str) -> str:
    """A number of six characters or more, or of four with letters, without what people put between them:
    `TC/2020/00123` is `tc202000123`. Empty where it is shorter, or has no digit."""
    found = re.sub(r"[\W_]+", "", _second(text))
    least = _SHORTEST_CODE if found.isdecimal() else _SHORTEST_MIXED
    return found if len(found) >= least and re.search(r"\d", found) else ""


def person(text: str) -> str:
    """One form for numbers of people that differ in case, zeros before them or what stands between letters and number
    only: `H-0457`, `H457` and `h 000457`."""
    return _ZEROS.sub("", _BETWEEN.sub("", _first(text)))


def tight(text: str) -> str:
    """Without case, spaces and signs but for those between two digits: `TS-001_2` is `ts001_2`."""
    return _LOOSE.sub("", _SIGNS.sub("_", _first(text)))


def structure(text: str) -> str:
    """One form for what people call a structure: `SPINAL CORD`, `SpinalCord` and `spinal_cord`."""
    return tight(same(text))


def bare(text: str) -> str:
    """The last name without letters before its number: `sub-01` and `patient_1` are `1`."""
    last = same(base(text))
    found = _PREFIX.fullmatch(last)
    return found[1] if found else last
