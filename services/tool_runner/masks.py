"""Masks and score images that a package left behind: files of a stranger, stored, and no link of them followed."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from shared.contracts.base import Ref
from shared.maskfile import MAX_BYTES, BadMask, read_header
from shared.store import Store
from shared.store.paths import UnsafePath, open_inside

SUFFIXES = (".nii.gz", ".nii", ".png")
SCORE_SUFFIXES = (*SUFFIXES, ".npy")
_LONGEST = 500
"""Characters of an error that a package gives for a case."""


def mask_result(
    task: str, out: Path, found: Mapping[str, Any], answers: Mapping[str, Any], samples: Mapping[str, str], store: Store
) -> dict[str, Any]:
    """The result of a predict job: sample_id -> {"mask": Ref as JSON, "suffix"} or {"error"}, for each of `samples`.

    Where a case also names a score image (probabilities on the input's grid), `score` and `score_suffix` stand beside
    its mask, or `score_error`.

    `found` is what the package wrote as result/predictions.json below `out`, `answers` its cases by input name,
    `samples` input name -> sample_id. A file must be a regular file of its own in there: what goes through a link, has
    a second name, is larger or promises more voxels than anyone reads, or is no mask, is an error of its case. Blocks.
    """
    names, values = found.get("labels"), found.get("label_values")
    return {
        "task": task,
        "labels": [name for name in names if isinstance(name, str)] if isinstance(names, list) else [],
        "label_values": {k: v for k, v in values.items() if type(v) is int} if isinstance(values, dict) else {},
        "cases": {sample: _collect(out, answers.get(name), store) for name, sample in samples.items()},
    }


class _Refused(Exception):
    pass


def _collect(out: Path, answer: Mapping[str, Any] | None, store: Store) -> dict[str, Any]:
    if answer is None:
        return {"error": "no prediction was returned"}
    path, score = answer.get("mask"), answer.get("score")
    if answer.get("error") is not None or not isinstance(path, str):
        return {"error": str(answer.get("error") or "the answer names no mask")[:_LONGEST]}
    try:
        ref, suffix = _stored(out, path, "mask", SUFFIXES, partial(read_header, pictures=("PNG",)), store)
    except _Refused as error:
        return {"error": str(error)}
    case: dict[str, Any] = {"mask": ref.model_dump(mode="json"), "suffix": suffix}
    if score is not None:
        try:
            # What it holds is for its reader to judge: a mask counts without it.
            ref, suffix = _stored(out, score, "score image", SCORE_SUFFIXES, lambda stream: None, store)
        except _Refused as error:
            return case | {"score_error": str(error)}
        case |= {"score": ref.model_dump(mode="json"), "score_suffix": suffix}
    return case


def _stored(
    out: Path, path: object, what: str, suffixes: tuple[str, ...], look: Callable[[BinaryIO], object], store: Store
) -> tuple[Ref, str]:
    """The file in the store, and its suffix. Raises _Refused."""
    suffix = next((suffix for suffix in suffixes if isinstance(path, str) and path.lower().endswith(suffix)), None)
    if suffix is None:
        raise _Refused(f"a {what} is a file {', '.join(suffixes)}")
    try:
        # From `out`, which is ours: the result folder itself may be a link as well.
        with open_inside(out, f"result/{path}") as stream:
            found = os.fstat(stream.fileno())
            if found.st_nlink != 1:
                raise _Refused(f"the {what} has other names (hard links); write a file of its own")
            if found.st_size > MAX_BYTES:
                raise _Refused(f"the {what} has {found.st_size} bytes, at most {MAX_BYTES} are read")
            look(stream)
            return store.put_stream("packages", stream), suffix
    except FileNotFoundError:
        raise _Refused(f"the {what} that the answer names does not exist") from None
    except UnsafePath:
        raise _Refused(f"the {what} is no regular file inside the result folder") from None
    except BadMask as error:
        raise _Refused(f"the {what} cannot be read: {error}") from None
    except ValueError:
        raise _Refused(f"the {what}'s path is no text that a file can be called") from None
