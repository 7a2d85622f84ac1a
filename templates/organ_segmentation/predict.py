"""Segment with a packaged model: `python predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

An INPUT is a NIfTI, npy, PNG or JPG file, or a folder with one, with DICOM slices, or with a file a channel in natural
order (`attributes.json` is passed over). DIR gets a mask for each on the input's own grid (NIfTI, PNG for a picture)
with the label values of the training data, and predictions.json, which names the mask or an error. Exit code 0 if any
INPUT could be segmented, else 1. The package's checksums are verified first.
"""

import sys
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))  # `python -I` leaves the script's own folder out

import package_cli  # noqa: E402


def open_model(asked: package_cli.Asked) -> package_cli.Model:
    from segmenter.predictor import Predictor

    return Predictor(asked)


if __name__ == "__main__":
    sys.exit(package_cli.main(__doc__, open_model))
