"""What a package wrote as result/predictions.json, cut down to what is known, as JSON lines on stdout.

Usage: read_predictions.py BYTES [SECONDS MB] < a JSON list of the names of the inputs. The package's folder is M3_OUT.
The first line is {"labels", "label_values", "multi_label"}; each other one is an answer: {"input": its name, "error" |
"probabilities" | "report"}, never nested deeper. Without a file of at most BYTES bytes that can be read there is no
line at all.

With SECONDS and MB each answer's files are read too and written anew into the current folder, as NAME.mask and
NAME.score with a suffix: {"input", "mask": the suffix, "fractions", "outside", "score": the suffix | "score_error"}, or
{"input", "error", "unreadable"}. Each case has a process of its own for that, with so many seconds of processor time
and so much memory: what its files kill is this process alone.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from shared.store.paths import UnsafePath, open_inside

LINE = 1 << 18
"""Characters of an answer."""
_NO_MEMORY = 3
"""Exit code of a reader."""
_TEXTS = ("error", "mask", "score", "report")
_SUFFIXES = {"mask": (".nii.gz", ".nii", ".png"), "score": (".nii.gz", ".nii", ".png", ".npy")}
_CALLED = {"mask": "mask", "score": "score image"}


def read(out: Path, limit: int) -> dict[str, Any]:
    """The object in the file."""
    with open_inside(out, "result/predictions.json") as file:
        text = file.read(limit + 1)
    # JSON has no NaN: it becomes null, which no reader takes for a figure.
    found = json.loads(text, parse_constant=lambda _: None) if len(text) <= limit else {}
    return found if isinstance(found, dict) else {}


def answer(name: str, case: dict[str, Any]) -> dict[str, Any]:
    kept = {key: case[key] for key in _TEXTS if isinstance(case.get(key), str)}
    if case.get("error") is not None:
        kept["error"] = str(kept.get("error", "an error without a text"))[:500]
    chances = case.get("probabilities")
    if isinstance(chances, dict):
        kept["probabilities"] = {label: number(value) for label, value in chances.items()}
    elif isinstance(chances, list):
        kept["probabilities"] = [number(value) for value in chances]
    return {"input": name} | kept


def number(value: object) -> object:
    return value if isinstance(value, int | float) else None


class Refused(Exception):
    """`unreadable`: the file is there, and no mask."""

    def __init__(self, text: str, unreadable: bool = False) -> None:
        super().__init__(text[:500])
        self.unreadable = unreadable


def segmentation(name: str, case: dict[str, Any], out: Path, folder: Path) -> dict[str, Any]:
    """The answer once its files were read; the new ones lie in `folder`."""
    from _mask_files import read_mask, read_scores

    told = {"input": name}
    path, score = case.get("mask"), case.get("score")
    if case.get("error") is not None or not isinstance(path, str):
        return told | {"error": str(case.get("error") or "the answer names no mask")[:500]}
    try:
        mask = opened(out, path, "mask", read_mask)
        told |= {"mask": written(mask, folder / f"{name}.mask"), "fractions": mask.fractions, "outside": mask.outside}
    except Refused as error:
        return told | {"error": str(error), "unreadable": error.unreadable}
    if score is not None:
        try:
            scores = opened(out, score, "score", lambda file: read_scores(file, mask))
            # Not packed: that would take longer than all the rest, to save a half.
            told["score"] = written(scores, folder / f"{name}.score", level=0)
        except Refused as error:
            told["score_error"] = str(error)
    return told


def opened(out: Path, path: object, what: str, read: Callable[[BinaryIO], Any]) -> Any:
    """What `read` makes of a file in the result folder. Raises Refused."""
    from _mask_files import MAX_BYTES, BadFile

    called = _CALLED[what]
    if not isinstance(path, str) or not path.lower().endswith(_SUFFIXES[what]):
        raise Refused(f"a {called} is a file {', '.join(_SUFFIXES[what])}")
    try:
        # From `out`, which is ours: the result folder itself may be a link as well.
        with open_inside(out, f"result/{path}") as stream:
            found = os.fstat(stream.fileno())
            if found.st_nlink != 1:
                raise Refused(f"the {called} has other names (hard links); write a file of its own")
            if found.st_size > MAX_BYTES:
                raise Refused(f"the {called} has {found.st_size} bytes, at most {MAX_BYTES} are read")
            return read(stream)
    except FileNotFoundError:
        raise Refused(f"the {called} that the answer names does not exist") from None
    except UnsafePath:
        raise Refused(f"the {called} is no regular file inside the result folder") from None
    except BadFile as error:
        raise Refused(f"the {called} cannot be read: {error}", unreadable=True) from None
    except ValueError:
        raise Refused(f"the {called}'s path is no text that a file can be called") from None


def written(numbers: Any, place: Path, level: int = 1) -> str:
    """Write the file; its suffix. Raises Refused."""
    from shared.imaging.write import write_nifti, write_plain_png

    try:
        if numbers.affine is None:
            path = write_plain_png(numbers.array, place, level)
        else:
            path = write_nifti(numbers.array, numbers.affine, place, level)
    except MemoryError:
        raise
    except Exception as error:
        # A stranger's affine may be none that can be written.
        raise Refused(f"it cannot be written anew ({type(error).__name__})", unreadable=True) from None
    return path.name.removeprefix(place.name)


def tell(name: str, told: dict[str, Any]) -> None:
    text = json.dumps({"input": name} | told)
    print(text if len(text) < LINE else json.dumps({"input": name, "error": "the answer is longer than is read"}))
    sys.stdout.flush()


def apart(name: str, case: dict[str, Any], out: Path, seconds: int, megabytes: int) -> None:
    """Tell of a case whose files are read in a process of their own."""
    if not (reader := os.fork()):
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20,) * 2)
            # Of processor time, so that a busy machine does not count; its signal ends the process.
            signal.setitimer(signal.ITIMER_PROF, seconds)
            tell(name, segmentation(name, case, out, Path()))
            code = 0
        except MemoryError:
            code = _NO_MEMORY
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(reader, 0)[1])
    if code:
        for what in ("mask.nii.gz", "mask.png", "score.nii.gz", "score.png"):
            Path(f"{name}.{what}").unlink(missing_ok=True)
        why = {
            -signal.SIGPROF: f"take more than {seconds} s",
            -signal.SIGKILL: f"need more than {megabytes} MB of memory",
            _NO_MEMORY: f"need more than {megabytes} MB of memory",
        }.get(code, "are damaged: the program that reads them died")
        tell(name, {"error": f"not read: its files {why}"})


def main(limit: int, seconds: int = 0, megabytes: int = 0) -> None:
    names = json.load(sys.stdin)
    out = Path(os.environ["M3_OUT"])
    try:
        found = read(out, limit)
    except (OSError, ValueError, RecursionError, UnsafePath):
        return
    labels, values, cases = found.get("labels"), found.get("label_values"), found.get("cases")
    head = {
        "labels": [name for name in labels if isinstance(name, str)] if isinstance(labels, list) else [],
        "label_values": {k: v for k, v in values.items() if type(v) is int} if isinstance(values, dict) else {},
        "multi_label": found.get("multi_label") is True,
    }
    given = [case for case in cases if isinstance(case, dict)] if isinstance(cases, list) else []
    answers = {Path(str(case.get("input"))).name: case for case in given}
    text = json.dumps(head)
    print(text if len(text) < LINE else "{}", flush=True)
    if seconds:
        # Loaded once, before the readers fork.
        import _mask_files  # noqa: F401
        import nibabel  # noqa: F401
        from PIL import Image  # noqa: F401
    for name in names:
        if (case := answers.get(name)) is None:
            continue
        if seconds:
            apart(name, case, out, seconds, megabytes)
        else:
            tell(name, answer(name, case))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
