"""What the report template's network is told of grey values, beside what it sees."""

import copy
from types import SimpleNamespace

import pytest
import torch

from tests.templates.conftest import modules

ours = modules("report_generation", "images", "model", "networks", "resnet", "telling", "words")


def network(shape: tuple[int, ...] = (2, 8, 32, 32), facts: int = 3) -> torch.nn.Module:
    wanted = SimpleNamespace(
        backbone="resnet10", width=8, norm="batch", dropout=0.0, hidden=16, tokens=8, weights=None, patch="auto"
    )
    torch.manual_seed(0)
    return ours.model.ReportModel(wanted, SimpleNamespace(words=1.0, word_dropout=0.0), shape, 2, 0, facts)


def test_grey_values_are_told_without_their_places() -> None:
    image = torch.randn(3, 2, 13 * 100)
    told = ours.model.grey_values(image)
    assert told.shape == (3, 2 * (len(ours.model.LEVELS) + len(ours.model.SHARES) + 2))
    seen = torch.arange(100) * 13
    moved = image.clone()
    moved[..., seen] = image[..., seen.flip(0)]
    assert torch.allclose(ours.model.grey_values(moved), told)
    # A channel's mean, deviation and half of its values, one after another.
    middle = len(ours.model.LEVELS) // 2
    kept = image[..., ::13]
    for channel, part in enumerate(told.chunk(2, 1)):
        assert torch.allclose(part[:, 0], kept[:, channel].mean(1))
        assert torch.allclose(part[:, 1], kept[:, channel].std(1, correction=0))
        below = (kept[:, channel] < kept[:, channel].mean(1, keepdim=True)).float().mean(1)
        assert torch.allclose(part[:, 2 + middle], below, atol=0.011)
    assert ours.model.grey_values(torch.zeros(1, 1, 13)).isfinite().all()


@pytest.mark.parametrize("cases", [1, 3])
def test_a_batch_of_any_size_trains_and_a_view_that_is_not_there_changes_nothing(cases: int) -> None:
    model = network()
    image = torch.randn(cases, 4, 8, 32, 32) + 1
    image[0, 2:] = 0
    model.train()(image, None, torch.ones(cases, 3))["loss"].backward()
    assert all(part.grad is not None and part.grad.isfinite().all() for part in model.fact_of.parameters())
    seen = copy.deepcopy(model).eval()
    alone, among = seen.likely(image[:1, :2]), seen.likely(image)
    assert among[0] == pytest.approx(alone[0], abs=1e-5)
