"""Images are not mirrored where names or reports speak of a side, in the languages that reports are written in."""

import pytest

from shared.training.sides import sided


@pytest.mark.parametrize(
    "name", ["left_kidney", "kidney_l", "LeftLung", "hippocampus-R", "Niere links", "pulmón derecho"]
)
def test_a_name_with_a_side(name: str) -> None:
    assert sided(["spleen", name])


@pytest.mark.parametrize("name", ["spleen", "lobo", "L5", "rl", "upright"])
def test_a_name_without(name: str) -> None:
    assert not sided([name])


@pytest.mark.parametrize(
    "text",
    ["A right-sided effusion.", "Erguss in der linken Pleura.", "Derrame pleural derecho.", "Poumon gauche clair.",
     "Polmone destro.", "Pulmão esquerdo."],
)  # fmt: skip
def test_a_report_with_a_side(text: str) -> None:
    assert sided([text], names=False)
    assert not sided(["Normal film, 3 cm R. Lungs are clear."], names=False)
