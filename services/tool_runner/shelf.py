"""The shelf of weights as a runner lays it out for the sandbox."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from services.tool_runner.sandbox import remove_tree
from shared.contracts.weights import Weights
from shared.store import Store


def lay_out(shelf: Sequence[Weights], store: Store, home: Path) -> Path | None:
    """A read-only folder with the files of the shelf and their entries; None where it is empty. Blocks.

    A file is fetched once, whatever else comes and goes.
    """
    if not shelf:
        return None
    place = home / "runner" / "weights"
    text = {weights.name: weights.model_dump_json(indent=1) for weights in shelf}
    folder = place / f"shelf-{hashlib.sha256(repr(text).encode()).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    draft = folder.with_name(f".{folder.name}.{os.getpid()}")
    remove_tree(draft)
    draft.mkdir(parents=True)
    for weights in shelf:
        kept = place / weights.file.sha256
        if not kept.is_file():
            store.get_file(weights.file, kept)
            kept.chmod(0o444)
        os.link(kept, draft / Path(weights.path).name)
        (draft / f"{weights.name}.json").write_text(text[weights.name], encoding="utf-8")
    try:
        draft.rename(folder)
    except OSError:  # another call made it meanwhile
        remove_tree(draft)
    return folder
