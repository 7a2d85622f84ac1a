"""Words that mean train, validation and test."""

import re

SPLIT_WORDS = {
    **dict.fromkeys(("train", "training", "tr", "trn"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "validate", "va", "dev", "tuning"), "val"),
    **dict.fromkeys(("test", "testing", "ts", "tst", "evaluation", "eval", "holdout", "heldout"), "test"),
}
_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


_YES = {"1", "yes", "true", "y", "x", "t"}
_NO = {"0", "no", "false", "n", "", "f"}


def split_of(text: str, column: str = "") -> str | None:
    """`train`, `val` or `test` where a name or a value says so, as `Training`, `imagesTs` or `val_data` do, or the yes
    or no of a column that is called so: 0 of `Train` is `test`."""
    if column and text.strip().lower().removesuffix(".0") in _YES | _NO:
        side = SPLIT_WORDS.get(column.removeprefix("is_").removeprefix("is ").strip().lower())
        yes = text.strip().lower().removesuffix(".0") in _YES
        return side if yes or side is None else "test" if side == "train" else "train"
    if text.lower() in SPLIT_WORDS:
        return SPLIT_WORDS[text.lower()]
    found = {SPLIT_WORDS[piece.lower()] for piece in _PIECES.findall(text) if piece.lower() in SPLIT_WORDS}
    return found.pop() if len(found) == 1 else None
