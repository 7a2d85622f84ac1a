"""Segment with a packaged nnU-Net: `python predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

segmenting.py says what an INPUT is and what DIR gets, package_cli.py the rest.
Training evaluates by `Engine`. Of `shared` this file may import `shared.imaging` and `shared.training.exported`.
"""

import contextlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))  # `python -I` leaves the script's own folder out

from shared.training.exported.package_cli import Asked, main  # noqa: E402
from shared.training.exported.segmenting import Segmenter  # noqa: E402


class Engine:
    """A trained nnU-Net: its own preprocessing, network and sliding window, by the package's config.json. `fill` loads
    the weights."""

    def __init__(self, config: dict[str, Any], fill: Callable[[Any], object], device: str) -> None:
        os.environ.update({"nnUNet_compile": "f"})
        with contextlib.redirect_stdout(io.StringIO()):
            import torch
            from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor
            from nnunetv2.utilities.get_network_from_plans import get_network_from_plans
            from nnunetv2.utilities.plans_handling.plans_handler import PlansManager

            plans = PlansManager(config["plans"])
            how = plans.get_configuration(config["configuration"])
            self.channels = len(config["dataset"]["channel_names"])
            network = get_network_from_plans(
                how.network_arch_class_name,
                how.network_arch_init_kwargs,
                how.network_arch_init_kwargs_req_import,
                self.channels,
                len(config["label_values"]) + 1,
                allow_init=False,
                deep_supervision=False,
            )
            fill(network)
            axes = tuple(config["mirror_axes"])
            self.predictor = nnUNetPredictor(use_mirroring=bool(axes), device=torch.device(device), allow_tqdm=False)
            weights = [network.state_dict()]
            self.predictor.manual_initialization(
                network, plans, how, weights, config["dataset"], "nnUNetTrainer", axes or None
            )

    def segment(self, image: Any, scored: bool) -> tuple[Any, Any]:
        """Class numbers on the axes of the image's file; if `scored`, the probability of any class. Raises BadImage."""
        import numpy as np

        from shared.imaging.volume import BadImage, channels_first, fitted, from_dhw, spacing_dhw

        image = fitted(image, self.channels)
        if not image.array.any():
            raise BadImage("the image is zero everywhere")
        # nnU-Net's readers give (C, D, H, W) in the same order; to a picture they give a slice distance of 999.
        voxels, spacing = channels_first(image), spacing_dhw(image)
        if image.affine is None:
            voxels, spacing = voxels[:, None], (999.0, 1.0, 1.0)
        with contextlib.redirect_stdout(io.StringIO()):
            found = self.predictor.predict_single_npy_array(voxels, {"spacing": spacing}, None, None, scored)
        classes, chances = found if scored else (found, None)
        scores = None if chances is None else from_dhw(1 - np.asarray(chances[0], dtype=np.float32), image)
        return from_dhw(np.asarray(classes), image), scores


class Predictor(Segmenter):
    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        import safetensors.torch

        weights = asked.package / "model.safetensors"
        # nnU-Net registers its layers twice; load_model knows that, a plain state dict does not.
        self.engine = Engine(asked.config, lambda network: safetensors.torch.load_model(network, weights), asked.device)
        self.channels = self.engine.channels

    def segment(self, image: Any) -> tuple[Any, Any]:
        return self.engine.segment(image, self.scored)


if __name__ == "__main__":
    sys.exit(main(__doc__, Predictor))
