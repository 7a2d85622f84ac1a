"""Which of several channels is the first: all are brought to its grid."""

from pathlib import Path

import nibabel
import numpy as np

from shared.dataset.propose import propose

PARTS = {"adc": 8, "dwi": 8, "t2w": 16}
"""Name -> voxels along x and y of the same 16 mm."""


def test_the_channel_with_far_more_voxels_goes_first(tmp_path: Path) -> None:
    for number in range(8):
        folder = tmp_path / f"p{number:02}"
        folder.mkdir()
        for name, edge in PARTS.items():
            image = np.random.default_rng(number + edge).normal(100, 9, (edge, edge, 4)).astype(np.float32)
            grid = np.diag([16 / edge, 16 / edge, 3.0, 1.0])
            nibabel.save(nibabel.Nifti1Image(image, grid), folder / f"{folder.name}_{name}.nii.gz")
        mask = np.zeros((16, 16, 4), np.uint8)
        mask[4:8, 4:8, 1:3] = 1
        nibabel.save(nibabel.Nifti1Image(mask, np.diag([1.0, 1.0, 3.0, 1.0])), folder / f"{folder.name}_seg.nii.gz")
    best, *_ = propose(tmp_path, "anomaly_detection", dimensions=3, target="find the lesion")
    assert [one["channel"] for one in best.rules["images"]] == ["t2w", "adc", "dwi"]
