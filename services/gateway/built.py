"""What was trained, in words: of the training that was delivered, which need not be the module as it was assembled."""

from dataclasses import dataclass

from services.gateway.blocks import clean
from shared.contracts.modules import AssembledModule
from shared.contracts.training import JobFinished


@dataclass(frozen=True)
class Built:
    network: str
    loss: str
    augmentation: str
    shape: str
    """Of the input: `1x32x64x64`."""


def built(module: AssembledModule, job: JobFinished | None) -> Built:
    """What the training noted of itself, as far as its code is ours; else what the probe saw of the module."""
    noted = job.metrics if job and not job.own_code else {}

    def text(name: str, assembled: str) -> str:
        said = noted.get(name)
        return clean(said) if isinstance(said, str) and said else assembled

    size = noted.get("input_shape")
    return Built(
        network=text("network", module.model),
        loss=text("loss", module.loss),
        augmentation=text("augmentation", module.augmentation),
        shape="x".join(map(str, size if isinstance(size, list) and size else module.input_shape)),
    )
