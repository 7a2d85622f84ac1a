"""Profiles of data with one fault planted each: it is found, with how many, an example and what to do."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shared.contracts.profile import Profile
from shared.dataset.files.listing import Changing, list_files
from shared.dataset.profile.profile import MOST_BYTES, profile
from shared.dataset.profile.show import show
from tests.dataset.profile_faults import IN_FILMS, IN_SCANS, SHAPE, Fault, cut, films, scans
from tests.dataset.survey_files import mask_picture, picture, sentence, series, slices, table


def planted(faults: dict[str, tuple[Fault, str, str]], name: str, root: Path) -> str:
    faults[name][0](root)
    told = profile(root)
    _, begins, says = faults[name]
    matching = [text for text in told.warnings if begins in text and says in text]
    assert len(matching) == 1, "\n".join(told.warnings)
    assert ": " in matching[0] and matching[0][:60] in " ".join(show(told).split())
    return matching[0]


@pytest.mark.parametrize("name", IN_SCANS)
def test_a_fault_among_scans_is_found(tmp_path: Path, name: str) -> None:
    planted(IN_SCANS, name, scans(tmp_path))


@pytest.mark.parametrize("name", IN_FILMS)
def test_a_fault_among_films_is_found(tmp_path: Path, name: str) -> None:
    planted(IN_FILMS, name, films(tmp_path))


def test_sound_data_have_no_warning_that_asks_for_a_change(tmp_path: Path) -> None:
    told = profile(films(tmp_path / "films"))
    assert told.warnings == () and told.skipped == ()
    assert told.dimensions == {"2": 24} and told.tasks == {"diagnosis": 1.0}
    told = profile(scans(tmp_path / "scans"))
    assert told.warnings == ()
    assert told.modalities == {"CT?": 3} and told.groups[0].hu and told.groups[0].shape == SHAPE


def test_what_is_worst_comes_first(tmp_path: Path) -> None:
    root = scans(tmp_path)
    cut(root)
    (root / "more.zip").write_bytes(b"PK\3\4")
    told = [
        next(word for word in ("cut off", "cannot be read", "archive") if word in text)
        for text in profile(root).warnings
    ]
    assert told[-1] == "archive" and "cut off" in told


def test_persons_in_headers_are_told_and_said_to_be_dropped(tmp_path: Path) -> None:
    for number in range(4):
        series(tmp_path / f"P{number}", f"P{number}", number, PatientName="Doe^Jane", PatientBirthDate="19600102")
    told = profile(tmp_path)
    text = next(text for text in told.warnings if "name a person" in text)
    assert "PatientName" in text and "intake drops all header text" in text and "Doe" not in told.model_dump_json()
    assert told.modalities.keys() == {"CT"} and told.dimensions == {"3": 4}


def test_slices_that_are_missing_or_of_other_sizes(tmp_path: Path) -> None:
    for number in range(6):
        slices(tmp_path / f"scan{number}", number, 12)
    (tmp_path / "scan1/0005.png").unlink()
    picture(tmp_path / "scan2/0006.png", 99, (30, 24))
    told = profile(tmp_path)
    assert told.dimensions == {"3": 6}
    assert any(
        "1 of 6 folders of slices looked at has numbers missing, such as scan1" in text for text in told.warnings
    )
    assert any("several sizes, such as scan2 (24 x 24 and 24 x 30)" in text for text in told.warnings)


def test_patients_on_both_sides_of_a_split(tmp_path: Path) -> None:
    for number in range(16):
        side = ("train", "test")[number % 4 == 0]
        picture(tmp_path / f"{side}/patient{number // 4 if number < 4 else number:03d}_{number}.png", number)
    assert any("1 patient stands on several sides" in text for text in profile(tmp_path).warnings)


def test_columns_of_a_table(tmp_path: Path) -> None:
    rows: list[object] = [("file", "Patient ID", "age", "taken", "report", "grade", "empty")]
    for number in range(30):
        picture(tmp_path / f"img/{number:04d}.png", number)
        rows.append(
            (
                f"{number}",
                f"P{number // 2}",
                50 + number,
                f"2020-01-{number % 28 + 1:02d}",
                sentence(number),
                number % 3,
                "",
            )
        )
    table(tmp_path / "t.csv", *rows)
    columns = {one.name: one for one in profile(tmp_path).tables[0].columns}
    kinds = {name: one.kind for name, one in columns.items()}
    assert kinds == {"file": "integer", "Patient ID": "category", "age": "integer", "taken": "date", "report": "text",
                     "grade": "integer", "empty": "empty"}  # fmt: skip
    assert columns["file"].names_files == 1 and columns["Patient ID"].names_people
    assert columns["grade"].values == {"0": 10, "1": 10, "2": 10} and columns["empty"].filled == 0


def test_a_lossy_mask_is_a_mask(tmp_path: Path) -> None:
    for number in range(8):
        picture(tmp_path / f"images/{number}.png", number)
        mask_picture(tmp_path / f"masks/{number}.jpg", (255,))
    told = profile(tmp_path)
    assert told.tasks["organ_segmentation"] == 1 and {one.kind for one in told.groups} == {"picture", "mask"}


def test_no_images(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing here")
    told = profile(tmp_path)
    assert told.images == 0 and told.tasks == {} and "No file is an image" in told.warnings[0]
    assert "Nothing: no classes" in show(told)


def test_hostile_names_and_cells_stay_harmless(tmp_path: Path) -> None:
    root = films(tmp_path)
    (root / "table.csv").open("a").write("\x1b[31mred.png,P777,sick\n" + "x" * 5000 + ".png,P778,well\n")
    picture(root / "sick/\x1b[31m{a}*.png", 77)
    told = profile(root)
    assert "\x1b" not in show(told) + told.model_dump_json() and "\\u001b" not in told.model_dump_json()


def test_many_columns_and_classes_stay_bounded(tmp_path: Path) -> None:
    for place in range(25):
        head = ("file", *(f"a rather long name of a column, number {place} {column}" for column in range(300)))
        table(
            tmp_path / f"t{place}.csv",
            head,
            *((f"{row}.png", *(f"value {row % 9} of {c}" for c in range(300))) for row in range(20)),
        )
    picture(tmp_path / "0.png", 1)
    told = profile(tmp_path)
    assert len(told.model_dump_json()) <= MOST_BYTES and told.skipped


def test_the_digest_follows_the_files(tmp_path: Path) -> None:
    root = films(tmp_path)
    before = profile(root).digest
    assert profile(root).digest == before
    os.utime(root / "table.csv", ns=(1, 1))
    assert profile(root).digest != before


@contextmanager
def meanwhile(what: Callable[[int], object], times: int) -> Iterator[None]:
    """Do it so many times, every other ms, beside what is done inside; then wait for the end of it."""
    over = threading.Event()

    def work() -> None:
        for number in range(times):
            if over.wait(0.002):
                return
            what(number)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("kind", ["comes", "goes", "grows"])
def test_files_that_do_not_rest_make_no_profile(tmp_path: Path, kind: str) -> None:
    root = films(tmp_path)
    spare = [root / f"spare_{number}.png" for number in range(20_000)]
    if kind == "goes":
        for path in spare:
            path.write_bytes(b"")

    def change(number: int) -> None:
        if kind == "grows":
            with (root / "table.csv").open("a") as table:
                table.write(f"film_{number}.png,1\n")
        else:
            spare[number].write_bytes(b"") if kind == "comes" else spare[number].unlink()

    with meanwhile(change, 20_000), pytest.raises(Changing, match="wait until copying has ended"):
        profile(root)


def test_files_that_changed_for_a_moment_are_looked_at_once_more(tmp_path: Path) -> None:
    root = films(tmp_path)
    with meanwhile(lambda _: (root / "late.png").write_bytes(b""), 1):
        told = profile(root)
    assert told.digest == list_files(root).digest and told.files == 26


def test_the_program_prints_one_line(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "shared.dataset.profile.profile", str(films(tmp_path))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    assert Profile.model_validate(json.loads(done.stdout.splitlines()[-1])).files == 25
