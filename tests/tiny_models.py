"""Tiny random models of every family, as the safetensors directories a user would have."""

from functools import cache
from pathlib import Path

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

FAMILIES = ("gpt2", "gpt_neox", "llama", "olmo2", "qwen3", "gemma", "gemma2")
BOS, EOS, PAD = "<|bos|>", "<|eos|>", "<|pad|>"

_CORPUS = [
    "The nurse comforted the frightened child in the long white corridor.",
    "The clerk counted the printed forms in the small grey office.",
    "She told the truth about the missing money, and he kept his word.",
    "They walked along the river until the evening bells rang in town.",
    "Über die Brücke fährt der müde Händler nach Köln.",
    "他 在 河边 看见 了 一只 小狗",
] * 4


@cache
def _backend(bos: bool, digits: bool) -> str:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    split = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    tokenizer.pre_tokenizer = split if digits else byte_level
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=360,
        special_tokens=[PAD, BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*_CORPUS, "2024 2024 2024"], trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{BOS} $A", pair=f"{BOS} $A {BOS} $B", special_tokens=[(BOS, tokenizer.token_to_id(BOS))]
        )
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    return tokenizer.to_str()


def tiny_tokenizer(*, bos: bool = True, pad: str | None = PAD, digits: bool = False):
    """A byte-level BPE tokenizer; `pad` may be a real token (such as "e"), or None for no pad token."""
    from transformers import PreTrainedTokenizerFast

    backend = tokenizers.Tokenizer.from_str(_backend(bos, digits))
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token=BOS, eos_token=EOS, pad_token=pad)


def tiny_config(
    family: str, vocab_size: int, *, layers: int = 2, hidden: int = 32, max_positions: int = 64, **extra
):
    """The transformers config of a tiny model; `extra` goes to it as it is."""
    import transformers

    common = {
        "vocab_size": vocab_size,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "max_position_embeddings": max_positions,
        "initializer_range": 0.15,  # large enough for attention to matter
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    grouped = {"intermediate_size": 2 * hidden, "num_key_value_heads": 2}
    headed = {**grouped, "head_dim": hidden // 4}
    kinds = {
        "gpt2": (transformers.GPT2Config, {}),
        "gpt_neox": (transformers.GPTNeoXConfig, {"intermediate_size": 2 * hidden}),
        "llama": (transformers.LlamaConfig, grouped),
        "olmo2": (transformers.Olmo2Config, grouped),
        "qwen3": (transformers.Qwen3Config, headed),
        "gemma": (transformers.GemmaConfig, headed),
        "gemma2": (
            transformers.Gemma2Config,
            {
                **headed,
                "query_pre_attn_scalar": hidden // 4,
                "attn_logit_softcapping": 0.5,
                "final_logit_softcapping": 1.0,
                "sliding_window": 8,
            },
        ),
    }
    kind, own = kinds[family]
    return kind(**{**common, **own, **extra})


def randomise(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    """Move norms and biases off their starting values, so that a norm left out or used twice shows."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return model


def save_tiny_model(
    family: str,
    directory: str | Path,
    *,
    seed: int = 0,
    layers: int = 2,
    hidden: int = 32,
    bos: bool = True,
    pad: str | None = PAD,
    digits: bool = False,
    max_positions: int = 64,
    **config,
) -> Path:
    """Save a random model of `family` (one of FAMILIES) and its tokenizer; equal arguments, equal weights.

    Args:
        bos: whether the tokenizer puts a BOS before each text.
        pad: the pad token; a real token such as "e" is allowed, None means the tokenizer has none.
        digits: split numbers digit by digit before byte-level BPE, as SmolLM2 does.
        config: further fields of the model's config.
    """
    from transformers import AutoModelForCausalLM

    directory = Path(directory)
    tokenizer = tiny_tokenizer(bos=bos, pad=pad, digits=digits)
    settings = tiny_config(
        family, len(tokenizer), layers=layers, hidden=hidden, max_positions=max_positions, **config
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(settings, dtype=torch.float32)
    randomise(model, seed).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory
