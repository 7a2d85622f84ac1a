"""The intake program on real files: canonical files, masks, what is left out, copies, canaries, what kills workers."""

import gzip
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import pytest
from intake_files import AFFINE, CANARY, DATE, LESION, PICTURE, TOUCHED, TUMOUR, VOLUME, write_all
from intake_shard import Ran, case, run
from PIL import Image

from shared.contracts.cases import CaseSpec, MaskSpec, Shape
from shared.dataset.intake.groups import digest
from shared.dataset.intake.intake_records import Order
from shared.looks import FLAT, NOTHING, SOLID

SERIES = [f"series/{CANARY}{z}.dcm" for z in (0, 1, 2, 10 - 3, 3, 4, 5, 6)]
LABELS = f"labels {CANARY}.png"


def marked(key: str, rule: Any, kind: Any, *numbers: float, **fields: Any) -> CaseSpec:
    """The picture with one shape on it."""
    shape = Shape(value=1, kind=kind, numbers=numbers)
    return case(key, "copy.tif", masks=[MaskSpec(kind=rule, shapes=(shape,), **fields)])


def file(name: str, **values: int) -> MaskSpec:
    return MaskSpec(kind="file", files=(name,), values={key.lstrip("v"): value for key, value in values.items()})


STAR = MaskSpec(kind="file", files=(LABELS,), values={"*": 1})
COLOURS = MaskSpec(kind="palette", files=("palette.png",), values={"#030000": 1, "#c80000": 2})
PICTURES: list[CaseSpec] = [
    case("png", f"{CANARY}/{DATE}.png"),
    case("tif", "copy.tif"),
    case("bmp", "copy.bmp"),
    case("jpg", "photo.jpg"),
    case("sixteen", "sixteen.png"),
    case("colour", "colour.png"),
    case("scaled", "copy.tif", slope=2.5),
    case("constant", "constant.png"),
    case("cut", "cut.png"),
    case("missing", "nowhere.png"),
    case("volume among pictures", "scan.nii.gz"),
    case("bomb.npy", "bomb.npy"),
    case("bomb.npz", "bomb.npz"),
    case("bomb.pkl", "bomb.pkl"),
    case("bomb.pt", "bomb.pt"),
    case("oversized", "oversized.png"),
    case("file", "copy.tif", masks=[file(LABELS, v3=1, v200=2)]),
    case("some", "copy.tif", masks=[file(LABELS, nonzero=0, v200=7)]),
    case("unnamed", "copy.tif", masks=[file(LABELS, v200=7)]),
    case("nonzero", "copy.tif", masks=[file(LABELS, nonzero=4)]),
    case("star", "copy.tif", masks=[STAR]),
    case("on top", "copy.tif", masks=[STAR, file(LABELS, nonzero=0, v200=9)]),
    case("twice", "copy.tif", masks=[file("twice.png", v3=1)]),
    case("palette", "copy.tif", masks=[COLOURS]),
    marked("box", "coco", "box", 10, 5, 10, 10),
    marked("middle", "yolo", "relative_box", 0.375, 1 / 3, 0.25, 1 / 3),
    marked("polygon", "labelme", "polygon", 10, 5, 20, 5, 20, 15, 10, 15),
    marked("shares", "yolo", "relative_polygon", 0.25, 1 / 6, 0.5, 1 / 6, 0.5, 0.5, 0.25, 0.5),
    marked("runs", "rle", "runs", *(number for x in range(10, 20) for number in (x * 30 + 6, 10))),
    marked("rows", "rle", "runs", *(n for y in range(5, 15) for n in (y * 40 + 10, 10)), order="rows", start=0),
    marked("coco runs", "coco", "coco_runs", 305, *(10, 20) * 9, 10, 615),
    marked("past the end", "rle", "runs", 1, 5, 1199, 3),
    marked("coco past the end", "coco", "coco_runs", 1000, 300),
    marked("outside", "voc", "box", 30, 5, 30, 10),
    marked("of another size", "voc", "box", 1, 5, 3, 3, size=(80, 60)),
    case("last", "copy.tif"),
]
VOLUMES: list[CaseSpec] = [
    case("nii", "scan.nii.gz", masks=[file("labels.nii.gz", v2=1)]),
    case("turned", "turned.nii"),
    case("nrrd", "copy.nrrd"),
    case("series", SERIES),
    case("seg", SERIES, masks=[MaskSpec(kind="dicom_seg", files=("seg.dcm",), values={"tumour": 2})]),
    case("contours", SERIES, masks=[MaskSpec(kind="rtstruct", files=("struct.dcm",), values={"lesion": 1})]),
    case("channels", "scan.nii.gz", "turned.nii"),
    case("elsewhere", "scan.nii.gz", masks=[file("elsewhere.nii.gz", v2=1)]),
    case("nan", "nan.nii.gz"),
    case("oversized", "oversized.nii.gz"),
    case("zip bomb", "zipbomb.npz"),
    case("slices", ["copy.tif", "copy.tif", "photo.jpg"]),
    case("picture among volumes", "copy.tif"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("intake") / "data"
    root.mkdir()
    TOUCHED.unlink(missing_ok=True)
    write_all(root)
    return root


@pytest.fixture(scope="module")
def pictures(data: Path) -> Ran:
    return run(data, data.parent / "pictures", PICTURES, Order(dimensions=2, memory_mb=3000, seconds=60))


@pytest.fixture(scope="module")
def volumes(data: Path) -> Ran:
    return run(data, data.parent / "volumes", VOLUMES, Order(dimensions=3, masks=True, memory_mb=3000, seconds=60))


def read(ran: Ran, key: str, name: str) -> Any:
    path = ran.files(key)[name]
    return nibabel.load(path) if name.endswith(".nii.gz") else np.asarray(Image.open(path))


def test_pictures_keep_their_pixels_and_copies_are_known_whatever_the_format(pictures: Ran) -> None:
    for key in ("png", "tif", "bmp"):
        assert pictures.taken[key].images == ("image.png",) and (read(pictures, key, "image.png") == PICTURE).all()
    names = ("png", "tif", "bmp", "jpg")
    assert len({bytes(pictures.looks[key]["content"]) for key in names}) == 2
    assert len({bytes(pictures.looks[key]["look"]) for key in names[:3]}) == 1
    assert len({next(iter(pictures.files(key).values())).read_bytes() for key in names[:3]}) == 1
    assert all(pictures.looks[key]["kind"] == FLAT for key in names)
    assert (read(pictures, "sixteen", "image.png") == PICTURE.astype(np.uint16) * 200).all()
    assert read(pictures, "colour", "image.png").shape == (30, 40, 3)
    [scaled] = pictures.files("scaled").values()
    assert np.asarray(Image.open(scaled)).max() == pytest.approx(2.5 * PICTURE.max())


def test_facts_tell_the_content_and_wrapping_the_files(pictures: Ran, volumes: Ran, data: Path) -> None:
    facts: dict[str, Any] = pictures.taken["tif"].facts
    assert facts["shape"] == [40, 30] and facts["dtype"] == "uint8" and facts["channels"] == 1
    assert facts["percentiles"] == pytest.approx(np.percentile(PICTURE, (0.5, 50, 99.5)))
    around = pictures.taken["tif"].wrapping
    assert around.kinds["format"] == (digest(".tif"),) and around.numbers["dimensions"] == (30.0, 40.0)
    canonical = sum(path.stat().st_size for path in pictures.files("tif").values())
    sizes = [(data / "copy.tif").stat().st_size / part for part in (PICTURE.size, canonical)]
    assert around.numbers["file size"] == pytest.approx(np.log2(sizes), abs=0.25)
    ct: dict[str, Any] = volumes.taken["series"].facts
    assert ct["shape"] == [12, 10, 8] and ct["spacing"] == pytest.approx([0.7, 0.8, 2.5]) and ct["hu"]
    around = volumes.taken["series"].wrapping
    assert around.numbers["spacing"] == pytest.approx([0.7, 0.8, 2.5])
    assert around.numbers["study date"] == (float(date(2020, 1, 1).toordinal()),)
    assert around.kinds["scanner"] == (digest("Acme"), "", "", "") and around.groups.manufacturer == digest("acme")
    assert "Acme" not in volumes.taken["series"].model_dump_json()
    both: dict[str, Any] = volumes.taken["channels"].facts
    assert both["channels"] == 2 and len(both["percentiles"]) == 6, "of one channel after the other"


def test_volumes_are_turned_to_one_form_and_copies_are_known(volumes: Ran) -> None:
    for key in ("nii", "turned", "nrrd", "series"):
        image = read(volumes, key, "image.nii.gz")
        assert (np.asarray(image.dataobj) == VOLUME).all() and np.allclose(image.affine, AFFINE, atol=1e-4), key
        assert volumes.looks[key]["kind"] == SOLID
    assert len({bytes(volumes.looks[key]) for key in ("nii", "turned", "nrrd", "series")}) == 1
    assert read(volumes, "channels", "image.nii.gz").shape == (12, 10, 8, 2)
    assert read(volumes, "slices", "image.nii.gz").shape == (40, 30, 3)


def test_masks_lie_on_the_canonical_grid(pictures: Ran, volumes: Ran) -> None:
    mask = read(volumes, "nii", "mask.nii.gz")
    assert (np.asarray(mask.dataobj) == (VOLUME > 500)).all() and np.allclose(mask.affine, AFFINE, atol=1e-4)
    assert (np.asarray(read(volumes, "seg", "mask.nii.gz").dataobj) == 2 * TUMOUR).all()
    assert (np.asarray(read(volumes, "contours", "mask.nii.gz").dataobj) == LESION).all()
    assert volumes.taken["nii"].values == (1,)
    assert volumes.taken["nii"].facts["label_voxels"] == {"1": int((VOLUME > 500).sum())}
    inside = volumes.taken["nii"].facts["percentiles_inside"]
    assert inside == {"1": pytest.approx(np.percentile(VOLUME[VOLUME > 500], (0.5, 50, 99.5)))}
    assert volumes.taken["turned"].facts["percentiles_inside"] == {}
    assert volumes.taken["turned"].values == () and not np.asarray(read(volumes, "turned", "mask.nii.gz").dataobj).any()
    square = np.zeros((30, 40), np.uint8)
    square[5:15, 10:20] = 1
    for key in ("box", "middle", "polygon", "shares", "runs", "rows", "coco runs"):
        assert (read(pictures, key, "mask.png") == square).all(), key
    both = square.copy()
    both[20:25, 30:40] = 2
    for key in ("file", "palette"):
        assert (read(pictures, key, "mask.png") == both).all() and pictures.taken[key].values == (1, 2)
    assert (read(pictures, "some", "mask.png") == 7 * (both == 2)).all()
    assert (read(pictures, "nonzero", "mask.png") == 4 * (both > 0)).all()
    assert pictures.taken["star"].values == (3, 200) and pictures.taken["on top"].values == (3, 9)
    assert (read(pictures, "on top", "mask.png") == 3 * (both == 1) + 9 * (both == 2)).all()
    assert pictures.taken["tif"].mask is None


LEFT_OUT = {
    "constant": "one value only", "cut": "damaged", "missing": "does not exist", "volume among pictures": "is a volume",
    "bomb.npy": "", "bomb.npz": "", "bomb.pkl": "", "bomb.pt": "", "oversized": "", "twice": "60",
    "unnamed": "has: 3;", "past the end": "ends outside", "coco past the end": "covers 1300",
    "outside": "20 pixels outside", "of another size": "80 x 60",
}  # fmt: skip


def test_what_is_no_case_is_left_out_with_reason_and_remedy_and_the_others_are_not(pictures: Ran, volumes: Ran) -> None:
    left = {key: taken.left_out for key, taken in pictures.taken.items() if taken.left_out}
    of_volumes = {key: taken.left_out for key, taken in volumes.taken.items() if taken.left_out}
    for key, reason in (left | of_volumes).items():
        print(f"{key:24}{reason}")
        assert (";" in reason or ":" in reason) and len(reason) < 450
    assert set(left) == set(LEFT_OUT) and all(words in left[key] for key, words in LEFT_OUT.items())
    assert set(of_volumes) == {"elsewhere", "nan", "oversized", "zip bomb", "picture among volumes"}
    assert all(pictures.looks[key]["kind"] == NOTHING and not pictures.files(key) for key in left)
    assert not TOUCHED.exists()


def plain_bytes(path: Path) -> Iterator[bytes]:
    yield path.read_bytes()
    if path.name.endswith(".gz"):
        yield gzip.decompress(path.read_bytes())


def test_no_name_date_or_text_of_the_originals_survives(pictures: Ran, volumes: Ran, data: Path) -> None:
    canaries = [
        word.encode(coding) for word in (CANARY, "SMITH", DATE, "20200101") for coding in ("latin1", "utf-16-le")
    ]
    seen = 0
    for ran in (pictures, volumes):
        for path in (ran.folder / "out").rglob("*"):
            assert not any(word in str(path.relative_to(ran.folder)) for word in (CANARY, DATE))
            for content in plain_bytes(path) if path.is_file() else ():
                seen += 1
                assert not any(canary in content for canary in canaries), path
        assert not any(CANARY in taken.left_out or DATE in taken.left_out for taken in ran.taken.values())
    originals = [content for path in data.rglob("*") if path.is_file() for content in plain_bytes(path)]
    assert seen > 30 and sum(CANARY.encode() in content for content in originals) > 10
    assert all(not image.text for path in pictures.folder.rglob("*.png") for image in [Image.open(path)])  # type: ignore[attr-defined]


def test_the_same_files_give_the_same_bytes(pictures: Ran, data: Path) -> None:
    again = run(data, data.parent / "again", PICTURES, Order(dimensions=2, workers=1, memory_mb=1500, seconds=60))
    files = {path.relative_to(again.folder): path for path in again.folder.rglob("*") if path.is_file()}
    for name, path in files.items():
        assert path.read_bytes() == (pictures.folder / name).read_bytes(), name


def test_a_worker_that_a_case_kills_is_replaced(data: Path, tmp_path: Path) -> None:
    shutil.copy(data / "copy.tif", tmp_path / "good.tif")
    Image.new("L", (9000, 9000)).save(tmp_path / "long.png", compress_level=1)
    big = np.lib.format.open_memmap(tmp_path / "big.npy", "w+", np.int16, (700, 700, 700))
    big[0, 0, 0] = 1
    del big
    slow = [case(f"good {number}", "good.tif") for number in range(3)]
    slow.insert(1, case("long", *["long.png"] * 60))
    ran = run(tmp_path, tmp_path / "slow", slow, Order(dimensions=2, workers=2, memory_mb=8000, seconds=1))
    assert {key: taken.ended for key, taken in ran.taken.items() if taken.left_out} == {"long": "seconds"}
    large = [case(f"good {number}", ["good.tif"] * 4) for number in range(3)]
    large.insert(1, case("big", "big.npy"))
    ran = run(tmp_path, tmp_path / "large", large, Order(dimensions=3, workers=2, memory_mb=800, seconds=60))
    assert {key: taken.ended for key, taken in ran.taken.items() if taken.left_out} == {"big": "memory"}
