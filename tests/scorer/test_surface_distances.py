"""HD95 and NSD against MONAI, and what is done where something is empty."""

import numpy as np
import pytest
from mask_files import ball

from services.scorer.masks import surface

SPACINGS = [(1.0, 1.0, 1.0), (0.7, 0.7, 5.0), (3.0, 1.0, 0.5)]


def shapes() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    size = (20, 22, 14)
    middle = ball(size, (9, 10, 7), 5, 1)
    edge = np.zeros(size, np.uint8)
    edge[:6, :5, 8:] = 1  # touches the border on three sides
    hollow = ball(size, (9, 10, 7), 3, 0, middle)
    dots = np.zeros(size, np.uint8)
    dots[2, 2, 2] = dots[17, 19, 11] = 1
    return {
        "shifted": (middle, np.roll(middle, (2, -1, 1), (0, 1, 2))),
        "grown": (middle, ball(size, (9, 10, 7), 6.3, 1)),
        "at the border": (edge, middle),
        "hollow": (middle, hollow),
        "dots": (dots, middle),
    }


@pytest.mark.parametrize("spacing", SPACINGS)
@pytest.mark.parametrize("name", list(shapes()))
def test_equal_to_monai(name: str, spacing: tuple[float, float, float]) -> None:
    import torch
    from monai.metrics import compute_hausdorff_distance, compute_surface_dice

    one, other = shapes()[name]
    given = [torch.as_tensor(mask)[None, None].float() for mask in (one, other)]
    options = {"include_background": True, "spacing": list(spacing)}
    wanted = compute_hausdorff_distance(*given, percentile=95, **options)
    share = compute_surface_dice(*given, class_thresholds=[surface.TOLERANCE], **options)
    nsd, hd95 = surface.distances(one > 0, other > 0, np.array(spacing))
    assert hd95 == pytest.approx(float(wanted), abs=1e-4)
    assert nsd == pytest.approx(float(share), abs=1e-6)


def test_a_cube_moved_by_hand() -> None:
    one, other = np.zeros((2, 30, 30, 30), bool)
    one[5:15, 5:15, 5:15] = other[5:15, 5:15, 9:19] = True
    for spacing in (np.ones(3), np.array([1.0, 1.0, 3.0])):
        assert surface.distances(one, other, spacing)[1] == pytest.approx(4 * spacing[2])
    assert surface.distances(one, one, np.ones(3)) == (1.0, 0.0)


def test_the_rules_for_what_is_empty() -> None:
    truth, answer = np.zeros((2, 3, 4, 12), np.uint8)
    truth[1, 1, 1], answer[1, 1, 2] = 1, 2  # the first was missed, the second made up, the third is nowhere
    spacing = np.array([2.0, 1.0, 1.0])
    nsd, hd95 = surface.compare(truth, answer, 3, spacing)
    diagonal = np.sqrt(6**2 + 4**2 + 12**2)
    assert nsd[:2].tolist() == [0, 0] and hd95[:2] == pytest.approx(diagonal)
    assert np.isnan([nsd[2], hd95[2]]).all()
    nsd, hd95 = surface.compare(truth, None, 3, spacing)
    assert nsd[0] == 0 and hd95[0] == pytest.approx(diagonal) and np.isnan(nsd[1:]).all()


def test_spacing_is_that_of_the_stored_axes() -> None:
    affine = np.array([[0, 0, 3.0, 5], [-0.5, 0, 0, 5], [0, 2.0, 0, 5], [0, 0, 0, 1]])
    assert surface.spacing_of(affine, 3).tolist() == [0.5, 2.0, 3.0]
    assert surface.spacing_of(affine, 2).tolist() == [0.5, 2.0]
    assert surface.spacing_of(None, 2).tolist() == [1.0, 1.0]
