"""Reports <-> token numbers. predict.py uses this same file, and the tokenizer as plain JSON (tokenizer.json)."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

# One process, one order of merges: the same reports give the same tokenizer.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from tokenizers import Tokenizer

SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
IGNORED = -100
"""In labels: no token stands here, the loss passes it over."""


def plain(text: str) -> str:
    """Every run of white space becomes one space; nothing else of a report is changed."""
    return " ".join(text.split())


class Words:
    """A tokenizer and its special tokens. A foreign one may use one for begin, end and padding, as GPT-2 does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.begin = self.number("<s>", "[CLS]", "<|endoftext|>")
        self.end = self.number("</s>", "[SEP]", "<|endoftext|>")
        self.pad = self.number("<pad>", "[PAD]", "<|endoftext|>")
        self.unknown = self.number("<unk>", "[UNK]", "[MASK]", "<|endoftext|>")

    def __len__(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    @property
    def text(self) -> str:
        """The content of tokenizer.json."""
        return str(self.tokenizer.to_str(pretty=True))

    def number(self, *names: str) -> int:
        for name in names:
            found = self.tokenizer.token_to_id(name)
            if found is not None:
                return int(found)
        raise ValueError(f"the tokenizer has none of the special tokens {', '.join(names)}")

    def encode(self, report: str) -> list[int]:
        """Without begin and end."""
        return list(self.tokenizer.encode(plain(report), add_special_tokens=False).ids)

    def decode(self, numbers: Sequence[int]) -> str:
        """Text up to the first end token."""
        kept = list(numbers)
        if kept and kept[0] == self.begin:
            kept = kept[1:]
        if self.end in kept:
            kept = kept[: kept.index(self.end)]
        return plain(self.tokenizer.decode(kept, skip_special_tokens=True))

    def labels(self, report: str, length: int) -> list[int]:
        """`length` numbers: tokens, end, IGNORED. A longer report is cut and then has no end."""
        numbers = [*self.encode(report), self.end][:length]
        return numbers + [IGNORED] * (length - len(numbers))


def learn(reports: Iterable[str], kind: Literal["bpe", "word"], vocabulary: int) -> Words:
    """From the training reports only. Both kinds see words with the space before them, so that decoding is exact.

    bpe: rare words fall into pieces and none is unknown; word: what stands in one report only is unknown.
    """
    from tokenizers import decoders, models, pre_tokenizers, trainers

    common = {"vocab_size": vocabulary, "min_frequency": 2, "special_tokens": list(SPECIAL), "show_progress": False}
    if kind == "bpe":
        tokenizer = Tokenizer(models.BPE())
        trainer = trainers.BpeTrainer(initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), **common)
    else:
        tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
        trainer = trainers.WordLevelTrainer(**common)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(map(plain, reports), trainer)
    return Words(tokenizer)


def load(path: Path) -> Words:
    """A tokenizer.json, or a folder with one. Raises ValueError."""
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise ValueError(f"the tokenizer {file} does not exist")
    try:
        found = Tokenizer.from_file(str(file))
    except Exception as error:  # what the library raises for a damaged file has no type of its own
        raise ValueError(f"the tokenizer {file} cannot be read ({error})") from error
    return Words(found)
