"""Subgroups of a case: sex, age band, maker of the scanner and site, from closed lists of headers and columns."""

import hashlib
import re
from collections.abc import Mapping, Sequence

from shared.contracts.wrapping import AgeBand, Groups, Sex

COLUMNS = {
    "sex": "sex gender patientsex patientgender",
    "age": "age patientage ageyears ageinyears agey ageatstudy ageatscan",
    "site": "site hospital center centre institution institutionname clinic siteid hospitalid centerid centreid",
    "manufacturer": "manufacturer vendor scanner scannermanufacturer scannervendor device",
}
"""Group -> names of table columns that tell it, in small letters and digits."""
_SEXES: Mapping[Sex, str] = {"female": "f female w woman", "male": "m male man", "other": "o other diverse x"}
_MAKERS = (
    "Agfa", "Canon", "Carestream", "Esaote", "Fujifilm", "GE", "Hitachi", "Hologic", "Kodak", "Konica", "Mindray",
    "Philips", "Samsung", "Shimadzu", "Siemens", "Toshiba", "United Imaging", "Varian",
)  # fmt: skip
_AGES: Sequence[tuple[int, AgeBand]] = ((18, "under 18"), (40, "18 to 39"), (60, "40 to 59"), (80, "60 to 79"))
_AGE = re.compile(r"(\d{1,3})(?:\.\d+)?\s*(y|yr|yrs|years|m|w|d)?", re.IGNORECASE)
_YEARS = {"m": 1 / 12, "w": 1 / 52, "d": 1 / 365}


def groups_of(row: Mapping[str, str]) -> Groups:
    """The groups that the columns of a table's row tell."""
    told = {}
    for name, columns in COLUMNS.items():
        told[name] = next((text for column, text in row.items() if text and plain(column) in columns.split()), "")
    return Groups(sex=_sex(told["sex"]), age=_band(told["age"]), manufacturer=_maker(told["manufacturer"]),
                  site=digest(told["site"]) or None)  # fmt: skip


def of_headers(said: Mapping[str, str]) -> Groups:
    """Of DICOM keyword -> text."""
    return Groups(
        sex=_sex(said.get("PatientSex", "")),
        age=_band(said.get("PatientAge", "")),
        manufacturer=_maker(said.get("Manufacturer", "")),
        site=digest(said.get("InstitutionName", "")) or None,
    )


def digest(text: str) -> str:
    """Of what a text says, as people write it; empty for an empty one."""
    said = " ".join(text.casefold().split())
    return hashlib.sha256(said.encode()).hexdigest()[:12] if said else ""


def plain(text: str) -> str:
    """Small letters and digits of it."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _sex(text: str) -> Sex | None:
    return next((sex for sex, words in _SEXES.items() if text.strip().casefold() in words.split()), None)


def _band(text: str) -> AgeBand | None:
    """Of an age in years, or as DICOM writes it (`063Y`, `005M`); None for what no person's age is."""
    found = _AGE.fullmatch(text.strip())
    if found is None:
        return None
    years = int(found[1]) * _YEARS.get((found[2] or "y")[0].lower(), 1.0)
    return next((band for end, band in _AGES if years < end), "80 and over" if years <= 130 else None)


def _maker(text: str) -> str | None:
    known = (name for name in _MAKERS if re.search(rf"\b{name}\b", text, re.IGNORECASE))
    return next(known, None) or digest(text) or None
