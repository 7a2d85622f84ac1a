"""The decoder that writes: a GPT-2 with cross-attention to visual tokens."""

from typing import Any

from words import BEGIN, END


def make_decoder(wanted: Any, vocabulary: int) -> Any:
    """By the section `model`."""
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
