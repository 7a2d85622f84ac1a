"""What marks regions without being an image: annotation files by their content, COCO files, run-length codes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from shared.contracts.rules import MaskKind
from shared.dataset.shapes.annotations import Annotated
from shared.dataset.shapes.cvat import read_cvat
from shared.dataset.shapes.label_studio import is_label_studio, read_label_studio
from shared.dataset.shapes.outlines import named_outlines
from shared.dataset.shapes.via import is_via, read_via
from shared.dataset.survey.table_looks import TableLook
from shared.dataset.tables.cells import TableError
from shared.dataset.tables.documents import load_json

_LARGEST_JSON = 256 << 20
_RUNS = re.compile(r"\d+ \d+(?: \d+ \d+)*")


@dataclass(frozen=True)
class Listed:
    """Pictures and structures of a file that tells of many pictures: COCO, Label Studio, CVAT."""

    kind: MaskKind
    names: frozenset[str]
    marked: frozenset[str]
    """Names of the pictures with an annotation; of CVAT of those that somebody looked at for sure."""
    structures: tuple[str, ...]


def listed_in(path: Path) -> Listed | None:
    """None where a file is none, or marks nothing."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            return None
        if path.suffix.lower() == ".csv" or is_via(path):
            return _read("via", read_via(path)) if is_via(path) else None
        if path.suffix.lower() == ".xml":
            return _read("cvat", read_cvat(path))
        held = load_json(path)
        if is_label_studio(held):
            return _read("label_studio", read_label_studio(path))
        marks = held["annotations"]
        if not any("bbox" in mark or "segmentation" in mark for mark in marks[:20]):
            return None
        names = {one["id"]: str(one["file_name"]) for one in held["images"]}
        marked = frozenset(names[mark["image_id"]] for mark in marks if mark["image_id"] in names)
        kinds = tuple(dict.fromkeys(str(one.get("name", one["id"])) for one in held["categories"]))
    except (TableError, KeyError, TypeError, AttributeError, OSError):
        return None
    return Listed("coco", frozenset(names.values()), marked, kinds)


def _read(kind: MaskKind, pictures: Sequence[Annotated]) -> Listed | None:
    kinds = tuple(dict.fromkeys(mark.structure for one in pictures for mark in one.marks))
    names, told = (frozenset(one.name for one in some) for some in (pictures, [one for one in pictures if one.judged]))
    return Listed(kind, names, told, kinds) if kinds else None


def kind_of_marks(path: Path, suffix: str) -> MaskKind | None:
    """VOC, labelme (or other named outlines) or YOLO; None of any other file."""
    try:
        with path.open("rb") as stream:
            head = stream.read(50_000).decode("utf-8", "replace")
        if suffix == ".json":
            content = load_json(path)
            shapes = content.get("shapes") if isinstance(content, Mapping) else None
            return "labelme" if shapes or any(True for _ in named_outlines(content)) else None
    except (TableError, OSError):
        return None
    if suffix == ".xml":
        return "voc" if "<annotation" in head and "<bndbox>" in head else None
    lines = [line.split() for line in head.splitlines()[:20] if line.strip()]
    yolo = [line for line in lines if len(line) >= 5 and line[0].isdigit() and all(map(_is_share, line[1:]))]
    return "yolo" if lines and len(yolo) == len(lines) else None


def _is_share(text: str) -> bool:
    try:
        return -0.05 <= float(text) <= 1.05
    except ValueError:
        return False


def says_boxes(column: str) -> bool:
    """Whether a column of numbers is called boxes, so that they are no run-length codes."""
    return bool(re.search(r"box(?:es)?(?![a-z])|rect|xyxy|xywh", column, re.IGNORECASE))


def runs_in(table: TableLook) -> str | None:
    """The column of run-length codes."""
    for column in table.columns:
        cells = [row[column.name].strip() for row in table.rows[:2000] if row.get(column.name, "") not in ("", "-1")]
        codes = [cell for cell in cells[:300] if _RUNS.fullmatch(cell)]
        enough = len(codes) >= 2 and len(codes) * 10 >= 9 * len(cells[:300])
        if enough and any(cell.count(" ") >= 3 for cell in codes) and not says_boxes(column.name):
            return column.name
    return None
