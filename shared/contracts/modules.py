"""The paper's summary S: what the Module Architect assembled."""

from typing import Literal

from pydantic import JsonValue

from shared.contracts.base import Contract, Event, Spent


class AssembledModule(Contract):
    """Deliver the training module; paths are relative to the build workspace.

    A probe builds the datasets, draws batches of train and val and runs the model on them before it is accepted. It
    also says what model, loss, augmentation and `input_shape` are, as what it built says: leave these empty.
    """

    template: str
    folder: str = "."
    dataset_code: str = "data.py"
    config: str = "config.yaml"
    entry_point: str = "train.py"
    model: str = ""
    loss: str = ""
    augmentation: str = ""
    input_shape: tuple[int, ...] = ()
    """Channel first, without the batch axis: (C, H, W) or (C, D, H, W)."""
    notes: str = ""
    confirmed: bool = False
    """Set it once you were told of warnings and stay with your settings."""


class ModuleAssembled(Event):
    kind: Literal["ModuleAssembled"] = "ModuleAssembled"
    module: AssembledModule
    batch_shapes: dict[str, tuple[int, ...]]
    """split -> shape of a batch that the probe drew, batch axis first."""
    workspace_sha256: str
    """Digest of the workspace manifest that was probed."""
    settled: dict[str, JsonValue] = {}
    """Key of the configuration that stood on `auto` -> what it became."""
    measured: dict[str, JsonValue] = {}
    """`parameters`, `device`; `step`: what one of the probe took; `epochs` of such steps that fit into the seconds."""
    config: dict[str, JsonValue] = {}
    """Dotted key of the configuration -> value, `auto` settled."""
    spent: Spent = Spent()
