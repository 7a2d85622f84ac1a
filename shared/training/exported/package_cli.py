"""The command line of a package: `predict.py INPUT... --output DIR [--device auto|cpu|cuda]`.

`main` verifies the package's checksums, opens the model, asks it for each INPUT and writes DIR/predictions.json: what
the model says of itself, and `cases` with one entry an INPUT in their order, `{"input": name, ...}` or `{"input": name,
"error": text}`. Exit code 0 if any INPUT could be predicted, else 1. Nothing is written beside the package.
"""

import argparse
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Asked:
    """What a model is opened with."""

    package: Path
    output: Path
    """Folder of the answers; it exists."""
    device: str
    """cpu or cuda."""
    config: dict[str, Any]
    """The package's config.json."""
    labels: dict[str, Any]
    """Its label_map.json."""

    @property
    def settings(self) -> Any:
        """`config` with its keys as attributes, as in training."""
        return json.loads(json.dumps(self.config), object_hook=lambda keys: SimpleNamespace(**keys))


class Model(Protocol):
    """What predict.py gives."""

    head: dict[str, Any]
    """Of predictions.json, beside `cases`."""

    def read(self, path: Path) -> Any:
        """An INPUT as the model takes it. Whatever it raises becomes the case's error."""

    def answer(self, items: list[Any]) -> list[dict[str, Any]]:
        """An entry for each of what `read` gave, without `input`."""


def main(doc: str | None, open_model: Callable[[Asked], Model], batch: int = 1, argv: list[str] | None = None) -> int:
    """`doc` is the help; `batch` inputs go to `answer` at once."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("inputs", nargs="+", metavar="INPUT", type=Path)
    parser.add_argument("--output", required=True, type=Path, metavar="DIR")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--batch-size", type=int, default=batch, help="inputs at once; fewer take less memory")
    arguments = parser.parse_args(argv)
    if faults := damage(HERE):
        print(f"the package is damaged and is not used: {'; '.join(faults)}", file=sys.stderr)
        return 1
    # Threads that wait do not spin: on a machine shared with others that costs half the speed.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device can be used; take --device cpu", file=sys.stderr)
        return 1
    asked = Asked(
        package=HERE,
        output=arguments.output,
        device="cuda" if arguments.device != "cpu" and torch.cuda.is_available() else "cpu",
        config=json.loads((HERE / "config.json").read_text(encoding="utf-8")),
        labels=json.loads((HERE / "label_map.json").read_text(encoding="utf-8")),
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    model = open_model(asked)
    cases = predict(model, arguments.inputs, max(1, arguments.batch_size), asked.labels.get("channels", []))
    draft = arguments.output / ".predictions.json.part"
    draft.write_text(json.dumps({**model.head, "cases": cases}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(arguments.output / "predictions.json")
    failed = [case for case in cases if "error" in case]
    for case in failed:
        print(f"{case['input']}: {case['error']}", file=sys.stderr)
    print(f"{len(cases) - len(failed)} of {len(cases)} predicted, see {arguments.output / 'predictions.json'}")
    return 0 if len(failed) < len(cases) else 1


def damage(folder: Path) -> list[str]:
    """What differs from SHA256SUMS."""
    sums = folder / "SHA256SUMS"
    if not sums.is_file():
        return ["SHA256SUMS is missing"]
    faults = []
    for line in sums.read_text(encoding="utf-8").splitlines():
        digest, _, name = line.partition("  ")
        file = folder / name
        if not file.is_file():
            faults.append(f"{name} is missing")
        elif hashlib.sha256(file.read_bytes()).hexdigest() != digest:
            faults.append(f"{name} has changed")
    return faults


def predict(model: Model, inputs: Sequence[Path], batch: int, channels: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One entry an input, in their order; one bad input does not cost the others."""
    cases: list[dict[str, Any]] = [{"input": path.name or path.resolve().name} for path in inputs]
    waiting: list[tuple[dict[str, Any], Any]] = []
    for path, case in zip(inputs, cases, strict=True):
        try:
            named(path, channels)
            waiting.append((case, model.read(path)))
        except Exception as error:
            case["error"] = told(error)
        if waiting and (len(waiting) >= batch or case is cases[-1]):
            found = answers(model, [item for _, item in waiting])
            for (read, _), answer in zip(waiting, found, strict=True):
                read.update(answer)
            waiting.clear()
    return cases


def named(path: Path, channels: Sequence[str]) -> None:
    """Raises ValueError where a folder has a file for each channel, and they are not named as these, in order: images
    that change places give an answer, and a wrong one. Of other folders (one file holds all channels) `read` judges."""
    if not path.is_dir() or len(channels) < 2:
        return

    def words(text: str) -> list[str]:
        return re.findall(r"[^\W\d_]+\d*|\d+", text.lower())

    names = sorted((file.name for file in path.iterdir() if not file.name.startswith(".")), key=words)
    pairs = zip(channels, names, strict=True)
    if len(names) == len(channels) and not all(set(words(one)) <= set(words(name)) for one, name in pairs):
        wanted = ", ".join(f"{number}_{one}" for number, one in enumerate(channels, 1))
        raise ValueError(f"the channels are {', '.join(channels)}: one file for each, named in this order, as {wanted}")


def answers(model: Model, items: list[Any]) -> list[dict[str, Any]]:
    """Of all at once; if that fails, of each by itself."""
    try:
        return model.answer(items)
    except Exception as error:
        if len(items) == 1:
            return [{"error": told(error)}]
    return [answers(model, [item])[0] for item in items]


def told(error: Exception) -> str:
    """An error in a line; lack of memory in words that say what to do."""
    text = next(iter(str(error).splitlines()), "")
    if isinstance(error, MemoryError) or "out of memory" in text or "DefaultCPUAllocator" in text:
        return "the memory does not hold it; take --device cpu or a machine with more"
    if isinstance(error, LookupError | AttributeError | TypeError | NameError | ImportError):
        # A fault of the program rather than of the input; some of these texts say nothing by themselves.
        return f"{type(error).__name__}: {text}"
    return text or type(error).__name__
