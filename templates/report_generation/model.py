"""Images of a case -> report: network and loss. predict.py builds the network by this same file.

train.py, predict.py and the checks call `build`; what it returns is a module whose `forward(image, labels)` gives
{"loss", "logits": (B, L, vocabulary)} and whose `write(image, ...)` gives token numbers. `image` is float32
(B, views * C, D, H, W) or (B, views * C, H, W), the channels of a view side by side, where a view of zeros is one that
the case has not; labels are (B, L) token numbers with -100 past the end.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from decoder import make_decoder
from images import whole
from networks import make_encoder, map_of
from torch import nn
from words import BEGIN, IGNORED, PAD, UNKNOWN


class ReportModel(nn.Module):
    """An encoder of each view, a head that says which telling words come, and a decoder that sees both."""

    def __init__(self, wanted: Any, loss: Any, shape: Sequence[int], views: int, vocabulary: int) -> None:
        """`wanted` and `loss` are the sections of the configuration, `shape` is (C, D, H, W) or (C, H, W) of a view."""
        super().__init__()
        self.loss = ReportLoss(loss.words)
        self.word_dropout = loss.word_dropout
        self.vocabulary = vocabulary
        self.inputs, *shape = shape
        self.encoder = make_encoder(wanted, shape, self.inputs, wanted.tokens)
        channels, places = map_of(self.encoder, shape, self.inputs)
        self.project = nn.Sequential(nn.Linear(channels, wanted.hidden), nn.LayerNorm(wanted.hidden))
        self.place = nn.Parameter(torch.randn(places, wanted.hidden) * 0.02)
        self.view = nn.Parameter(torch.randn(views, 1, wanted.hidden) * 0.02)
        # Token numbers, -1 where there are fewer; part of the weights.
        self.register_buffer("telling", torch.full((wanted.telling,), -1))
        self.word_of = nn.Sequential(
            nn.Dropout(wanted.dropout),
            nn.Linear(2 * wanted.hidden, 2 * wanted.hidden),
            nn.GELU(),
            nn.Linear(2 * wanted.hidden, wanted.telling),
        )
        self.hint = nn.Sequential(nn.Linear(wanted.telling, wanted.hidden), nn.LayerNorm(wanted.hidden))
        self.decoder = make_decoder(wanted, vocabulary)

    def forward(self, image: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        memory, mask, found = self.look(image)
        before = torch.full_like(labels, BEGIN)
        before[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, PAD)
        if self.training and self.word_dropout:
            hidden = torch.rand(before.shape, device=before.device) < self.word_dropout
            before[:, 1:] = before[:, 1:].masked_fill(hidden[:, 1:], UNKNOWN)
        # Nothing is masked: what stands past the end is seen by nothing before it, and has no loss.
        answer = self.decoder(
            input_ids=before, encoder_hidden_states=memory, encoder_attention_mask=mask, use_cache=False
        )
        known = self.telling >= 0
        loss = self.loss(answer.logits, labels, found, self.present(labels), known)
        return {"loss": loss, "logits": answer.logits}

    def look(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Visual tokens (B, 1 + views * places, hidden), their mask, and logits of the telling words (B, telling).

        The first token is what the words add up to.
        """
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
        # Mean and maximum of what the places show: the maximum of words that each place says by itself teaches one
        # place at a time, and was learned half as fast.
        apart = mask[..., None]
        mean = (tokens * apart).sum(1) / apart.sum(1)
        found = self.word_of(torch.cat([mean, tokens.masked_fill(~apart, -1e4).amax(1)], 1))
        memory = torch.cat([self.hint(found.sigmoid())[:, None], tokens], 1)
        return memory, F.pad(mask, (1, 0), value=True).long(), found

    def present(self, labels: torch.Tensor) -> torch.Tensor:
        """(B, telling) of 0 and 1: which telling words a report has."""
        held = labels.new_zeros(len(labels), self.vocabulary + 1)
        held.scatter_(1, labels.masked_fill(labels == IGNORED, self.vocabulary), 1)
        return held[:, self.telling.clamp(min=0)]

    @torch.inference_mode()
    def write(self, image: torch.Tensor, length: int) -> list[list[int]]:
        """Token numbers of one report a case, 1 to `length`, greedy: with more beams the likeliest text wins, which is
        the one that suits most cases, and that kept less close to the images wherever it was compared."""
        memory, mask, _ = self.look(image)
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
    """Cross-entropy of the next word, plus `words` times that of which telling words a report has."""

    def __init__(self, words: float) -> None:
        super().__init__()
        self.words = words

    def extra_repr(self) -> str:
        return f"next word + {self.words:g} x telling words"

    def forward(
        self, logits: torch.Tensor, labels: torch.Tensor, found: torch.Tensor, held: torch.Tensor, known: torch.Tensor
    ) -> torch.Tensor:
        """`found` (B, telling) logits, `held` 0 and 1, `known` which of them are words at all."""
        loss = F.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        if not self.words:
            return loss
        losses = F.binary_cross_entropy_with_logits(found.float(), held.float(), reduction="none")
        return loss + self.words * (losses * known).sum() / (known.sum().clamp(min=1) * len(labels))


def build(config: Any, vocabulary: int, telling: Sequence[int] = ()) -> ReportModel:
    """The untrained network, by the settled configuration (`preprocess`, `views`, `model`, `loss`).

    `telling` are token numbers, the most telling first; a package has them in its weights.
    """
    wanted = config.model
    model = ReportModel(wanted, config.loss, whole(config.preprocess), config.views.most, vocabulary)
    kept = torch.tensor(list(telling)[: wanted.telling], dtype=torch.long)
    model.telling[: len(kept)] = kept
    return model
