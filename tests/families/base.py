"""What every family needs: the registry, and a `Build` that writes files and remembers the truth."""

import csv
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import SimpleITK as sitk
from PIL import Image

TASKS = ("diagnosis", "organ_segmentation", "anomaly_detection", "report_generation")


@dataclass(frozen=True)
class Family:
    """A kind of dataset: `make(folder, truth, seed)` writes the dataset below `folder` and the JSON truth beside it."""

    name: str
    task: str
    dimensions: int
    request: str
    make: Callable[[Path, Path, int], None]


FAMILIES: dict[str, Family] = {}


@dataclass
class Build:
    """One dataset being written: `folder` (the dataset), `rng` (the only source of chance), `truth` (what is so)."""

    folder: Path
    rng: np.random.Generator
    truth: dict[str, Any] = field(default_factory=dict)

    def case(
        self,
        files: str | Sequence[str],
        *,
        patient: str | None = None,
        label: str | list[str] | None = None,
        mask: Mapping[str, np.ndarray | int] | None = None,
        text: str | None = None,
        split: str | None = None,
        channels: int | None = 1,
        views: int = 1,
        **more: Any,
    ) -> None:
        """Enters a case. `mask` takes arrays (voxels other than 0 are counted) or counts; `more` stands as it is."""
        counts = None
        if mask is not None:
            counts = {k: v if isinstance(v, int) else int(np.count_nonzero(v)) for k, v in mask.items()}
        self.truth["cases"].append(
            {
                "files": [files] if isinstance(files, str) else list(files),
                "channels": channels,
                "views": views,
                "patient": patient,
                "label": label,
                "mask": counts,
                "text": text,
                "split": split,
                **more,
            }
        )

    def at(self, path: str) -> Path:
        """The absolute path of a file to write; its folder is made."""
        out = self.folder / path
        out.parent.mkdir(parents=True, exist_ok=True)
        return out

    def raw(self, path: str, data: bytes) -> None:
        self.at(path).write_bytes(data)

    def text(self, path: str, text: str, encoding: str = "utf-8") -> None:
        self.raw(path, text.encode(encoding))

    def json(self, path: str, value: Any, indent: int | None = 1) -> None:
        self.text(path, json.dumps(value, indent=indent))

    def csv(self, path: str, header: Sequence[str] | None, rows: Iterable[Sequence[Any]], **how: Any) -> None:
        """Writes a table. `sep` and `encoding` as asked, else comma and UTF-8."""
        out = io.StringIO(newline="")
        writer = csv.writer(out, delimiter=how.get("sep", ","), lineterminator=how.get("end", "\n"))
        if header is not None:
            writer.writerow(header)
        writer.writerows(rows)
        self.text(path, out.getvalue(), how.get("encoding", "utf-8"))

    def xlsx(self, path: str, sheets: Mapping[str, Sequence[Sequence[Any]]]) -> None:
        """Writes a workbook whose bytes do not tell the time of writing."""
        import openpyxl

        book = openpyxl.Workbook()
        book.remove(book.active)
        for title, rows in sheets.items():
            sheet = book.create_sheet(title)
            for row in rows:
                sheet.append(list(row))
        buffer = io.BytesIO()
        book.save(buffer)
        stamp = f"{book.properties.modified:%Y-%m-%dT%H:%M:%SZ}".encode()
        made = f"{book.properties.created:%Y-%m-%dT%H:%M:%SZ}".encode()
        with zipfile.ZipFile(buffer) as old, zipfile.ZipFile(self.at(path), "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                data = old.read(name)
                if name == "docProps/core.xml":
                    data = data.replace(stamp, b"2019-03-04T10:11:12Z").replace(made, b"2019-03-04T10:11:12Z")
                new.writestr(zipfile.ZipInfo(name), data)

    def picture(self, path: str, array: np.ndarray, **how: Any) -> str:
        """Writes an array (H, W) or (H, W, 3) as the suffix says."""
        Image.fromarray(array).save(self.at(path), **how)
        return path

    def nifti(self, path: str, array: np.ndarray, affine: np.ndarray | None = None, dtype: Any = np.int16) -> str:
        """Writes an array (X, Y, Z[, C]) whose x runs to the left and y to the back, unless an affine is given."""
        image = nibabel.Nifti1Image(array.astype(dtype), lps() if affine is None else affine, dtype=dtype)
        nibabel.save(image, self.at(path))
        return path

    def itk(self, path: str, array: np.ndarray, spacing: Sequence[float] = (1.5, 1.5, 3.0), packed: bool = True) -> str:
        """Writes an array (X, Y, Z) as NRRD, MHA or MHD by SimpleITK."""
        image = sitk.GetImageFromArray(np.ascontiguousarray(array.T))
        image.SetSpacing([float(s) for s in spacing])
        image.SetOrigin((-120.0, -110.5, 37.5))
        sitk.WriteImage(image, str(self.at(path)), packed)
        return path

    def broken(self, path: str, data: bytes = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00") -> str:
        """Writes an image that nobody can open, and says so in the truth."""
        self.raw(path, data)
        self.truth["broken"].append(path)
        return path

    def clutter(self, *what: str, under: str = "") -> None:
        """Writes the litter of desks: any of mac, macosx, windows, preview."""
        base = under + "/" if under else ""
        if "mac" in what:
            self.raw(base + ".DS_Store", b"\x00\x00\x00\x01Bud1\x00\x00\x10\x00" + bytes(200))
        if "macosx" in what:
            self.raw("__MACOSX/._" + (under or "images"), APPLE_DOUBLE)
        if "windows" in what:
            self.raw(base + "Thumbs.db", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(200))
            self.text(base + "desktop.ini", "[.ShellClassInfo]\r\nIconResource=shell32.dll,4\r\n")
        if "preview" in what:
            self.picture(base + "preview.png", self.rng.integers(0, 255, (40, 160, 3), dtype=np.uint8))

    def pick(self, *values: Any) -> Any:
        """One of the values, by chance."""
        return values[int(self.rng.integers(len(values)))]


APPLE_DOUBLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        " + bytes(80)


def lps(spacing: Sequence[float] = (1.5, 1.5, 3.0), origin: Sequence[float] = (120.0, 110.5, 37.5)) -> np.ndarray:
    """The NIfTI affine (RAS mm) of an array whose axes run left, posterior, superior."""
    affine = np.diag([-spacing[0], -spacing[1], spacing[2], 1.0])
    affine[:3, 3] = origin
    return affine


def family(
    name: str, task: str, dimensions: int, request: str, *, notes: str, patients_known: bool = True, **more: Any
) -> Callable[[Callable[[Build], None]], Callable[[Build], None]]:
    """Registers a writer. `more` goes into the truth: `expect` ("ready" unless told), `ask`, `mask_tolerance`."""

    def register(write: Callable[[Build], None]) -> Callable[[Build], None]:
        def make(folder: Path, truth: Path, seed: int) -> None:
            build = Build(folder, np.random.default_rng([seed, zlib.crc32(name.encode())]))
            build.truth = {
                "task": task,
                "dimensions": dimensions,
                "expect": "ready",
                **more,
                "patients_known": patients_known,
                "notes": notes,
                "broken": [],
                "left_out": [],
                "cases": [],
            }
            folder.mkdir(parents=True, exist_ok=True)
            write(build)
            truth.write_text(json.dumps(build.truth, indent=1, ensure_ascii=False), encoding="utf-8")

        FAMILIES[name] = Family(name, task, dimensions, request, make)
        return write

    return register
