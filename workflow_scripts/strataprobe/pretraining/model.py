"""The model `nano` is, and its loss."""

from functools import cache
from typing import TYPE_CHECKING, Any

from strataprobe.pretraining import tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import Olmo2ForCausalLM

# OLMo 2 normalises what each block adds to the residual stream. Begun at scale 1 beside embeddings of 0.02,
# the blocks' first outputs would drown the token itself and a short run would spend itself on digging it out.
EMBEDDING_STD = 0.05
BRANCH_SCALE = 0.1


def build_model(settings: dict[str, Any], seed: int) -> "Olmo2ForCausalLM":
    """A new OLMo-2 model with tied embeddings; its weights are a function of (architecture, seed)."""
    import torch
    from transformers import Olmo2Config, Olmo2ForCausalLM

    shape = settings["architecture"]
    config = Olmo2Config(
        vocab_size=shape["vocab_size"],
        hidden_size=shape["hidden_size"],
        intermediate_size=shape["intermediate_size"],
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        max_position_embeddings=shape["max_positions"],
        tie_word_embeddings=True,
        attention_dropout=0.0,
        attn_implementation="sdpa",
        pad_token_id=tokenizer.PAD_ID,
        bos_token_id=tokenizer.BOS_ID,
        eos_token_id=tokenizer.EOS_ID,
    )
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        model = Olmo2ForCausalLM(config).to(torch.float32)
        model.model.embed_tokens.weight.normal_(std=EMBEDDING_STD)
        model.model.embed_tokens.weight[tokenizer.PAD_ID] = 0
        for block in model.model.layers:
            block.post_attention_layernorm.weight.fill_(BRANCH_SCALE)
            block.post_feedforward_layernorm.weight.fill_(BRANCH_SCALE)
    return model


def next_token_loss(model: "Olmo2ForCausalLM", rows: "torch.Tensor") -> "torch.Tensor":
    """Mean next-token cross-entropy (nats) of rows (n, length + 1)."""
    states = model.model(input_ids=rows[:, :-1], use_cache=False).last_hidden_state
    return _head_loss().apply(states.flatten(0, 1), model.lm_head.weight, rows[:, 1:].flatten())


@cache
def _head_loss() -> type["torch.autograd.Function"]:
    """Head and cross-entropy in one step that holds the logits once.

    The gradient of the logits, (softmax - one-hot) / n, is written over them while they are there:
    a tenth faster than autograd, which keeps log-probabilities and takes their exponential again.
    """
    import torch

    class HeadLoss(torch.autograd.Function):
        @staticmethod
        def forward(context, states, weight, targets):
            logits = states @ weight.T
            logits -= logits.amax(dim=1, keepdim=True)
            chosen = logits.gather(1, targets[:, None])
            total = logits.exp_().sum(dim=1, keepdim=True)
            loss = (total.log() - chosen).mean()
            logits /= total * len(targets)
            one = torch.full_like(chosen, -1 / len(targets))
            context.save_for_backward(logits.scatter_add_(1, targets[:, None], one), states, weight)
            return loss

        @staticmethod
        def backward(context, upstream):
            slope, states, weight = context.saved_tensors
            slope = slope * upstream if upstream != 1 else slope
            return slope @ weight, slope.T @ states, None

    return HeadLoss
