"""Long sequences that are kept packed, and the listing and the families that are made of them."""

import tracemalloc
from pathlib import Path

import pytest

from shared.dataset.files import listing
from shared.dataset.files.listing import list_files
from shared.dataset.files.packed import Names, Numbers, Picked
from shared.dataset.survey.families import fine_groups

NAMES = sorted(f"{number % 7}/é\n{number}.png" for number in range(1234))


def test_names_are_what_they_were_made_of() -> None:
    names = Names(NAMES)
    assert [*names] == NAMES and len(names) == 1234 and [names[at] for at in range(1234)] == NAMES
    assert names[490:510] == NAMES[490:510] and names[-1] == NAMES[-1] and names[::-400] == NAMES[::-400]
    assert [names.place(name) for name in NAMES] == [*range(1234)]
    assert {names.place(name + "x") for name in NAMES} == {names.place("")} == {Names().place("x")} == {None}
    with pytest.raises(IndexError):
        names[1234]


def test_numbers_and_some_of_them() -> None:
    values = [(-1) ** number * number**6 for number in range(1100)] + [2**63 - 1, -(2**63)]
    numbers = Numbers(values)
    assert [*numbers] == values and numbers[1101] == -(2**63) and numbers[499:501] == values[499:501]
    some = Picked(numbers, [1101, 3, 600])
    assert [*some] == [values[1101], values[3], values[600]] == some[:] and some[-1] == values[600] and len(some) == 3


def test_a_path_takes_few_bytes() -> None:
    tracemalloc.start()
    names = Names(f"train/normal/patient{number // 20:06d}/img_{number:07d}.png" for number in range(100_000))
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(names) == 100_000 and used < 10 * len(names)


def test_a_folder_that_is_sorted_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        name = f"{number * 37 % 50}{'/in.png' if number % 3 == 0 else '-x.png'}"
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x" * number)
    monkeypatch.setattr(listing, "_SORTED", 4)
    found = list_files(tmp_path)
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.png"))
    assert [*found.files] == files and [*found.folders] == sorted(found.folders) and len(found.folders) == 18
    assert [*found.sizes] == [(tmp_path / file).stat().st_size for file in files]
    limited = list_files(tmp_path, 7)
    assert [*limited.files] == files[:7] and not limited.complete and limited.skipped == {listing.MORE: 1}


def test_free_names_beyond_those_that_are_held_are_one_group() -> None:
    def word(number: int) -> str:
        return f"{number:05d}".translate(str.maketrans("0123456789", "qrstuvwxyz"))

    files = sorted([*(f"img/{word(number)}.png" for number in range(12_000)), *(f"img/a_{n}.png" for n in range(3000))])
    found = fine_groups(files)
    assert sorted(len(one.at) for one in found) == [3000, 12_000]
    # Where each folder has names of its own, too.
    files = sorted(f"{number // 20}/{word(number)}.png" for number in range(40_000))
    assert [len(one.at) for one in fine_groups(files)] == [40_000]
