"""Segment with a packaged nnU-Net: `python predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

An INPUT is a NIfTI, DICOM, npy or picture file, or a folder of one image, of its channels (natural order) or of DICOM
slices. DIR gets one mask an INPUT on the input's own grid, with the label values of the training data, and
predictions.json, which names the mask or an error for each. Exit code 0 if any INPUT could be segmented, else 1. The
package's checksums are verified first. Nothing is written beside the package.
"""

import argparse
import contextlib
import hashlib
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))  # `python -I` leaves the script's own folder out


def main(argv: list[str] | None = None) -> int:
    arguments = parse(argv)
    faults = verify(HERE)
    if faults:
        print(f"the package is damaged and is not used: {'; '.join(faults)}", file=sys.stderr)
        return 1
    import torch

    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device can be used; take --device cpu", file=sys.stderr)
        return 1
    device = "cuda" if arguments.device != "cpu" and torch.cuda.is_available() else "cpu"
    import safetensors.torch

    config = json.loads((HERE / "config.json").read_text(encoding="utf-8"))
    # nnU-Net registers its layers twice; load_model knows that, a plain state dict does not.
    segmenter = Segmenter(config, lambda net: safetensors.torch.load_model(net, HERE / "model.safetensors"), device)
    arguments.output.mkdir(parents=True, exist_ok=True)
    cases = predict(segmenter, arguments.inputs, arguments.output)
    result = {
        "task": config["task"],
        "labels": list(config["label_values"]),
        "label_values": config["label_values"],
        "cases": cases,
    }
    draft = arguments.output / ".predictions.json.part"
    draft.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(arguments.output / "predictions.json")
    failed = [case for case in cases if "error" in case]
    for case in failed:
        print(f"{case['input']}: {case['error']}", file=sys.stderr)
    print(f"{len(cases) - len(failed)} of {len(cases)} predicted, see {arguments.output / 'predictions.json'}")
    return 0 if len(failed) < len(cases) else 1


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("inputs", nargs="+", metavar="INPUT", type=Path)
    parser.add_argument("--output", required=True, type=Path, metavar="DIR")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    return parser.parse_args(argv)


def verify(folder: Path) -> list[str]:
    """What differs from SHA256SUMS."""
    sums = folder / "SHA256SUMS"
    if not sums.is_file():
        return ["SHA256SUMS is missing"]
    faults = []
    for line in sums.read_text().splitlines():
        digest, _, name = line.partition("  ")
        file = folder / name
        if not file.is_file():
            faults.append(f"{name} is missing")
        elif hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            faults.append(f"{name} has changed")
    return faults


def predict(segmenter: "Segmenter", inputs: Sequence[Path], output: Path) -> list[dict[str, Any]]:
    """One entry an input, in their order; an input that cannot be segmented gets an `error`."""
    from readers import input_files, load_scan, stem_of, write_mask

    cases: list[dict[str, Any]] = []
    taken: set[str] = set()
    for path in inputs:
        case: dict[str, Any] = {"input": path.name or path.resolve().name}
        cases.append(case)
        try:
            scan = load_scan(input_files(path))
            case["mask"] = write_mask(scan, segmenter.segment(scan), output, free_name(stem_of(path), taken))
        except Exception as error:  # one bad input must not cost the others
            case["error"] = str(error) or type(error).__name__
    return cases


def free_name(stem: str, taken: set[str]) -> str:
    """Inputs of one name in several folders get -2, -3, ..."""
    found, number = stem, 1
    while found in taken:
        number += 1
        found = f"{stem}-{number}"
    taken.add(found)
    return found


class Segmenter:
    """nnU-Net's own preprocessing, network and sliding window, from a package's config.json; `fill` loads the weights.

    `config` holds plans, dataset, configuration, mirror_axes and label_values (structure -> value).
    """

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
            self.values = list(config["label_values"].values())
            network = get_network_from_plans(
                how.network_arch_class_name,
                how.network_arch_init_kwargs,
                how.network_arch_init_kwargs_req_import,
                self.channels,
                len(self.values) + 1,
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

    def segment(self, scan: Any) -> Any:
        """`readers.Scan` -> label values (i, j, k) in the axes of its file. Raises BadImage and what nnU-Net raises."""
        import numpy as np
        from readers import BadImage

        if len(scan.data) != self.channels:
            raise BadImage(f"has {len(scan.data)} channel(s); the model takes {self.channels}")
        if not scan.data.any():
            raise BadImage("the image is zero everywhere")
        # nnU-Net's readers give (C, D, H, W) in the same order; to a picture they give a slice distance of 999.
        image = np.ascontiguousarray(scan.grid.turn(scan.data))
        spacing = (999.0, 1.0, 1.0) if scan.kind == "picture" else scan.grid.spacing
        with contextlib.redirect_stdout(io.StringIO()):
            classes = self.predictor.predict_single_npy_array(image, {"spacing": spacing}, None, None, False)
        return scan.grid.turn_back(np.array([0, *self.values], dtype=np.int32)[classes])


if __name__ == "__main__":
    sys.exit(main())
