"""Images of a case -> report: network and loss. predict.py builds the network by this same file.

train.py, predict.py and the checks call `build`; what it returns is a module whose `forward(image, labels, facts)`
gives {"loss", "logits": (B, L, vocabulary)}, or logits (B, F) of the facts where no decoder is trained, whose
`likely(image)` gives the likelihood of each fact (telling.py) and whose `write(image, ...)` gives token numbers.
`image` is float32 (B, views * C, D, H, W) or (B, views * C, H, W), the channels of a view side by side, where a view of
zeros is one that the case has not; labels are (B, L) token numbers with -100 past the end, facts (B, F) of 0 and 1.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from images import whole
from networks import make_encoder, map_of
from torch import nn
from words import BEGIN, END, IGNORED, PAD, UNKNOWN


class ReportModel(nn.Module):
    """An encoder of each view, a head that says which facts a report will have, and a decoder that sees both."""

    def __init__(self, wanted: Any, loss: Any, shape: Sequence[int], views: int, vocabulary: int, facts: int) -> None:
        """`wanted` and `loss` are the sections of the configuration, `shape` is (C, D, H, W) or (C, H, W) of a view.
        Without a `vocabulary` there is no decoder."""
        super().__init__()
        self.loss = ReportLoss(loss.words, written=vocabulary > 0)
        self.word_dropout = loss.word_dropout
        self.inputs, *shape = shape
        self.encoder = make_encoder(wanted, shape, self.inputs, wanted.tokens)
        channels, places = map_of(self.encoder, shape, self.inputs)
        self.project = nn.Sequential(nn.Linear(channels, wanted.hidden), nn.LayerNorm(wanted.hidden))
        self.place = nn.Parameter(torch.randn(places, wanted.hidden) * 0.02)
        self.view = nn.Parameter(torch.randn(views, 1, wanted.hidden) * 0.02)
        self.fact_of = nn.Sequential(
            nn.Dropout(wanted.dropout),
            nn.Linear(2 * wanted.hidden, 2 * wanted.hidden),
            nn.GELU(),
            nn.Linear(2 * wanted.hidden, facts),
        )
        self.hint = self.decoder = None
        if vocabulary:
            self.hint = nn.Sequential(nn.Linear(facts, wanted.hidden), nn.LayerNorm(wanted.hidden))
            self.decoder = make_decoder(wanted, vocabulary)

    def forward(
        self, image: torch.Tensor, labels: torch.Tensor, facts: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        tokens, mask, found = self.look(image)
        if self.decoder is None:
            return {"loss": self.loss(None, labels, found, facts), "logits": found}
        memory, mask = self.memory(tokens, mask, found)
        before = torch.full_like(labels, BEGIN)
        before[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, PAD)
        if self.training and self.word_dropout:
            hidden = torch.rand(before.shape, device=before.device) < self.word_dropout
            before[:, 1:] = before[:, 1:].masked_fill(hidden[:, 1:], UNKNOWN)
        # Nothing is masked: what stands past the end is seen by nothing before it, and has no loss.
        answer = self.decoder(
            input_ids=before, encoder_hidden_states=memory, encoder_attention_mask=mask, use_cache=False
        )
        return {"loss": self.loss(answer.logits, labels, found, facts), "logits": answer.logits}

    def look(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Visual tokens (B, views * places, hidden); which of them are there; logits of the facts (B, F)."""
        image = image.unflatten(1, (-1, self.inputs))
        cases, views = image.shape[:2]
        there = image.flatten(2).abs().amax(2) > 0
        # A case of blank images only still has one: attention to nothing is not defined.
        there[:, 0] |= ~there.any(1)
        flat = there.flatten()
        seen = self.encoder(image.flatten(0, 1)[flat]).flatten(2).transpose(1, 2)
        shown = self.project(seen) + self.place
        tokens = shown.new_zeros(cases * views, *self.place.shape)
        tokens[flat] = shown
        tokens = (tokens.unflatten(0, (cases, views)) + self.view[:views]).flatten(1, 2)
        mask = there.repeat_interleave(len(self.place), 1)
        # Mean and maximum of what the places show: the maximum of facts that each place says by itself teaches one
        # place at a time, and was learned half as fast.
        apart = mask[..., None]
        mean = (tokens * apart).sum(1) / apart.sum(1)
        found = self.fact_of(torch.cat([mean, tokens.masked_fill(~apart, -1e4).amax(1)], 1))
        return tokens, mask, found

    def memory(
        self, tokens: torch.Tensor, mask: torch.Tensor, found: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What the decoder looks at, (B, 1 + views * places, hidden), and its mask: what the facts add up to, then the
        visual tokens."""
        memory = torch.cat([self.hint(found.sigmoid())[:, None], tokens], 1)
        return memory, F.pad(mask, (1, 0), value=True).long()

    @torch.inference_mode()
    def likely(self, image: torch.Tensor) -> list[list[float]]:
        """The likelihood of each fact, a line a case."""
        return self.look(image)[2].float().sigmoid().tolist()

    @torch.inference_mode()
    def write(self, image: torch.Tensor, length: int) -> list[list[int]]:
        """Token numbers of one report a case, 1 to `length`, greedy: with more beams the likeliest text wins, which is
        the one that suits most cases, and that kept less close to the images wherever it was compared."""
        memory, mask = self.memory(*self.look(image))
        begin = torch.full((len(image), 1), BEGIN, device=image.device)
        found = self.decoder.generate(
            input_ids=begin,
            attention_mask=torch.ones_like(begin),
            encoder_hidden_states=memory,
            encoder_attention_mask=mask,
            pad_token_id=PAD,
            min_new_tokens=1,
            max_new_tokens=length,
            do_sample=False,
        )
        return found[:, 1:].tolist()


class ReportLoss(nn.Module):
    """Cross-entropy of the next word, plus `words` times that of which telling words and sentences a report has; the
    second alone where nothing is `written`."""

    def __init__(self, words: float, written: bool = True) -> None:
        super().__init__()
        self.words, self.written = words, written

    def extra_repr(self) -> str:
        return (
            f"next word + {self.words:g} x telling words and sentences"
            if self.written
            else "telling words and sentences"
        )

    def forward(
        self, logits: torch.Tensor | None, labels: torch.Tensor, found: torch.Tensor, facts: torch.Tensor | None
    ) -> torch.Tensor:
        """`logits` (B, L, vocabulary) of words, None where nothing is written; `found` (B, F) logits of facts, `facts`
        0 and 1, or None where they are not known."""
        if not self.written:
            return F.binary_cross_entropy_with_logits(found.float(), facts)
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        if not self.words or facts is None or not facts.shape[1]:
            return loss
        return loss + self.words * F.binary_cross_entropy_with_logits(found.float(), facts)


def make_decoder(wanted: Any, vocabulary: int) -> Any:
    """The GPT-2 that writes, with cross-attention to visual tokens, by the section `model`."""
    # Late: the import takes seconds, and what is wrong with a configuration is told before.
    from transformers import GPT2Config, GPT2LMHeadModel

    if wanted.hidden % wanted.heads:
        raise ValueError(f"model.hidden {wanted.hidden} cannot be shared among model.heads {wanted.heads}")
    made = GPT2Config(
        vocab_size=vocabulary,
        n_positions=wanted.positions,
        n_embd=wanted.hidden,
        n_layer=wanted.layers,
        n_head=wanted.heads,
        resid_pdrop=wanted.dropout,
        embd_pdrop=wanted.dropout,
        attn_pdrop=wanted.dropout,
        add_cross_attention=True,
        # Two tensors that share memory do not go into one safetensors file.
        tie_word_embeddings=False,
        bos_token_id=BEGIN,
        eos_token_id=END,
    )
    return GPT2LMHeadModel(made)


def build(config: Any, vocabulary: int, facts: int = 0) -> ReportModel:
    """The untrained network, by the settled configuration, for so many facts (telling.py)."""
    written = 0 if config.text.writer == "sentences" else vocabulary
    return ReportModel(config.model, config.loss, whole(config.preprocess), config.preprocess.views, written, facts)
