"""Scorer and tool runner at work, once for all tests that score packages by the real way."""

from collections.abc import Iterator

import pytest
from real_scoring import Scoring, scoring


@pytest.fixture(scope="session")
def real_scoring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scoring]:
    with scoring(tmp_path_factory.mktemp("scoring")) as found:
        yield found
