"""Tables in Excel files, as raw rows of text."""

import datetime
import mimetypes
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shared.dataset.tables.cells import TableError, limited, nearest

MAX_BYTES = 1 << 30
"""Of all parts of a file, unpacked."""


def sheets(path: Path) -> tuple[str, ...]:
    """Names of the sheets in their order. Raises TableError."""
    book = _opened(path)
    try:
        return tuple(book.sheetnames)
    finally:
        book.close()


def rows(path: Path, sheet: str | None = None) -> Iterator[Sequence[str]]:
    """Raw rows of a sheet, of the first one with cells when `sheet` is None. Raises TableError."""
    book = _opened(path)
    try:
        yield from limited(_rows(book, sheet, path.name), path.name)
    except (zipfile.BadZipFile, KeyError, ValueError, OSError) as error:
        if isinstance(error, TableError):
            raise
        raise TableError(f"{path.name} cannot be read to its end ({error}); save it again or as CSV") from None
    finally:
        book.close()


def _opened(path: Path) -> Any:
    # openpyxl asks for the machine's types of files when it is imported, and a sandbox does not show them.
    mimetypes.knownfiles.clear()
    import openpyxl
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        with zipfile.ZipFile(path) as parts:
            if sum(part.file_size for part in parts.infolist()) > MAX_BYTES:
                raise TableError(f"{path.name} is larger than {MAX_BYTES >> 30} GB unpacked; save it as CSV")
        return openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
    except TableError:
        raise
    except (zipfile.BadZipFile, InvalidFileException, KeyError, ValueError, OSError, TypeError) as error:
        raise TableError(f"{path.name} is no sound Excel file ({error}); save it again or as CSV") from None


def _rows(book: Any, sheet: str | None, name: str) -> Iterator[list[str]]:
    chosen = None
    if sheet is not None:
        chosen = next((one for one in book.sheetnames if one.strip().lower() == sheet.strip().lower()), None)
        if chosen is None:
            raise TableError(f"{name} has no sheet {sheet!r}{nearest(sheet, book.sheetnames)}")
    for sheet_ in [book[chosen]] if chosen else book.worksheets:
        if not hasattr(sheet_, "reset_dimensions"):
            continue  # a sheet of charts
        sheet_.reset_dimensions()
        empty = True
        for row in sheet_.iter_rows():
            texts = [_text(one.value, one) for one in row]
            while texts and not texts[-1]:
                texts.pop()
            empty = empty and not texts
            yield texts
        if not empty:
            return


def _text(value: Any, shown: Any) -> str:
    """A cell as it is seen: `7` of 7.0, `007` where its format says so, dates as 2020-01-31."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    if isinstance(value, int):
        zeros = getattr(shown, "number_format", "") or ""
        return str(value).zfill(len(zeros)) if re.fullmatch("0{2,}", zeros) else str(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat(sep=" ") if isinstance(value, datetime.datetime) else value.isoformat()
    return str(value)
