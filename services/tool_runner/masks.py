"""The masks that a package left behind: files of a stranger, looked at and stored, and no link of them followed."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.maskfile import MAX_BYTES, BadMask, read_header
from shared.store import Store
from shared.store.paths import UnsafePath, open_inside

SUFFIXES = (".nii.gz", ".nii", ".png")
_LONGEST = 500
"""Characters of an error that a package gives for a case."""


def mask_result(
    task: str, out: Path, found: Mapping[str, Any], answers: Mapping[str, Any], samples: Mapping[str, str], store: Store
) -> dict[str, Any]:
    """The result of a predict job: sample_id -> {"mask": Ref as JSON, "suffix"} or {"error"}, for each of `samples`.

    `found` is what the package wrote as result/predictions.json below `out`, `answers` its cases by input name,
    `samples` input name -> sample_id. A mask must be a regular file of its own in there: what goes through a link, has
    a second name, is larger or promises more voxels than anyone reads, or is no mask, is an error of its case. Blocks.
    """
    names, values = found.get("labels"), found.get("label_values")
    return {
        "task": task,
        "labels": [name for name in names if isinstance(name, str)] if isinstance(names, list) else [],
        "label_values": {k: v for k, v in values.items() if type(v) is int} if isinstance(values, dict) else {},
        "cases": {sample: _collect(out, answers.get(name), store) for name, sample in samples.items()},
    }


def _collect(out: Path, answer: Mapping[str, Any] | None, store: Store) -> dict[str, Any]:
    if answer is None:
        return {"error": "no prediction was returned"}
    path = answer.get("mask")
    if answer.get("error") is not None or not isinstance(path, str):
        return {"error": str(answer.get("error") or "the answer names no mask")[:_LONGEST]}
    suffix = next((suffix for suffix in SUFFIXES if path.lower().endswith(suffix)), None)
    if suffix is None:
        return {"error": f"a mask is a file {', '.join(SUFFIXES)}"}
    try:
        # From `out`, which is ours: the result folder itself may be a link as well.
        with open_inside(out, f"result/{path}") as stream:
            found = os.fstat(stream.fileno())
            if found.st_nlink != 1:
                return {"error": "the mask has other names (hard links); write a file of its own"}
            if found.st_size > MAX_BYTES:
                return {"error": f"the mask has {found.st_size} bytes, at most {MAX_BYTES} are read"}
            read_header(stream)
            ref = store.put_stream("packages", stream)
    except FileNotFoundError:
        return {"error": "the mask that the answer names does not exist"}
    except UnsafePath:
        return {"error": "the mask is no regular file inside the result folder"}
    except BadMask as error:
        return {"error": f"the mask cannot be read: {error}"}
    except ValueError:
        return {"error": "the mask's path is no text that a file can be called"}
    return {"mask": ref.model_dump(mode="json"), "suffix": suffix}
