"""A trained nnU-Net: its own preprocessing, network and sliding window."""

import contextlib
import io
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .scan import BadImage, Scan


class NnunetEngine:
    """`config` holds plans, dataset, configuration, mirror_axes and label_values; `fill` loads the weights."""

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

    def segment(self, scan: Scan, scored: bool) -> tuple[np.ndarray, np.ndarray | None]:
        """Class numbers (i, j, k) in the axes of the scan's file; if `scored`, the probability of any class. Raises
        BadImage and what nnU-Net raises."""
        if len(scan.data) != self.channels:
            raise BadImage(f"has {len(scan.data)} channel(s) where the model takes {self.channels}")
        if not scan.data.any():
            raise BadImage("the image is zero everywhere")
        # nnU-Net's readers give (C, D, H, W) in the same order; to a picture they give a slice distance of 999.
        image = np.ascontiguousarray(scan.grid.turn(scan.data))
        spacing = (999.0, 1.0, 1.0) if scan.kind == "picture" else scan.grid.spacing
        with contextlib.redirect_stdout(io.StringIO()):
            found = self.predictor.predict_single_npy_array(image, {"spacing": spacing}, None, None, scored)
        classes, chances = found if scored else (found, None)
        scores = None if chances is None else scan.grid.turn_back(1 - np.asarray(chances[0], dtype=np.float32))
        return scan.grid.turn_back(np.asarray(classes)), scores
