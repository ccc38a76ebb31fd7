"""The language-model room: loading, layer naming, tokens and spans."""

import json
from dataclasses import replace

import pytest
import tokenizers
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, ByT5Tokenizer, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

from strataprobe import lm as lm_room
from strataprobe.errors import ModelError
from tests.tiny_models import BOS, FAMILIES, save_tiny_model, tiny_tokenizer


def load(directory, **settings):
    return lm_room.load(directory, **{"dtype": "float32", "device": "cpu", **settings})


class StrangeConfig(PretrainedConfig):
    model_type = "strange"

    def __init__(self, vocab_size=360, width=16, depth=3, kind="causal", **extra):
        self.vocab_size, self.width, self.depth, self.kind = vocab_size, width, depth, kind
        super().__init__(**{"tie_word_embeddings": False, **extra})


class StrangeBlock(nn.Module):
    def __init__(self, width, kind):
        super().__init__()
        self.inner, self.kind = nn.Linear(width, width), kind

    def forward(self, stream):
        steps = torch.arange(1, stream.shape[1] + 1, device=stream.device)[None, :, None]
        running = stream.cumsum(dim=1) / steps  # each token sees the mean of those up to it
        seen = stream.mean(dim=1, keepdim=True) if self.kind == "looks_ahead" else running
        out = stream + torch.tanh(self.inner(seen))
        return {"state": out} if self.kind == "dict" else (out, None)


class StrangeModel(PreTrainedModel):
    config_class = StrangeConfig

    def __init__(self, config):
        super().__init__(config)
        self.embedder = nn.Embedding(config.vocab_size, config.width)
        self.tower = nn.ModuleList(StrangeBlock(config.width, config.kind) for _ in range(config.depth))
        self.closing = nn.LayerNorm(config.width)
        self.unembedder = nn.Linear(config.width, config.vocab_size, bias=False)
        self.post_init()

    def get_input_embeddings(self):
        return self.embedder

    def get_output_embeddings(self):
        return self.unembedder

    def forward(self, input_ids, output_hidden_states=False):
        states = [self.embedder(input_ids)]
        for block in self.tower:
            out = block(states[-1])
            states.append(out["state"] if isinstance(out, dict) else out[0])
        states[-1] = self.closing(states[-1])
        listed = tuple(states) if output_hidden_states else None
        return CausalLMOutput(logits=self.unembedder(states[-1]), hidden_states=listed)


AutoConfig.register("strange", StrangeConfig)
AutoModelForCausalLM.register(StrangeConfig, StrangeModel)


def save_strange(directory, kind):
    torch.manual_seed(0)
    StrangeModel(StrangeConfig(kind=kind)).save_pretrained(directory)
    tiny_tokenizer().save_pretrained(directory)
    return directory


@pytest.mark.parametrize("family", FAMILIES)
def test_layer_names_mean_the_residual_stream_that_transformers_itself_reports(family, tmp_path):
    lm = load(save_tiny_model(family, tmp_path, layers=3), layers=3)
    tokens = torch.tensor(lm.encode(["The nurse comforted the child."]))
    states = []
    hooks = [
        b.register_forward_hook(lambda _m, _a, out: states.append(lm_room.first_tensor(out)))
        for b in lm.blocks
    ]
    with torch.inference_mode(), lm_room.attached(hooks):
        reported = lm.model(tokens, output_hidden_states=True, use_cache=False)
        torch.testing.assert_close(lm.final_norm(states[-1]), reported.hidden_states[-1])
        if family != "gemma2":  # its logits are soft-capped after the head
            torch.testing.assert_close(lm.head(reported.hidden_states[-1]), reported.logits)
    for layer in range(2):
        torch.testing.assert_close(states[layer], reported.hidden_states[layer + 1])
    assert (lm.n_layers, lm.hidden_size, lm.max_tokens, lm.dtype) == (3, 32, 64, "float32")


def test_soft_capped_attention_is_not_replaced_by_a_kernel_that_ignores_it(tmp_path):
    lm = load(save_tiny_model("gemma2", tmp_path))
    tokens = torch.tensor(lm.encode(["The nurse comforted the child."]))
    eager = AutoModelForCausalLM.from_pretrained(tmp_path, attn_implementation="eager", dtype=torch.float32)
    uncapped = AutoModelForCausalLM.from_pretrained(
        tmp_path, attn_implementation="eager", dtype=torch.float32, attn_logit_softcapping=None
    )
    with torch.inference_mode():
        ours = lm.run_decoder(lm.batch(tokens.tolist())).last_hidden_state
        torch.testing.assert_close(ours, eager.model(tokens).last_hidden_state)
        assert (ours - uncapped.model(tokens).last_hidden_state).abs().max() > 1e-3


def test_an_unknown_decoder_with_tuple_blocks_and_no_base_model_is_read(tmp_path):
    lm = load(save_strange(tmp_path, "causal"), layers=3)
    assert isinstance(lm.final_norm, nn.LayerNorm)
    assert lm.blocks is lm.model.tower
    assert lm.max_tokens is None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("dict", "does not take and return a hidden state"), ("looks_ahead", "padded or continued")],
)
def test_a_decoder_that_cannot_be_read_is_refused_by_its_class_name(kind, reason, tmp_path):
    with pytest.raises(ModelError, match=reason) as error:
        load(save_strange(tmp_path, kind))
    assert "StrangeModel" in str(error.value)


def test_a_block_may_return_a_tensor_or_a_tuple():
    state = torch.ones(1, 2, 3)
    assert lm_room.first_tensor(state) is state
    assert lm_room.first_tensor((state, None)) is state
    assert lm_room.first_tensor(BaseModelOutput()) is None


@pytest.mark.parametrize("bos", [True, False])
def test_there_is_one_bos_or_none_and_never_two(bos, tmp_path):
    lm = load(save_tiny_model("llama", tmp_path, bos=bos))
    plain, literal = lm.encode(["the river", f"{BOS}the river"])
    beginning = lm.tokenizer.bos_token_id
    assert lm.adds_bos is bos
    assert plain.count(beginning) == int(bos)
    assert literal.count(beginning) == 1
    tokens, offsets = lm.encode_with_offsets([f"{BOS}the river"])
    assert len(tokens[0]) == len(offsets[0])


def test_the_tokenizer_file_has_the_word_over_a_class_that_would_rebuild_it(tmp_path):
    save_tiny_model("llama", tmp_path, bos=False, digits=True)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({**settings, "tokenizer_class": "GPT2Tokenizer"})
    )
    text = "In 2024 they met."
    reference = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode(text).ids
    assert load(tmp_path).encode([text]) == [reference]


@pytest.mark.parametrize("word", ["小狗", "Müde", "über", "👩‍🚒", "🙂", "river"])
@pytest.mark.parametrize("bos", [True, False])
def test_the_tokens_of_a_span_spell_its_word(word, bos, tmp_path):
    lm = load(save_tiny_model("gpt2", tmp_path, bos=bos))
    text = f"They saw {word}, then 他 left."
    start = text.index(word)
    tokens, offsets = lm.encode_with_offsets([text])
    found = lm_room.overlapping(offsets[0], start, start + len(word))
    assert word in lm.tokenizer.decode([tokens[0][i] for i in found])
    assert lm.tokenizer.decode([tokens[0][i] for i in found]).strip() == word


def test_text_faults_are_one_error_that_names_every_item(tmp_path):
    lm = load(save_tiny_model("gpt2", tmp_path, max_positions=16))
    texts = ["fine", "", "a\0b", "lone \ud800 half", "word " * 40, "  "]
    with pytest.raises(ModelError) as error:
        lm.encode(texts, ["ok", "empty", "nul", "lone", "long", "blank"])
    message = str(error.value)
    assert "5 problems" in message
    assert "ok:" not in message
    for name in ("empty: is empty", "nul: has a NUL", "lone: has a lone surrogate", "blank: is empty"):
        assert name in message
    assert "long: has" in message
    assert "at most 16" in message


def test_a_slow_tokenizer_is_refused_for_spans_but_not_for_texts(tmp_path):
    lm = replace(load(save_tiny_model("llama", tmp_path)), tokenizer=ByT5Tokenizer(), vocab_size=400)
    assert len(lm.encode(["ab"])[0]) >= 2
    with pytest.raises(ModelError, match="item 7: its spans need a fast tokenizer"):
        lm.encode_with_offsets(["ab"], ["item 7"])


def test_layers_that_differ_are_named_with_both_numbers(tmp_path):
    save_tiny_model("llama", tmp_path, layers=3)
    with pytest.raises(ModelError, match=r"study says 5 layers, but the model has 3"):
        load(tmp_path, layers=5)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2, "layer_types": None}))
    with pytest.raises(ModelError, match=r"config.json says 2 layers, but the weights have 3"):
        load(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused_by_name(value, tmp_path):
    save_tiny_model("llama", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["model.layers.1.mlp.up_proj.weight"][0, 0] = value
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"model.layers.1.mlp.up_proj.weight: NaN or inf"):
        load(tmp_path)


def test_a_tensor_missing_from_the_checkpoint_is_not_filled_at_random(tmp_path):
    save_tiny_model("llama", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.0.self_attn.q_proj.weight"]
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"q_proj.weight: not in the checkpoint"):
        load(tmp_path)


def test_pickled_weights_and_models_with_their_own_code_are_refused(tmp_path):
    save_tiny_model("llama", tmp_path)
    torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="safetensors"):
        load(tmp_path)
    foreign = {
        "model_type": "foreign",
        "auto_map": {"AutoModelForCausalLM": "own.Model", "AutoConfig": "own.Config"},
    }
    (tmp_path / "config.json").write_text(json.dumps(foreign))
    (tmp_path / "own.py").write_text("raise SystemExit('this must never run')\n")
    with pytest.raises(ModelError, match="code from a checkpoint is never run"):
        load(tmp_path)


def test_dtype_and_device_are_what_was_asked_for_or_refused(tmp_path):
    save_tiny_model("llama", tmp_path)
    for name, dtype in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        assert {weight.dtype for weight in load(tmp_path, dtype=name).model.parameters()} == {dtype}
    with pytest.raises(ModelError, match="float32, bfloat16, float16"):
        load(tmp_path, dtype="half")
    with pytest.raises(ModelError, match="'tpu' is unknown"):
        load(tmp_path, device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(ModelError, match="'cuda' is not available"):
            load(tmp_path, device="cuda")


def test_auto_takes_cuda_then_mps_then_cpu(monkeypatch):
    for cuda, mps, expected in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda cuda=cuda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda mps=mps: mps)
        assert lm_room.resolve_device("auto") == expected
