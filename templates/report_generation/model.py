"""Images of a case -> report. Exported with the package: of `shared` it may import `shared.trainkit.exported` and
nothing else.

Kept by whoever edits this file: `build(config, vocabulary, telling)`, a module whose `forward(image, labels)` returns
{"loss", "logits"} and whose `write(image, ...)` returns token numbers. image is (B, views, D, H, W) or (B, views, H, W)
where a view of zeros is one that the case has not; labels (B, L) with -100 past the end; logits (B, L, vocabulary).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from words import IGNORED

from shared.trainkit.exported.imaging.backbones import BackboneConfig, make_encoder, map_of


@dataclass(frozen=True)
class ModelConfig(BackboneConfig):
    """Beside the encoder's backbone (BackboneConfig says what its keys mean; `weights` are of the encoder):

    `tokens`: positions of a view's feature map that the decoder sees, at most (resnets).
    `hidden`, `layers`, `heads`, `positions`: of the decoder, a GPT-2 with cross-attention to the visual tokens.
    `telling`: words that the images are asked for directly beside the text, those that tell reports apart.
    `decoder`: of a configuration only: folder with config.json and model.safetensors of a GPT-2 to start from. It
    settles hidden, layers, heads and positions; its tokenizer.json is taken unless text.tokenizer names another. Its
    cross-attention is learned anew.
    """

    __pydantic_config__ = {"extra": "forbid"}
    dropout: float = 0.1
    tokens: int = 64
    hidden: int = 128
    layers: int = 2
    heads: int = 4
    positions: int = 512
    telling: int = 256
    decoder: str | None = None


@dataclass(frozen=True)
class LossConfig:
    """`words`: weight of the second loss, which telling words a report has; 0 switches it off. The mean
    over many words that are mostly absent is small: with less weight the encoder learned much later than the decoder.

    `word_dropout`: part of the earlier words that the decoder does not see in training, so that it has to look.
    """

    __pydantic_config__ = {"extra": "forbid"}
    words: float = 5.0
    word_dropout: float = 0.15


@dataclass(frozen=True)
class Special:
    """Token numbers of the tokenizer."""

    __pydantic_config__ = {"extra": "forbid"}

    begin: int
    end: int
    pad: int
    unknown: int


class ReportModel(nn.Module):
    def __init__(
        self, config: ModelConfig, loss: LossConfig, special: Special, shape: Sequence[int], views: int, vocabulary: int
    ) -> None:
        super().__init__()
        self.loss = loss
        self.special = special
        self.vocabulary = vocabulary
        self.encoder = make_encoder(config, shape, config.tokens)
        channels, places = map_of(self.encoder, shape)
        self.project = nn.Sequential(nn.Linear(channels, config.hidden), nn.LayerNorm(config.hidden))
        self.place = nn.Parameter(torch.randn(places, config.hidden) * 0.02)
        self.view = nn.Parameter(torch.randn(views, 1, config.hidden) * 0.02)
        # Token numbers, -1 where there are fewer; part of the weights.
        self.register_buffer("telling", torch.full((config.telling,), -1))
        self.word_of = nn.Sequential(
            nn.Dropout(config.dropout),
            nn.Linear(config.hidden, 2 * config.hidden),
            nn.GELU(),
            nn.Linear(2 * config.hidden, config.telling),
        )
        self.hint = nn.Sequential(nn.Linear(config.telling, config.hidden), nn.LayerNorm(config.hidden))
        self.decoder = make_decoder(config, special, vocabulary)

    def forward(self, image: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        memory, mask, found = self.look(image)
        before = torch.full_like(labels, self.special.begin)
        before[:, 1:] = labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, self.special.pad)
        if self.training and self.loss.word_dropout:
            hidden = torch.rand(before.shape, device=before.device) < self.loss.word_dropout
            before[:, 1:] = before[:, 1:].masked_fill(hidden[:, 1:], self.special.unknown)
        # Nothing is masked: what stands past the end is seen by nothing before it, and has no loss.
        answer = self.decoder(
            input_ids=before,
            encoder_hidden_states=memory,
            encoder_attention_mask=mask,
            use_cache=False,
        )
        loss = F.cross_entropy(answer.logits.float().flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        if self.loss.words:
            loss = loss + self.loss.words * self.word_loss(found, labels)
        return {"loss": loss, "logits": answer.logits}

    def look(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Visual tokens (B, 1 + views * places, hidden), their mask, and logits of the telling words (B, telling).

        The first token is what the words add up to.
        """
        cases, views = image.shape[:2]
        there = image.flatten(2).abs().amax(2) > 0
        # A case of blank images only still has one: attention to nothing is not defined.
        there[:, 0] |= ~there.any(1)
        flat = there.flatten()
        seen = self.encoder(image.flatten(0, 1)[flat][:, None]).flatten(2).transpose(1, 2)
        shown = self.project(seen) + self.place
        tokens = shown.new_zeros(cases * views, *self.place.shape)
        tokens[flat] = shown
        tokens = (tokens.unflatten(0, (cases, views)) + self.view[:views]).flatten(1, 2)
        mask = there.repeat_interleave(len(self.place), 1)
        # A word is there if any place shows it.
        found = self.word_of(tokens).masked_fill(~mask[..., None], -1e4).amax(1)
        memory = torch.cat([self.hint(found.sigmoid())[:, None], tokens], 1)
        return memory, F.pad(mask, (1, 0), value=True).long(), found

    def word_loss(self, found: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        present = found.new_zeros(len(labels), self.vocabulary + 1)
        present.scatter_(1, labels.masked_fill(labels == IGNORED, self.vocabulary), 1)
        known = self.telling >= 0
        wanted = present[:, self.telling.clamp(min=0)]
        losses = F.binary_cross_entropy_with_logits(found.float(), wanted.float(), reduction="none")
        return (losses * known).sum() / (known.sum().clamp(min=1) * len(labels))

    @torch.inference_mode()
    def write(
        self, image: torch.Tensor, length: int, beams: int = 1, no_repeat_ngram: int = 0, length_penalty: float = 1.0
    ) -> list[list[int]]:
        """Token numbers of one report a case, 1 to `length`; greedy with one beam, never drawn by chance."""
        memory, mask, _ = self.look(image)
        begin = torch.full((len(image), 1), self.special.begin, device=image.device)
        found = self.decoder.generate(
            input_ids=begin,
            attention_mask=torch.ones_like(begin),
            encoder_hidden_states=memory,
            encoder_attention_mask=mask,
            pad_token_id=self.special.pad,
            min_new_tokens=1,
            max_new_tokens=length,
            num_beams=beams,
            do_sample=False,
            no_repeat_ngram_size=no_repeat_ngram,
            **({"length_penalty": length_penalty, "early_stopping": True} if beams > 1 else {}),
        )
        return found[:, 1:].tolist()


def make_decoder(config: ModelConfig, special: Special, vocabulary: int) -> Any:
    # Late: the import takes seconds, and what is wrong with a configuration is told before.
    from transformers import GPT2Config, GPT2LMHeadModel

    made = GPT2Config(
        vocab_size=vocabulary,
        n_positions=config.positions,
        n_embd=config.hidden,
        n_layer=config.layers,
        n_head=config.heads,
        resid_pdrop=config.dropout,
        embd_pdrop=config.dropout,
        attn_pdrop=config.dropout,
        add_cross_attention=True,
        # Two tensors that share memory do not go into one safetensors file.
        tie_word_embeddings=False,
        bos_token_id=special.begin,
        eos_token_id=special.end,
    )
    return GPT2LMHeadModel(made)


def build(config: Any, vocabulary: int, telling: Sequence[int] = ()) -> ReportModel:
    """`config` needs `.preprocess.input_shape` and `.views.most` (resolved), `.text.special`, `.model`, `.loss`.

    `telling` are token numbers, the most telling first; a package has them in its weights.
    """
    made: ModelConfig = config.model
    shape = config.preprocess.input_shape
    if made.hidden % made.heads:
        raise ValueError(f"model.hidden {made.hidden} cannot be shared among model.heads {made.heads}")
    model = ReportModel(made, config.loss, config.text.special, shape, config.views.most, vocabulary)
    kept = torch.tensor(list(telling)[: made.telling], dtype=torch.long)
    model.telling[: len(kept)] = kept
    return model
