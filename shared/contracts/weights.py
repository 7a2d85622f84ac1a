"""The shelf: weights that an operator offers to trainings. A file is looked at in the sandbox before it is on it."""

from datetime import datetime
from typing import ClassVar, Literal

from pydantic import Field

from shared.contracts.base import Contract, Ref, Token

FOLDER = "/weights"
"""Where the shelf stands in the sandbox of a training; each file has its entry beside it, as NAME.json."""
Suffix = Literal[".safetensors", ".pt"]
"""How a file is to be read; .pt is whatever `torch.load(weights_only=True)` reads."""


class Fit(Contract):
    """A backbone of the templates that the tensors fit by name and shape."""

    backbone: str
    width: int
    dimensions: Literal[2, 3]
    share: float
    """Of the backbone's tensors that are in the file."""


class Looked(Contract):
    """What a program in the sandbox saw in a file of weights."""

    tensors: int = Field(ge=1)
    parameters: int
    layers: dict[str, tuple[int, ...]]
    """Name of a tensor -> its shape; the first 1,000."""
    fits: tuple[Fit, ...] = ()
    """The best first: those that leave least of the file unused."""


class Weights(Contract):
    """An entry of the shelf."""

    name: Token
    file: Ref
    suffix: Suffix
    licence: str = Field(min_length=1, max_length=300)
    source: str = Field(min_length=1, max_length=1000)
    learned_from: tuple[Token, ...] = ()
    """Datasets registered here that they were trained on: no run on one of these is offered them, as they may know its
    test cases by heart."""
    added_by: str
    at: datetime
    looked: Looked

    @property
    def path(self) -> str:
        """In the sandbox of a training."""
        return f"{FOLDER}/{self.name}{self.suffix}"


class Offered(Contract):
    """A line of the shelf as the agents are told it."""

    path: str
    """What `model.weights` of the templates takes."""
    licence: str
    source: str
    tensors: int
    parameters: int
    fits: tuple[Fit, ...] = ()

    @classmethod
    def of(cls, weights: Weights) -> "Offered":
        found = weights.looked
        return cls(
            path=weights.path, licence=weights.licence, source=weights.source,
            tensors=found.tensors, parameters=found.parameters, fits=found.fits,
        )  # fmt: skip


class LookAtWeights(Contract):
    """Arguments of the gateway's call `look_at_weights`; `ToolResult.data` of it are a `Looked`."""

    tool: ClassVar[str] = "look_at_weights"
    file: Ref
    suffix: Suffix
