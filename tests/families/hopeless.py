"""Datasets from which nothing can be built; the truth says why (`expect`), and `cases` stays empty."""

import struct
import zlib

import numpy as np

from .base import Build, family
from .pictures import chest_film, endoscopy, skin, ultrasound
from .volumes import abdomen, chest_ct


def avi(frames: list[bytes], width: int, height: int) -> bytes:
    """A Motion JPEG AVI of JPEG frames."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)

    head = struct.pack("<14I", 100000, 0, 0, 0x10, len(frames), 0, 1, 0, width, height, 0, 0, 0, 0)
    stream = b"vidsMJPG" + struct.pack("<10I4H", 0, 0, 0, 1, 10, 0, len(frames), 0, 0, 0, 0, 0, width, height)
    form = struct.pack("<IiiHH4sIiiII", 40, width, height, 1, 24, b"MJPG", width * height * 3, 0, 0, 0, 0)
    strl = chunk(b"LIST", b"strl" + chunk(b"strh", stream) + chunk(b"strf", form))
    hdrl = chunk(b"LIST", b"hdrl" + chunk(b"avih", head) + strl)
    movi = chunk(b"LIST", b"movi" + b"".join(chunk(b"00dc", f) for f in frames))
    return chunk(b"RIFF", b"AVI " + hdrl + movi)


@family(
    "videos_only",
    "diagnosis",
    2,
    "classify echo / ultrasound clips as normal or abnormal",
    notes="AVI clips and a table, no still pictures at all",
    expect="not_supported",
)
def videos_only(b: Build) -> None:
    import io

    from PIL import Image

    rows = []
    for _ in range(24):
        kind = b.pick("normal", "malignant")
        frames = []
        for _frame in range(4):
            out = io.BytesIO()
            Image.fromarray(ultrasound(b.rng, kind)[0]).save(out, "JPEG")
            frames.append(out.getvalue())
        name = f"0X{b.rng.bytes(8).hex().upper()}"
        b.raw(f"Videos/{name}.avi", avi(frames, 80, 64))
        rows.append((name, kind))
    b.csv("FileList.csv", ("FileName", "Class"), rows)


@family(
    "no_labels",
    "diagnosis",
    2,
    "detect pneumonia in these x-rays",
    notes="pictures with neutral names and nothing else: no class, no table",
    expect="infeasible",
)
def no_labels(b: Build) -> None:
    for i in range(30):
        b.picture(f"xrays/IMG_{i:04d}.png", chest_film(b.rng, *(["pneumonia"] if i % 2 else []))[0])
    b.text("readme.txt", "x-rays 2019\n")


@family(
    "one_class",
    "diagnosis",
    2,
    "Melanoma yes/no classifier",
    notes="only melanoma is there: one class folder, and the table says the same",
    expect="infeasible",
)
def one_class(b: Build) -> None:
    rows = []
    for i in range(30):
        b.picture(f"melanoma/m{i:03d}.jpg", skin(b.rng, "melanoma")[0], quality=92)
        rows.append((f"m{i:03d}.jpg", "melanoma"))
    b.csv("labels.csv", ("file", "label"), rows)


@family(
    "one_patient",
    "organ_segmentation",
    2,
    "liver segmentation on CT slices",
    notes="thirty slices with masks, all of the one patient the table names: no patient is left to test on",
    expect="infeasible",
)
def one_patient(b: Build) -> None:
    volume, masks = abdomen(b.rng, (64, 56, 36))
    rows = []
    for z in range(3, 33):
        shown = (np.clip((volume[:, :, z].T + 200.0) / 500, 0, 1) * 255).astype(np.uint8)
        b.picture(f"images/slice_{z:03d}.png", shown)
        b.picture(f"masks/slice_{z:03d}.png", masks["liver"][:, :, z].T.astype(np.uint8) * 255)
        rows.append((f"slice_{z:03d}.png", "PAT-001", 64))
    b.csv("slices.csv", ("slice", "patient_id", "age"), rows)


@family(
    "proprietary_masks",
    "organ_segmentation",
    3,
    "Segment the liver, contours come from our planning system",
    notes="readable NIfTI volumes, but the contours are a vendor's binary (.voi with a header of its own)",
    expect="not_supported",
)
def proprietary_masks(b: Build) -> None:
    for i in range(1, 25):
        volume, masks = abdomen(b.rng)
        b.nifti(f"pat{i:02d}/ct.nii.gz", volume)
        body = zlib.compress(np.packbits(masks["liver"]).tobytes())
        b.raw(f"pat{i:02d}/liver.voi", b"CANARYVOI\x00\x02" + struct.pack("<I", len(body)) + body[::-1])


@family(
    "proprietary_images",
    "diagnosis",
    2,
    "treated vs untreated cells, microscope files are attached",
    notes="the pictures are a microscope vendor's .czi-like containers that hold no standard picture",
    expect="not_supported",
)
def proprietary_images(b: Build) -> None:
    for folder in ("treated", "untreated"):
        for i in range(13):
            body = zlib.compress(endoscopy(b.rng, folder == "treated")[0].tobytes())
            b.raw(f"{folder}/Image {i:02d}.czi", b"ZISRAWFILE" + bytes(22) + body)


@family(
    "table_matches_nothing",
    "diagnosis",
    3,
    "covid or not from CT",
    notes="the table's keys are pseudonyms of which no file knows; the file names are random: no label can be assigned",
    expect="infeasible",
)
def table_matches_nothing(b: Build) -> None:
    rows = []
    for i in range(24):
        kind = ("covid", "normal")[i % 2]
        b.nifti(f"ct/{b.rng.bytes(6).hex()}.nii.gz", chest_ct(b.rng, kind)[0])
        rows.append((f"PSN-{b.rng.integers(10**6):06d}", kind))
    b.csv("labels.csv", ("pseudonym", "class"), rows)


@family(
    "lfs_pointers",
    "diagnosis",
    2,
    "pneumonia vs normal, cloned from our gitlab",
    notes="every picture is a Git LFS pointer of 130 bytes: the pictures themselves were never fetched",
    expect="infeasible",
)
def lfs_pointers(b: Build) -> None:
    for folder in ("NORMAL", "PNEUMONIA"):
        for i in range(15):
            b.broken(
                f"{folder}/{i:03d}.png",
                b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 40321\n"
                % b.rng.bytes(32).hex().encode(),
            )
    b.text(".gitattributes", "*.png filter=lfs diff=lfs merge=lfs -text\n")
