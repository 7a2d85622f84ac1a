"""Predict from a packaged model: `python predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

An INPUT is a folder of slices (natural order, `attributes.json` read if there), a NIfTI, DICOM, PNG, JPG, npy or pt
file. DIR/predictions.json has one entry an INPUT: label and probabilities, or an error. Exit code 0 if any INPUT could
be predicted, else 1. The package's checksums are verified first. Nothing is written beside the package.
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
    config = json.loads((HERE / "config.json").read_text())
    labels = json.loads((HERE / "label_map.json").read_text())["names"]
    network, how = load(config, len(labels), device)
    cases = predict(network, how, arguments.inputs, labels, bool(config["multi_label"]), arguments.batch_size, device)
    arguments.output.mkdir(parents=True, exist_ok=True)
    result = {"task": config["task"], "labels": labels, "multi_label": bool(config["multi_label"]), "cases": cases}
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
    parser.add_argument("--batch-size", type=int, default=8)
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


def load(config: dict[str, Any], classes: int, device: str) -> tuple[Any, Any]:
    import model
    import safetensors.torch
    from inference import Preprocess

    how = Preprocess(**{**config["preprocess"], "input_shape": tuple(config["preprocess"]["input_shape"])})
    rebuilt = SimpleNamespace(
        preprocess=how,
        model=model.ModelConfig(**config["model"]),
        loss=model.LossConfig(**config["loss"]),
        multi_label=config["multi_label"],
    )
    network = model.build(rebuilt, classes)
    network.load_state_dict(safetensors.torch.load_file(HERE / "model.safetensors"))
    return network.to(device).eval(), how


def predict(
    network: Any, how: Any, inputs: list[Path], labels: list[str], multi_label: bool, batch_size: int, device: str
) -> list[dict[str, Any]]:
    """One entry an input, in their order; an input that cannot be read gets an `error`."""
    import numpy as np
    import torch
    from inference import input_files, load_image, preprocess

    cases: list[dict[str, Any]] = []
    waiting: list[tuple[dict[str, Any], Any]] = []

    def flush() -> None:
        if not waiting:
            return
        batch = torch.from_numpy(np.stack([array for _, array in waiting])).to(device)
        with torch.inference_mode():
            logits = network(batch)["logits"].double().cpu()
        chances = logits.sigmoid() if multi_label else logits.softmax(1)
        for (case, _), row in zip(waiting, chances.tolist(), strict=True):
            named = dict(zip(labels, row, strict=True))
            best = max(labels, key=lambda name: named[name])
            case["label"] = [name for name in labels if named[name] >= 0.5] if multi_label else best
            case["probabilities"] = named
        waiting.clear()

    for path in inputs:
        case: dict[str, Any] = {"input": path.name or path.resolve().name}
        cases.append(case)
        try:
            files, attributes = input_files(path)
            # float16 as in training, where preprocessed samples are cached.
            array = preprocess(load_image(files, attributes)[0], attributes, how).astype(np.float16)
        except Exception as error:  # one bad input must not cost the others
            case["error"] = str(error) or type(error).__name__
            continue
        waiting.append((case, array.astype(np.float32)))
        if len(waiting) >= max(1, batch_size):
            flush()
    flush()
    return cases


if __name__ == "__main__":
    sys.exit(main())
