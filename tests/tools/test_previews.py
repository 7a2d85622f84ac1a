"""Previews on real files in the layouts and with the traps of public datasets."""

import base64
import gzip
import io
import json
import pickle
from dataclasses import replace
from pathlib import Path

import nibabel as nib
import numpy as np
import openpyxl
import pydicom
import pytest
from PIL import Image
from pydicom.dataset import FileDataset, FileMetaDataset

OBLIQUE = np.array([[0.76, 0.1, 0, -10], [-0.1, 0.76, 0, 5], [0, 0, 3.0, 7], [0, 0, 0, 1.0]])


def grey(seed: int = 0, side: int = 24) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (side, side), dtype=np.uint8)


@pytest.fixture
def scans(bench) -> Path:
    """class / patient / scan / slices with one cut off, AppleDouble twins, a table with a BOM and an unnamed index."""
    for number, name in enumerate(("CP", "NCP", "Normal")):
        for patient in (1, 2, 10):
            for scan in range(1 + (patient == 2)):
                folder = bench.data / name / str(patient) / str(700 + scan)
                folder.mkdir(parents=True)
                for index in range(4 + number):
                    suffix = "PNG" if name == "Normal" else "png"
                    Image.fromarray(grey(index)).save(folder / f"{index}.{suffix}")
    broken = bench.data / "CP" / "10" / "700" / "2.png"
    broken.write_bytes(broken.read_bytes()[:150])
    (bench.data / "CP" / "1" / "700" / "._0.png").write_bytes(b"\0\5\x16\7")
    (bench.data / ".DS_Store").write_bytes(b"x")
    (bench.data / "__MACOSX").mkdir()
    (bench.data / "__MACOSX" / "junk.png").write_bytes(b"x")
    rows = "".join(f"{n},{n % 5},{'NCP' if n % 3 else 'CP'},\n" for n in range(30))
    (bench.data / "scans.csv").write_text("\ufeff,scan_id,label,note\n" + rows, encoding="utf-8")
    return bench.data


async def test_a_tree_is_counted_level_by_level(bench, scans: Path) -> None:
    result = await bench("preview_dirs")
    data = result.data
    assert result.ok and data["complete"]
    assert data["total_files"] == 12 * (4 + 5 + 6) // 3 + 1
    first, patients, scans_level, slices = data["levels"][:4]
    assert first["folder_names"] == ["CP", "NCP", "Normal"] and first["folders"] == 3
    assert patients["folder_names"] == ["1", "2", "10"]
    assert scans_level["folders"] == 12
    assert slices["files_per_folder"] == {"min": 4, "median": 5, "max": 6}
    assert slices["suffixes"] == {".png": 60}
    assert data["tables"] == ["scans.csv"]
    assert sum(data["skipped"].values()) == 3 and any("__MACOSX" in why for why in data["skipped"])
    assert {image["path"].split("/")[0] for image in data["images"]} == {"CP", "NCP", "Normal"}
    assert all(image["shape"] == [24, 24] and image["dtype"] == "uint8" for image in data["images"])
    assert "Level 3" in result.summary and "__MACOSX" in result.summary


async def test_an_image_that_cannot_be_read_is_named_and_stops_no_other(bench) -> None:
    Image.fromarray(grey()).save(bench.data / "a.png")
    (bench.data / "b.png").write_bytes((bench.data / "a.png").read_bytes()[:150])
    result = await bench("preview_dirs")
    assert result.ok and [image["path"] for image in result.data["images"]] == ["a.png"]
    assert [item["path"] for item in result.data["unreadable"]] == ["b.png"] and "b.png" in result.summary


async def test_a_folder_of_thousands_is_counted_whole(bench) -> None:
    crowd = bench.data / "masks"
    crowd.mkdir()
    for index in range(3000):
        (crowd / f"m {index}.json").write_text("{}")
    result = await bench("preview_dirs")
    assert result.data["total_files"] == 3000
    assert result.data["levels"][1]["files_per_folder"]["max"] == 3000


async def test_a_table_with_its_traps(bench, scans: Path) -> None:
    result = await bench("preview_files", paths=["/data/scans.csv"], rows=2)
    facts = result.data["files"]["/data/scans.csv"]
    assert facts["rows"] == 30 and len(facts["first_rows"]) == 2
    assert list(facts["columns"])[1:] == ["scan_id", "label", "note"]
    assert facts["columns"]["label"]["values"] == {"NCP": 20, "CP": 10}
    assert facts["columns"]["scan_id"]["type"] == "integer" and facts["columns"]["scan_id"]["distinct"] == 5
    assert facts["columns"]["note"]["filled"] == 0 and "note: empty, 0 distinct, 100% empty" in result.summary


async def test_a_short_text_is_shown_whole(bench) -> None:
    said = "How it was made. " * 40 + "The last word."
    (bench.data / "README.txt").write_text(said)
    (bench.data / "reports.csv").write_text("text\nclear lungs\na nodule\n")
    result = await bench("preview_files", paths=["/data/README.txt", "/data/reports.csv"])
    assert said in result.summary and result.data["files"]["/data/README.txt"]["kind"] == "text"
    assert result.data["files"]["/data/reports.csv"]["rows"] == 2, "a table of texts stays one"


@pytest.mark.parametrize(("delimiter", "name"), [(";", "a.csv"), ("\t", "a.tsv"), ("|", "a.csv"), (",", "a.csv")])
async def test_delimiters_quotes_and_leading_zeros(bench, delimiter: str, name: str) -> None:
    lines = [
        "id,report,n".replace(",", delimiter),
        *(f'00{n},"a, b; c\nnext",{n}.5'.replace(",", delimiter) for n in range(3)),
    ]
    (bench.data / name).write_text("\n".join(lines))
    facts = (await bench("preview_files", paths=[f"/data/{name}"])).data["files"][f"/data/{name}"]
    assert facts["rows"] == 3 and [row["id"] for row in facts["first_rows"]] == ["000", "001", "002"]
    assert facts["columns"]["n"]["type"] == "number" and facts["columns"]["report"]["distinct"] == 1


async def test_a_large_table_is_counted_whole(bench) -> None:
    (bench.data / "large.csv").write_text("id,text\n" + "".join(f"{n},{'x' * 60}\n" for n in range(12_000)))
    facts = (await bench("preview_files", paths=["/data/large.csv"])).data["files"]["/data/large.csv"]
    assert facts["rows"] == 12_000 and "first 9,999 rows" in facts["notes"][0]


async def test_json_in_shape_and_out_of_shape(bench) -> None:
    entries = [{"file_name": f"{n}.png", "syms": ["Mass"] * (n % 2)} for n in range(40)]
    (bench.data / "train.json").write_text(json.dumps(entries))
    (bench.data / "labels.json").write_text('[\n  "liver", // first\n  "spleen"\n]')
    (bench.data / "index.jsonl").write_text('{"split": "train"}\n{"split": "val"}\n' * 3)
    result = await bench("preview_files", paths=["/data/train.json", "/data/labels.json", "/data/index.jsonl"], rows=1)
    files = result.data["files"]
    assert result.ok
    assert files["/data/train.json"]["rows"] == 40
    assert files["/data/train.json"]["columns"]["syms"]["values"] == {"Mass": 20}
    assert files["/data/labels.json"]["kind"] == "text" and "line 2" in files["/data/labels.json"]["notes"][0]
    assert files["/data/index.jsonl"]["columns"]["split"]["values"] == {"train": 3, "val": 3}


async def test_nifti_geometry_and_label_values(bench) -> None:
    scan = np.full((40, 48, 20), -1000, np.int16)
    scan[8:30, 8:40, 4:16] = 50
    mask = np.zeros(scan.shape)
    mask[10:12, 10:12, 6:9] = 28
    nib.save(nib.Nifti1Image(scan, OBLIQUE), bench.data / "ct.nii.gz")
    nib.save(nib.Nifti1Image(mask, OBLIQUE), bench.data / "mask.nii")
    files = (await bench("preview_files", paths=["/data/ct.nii.gz", "/data/mask.nii"])).data["files"]
    facts = files["/data/ct.nii.gz"]
    assert facts["shape"] == [40, 48, 20] and facts["dtype"] == "int16" and facts["orientation"] == "RAS"
    assert facts["spacing"] == [0.7666, 0.7666, 3.0] and facts["min"] == -1000 and facts["max"] == 50
    assert 7 < facts["oblique_degrees"] < 8 and facts["hu"]
    assert files["/data/mask.nii"]["values"] == {"0": 38388, "28": 12} and files["/data/mask.nii"]["dtype"] == "float64"


def write_dicom(path: Path) -> None:
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = pydicom.uid.CTImageStorage
    meta.MediaStorageSOPInstanceUID = pydicom.uid.generate_uid()
    data = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    data.PatientName, data.PatientBirthDate, data.PatientID = "Muster^Erika", "19600101", "P7"
    data.Modality, data.Rows, data.Columns, data.PixelSpacing, data.SliceThickness = "CT", 16, 16, [0.7, 0.7], 5
    data.BitsAllocated, data.BitsStored, data.HighBit, data.PixelRepresentation, data.SamplesPerPixel = 16, 12, 11, 0, 1
    data.PhotometricInterpretation, data.RescaleSlope, data.RescaleIntercept = "MONOCHROME2", 1, -1024
    data.PixelData = np.full((16, 16), 1074, np.uint16).tobytes()
    data.save_as(path, enforce_file_format=True)


async def test_dicom_without_what_names_a_patient(bench) -> None:
    write_dicom(bench.data / "1.2.840.113")
    result = await bench("preview_files", paths=["/data/1.2.840.113"])
    facts = result.data["files"]["/data/1.2.840.113"]
    assert facts["format"] == "DICOM" and facts["spacing"] == [0.7, 0.7] and facts["max"] == 50
    assert facts["tags"]["PatientID"] == "P7" and facts["tags"]["Modality"] == "CT"
    assert "Muster" not in result.model_dump_json() and "1960" not in result.model_dump_json()


async def test_arrays_tensors_and_pickles_are_read_without_running_them(bench, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    array = np.arange(24, dtype=np.uint16).reshape(2, 3, 4)
    np.save(bench.data / "a.npy", array)
    np.save(bench.data / "objects.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    torch.save(torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2), bench.data / "t.pt")
    (bench.data / "k.pck").write_bytes(pickle.dumps(array))
    mark = tmp_path / "ran"

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (mark,)  # type: ignore[return-value]

    (bench.data / "bomb.pkl").write_bytes(pickle.dumps(Bomb()))
    torch.save({"x": Bomb()}, bench.data / "bomb.pt")
    names = ("a.npy", "objects.npy", "t.pt", "k.pck", "bomb.pkl", "bomb.pt")
    result = await bench("preview_files", paths=[f"/data/{name}" for name in names])
    files = {path.removeprefix("/data/"): facts for path, facts in result.data["files"].items()}
    assert result.ok
    assert files["a.npy"]["max"] == 23 and files["k.pck"]["dtype"] == "uint16"
    assert files["t.pt"]["shape"] == [2, 3, 4] and files["t.pt"]["mean"] == 11.5
    assert all("error" in files[name] for name in ("objects.npy", "bomb.pkl", "bomb.pt"))
    assert not mark.exists()


async def test_damaged_files_do_not_stop_the_others(bench) -> None:
    Image.fromarray(grey()).save(bench.data / "good.png")
    (bench.data / "cut.png").write_bytes((bench.data / "good.png").read_bytes()[:200])
    (bench.data / "empty.nii.gz").touch()
    (bench.data / "cut.nii.gz").write_bytes(gzip.compress(b"\0" * 5000)[:20])
    (bench.data / "text.jpg").write_text("not an image")
    names = ("good.png", "cut.png", "empty.nii.gz", "cut.nii.gz", "text.jpg", "missing.csv")
    result = await bench("preview_files", paths=[f"/data/{name}" for name in names])
    files = result.data["files"]
    assert files["/data/good.png"]["shape"] == [24, 24]
    assert all(files[f"/data/{name}"]["error"] for name in names[1:])
    assert str(bench.data) not in result.model_dump_json()
    assert result.summary.count("NOT READ") == 4


async def test_each_sheet_of_a_workbook(bench) -> None:
    book = openpyxl.Workbook()
    for name, group in (("visits", "AD"), ("controls", "CN")):
        sheet = book.create_sheet(name)
        for line in (("id", "group"), (7, group), (8, group)):
            sheet.append(line)
    book.remove(book["Sheet"])
    book.save(bench.data / "m.xlsx")
    result = await bench("preview_files", paths=["/data/m.xlsx"])
    sheets = result.data["files"]["/data/m.xlsx"]["sheets"]
    assert sheets["visits"]["rows"] == 2 and sheets["controls"]["columns"]["group"]["values"] == {"CN": 2}
    assert "/data/m.xlsx sheet visits: 2 rows x 2 columns" in result.summary


async def test_a_scan_is_rendered_with_its_mask(bench) -> None:
    scan = np.full((40, 48, 20), -1000, np.int16)
    scan[8:30, 8:40, 4:16] = 50
    scan[20:24, 20:24, 8:12] = 400
    mask = (scan == 400).astype(np.uint8) * 3
    nib.save(nib.Nifti1Image(scan, OBLIQUE), bench.data / "ct.nii.gz")
    nib.save(nib.Nifti1Image(mask, OBLIQUE), bench.data / "mask.nii.gz")
    result = await bench("view_image", paths=["/data/ct.nii.gz"], overlays=["/data/mask.nii.gz"])
    assert result.ok and result.data["labels"] == {"3": 64} and result.data["window"] == [-450.0, 1050.0]
    assert result.data["planes"] == {"sagittal": 20, "coronal": 20, "axial": 8}
    assert "picture" not in result.data and "3 (red): 64" in result.summary
    view = bench.workspace / result.data["view"].removeprefix("/workspace/")
    with Image.open(view) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert view.stat().st_size <= 48_000
    assert base64.b64decode(result.pictures[0].content) == view.read_bytes()
    assert result.pictures[0].name == result.data["view"]
    assert (np.abs(pixels - pixels.mean(axis=2, keepdims=True)).max(axis=2) > 30).sum() > 100
    (bench.data / "small.nii.gz").write_bytes((bench.data / "mask.nii.gz").read_bytes())
    nib.save(nib.Nifti1Image(mask[:-1], OBLIQUE), bench.data / "small.nii.gz")
    refused = await bench("view_image", paths=["/data/ct.nii.gz"], overlays=["/data/small.nii.gz"])
    assert not refused.ok and "39 x 48 x 20 voxels where the image has" in refused.summary


async def test_flat_pictures_and_folders_of_slices_are_rendered(bench, scans: Path) -> None:
    flat = await bench("view_image", paths=["/data/NCP/1/700/0.png"])
    stack = await bench("view_image", paths=["/data/CP/10/700"])
    assert flat.ok and stack.ok
    assert stack.data["slices"] == 4 and "1 unreadable" in stack.summary
    broken = await bench("view_image", paths=["/data/CP/10/700/2.png"])
    assert not broken.ok and "could not be rendered" in broken.summary


async def test_cases_side_by_side_are_one_picture_with_a_name_under_each(bench) -> None:
    rng = np.random.default_rng(1)
    for number in range(3):
        scan = rng.integers(-1000, 400, (64, 64, 16)).astype(np.int16)
        mask = np.zeros(scan.shape, np.uint8)
        mask[20:40, 20 + 5 * number : 40, 4:10] = 2 - number % 2
        nib.save(nib.Nifti1Image(scan, OBLIQUE), bench.data / f"{number}.nii.gz")
        nib.save(nib.Nifti1Image(mask, OBLIQUE), bench.data / f"m{number}.nii.gz")
    Image.fromarray(rng.integers(0, 255, (60, 90), dtype=np.uint8)).save(bench.data / "flat.png")
    (bench.data / "broken.png").write_text("no picture")
    paths = [*(f"/data/{number}.nii.gz" for number in range(3)), "/data/flat.png", "/data/broken.png", "/data/gone.png"]
    masks = [*(f"/data/m{number}.nii.gz" for number in range(3)), "", "", ""]
    result = await bench("view_image", paths=paths, overlays=masks, captions=["benign", "malignant", "", "", "", ""])
    assert result.ok and len(result.pictures) == 1 and len(result.pictures[0].content) <= 64_000
    with Image.open(io.BytesIO(base64.b64decode(result.pictures[0].content))) as picture:
        assert min(picture.size) > 300
    lines = result.summary.splitlines()
    told = [f"benign, {paths[0]}", f"malignant, {paths[1]}", *paths[2:4]]
    assert [line.split(":")[0] for line in lines[:4]] == [f"{n} {one}" for n, one in enumerate(told, 1)]
    assert "axial at" in lines[0] and "2 (green)" in lines[0] and "1 (red)" in lines[1]
    assert lines[4].startswith("5 /data/broken.png could not be rendered") and "/data/gone.png" in lines[5]
    uneven = await bench("view_image", paths=paths, captions=["one"])
    assert not uneven.ok and "6 paths have 1 captions" in uneven.summary


async def test_names_of_raw_data_are_told_and_never_drawn(bench) -> None:
    """What may leave for an endpoint is decided by words, and what is drawn is none any more."""
    raw = replace(bench, roots=replace(bench.roots, templates=None))
    drawn = []
    for name in ("mueller", "schmidt"):
        Image.fromarray(grey()).save(bench.data / f"{name}.png")
    for paths, captions in ((["mueller", "mueller"], ["Mueller", ""]), (["schmidt", "schmidt"], ["", "Schmidt"])):
        result = await raw("view_image", paths=[f"/data/{name}.png" for name in paths], captions=captions)
        assert result.summary.count(paths[0]) == 2
        drawn.append(result.pictures[0].content)
    assert drawn[0] == drawn[1]


async def test_noise_still_fits_into_a_message(bench) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (1000, 1000, 3), dtype=np.uint8)
    Image.fromarray(noise).save(bench.data / "noise.png")
    result = await bench("view_image", paths=["/data/noise.png"])
    assert result.ok
    assert (bench.workspace / "views" / "noise_png.jpg").stat().st_size <= 48_000


async def test_a_missing_folder_names_its_neighbours(bench, scans: Path) -> None:
    result = await bench("preview_dirs", path="/data/NPC")
    assert not result.ok and "NCP" in result.summary
