"""A local GPT-2 really becomes the decoder of the report template, and a wrong folder is named."""

import importlib
import sys

import numpy as np
import pytest
import torch
from PIL import Image

pytestmark = pytest.mark.timeout(900)
NAMES = ("train", "config", "data", "model", "decoder", "words")


@pytest.fixture
def template(tmp_path, new_bench, monkeypatch):
    """A workspace with six cases and the template's modules from there, taken off the path again."""
    made = new_bench(tmp_path, "report_generation")
    generator = np.random.default_rng(0)
    for number in range(6):
        Image.fromarray(generator.integers(0, 255, (32, 32)).astype(np.uint8)).save(made.data / f"s{number}.png")
        text = f"Findings: picture of kind {number % 3}. Impression: kind {number % 3}."
        made.add(f"s{number}", [f"s{number}.png"], None, "val" if number >= 4 else "train", target=text)
    made.write()
    monkeypatch.chdir(made.workspace)
    monkeypatch.setenv("M3_DATA", str(made.data))
    monkeypatch.syspath_prepend(str(made.workspace))
    own = [path.stem for path in made.workspace.glob("*.py")]
    for name in own:
        sys.modules.pop(name, None)
    yield {name: importlib.import_module(name) for name in NAMES}
    for name in own:
        sys.modules.pop(name, None)


def local_gpt2(template, folder):
    """As `save_pretrained` leaves it, with its tokenizer beside it."""
    from transformers import GPT2Config, GPT2LMHeadModel

    words = template["words"].learn(["Findings: picture of kind 0. Impression: kind 1 2."] * 2, "bpe", 300)
    sizes = {"n_embd": 24, "n_layer": 3, "n_head": 2, "n_positions": 64}
    made = GPT2LMHeadModel(GPT2Config(vocab_size=len(words), **sizes))
    made.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(words.text)
    return made


def wanted(template, tmp_path, **model):
    config = template["config"].Config
    return config.model_validate({"model": {"width": 4, "decoder": str(tmp_path / "gpt2"), **model}})


def test_a_local_gpt2_is_the_decoder(template, tmp_path):
    (tmp_path / "gpt2").mkdir()
    given = local_gpt2(template, tmp_path / "gpt2")
    config = template["data"].resolve(wanted(template, tmp_path))
    assert (config.model.hidden, config.model.layers, config.model.heads, config.model.positions) == (24, 3, 2, 64)
    train_set = template["data"].build(config, "train")
    assert train_set.vocabulary == given.config.vocab_size, "its tokenizer is taken with it"
    made = template["train"].make_network(config, train_set)
    own = made.decoder.state_dict()
    for name, tensor in given.state_dict().items():
        assert torch.equal(own[name], tensor), name
    # What reads the images is not GPT-2's: it is drawn, and learns.
    answer = made(**{key: value[None] for key, value in train_set[0].items()})
    answer["loss"].backward()
    assert own["transformer.h.0.crossattention.c_attn.weight"].abs().sum() > 0
    assert made.decoder.transformer.h[0].crossattention.c_attn.weight.grad.abs().sum() > 0


def test_a_folder_that_is_no_gpt2_is_named(template, tmp_path):
    (tmp_path / "gpt2").mkdir()
    with pytest.raises(ValueError, match="is no folder of a GPT-2"):
        template["data"].resolve(wanted(template, tmp_path))
    local_gpt2(template, tmp_path / "gpt2")
    config = template["data"].resolve(wanted(template, tmp_path))
    (tmp_path / "gpt2" / "model.safetensors").write_bytes(b"torn")
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be read"):
        template["train"].make_network(config, template["data"].build(config, "train"))
