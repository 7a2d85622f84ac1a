"""Planted leaks are found and named; different patients with alike images are not taken for copies."""

import io
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from looking_alike import body, cropped, jpeg, png, resized
from mask_files import OBLIQUE, nifti
from plain_looks import plain_looks

from services.scorer.lock.copies import compare, find_copies
from services.scorer.lock.near import Records, near
from services.scorer.lock.seal import Sealed, check_and_seal
from services.tool_runner.fingerprints import look_of, record_of
from services.tool_runner.packs import pack_samples
from shared.contracts.data import IndexMeta, IndexRow
from shared.looks import FLAT, NOTHING, RECORD, SOLID
from shared.settings import Settings
from shared.store import Store

PEOPLE = 40
META = IndexMeta(
    task="diagnosis", dimensions=2, label_names=("a", "b"), grouping="stated", grouping_from="folder", split_from="made"
)


def records(contents: list[bytes]) -> Records:
    """One file a sample."""
    digests = [[np.random.default_rng(n).bytes(32)] for n in range(len(contents))]
    made = [
        record_of(["x"], digest, lambda _, data=data: nullcontext(io.BytesIO(data)))
        for data, digest in zip(contents, digests, strict=True)
    ]
    return np.frombuffer(b"".join(made), RECORD)


def found(originals: list[bytes], others: list[bytes]) -> list[tuple[int, int]]:
    """Pairs (original, other); every sample is a patient of its own."""
    both = records([*originals, *others])
    numbers = np.arange(len(both))
    pairs = near(both, numbers, numbers[: len(originals)], numbers[len(originals) :])
    return [(one, other - len(originals)) for one, other in pairs]


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    return [body(seed) for seed in range(PEOPLE)]


SAVED: dict[str, Callable[[np.ndarray], bytes]] = {
    "as JPEG": lambda a: jpeg(a, 40),
    "cropped": lambda a: png(cropped(a, 0.06)),
    "cropped by a tenth and as JPEG": lambda a: jpeg(cropped(a, 0.1), 60),
    "smaller": lambda a: png(resized(a, 0.6)),
    "larger": lambda a: png(resized(a, 1.5)),
    "darker": lambda a: png((a * 0.6 + 30).astype(np.uint8)),
    "16 bits": lambda a: png(a.astype(np.uint16) * 37 + 900),
}


@pytest.mark.parametrize("how", list(SAVED))
def test_a_picture_that_was_saved_again_is_found_and_no_other(pictures: list[np.ndarray], how: str) -> None:
    originals = [png(picture) for picture in pictures[:30]]
    # Three copies among ten strangers, on either side of the smaller set.
    others = [SAVED[how](pictures[n]) for n in (4, 11, 25)] + [png(picture) for picture in pictures[30:]]
    assert found(originals, others) == [(4, 0), (11, 1), (25, 2)]
    assert found(others, originals) == [(0, 4), (1, 11), (2, 25)]


def test_a_mirrored_picture_is_another(pictures: list[np.ndarray]) -> None:
    assert found([png(one) for one in pictures[:5]], [png(one[:, ::-1]) for one in pictures[:5]]) == []


VOLUMES: dict[str, Callable[[np.ndarray], bytes]] = {
    "unpacked": lambda a: nifti(a, packed=False),
    "floats": lambda a: nifti(a.astype(np.float32) * 3.7 - 1000),
    "resampled": lambda a: nifti(resized(a, 0.75), OBLIQUE @ np.diag([4 / 3, 4 / 3, 4 / 3, 1])),
    "axes stored the other way": lambda a: nifti(
        a.transpose(1, 0, 2)[:, ::-1], OBLIQUE @ np.array([[0, -1, 0, 35], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    ),
}


@pytest.mark.parametrize("how", list(VOLUMES))
def test_a_volume_that_was_saved_again_is_found_and_no_other(how: str) -> None:
    volumes = [body(seed, (36, 40, 32)) for seed in range(16)]
    originals = [nifti(volume) for volume in volumes[:12]]
    others = [VOLUMES[how](volumes[7]), *(nifti(volume) for volume in volumes[12:])]
    assert found(originals, others) == [(7, 0)]


def test_a_stack_is_found_under_other_slices_and_formats(tmp_path: Path) -> None:
    made = []
    for number, (seed, step, save) in enumerate([(1, 1, png), (2, 1, png), (1, 2, lambda a: jpeg(a, 70))]):
        slices = body(seed, (40, 64, 64))[::step]
        for place, one in enumerate(slices):
            (tmp_path / f"{number}-{place}").write_bytes(save(one))
        names = [f"{number}-{place}" for place in range(len(slices))]
        made.append(record_of(names, [b"%d" % number], lambda name: (tmp_path / name).open("rb")))
    both = np.frombuffer(b"".join(made), RECORD)
    assert near(both, np.arange(3), np.array([0, 1]), np.array([2])) == [(0, 2)]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"no image", png(body(0))[:900], nifti(body(0, (8, 8, 8)))[:200], b"\x80\x04pickle",
        png(np.zeros((9, 9), np.uint8)),
        nifti(np.full((9, 9, 9), np.nan, np.float32)), nifti(np.zeros((3, 3, 3, 4), np.int16)), b"\x93NUMPY\x01\x00",
    ],
)  # fmt: skip
def test_what_cannot_be_read_has_no_look_and_breaks_nothing(content: bytes) -> None:
    assert look_of(["x"], lambda _: nullcontext(io.BytesIO(content)))[0] == NOTHING
    assert found([content, png(body(1))], [content]) == []


def test_a_header_that_promises_too_much_is_not_believed() -> None:
    header = bytearray(nifti(np.zeros((4, 4, 4), np.int16), packed=False))
    header[42:48] = np.array([30000] * 3, "<i2").tobytes()
    huge = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999, 99999), }".ljust(117)
        + b"\n"
    )
    for content in (bytes(header), huge):
        assert look_of(["x"], lambda _, data=content: nullcontext(io.BytesIO(data)))[0] == NOTHING


def test_arrays_and_colours_have_looks() -> None:
    saved = io.BytesIO()
    np.save(saved, body(3, (20, 20, 20)))
    colours = np.repeat(body(3)[..., None], 3, axis=2)
    for content, kind in ((saved.getvalue(), SOLID), (png(colours), FLAT), (png(body(3)), FLAT)):
        assert look_of(["x"], lambda _, data=content: nullcontext(io.BytesIO(data)))[0] == kind


def rows_of(splits: list[str]) -> list[IndexRow]:
    return [
        IndexRow(
            sample_id=f"s{n}", patient=f"p{n}", study=f"e{n}", label="ab"[n % 2], files=(f"s{n}.png",), split=split
        )
        for n, split in enumerate(splits)
    ]  # fmt: skip


def test_who_belongs_together_on_one_side_is_named_too(pictures: list[np.ndarray]) -> None:
    # 0 and 1 are one image in train, 4 in test is the same: without the first pair a new split could part them.
    images = [pictures[0], pictures[0], pictures[2], pictures[3], pictures[0], pictures[5]]
    contents = [
        png(images[0]),
        jpeg(images[1], 70),
        *(png(one) for one in images[2:4]),
        jpeg(images[4], 50),
        png(images[5]),
    ]
    rows = rows_of(["train"] * 4 + ["test"] * 2)
    copies = compare(rows, records(contents))
    assert set(copies.near) == {("s0", "s4"), ("s1", "s4")} and not copies.pairs
    joined: dict[str, set[str]] = {row.sample_id: {row.sample_id} for row in rows}
    for one, other in copies.merge:
        whole = joined[one] | joined[other]
        joined |= dict.fromkeys(whole, whole)
    assert joined["s4"] == {"s0", "s1", "s4"} and len(copies.merge) == 2
    apart = [row.model_copy(update={"patient": "same"}) if n in (0, 1, 4) else row for n, row in enumerate(rows)]
    assert compare(apart, records(contents)).near == ()


@pytest.fixture(scope="module")
def store(s3_server, tmp_path_factory: pytest.TempPathFactory) -> Store:
    settings = Settings(
        home=tmp_path_factory.mktemp("home"), s3_endpoint=s3_server.endpoint, s3_access_key=s3_server.access_key,
        s3_secret_key=s3_server.secret_key,
    )  # fmt: skip
    made = Store.connect(settings)
    made.ensure_buckets()
    return made


def sealed(store: Store, root: Path, rows: list[IndexRow]) -> Sealed:
    looks = plain_looks(root, [row.files for row in rows])
    packs = pack_samples(root, rows, store, lambda row: "sealed" if row.split == "test" else "data", looks=looks)
    return check_and_seal(rows, META, packs, copies=find_copies(store, rows, packs))


@pytest.mark.parametrize("leak", ["none", "patient", "study", "copy", "near", "file"])
def test_every_planted_leak_is_found_by_its_own_check_and_named(
    store: Store, tmp_path: Path, pictures: list[np.ndarray], leak: str
) -> None:
    rows = rows_of(["train"] * 6 + ["val"] * 2 + ["test"] * 4)
    for row, picture in zip(rows, pictures, strict=False):
        (tmp_path / row.files[0]).write_bytes(png(picture))
    place = 9
    if leak == "patient":
        rows[place] = rows[place].model_copy(update={"patient": "p2"})
    elif leak == "study":
        rows[place] = rows[place].model_copy(update={"study": "e2"})
    elif leak == "copy":
        (tmp_path / "s9.png").write_bytes((tmp_path / "s2.png").read_bytes())
    elif leak == "near":
        (tmp_path / "other.jpg").write_bytes(jpeg(cropped(pictures[2], 0.07), 70))
        rows[place] = rows[place].model_copy(update={"files": ("other.jpg",)})
    elif leak == "file":
        rows[place] = rows[place].model_copy(update={"files": ("s2.png",)})
    result = sealed(store, tmp_path, rows)
    wanted = {
        "none": set(), "patient": {"same_patient"}, "study": {"same_study"}, "copy": {"same_content"},
        "near": {"near_duplicate"}, "file": {"same_file", "same_content"},
    }[leak]  # fmt: skip
    assert {name for name, count in result.leakage.checks.items() if count} == wanted
    assert {pair[1:] for pair in result.leakage.pairs} == ({("s2", "s9")} if wanted else set())
    assert set(result.problems) == {f"no_{name}" for name in wanted - {"near_duplicate"}}
    assert result.merge == ((("s2", "s9"),) if leak == "near" else ())
    assert "s9" not in result.told.model_dump_json()
