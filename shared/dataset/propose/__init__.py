"""The search that finds the rules of an unknown dataset: `propose`, and `explain` where it finds none."""

from shared.dataset.propose.explain import explain
from shared.dataset.propose.search import propose

__all__ = ["explain", "propose"]
