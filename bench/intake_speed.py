"""How long intake takes: 10,000 grey pictures of 256 x 256, and CT-like volumes beside nibabel's own load and save.

    python -m bench.intake_speed [PICTURES] [VOLUMES]

Both go through the whole program (`shared.dataset.intake.intake`) as a process of its own: decoded, checked, measured,
looked at, written. Pictures with two workers; bar: 60 s for 10,000. Volumes of 512 x 512 x 80 voxels, gzipped, one
worker, beside a bare program that loads each with nibabel and saves it again; bar: ratio 1.3. Exit code 1 where one is
missed. On a busy machine look at the seconds of processor time.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nibabel
import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from shared.contracts.cases import CaseSpec, Part
from shared.dataset.intake.intake_records import RECORDS, SPECS, Order

REPOSITORY = Path(__file__).parents[1]
DISTINCT = 500
"""Pictures that are made; the others are further links to them."""
PLAIN = """
import sys
from pathlib import Path
import nibabel, numpy as np
for path in map(Path, sys.argv[2:]):
    image = nibabel.load(path)
    nibabel.save(nibabel.Nifti1Image(np.asanyarray(image.dataobj), image.affine), Path(sys.argv[1]) / path.name)
"""


def main() -> int:
    pictures = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    volumes = int(sys.argv[2]) if len(sys.argv) > 2 else 6
    with tempfile.TemporaryDirectory(prefix="bench-intake-") as name:
        data, out = Path(name) / "data", Path(name) / "out"
        data.mkdir()
        names = make_pictures(data, pictures)
        before, load = processor(), os.getloadavg()[0]
        seconds = timed(data, out / "pictures", names, Order(dimensions=2, workers=2))
        scaled = seconds * 10_000 / pictures
        print(
            f"{pictures} pictures: {seconds:.1f} s, {pictures / seconds:.0f} a second; 10,000 take {scaled:.1f} s (60)"
        )
        print(f"    {(processor() - before) / pictures * 1000:.1f} ms of processor time each; load before {load:.1f}")
        files = make_volumes(data, volumes)
        before, plain = processor(), time.perf_counter()
        (out / "plain").mkdir()
        subprocess.run([sys.executable, "-c", PLAIN, out / "plain", *(data / file for file in files)], check=True)
        plain, of_plain = time.perf_counter() - plain, processor() - before
        ours = timed(data, out / "volumes", files, Order(dimensions=3, workers=1))
        of_ours = processor() - before - of_plain
        print(f"{volumes} volumes: {ours:.1f} s beside {plain:.1f} s of nibabel; ratio {ours / plain:.2f} (1.3)")
        print(f"    {of_ours:.1f} and {of_plain:.1f} s of processor time, ratio {of_ours / of_plain:.2f}")
    return 0 if scaled <= 60 and ours / plain <= 1.3 else 1


def processor() -> float:
    """Seconds of processor time of the programs that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def make_pictures(folder: Path, count: int) -> list[str]:
    rng = np.random.default_rng(0)
    for number in range(min(count, DISTINCT)):
        grey = gaussian_filter(rng.normal(size=(256, 256)), 4) * 400 + rng.normal(128, 4, (256, 256))
        Image.fromarray(grey.clip(0, 255).astype(np.uint8)).save(folder / f"{number}.png")
    for number in range(DISTINCT, count):
        os.link(folder / f"{number % DISTINCT}.png", folder / f"{number}.png")
    return [f"{number}.png" for number in range(count)]


def make_volumes(folder: Path, count: int) -> list[str]:
    rng = np.random.default_rng(0)
    for number in range(count):
        body = gaussian_filter(rng.normal(size=(512, 512, 80)).astype(np.float32), 6) * 9000
        values = (body + rng.normal(0, 12, body.shape)).clip(-1024, 3000).astype(np.int16)
        nibabel.save(nibabel.Nifti1Image(values, np.diag([-0.7, -0.7, 2.5, 1.0])), folder / f"{number}.nii.gz")
    return [f"{number}.nii.gz" for number in range(count)]


def timed(data: Path, folder: Path, files: list[str], order: Order) -> float:
    """Seconds of the program on cases of one file each."""
    folder.mkdir(parents=True)
    specs = [CaseSpec(key=file, images=((Part(files=(file,)),),), patient=file, label="x") for file in files]
    (folder / SPECS).write_text("".join(f"{spec.model_dump_json()}\n" for spec in specs))
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-P", "-m", "shared.dataset.intake.intake", order.model_dump_json()],
        cwd=folder, check=True,
        env=os.environ | {"M3_DATA": str(data), "PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    seconds = time.perf_counter() - started
    lines = (folder / RECORDS).read_text().splitlines()
    assert len(lines) == len(files) and not any('"left_out"' in line for line in lines), lines[0]
    return seconds


if __name__ == "__main__":
    sys.exit(main())
