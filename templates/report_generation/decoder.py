"""The decoder that writes: a GPT-2 with cross-attention to visual tokens, new or from a local folder."""

import json
from pathlib import Path
from typing import Any

import safetensors.torch


def make_decoder(wanted: Any, special: Any, vocabulary: int) -> Any:
    """By the section `model`; `special` has the token numbers of begin and end."""
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
        bos_token_id=special.begin,
        eos_token_id=special.end,
    )
    return GPT2LMHeadModel(made)


def sizes_of(folder: Path) -> dict[str, int]:
    """hidden, layers, heads and positions of a local GPT-2. Raises ValueError."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        names = {"hidden": "n_embd", "layers": "n_layer", "heads": "n_head", "positions": "n_positions"}
        return {name: int(found[theirs]) for name, theirs in names.items()}
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"model.decoder {folder} is no folder of a GPT-2 ({error})") from None


def load_decoder(decoder: Any, folder: Path) -> None:
    """Weights of a local GPT-2; what it lacks (attention to the images) stays as it was drawn. Raises ValueError."""
    try:
        found = safetensors.torch.load_file(folder / "model.safetensors")
    except Exception as error:  # the library's errors have no common type
        raise ValueError(f"model.decoder: {folder / 'model.safetensors'} cannot be read ({error})") from None
    named = {key if key.startswith(("transformer.", "lm_head.")) else f"transformer.{key}": found[key] for key in found}
    named.setdefault("lm_head.weight", named.get("transformer.wte.weight"))
    wanted = decoder.state_dict()
    kept = {key: value for key, value in named.items() if key in wanted and value is not None}
    if odd := [key for key in kept if kept[key].shape != wanted[key].shape]:
        raise ValueError(
            f"model.decoder: {odd[0]} has shape {list(kept[odd[0]].shape)}, expected {list(wanted[odd[0]].shape)}; "
            "do its tokenizer and its weights belong together?"
        )
    if missing := [key for key in wanted if key not in kept and "cross" not in key]:
        raise ValueError(f"model.decoder: {folder} has no {missing[0]}; it is no GPT-2")
    decoder.load_state_dict(kept, strict=False)
