"""Segment with a packaged model: `python predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

An INPUT is a NIfTI, npy or PNG file, or a folder with one, with DICOM slices, or with a file a channel in natural order
(`attributes.json` is passed over). DIR gets a mask for each on the input's own grid (NIfTI, PNG for a picture) with the
label values of the training data, and predictions.json, which names the mask or an error. Exit code 0 if any INPUT
could be segmented, else 1. The package's checksums are verified first. Nothing is written beside the package.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
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
    config = json.loads((HERE / "config.json").read_text(encoding="utf-8"))
    labels = json.loads((HERE / "label_map.json").read_text(encoding="utf-8"))
    names, values = labels["names"], labels["values"]
    network, how = load(config, len(names), device)
    arguments.output.mkdir(parents=True, exist_ok=True)
    numbers = [0, *(values[name] for name in names)]
    cases = predict(network, how, arguments.inputs, numbers, arguments.output, device)
    result = {"task": config["task"], "labels": names, "label_values": values, "cases": cases}
    draft = arguments.output / ".predictions.json.part"
    draft.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(arguments.output / "predictions.json")
    failed = [case for case in cases if "error" in case]
    for case in failed:
        print(f"{case['input']}: {case['error']}", file=sys.stderr)
    print(f"{len(cases) - len(failed)} of {len(cases)} segmented, see {arguments.output / 'predictions.json'}")
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


def load(config: dict[str, Any], structures: int, device: str) -> tuple[Any, Any]:
    import model
    import safetensors.torch
    from inference import Preprocess

    lists = {key: tuple(value) for key, value in config["preprocess"].items() if isinstance(value, list)}
    how = Preprocess(**{**config["preprocess"], **lists})
    rebuilt = SimpleNamespace(
        preprocess=how, model=model.ModelConfig(**config["model"]), loss=model.LossConfig(**config["loss"])
    )
    network = model.build(rebuilt, structures)
    network.load_state_dict(safetensors.torch.load_file(HERE / "model.safetensors"))
    return network.to(device).eval(), how


def predict(
    network: Any, how: Any, inputs: list[Path], numbers: list[int], output: Path, device: str
) -> list[dict[str, Any]]:
    """One entry an input, in their order; an input that cannot be segmented gets an `error`. `numbers` are the label
    values by class number."""
    import numpy as np
    from inference import prepare, segment
    from readers import input_files, load_scan, stem_of, write_mask

    cases: list[dict[str, Any]] = []
    taken: set[str] = set()
    for path in inputs:
        case: dict[str, Any] = {"input": path.name or path.resolve().name}
        cases.append(case)
        try:
            scan = load_scan(input_files(path))
            found = segment(network, prepare(scan, how), scan.grid.size, how, device)
            values = np.array(numbers)[scan.grid.turn_back(found)]
            case["mask"] = write_mask(scan, values, output, free_name(stem_of(path), taken))
        except Exception as error:  # one bad input must not cost the others
            case["error"] = str(error) or type(error).__name__
    return cases


def free_name(stem: str, taken: set[str]) -> str:
    """Inputs of one name get -2, -3, ..."""
    found, number = stem, 1
    while found in taken:
        number += 1
        found = f"{stem}-{number}"
    taken.add(found)
    return found


if __name__ == "__main__":
    sys.exit(main())
