"""How often near-duplicates are found, and how often different patients are taken for them: the figures of near.py.

Reads pictures of replicas and plants copies of 150 of each: saved again, resized, cropped, brightened.

    m3bench make chestx-det10 DIR/chestx-det10 --size small --patients 100 --seed 3
    m3bench make iu-xray DIR/iu-xray --size small --seed 3
    m3bench make ct-kidney DIR/ct-kidney --size small --seed 3
    python -m bench.near_duplicates DIR
"""

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from services.scorer.lock.near import Ints, Records, near
from shared.dataset.intake.looks_of import record_of
from shared.imaging.image import Image as Decoded
from shared.looks import RECORD

PLANTED = 150
RANDOM = np.random.default_rng(0)


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer)


def crop(image: Image.Image, share: float) -> Image.Image:
    """Loses `share` of each edge, at random ends."""
    across, down = int(image.width * share), int(image.height * share)
    x, y = int(RANDOM.integers(0, across + 1)), int(RANDOM.integers(0, down + 1))
    return image.crop((x, y, image.width - across + x, image.height - down + y))


def bright(image: Image.Image, factor: float, more: float, gamma: float = 1.0) -> Image.Image:
    values = np.asarray(image, dtype=float) / 255
    return Image.fromarray((np.clip(factor * values**gamma + more, 0, 1) * 255).astype(np.uint8))


def resize(image: Image.Image, factor: float) -> Image.Image:
    return image.resize((int(image.width * factor), int(image.height * factor)), Image.Resampling.BICUBIC)


WAYS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "JPEG 30": lambda image: jpeg(image, 30),
    "JPEG 75": lambda image: jpeg(image, 75),
    "half size": lambda image: resize(image, 0.5),
    "three quarter size": lambda image: resize(image, 0.75),
    "darker": lambda image: bright(image, 0.7, 0.1),
    "gamma 0.7": lambda image: bright(image, 1, 0, 0.7),
    "contrast until it clips": lambda image: bright(image, 1.4, -0.1),
    "5 % cropped": lambda image: crop(image, 0.05),
    "10 % cropped": lambda image: crop(image, 0.1),
    "5 % cropped, JPEG 50": lambda image: jpeg(crop(image, 0.05), 50),
    "10 % cropped, resized, darker, JPEG 60": lambda image: jpeg(bright(resize(crop(image, 0.1), 0.75), 0.8, 0.05), 60),
}


def main() -> None:
    for name, found in (("chestx-det10", _chest), ("iu-xray", _films), ("ct-kidney", _kidneys)):
        folder = Path(sys.argv[1]) / name
        pictures = [(who, path) for who, path in found(folder) if path.is_file()]
        _, people = np.unique([who for who, _ in pictures], return_inverse=True)
        images = [Image.open(path).convert("L") for _, path in pictures]
        _report(name, images, people.astype(np.int64))


def _report(name: str, images: Sequence[Image.Image], people: Ints) -> None:
    originals = _records(images)
    different = int((people[:, None] != people[None, :]).sum()) // 2
    alarms = near(originals, people)
    print(f"{name}: {len(alarms)} false alarms in {different} pairs of pictures of different people")
    chosen = RANDOM.choice(len(images), PLANTED, replace=False)
    strangers = np.concatenate([people, people.max() + 1 + np.arange(PLANTED)])
    for how, way in WAYS.items():
        both = np.concatenate([originals, _records([way(images[number]) for number in chosen])])
        found = set(near(both, strangers)) - set(alarms)
        planted = {(int(number), len(images) + place) for place, number in enumerate(chosen)}
        shown = np.concatenate([people, people[chosen]])
        wrong = [pair for pair in found - planted if shown[pair[0]] != shown[pair[1]]]
        print(f"    {how:42}found {len(found & planted) / PLANTED:6.1%}, others {len(wrong)}")


def _records(images: Sequence[Image.Image]) -> Records:
    made = [record_of([Decoded(np.asarray(image.convert("L"))[..., None])]) for image in images]
    return np.frombuffer(b"".join(made), RECORD)


def _truth(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(folder.with_name(f"{folder.name}.truth.json").read_text())
    return found


def _chest(folder: Path) -> list[tuple[str, Path]]:
    names = [str(image["file_name"]) for image in _truth(folder)["images"]]
    return [(name.split("_")[0], folder / "images" / name) for name in names]


def _films(folder: Path) -> list[tuple[str, Path]]:
    studies = _truth(folder)["studies"]
    return [
        (str(s["uid"]), folder / "images" / file) for s in studies for file, view in s["views"] if view == "Frontal"
    ]


def _kidneys(folder: Path) -> list[tuple[str, Path]]:
    return [
        (f"{study['label']}{study['study']}", folder / study["label"] / f"{study['label']}- ({number}).jpg")
        for study in _truth(folder)["studies"]
        for number in range(study["first"], study["first"] + study["count"])
    ]


if __name__ == "__main__":
    main()
