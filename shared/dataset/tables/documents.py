"""JSON, JSON Lines, XML and text files as records: column -> text. What repeats in a record stands in lines."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError

import defusedxml.ElementTree
import yaml
from defusedxml.common import DefusedXmlException

from shared.dataset.tables.cells import TableError
from shared.dataset.tables.cvat import is_cvat, tagged
from shared.dataset.tables.separated import encoding_of, read_text

MAX_BYTES = 1 << 30
_LABELS = ("label", "name", "type", "section", "key", "nlmcategory")
"""Attributes that say which of several equal elements one is."""
_LETTER, _CAPITAL = r"[^\W\d_]", r"[A-ZÀ-ÖØ-ÞΑ-ΩА-Я]"
_IN_HEADING = rf"(?:{_LETTER}|[ '/&()-]|\.(?=[-:]))"
_HEADING = re.compile(rf"^[ \t>*#]{{0,4}}({_LETTER}{_IN_HEADING}{{1,48}}?)[ \t]*\**[:：]\**[ \t]*(.*)$")
_ALONE = re.compile(rf"^[ \t>*#]{{0,4}}({_CAPITAL}(?:{_CAPITAL}|[ '/&()-]){{2,48}})\**[ \t]*$")
_INLINE = re.compile(rf"(?<=[.:;!?\da-zß-öø-ÿ)])[ \t]+({_CAPITAL}(?:{_CAPITAL}|[ '/&()-]){{3,40}}:)")
"""A heading in capitals within a line: tables often lose line breaks."""
_CODE = re.compile(r"[^\s\d]*\d\S*[ \t]*")
_PAIR = re.compile(
    rf"({_LETTER}{{2,}}(?: {_LETTER}{{2,}})?)(?: n\.?[ºo°]\.?)?[ \t]*:?[ \t]+((?:[A-Za-z]{{1,4}}[-. ]?)?\d[\w/.-]*)"
)
"""A word and its number, as heads of letters have them: `Study 000012 - Record H2015`."""
_BETWEEN = re.compile(r"[ \t]+[-–|][ \t]+|[;,|\t][ \t]*| {3,}")
_HEAD = 8
"""Lines of a text in which such pairs stand."""
_MOST_DEEP = 40

Record = dict[str, str]


def json_records(path: Path) -> list[Record]:
    """Rows of a JSON file: of a list of objects, of an object of objects (its keys as column `key`), of an object of
    values (`key`, `value`), of an object of lists (column `list` names the list), else one record."""
    content = load_json(path)
    if isinstance(content, Mapping):
        _refuse_coco(content, path)
        return _of_object(content)
    if isinstance(content, list):
        return [flat(item) if isinstance(item, Mapping) else {"value": _text(item)} for item in content]
    raise TableError(f"{path.name} holds a single value, no table")


def json_record(path: Path) -> Record:
    """A JSON file of one case; of a list, its first object."""
    content = load_json(path)
    if isinstance(content, list) and content:
        content = content[0]
    return flat(content) if isinstance(content, Mapping) else {"value": _text(content)}


_BROKEN = 0.02
"""Share of lines that may be broken."""


def json_lines(path: Path) -> Iterator[Record]:
    sound, broken = 0, 0
    with path.open(encoding=encoding_of(path), errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                item = parsed(line)
            except (ValueError, RecursionError):
                broken += 1
                # A download that broke off ends in half a line; where many are broken it is another kind of file.
                if broken > 1 + _BROKEN * sound:
                    why = f"{path.name}, line {number} is no JSON; one object a line is expected"
                    raise TableError(why) from None
                continue
            sound += 1
            yield flat(item) if isinstance(item, Mapping) else {"value": _text(item)}
    if broken and not sound:
        raise TableError(f"{path.name} is no JSON; one object a line is expected")


def load_json(path: Path) -> Any:
    """Content of a JSON file of bounded size, or of a YAML file by its suffix, in any encoding. Raises TableError."""
    if path.suffix.lower() in (".yaml", ".yml"):
        return _load_yaml(path)
    _check_size(path)
    try:
        return parsed(path.read_bytes().decode(encoding_of(path), errors="replace"))
    except (ValueError, RecursionError) as error:
        raise TableError(f"{path.name} is no sound JSON ({error}); repair it or convert it to CSV") from None


def _load_yaml(path: Path) -> Any:
    try:
        return yaml.load(read_text(path), Loader=_Texts)
    except (yaml.YAMLError, RecursionError) as error:
        raise TableError(f"{path.name} is no sound YAML ({error}); repair it or convert it to CSV") from None


class _Texts(yaml.CBaseLoader if hasattr(yaml, "CBaseLoader") else yaml.BaseLoader):  # type: ignore[misc]
    """Leaves numbers, dates and words such as `no` as they are written; makes no objects."""


def parsed(text: str) -> Any:
    """JSON without halves of surrogate pairs, which no text file can hold. Raises ValueError, RecursionError."""
    content = json.loads(text)
    if "\\ud" in text.lower():
        content = json.loads(json.dumps(content, ensure_ascii=False).encode("utf-8", "replace"))
    return content


def _check_size(path: Path) -> None:
    if path.stat().st_size > MAX_BYTES:
        raise TableError(f"{path.name} is larger than {MAX_BYTES >> 30} GB; convert it to CSV")


def _refuse_coco(content: Mapping[str, Any], path: Path) -> None:
    marks = content.get("annotations")
    marked = isinstance(marks, list) and any("bbox" in mark or "segmentation" in mark for mark in marks[:5])
    if marked and isinstance(content.get("images"), list):
        raise TableError(f"{path.name} holds COCO annotations, no table; use a mask rule of kind coco")


def _of_object(content: Mapping[str, Any]) -> list[Record]:
    values = list(content.values())
    if not values:
        return []
    if all(isinstance(value, Mapping) for value in values):
        return [{"key": str(key), **flat(value)} for key, value in content.items()]
    lists = {
        key: value
        for key, value in content.items()
        if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value)
    }
    if lists:
        named = [(str(key), flat(item)) for key, value in lists.items() for item in value]
        return [{**row, "list": key} if len(lists) > 1 else row for key, row in named]
    if not _names_cases(content) and all(_plain_list(value) for value in values):
        return [{"value": _text(item), "list": str(key)} for key, value in content.items() for item in value]
    # Keys of fields are words without digits; keys of cases have digits, points or slashes.
    if not any(isinstance(value, Mapping) for value in values) and _names_cases(content):
        return [{"key": str(key), "value": flat({"value": value}).get("value", "")} for key, value in content.items()]
    return [flat(content)]


def keys_of_cases(path: Path) -> set[str]:
    """Keys of a JSON object that has one for each case; empty of any other. Raises TableError."""
    content = load_json(path)
    return set(content) if isinstance(content, Mapping) and _names_cases(content) else set()


def _plain_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and not any(isinstance(item, Mapping | list) for item in value)


def _names_cases(content: Mapping[str, Any]) -> bool:
    return len(content) > 1 and sum(bool(re.search(r"[\d./]", str(key))) for key in content) > 0.5 * len(content)


def flat(item: Mapping[str, Any]) -> Record:
    """An object with inner objects and lists as columns by path: `report/impression`. Items of lists stand in lines, a
    list of numbers in a list as JSON."""
    found: dict[str, list[str]] = {}
    _flatten(item, "", found, 0)
    return {name: "\n".join(texts) for name, texts in found.items()}


def _flatten(value: Any, path: str, found: dict[str, list[str]], depth: int) -> None:
    if depth > _MOST_DEEP:
        return
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _flatten(inner, f"{path}/{key}" if path else str(key), found, depth + 1)
    elif isinstance(value, list):
        found.setdefault(path, [])
        for inner in value:
            if isinstance(inner, list) and _numeric(inner, depth):
                found.setdefault(path, []).append(json.dumps(inner))
            else:
                _flatten(inner, path, found, depth + 1)
        if not found.get(path):
            found.pop(path, None)
    else:
        found.setdefault(path, []).append(_text(value))


def _numeric(value: Any, depth: int) -> bool:
    """A number, or lists of numbers such as the points of a polygon."""
    if isinstance(value, list):
        return depth <= _MOST_DEEP and bool(value) and all(_numeric(inner, depth + 1) for inner in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def xml_records(path: Path) -> list[Record]:
    """Rows of an XML file: the root's equal elements where it has several with parts of their own, else one record."""
    root = load_xml(path)
    if is_cvat(root):
        return list(tagged(root))
    inner = list(root)
    same = {tag(element) for element in inner}
    if len(inner) > 1 and len(same) == 1 and all(len(element) or len(element.attrib) > 1 for element in inner):
        return [flat_xml(element) for element in inner]
    return [flat_xml(root)]


def xml_record(path: Path) -> Record:
    """An XML file of one case."""
    return flat_xml(load_xml(path))


def load_xml(path: Path) -> Element:
    """Root of an XML file of bounded size. Raises TableError, also for one that defines entities."""
    _check_size(path)
    try:
        root: Element = defusedxml.ElementTree.parse(path).getroot()
    except DefusedXmlException as error:
        raise TableError(f"{path.name} defines entities, which are not read; save it without them") from error
    except (ParseError, ValueError, LookupError, OSError) as error:
        raise TableError(f"{path.name} is no sound XML ({error}); repair it or convert it to CSV") from None
    return root


def tag(element: Element) -> str:
    return str(element.tag).rpartition("}")[2]


def flat_xml(root: Element) -> Record:
    """Columns by path below the root: `Abstract/AbstractText/FINDINGS` where an attribute labels equal elements,
    `parentImage/@id` for other attributes."""
    found: dict[str, list[str]] = {}
    _walk_xml(root, "", found, 0)
    return {name: "\n".join(texts) for name, texts in found.items()}


def _walk_xml(element: Element, path: str, found: dict[str, list[str]], depth: int) -> None:
    if depth > _MOST_DEEP:
        return
    for key, value in element.attrib.items():
        name = f"@{key.rpartition('}')[2]}"
        if not (depth and _label(element) == value):
            found.setdefault(f"{path}/{name}" if path else name, []).append(value)
    inline = bool(element.text and element.text.strip()) and any(
        inner.tail and inner.tail.strip() for inner in element
    )  # text with marks such as <b> in it is one text
    text = "".join(element.itertext()) if inline or not len(element) else (element.text or "")
    if text.strip():
        found.setdefault(path or "text", []).append(text.strip())
    if inline:
        return
    for inner in element:
        label = _label(inner)
        name = tag(inner) + (f"/{label}" if label else "")
        _walk_xml(inner, f"{path}/{name}" if path else name, found, depth + 1)


def _label(element: Element) -> str | None:
    """What an attribute calls an element with a text of its own."""
    if not (element.text or "").strip():
        return None
    given = {key.lower(): value for key, value in element.attrib.items()}
    return next((given[name] for name in _LABELS if given.get(name)), None)


def text_record(path: Path) -> Record:
    """A text file: column `text`, and one for each heading (`FINDINGS:`), lower case."""
    text = read_text(path)
    return {**headed(text), "text": text}


def headed(text: str) -> Record:
    """Parts of a text by their headings, lower case: `FINDINGS: ...` or a line of capitals; and numbers in its head."""
    found: dict[str, list[str]] = {}
    heading = None
    for line in _INLINE.sub(r"\n\1", text).split("\n"):
        match = _HEADING.match(line)
        if match and (match[1].isupper() or not match[2] or len(match[1].split()) < 4):
            heading, line = match[1].strip().lower(), match[2]
        elif alone := _ALONE.match(line):
            heading, line = alone[1].strip().lower(), ""
        if heading:
            found.setdefault(heading, []).append(line)
        if match and _CODE.fullmatch(match[2]):
            heading = None  # `Patient ID: 4711` ends with its line
    for line in text.split("\n")[:_HEAD]:
        parts = _BETWEEN.split(line.strip())
        pairs = [pair for part in parts if (pair := _PAIR.fullmatch(part))]
        if len(pairs) == len(parts):
            found |= {pair[1].lower(): [pair[2]] for pair in pairs if len(pairs) > 1 or pair[1].lower() not in found}
    return {name: "\n".join(lines).strip() for name, lines in found.items()}
