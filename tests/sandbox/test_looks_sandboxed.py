"""Images of strangers are decoded in the sandbox, and what a decoder dies of costs the look of that sample only."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from shared.looks import FLAT, NOTHING, SOLID

DRIVER = Path(__file__).with_name("look_driver.py")
UID = 64329


class Shout:
    """Leaves a file where it was unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch /tmp/m3-unpickled",))


SAMPLES: dict[str, tuple[list[str], int]] = {
    "picture": (["a.png"], FLAT),
    "truncated": (["cut.png"], NOTHING),
    "volume": (["a.npy"], SOLID),
    "endless": (["huge.png"] * 16, NOTHING),
    "after": (["b.png"], FLAT),
    "pickle": (["objects.npy"], NOTHING),
    "program of a printer": (["page.eps"], NOTHING),
    "after it": (["a.png"], FLAT),
    "not there": (["none.png"], NOTHING),
    "outside": (["../home/secret.png"], NOTHING),
    "link outside": (["link.png"], NOTHING),
    "last": (["b.png"], FLAT),
}


@pytest.fixture(scope="module", params=["bwrap", "landlock"])
def seen(request: pytest.FixtureRequest) -> Any:
    base = Path(tempfile.mkdtemp(prefix="m3-looks-"))
    try:
        data = base / "data"
        data.mkdir()
        (base / "home").mkdir()
        rng = np.random.default_rng(0)
        for name in "ab":
            Image.fromarray(rng.integers(0, 255, (40, 40)).astype(np.uint8)).save(data / f"{name}.png")
        (data / "cut.png").write_bytes((data / "a.png").read_bytes()[:300])
        Image.new("L", (8000, 8000)).save(data / "huge.png", compress_level=1)
        np.save(data / "a.npy", rng.normal(size=(8, 9, 10)))
        (data / "objects.npy").write_bytes(
            b"\x93NUMPY\x01\x00v\x00"
            + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n" + pickle.dumps(Shout())
        )  # fmt: skip
        Image.new("RGB", (40, 40)).save(data / "page.eps")
        (data / "link.png").symlink_to(base / "home" / "secret.png")
        Image.fromarray(rng.integers(0, 255, (40, 40)).astype(np.uint8)).save(base / "home" / "secret.png")
        if os.geteuid() == 0:
            for path in (base, *base.rglob("*")):
                os.chown(path, UID, UID, follow_symlinks=False)
        listed = json.dumps([files for files, _ in SAMPLES.values()])
        argv = [sys.executable, str(DRIVER), request.param, str(base), listed]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        if "unavailable" in found:
            pytest.skip(found["unavailable"])
        yield found
    finally:
        shutil.rmtree(base)


def test_each_sample_has_the_look_that_its_own_files_allow(seen: dict[str, Any]) -> None:
    assert dict(zip(SAMPLES, seen["kinds"], strict=True)) == {name: kind for name, (_, kind) in SAMPLES.items()}
    assert seen["different"] == 4, "two pictures, a volume, nothing"


def test_nothing_is_left_and_nothing_was_unpickled(seen: dict[str, Any]) -> None:
    assert not seen["scratch"]
    assert not Path("/tmp/m3-unpickled").exists()
