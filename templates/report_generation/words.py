"""Reports <-> token numbers. predict.py uses this same file, and the tokenizer as plain JSON (tokenizer.json)."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

# One process, one order of merges: the same reports give the same tokenizer.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from tokenizers import Tokenizer

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BEGIN, END, UNKNOWN = range(4)
"""Their token numbers: they are the first that a tokenizer has."""
IGNORED = -100
"""In labels: no token stands here, the loss passes it over."""


def plain(text: str) -> str:
    """Every run of white space becomes one space; nothing else of a report is changed."""
    return " ".join(text.split())


class Words:
    """A tokenizer that `learn` has made."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def __len__(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    @property
    def text(self) -> str:
        """The content of tokenizer.json."""
        return str(self.tokenizer.to_str(pretty=True))

    def encode(self, report: str) -> list[int]:
        """Without begin and end."""
        return list(self.tokenizer.encode(plain(report), add_special_tokens=False).ids)

    def decode(self, numbers: Sequence[int]) -> str:
        """Text up to the first end token."""
        kept = list(numbers)
        if END in kept:
            kept = kept[: kept.index(END)]
        return plain(self.tokenizer.decode(kept, skip_special_tokens=True))

    def labels(self, report: str, length: int) -> list[int]:
        """`length` numbers: tokens, end, IGNORED. A longer report is cut and then has no end."""
        numbers = [*self.encode(report), END][:length]
        return numbers + [IGNORED] * (length - len(numbers))


def learn(reports: Iterable[str], vocabulary: int) -> Words:
    """Byte pairs of the training reports, with the space before them: rare words fall into pieces, none is unknown."""
    from tokenizers import decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, min_frequency=2, special_tokens=list(SPECIAL), show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(map(plain, reports), trainer)
    return Words(tokenizer)


def load(path: Path) -> Words:
    """From a tokenizer.json."""
    return Words(Tokenizer.from_file(str(path)))
