"""`m3bench make all` and `show all`: the fourteen at once, and what is refused before anything is written."""

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from m3bench import show
from m3bench.cli import app
from m3bench.datasets import cc_ccii
from m3bench.replicas import GENERATORS, ReplicaError, find, make, make_all


def test_all_are_written_each_with_its_truth_and_shown_in_one_picture(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["make", "all", str(tmp_path / "all"), "--seed", "2", "--patients", "4"])
    assert done.exit_code == 0
    table = done.stdout.strip().splitlines()
    assert table[0].split() == ["tiny,", "paper", "files", "MB", "s"]
    assert [line.split()[0] for line in table[1:]] == [*sorted(GENERATORS), "together"]
    assert int(table[-1].split()[1]) == sum(int(line.split()[1]) for line in table[1:-1])
    for key in GENERATORS:
        truth = json.loads((tmp_path / "all" / f"{key}.truth.json").read_text())
        assert truth["replica"] == key and truth["seed"] == 2 and any((tmp_path / "all" / key).iterdir())
        assert {"trivial", "ideal", "quirks", "labels", "split_unit"} <= set(truth)

    output = tmp_path / "all.png"
    shown = CliRunner().invoke(app, ["show", "all", str(tmp_path / "all"), "--output", str(output)])
    assert shown.exit_code == 0, shown.output
    with Image.open(output) as picture:
        pixels = np.asarray(picture)
    titles = (pixels[..., 0] > 150) & (pixels[..., 1] > 150) & (pixels[..., 2] < 80)
    assert pixels.shape[1] == show.ACROSS * (show.TILE + 2) and pixels.shape[0] > 14 * show.TILE
    # A title begins where a yellow row follows rows without one.
    rows = titles[:, :400].any(axis=1)
    assert (rows[1:] & ~rows[:-1]).sum() >= 14

    again = CliRunner().invoke(app, ["make", "all", str(tmp_path / "all")])
    assert again.exit_code == 2 and "not an empty folder" in again.output


def test_refusals_of_all_come_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ReplicaError, match="no size 'huge'"):
        list(make_all(tmp_path / "new", size="huge"))
    with pytest.raises(ReplicaError, match="no layout 'theirs'"):
        list(make_all(tmp_path / "new", layout="theirs"))
    with pytest.raises(ReplicaError, match="at least 4"):
        list(make_all(tmp_path / "new", patients=3))
    refused = CliRunner().invoke(app, ["make", "all", str(tmp_path / "new"), "--patients", "1000000000"])
    assert refused.exit_code == 2 and re.search(r"needs about \d+ MB .* make room", refused.output)
    with pytest.raises(ReplicaError, match="is not there"):
        show.overview([tmp_path / "new"], tmp_path / "x.png")
    assert not list(tmp_path.iterdir())


def test_every_replica_has_three_sizes() -> None:
    for key in GENERATORS:
        replica = find(key)[1]
        assert set(replica.patients) == set(replica.megabytes) == {"tiny", "small", "layout"}
        assert max(replica.megabytes["tiny"], replica.megabytes["small"]) <= 300


def test_cc_ccii_has_the_patients_and_scans_of_the_cleaned_release(tmp_path: Path) -> None:
    scans = cc_ccii.plan(find("cc-ccii")[1].patients["layout"], 0, blank=True, exact=True)
    assert len({scan.folder for scan in scans}) == len(scans) == 3993
    per_class = Counter(label for label, _ in {(scan.label, scan.patient) for scan in scans})
    assert sum(per_class.values()) == len({scan.patient for scan in scans}) == 2698
    assert max(per_class.values()) - min(per_class.values()) == 1
    made = make("cc-ccii", tmp_path / "C", size="layout", patients=4)
    with Image.open(next((tmp_path / "C").rglob("0001.png"))) as picture:
        assert picture.size == (8, 8)
    assert json.loads(made.read_text())["size"] == "layout"


def test_pickles_are_shown(tmp_path: Path) -> None:
    make("kneemri", tmp_path / "data", patients=4, layout="distributed", workers=1)
    assert show.montage(tmp_path / "data", tmp_path / "out.png", cases=3) == 3
    with Image.open(tmp_path / "out.png") as picture:
        assert np.asarray(picture)[1:-8, 1:-8, 0].std() > 20
