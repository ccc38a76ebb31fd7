"""Control items with several donors each, and what a whole model says of a prompt with a hook in it."""

from pathlib import Path
from typing import Any

import torch

from strataprobe import lm as models
from strataprobe.datasets.control import ControlDataset
from tests import control_cases

NAMES = ("clerk", "nurse", "child", "truth", "river", "evening")
ROLES = ("a", "b", "v")
KINDS = {"subject_control": ("promised", "a"), "object_control": ("told", "b")}


def rows(count: int = 3) -> list[dict[str, str]]:
    """`count` English items of each control type, and a Chinese one of each."""
    found = []
    for place in range(count):
        a, b = NAMES[place], NAMES[(place + 1 + place % 2) % len(NAMES)]
        for kind, (verb, gold) in KINDS.items():
            found.append(
                {
                    "id": f"en_{kind[:3]}_{place}", "item_group": f"{place}{kind[0]}", "pair": str(place),
                    "language": "en", "control_type": kind, "verb": verb, "predicate": "count",
                    "sentence": f"The {a} {verb} the {b} to count the bells.", "candidate_a": a,
                    "candidate_b": b, "gold": gold, "action": "count the bells", "past": "counted",
                }
            )  # fmt: skip
    return [*found, *control_cases.rows(["zh"])]


def dataset(directory: Path, count: int = 3) -> ControlDataset:
    return control_cases.dataset(directory, rows(count))


def settings(**patching: Any) -> dict[str, Any]:
    own = {
        "conventions": "default", "tasks": ["qa", "paraphrase"], "languages": None, "states": ["own_prompt"],
        "donors": None, "random_donors": 1, "norm_matched": 1, "first_layer": 0, "every": 1, "windows": [1],
        "seed": 5, "bootstrap": 20, "permutations": 20,
    }  # fmt: skip
    return {
        "chat": False, "capture": {"batch_tokens": 512, "threads": 1}, "patching": own | patching,
    }  # fmt: skip


def probed(layer: int = 1, last: int = 4) -> dict[str, Any]:
    """A summary of recoverability, of which the peak alone counts here."""
    pick = {
        "layer": layer, "block": layer - 1 if layer else None, "depth": layer / last, "mode": "abv",
        "accuracy": 0.9,
    }  # fmt: skip
    picks = {"global": pick, "seeds": {"1729": pick | {"layer": 2, "block": 1}, "3": pick}}
    return {
        "codings": {"decorrelated": {"pick": picks, "pair_out": {"pick": picks}}, "paper": {"pick": picks}}
    }


def places(lm: models.LoadedLM, text: str, start: int, item: Any) -> list[int]:
    """The last token of each role's span, by the characters that each piece of the tokenizer holds."""
    pieces = lm.tokenizer.convert_ids_to_tokens(lm.tokenizer(text)["input_ids"])
    special = set(lm.tokenizer.all_special_tokens)
    ends, done = [], 0
    for piece in pieces:
        # A byte-level vocabulary has one character a byte.
        done += 0 if piece in special else len(piece)
        ends.append(done)
    found = []
    for role in ROLES:
        end = len(text[: start + item.spans[role][1]].encode())
        found.append(next(place for place, own in enumerate(ends) if own >= end))
    return found


def states_of(lm: models.LoadedLM, tokens: list[int]) -> list[torch.Tensor]:
    """(tokens, hidden size) of each of `hidden_states`, taken by hooks in plain transformers."""
    found: list[torch.Tensor] = []

    def before(_module: Any, args: tuple, kwargs: dict) -> None:
        found.append(models.block_input(args, kwargs)[0].clone())

    def after(_module: Any, _args: Any, output: Any) -> None:
        found.append(models.first_tensor(output)[0].clone())

    handles = [lm.blocks[0].register_forward_pre_hook(before, with_kwargs=True)]
    handles += [block.register_forward_hook(after) for block in lm.blocks]
    with models.attached(handles), torch.inference_mode():
        lm.model(torch.tensor([tokens]))
    return found


def hooked_score(
    lm: models.LoadedLM, context: str, continuation: str, columns: list[int], put: dict[int, torch.Tensor]
) -> float:
    """Sum of log-probabilities of a continuation where states are put at columns of some `hidden_states`.

    Args:
        put: index in `hidden_states`, from 1 on -> (columns, hidden size).
    """
    tokens, count = control_cases.continuation_tokens(lm, context, continuation)

    def hook(states: torch.Tensor):
        def change(_module: Any, _args: Any, output: Any) -> Any:
            new = models.first_tensor(output).clone()
            new[0, columns] = states
            return (new, *output[1:]) if isinstance(output, tuple) else new

        return change

    handles = [lm.blocks[index - 1].register_forward_hook(hook(states)) for index, states in put.items()]
    with models.attached(handles), torch.inference_mode():
        logs = lm.model(torch.tensor([tokens])).logits[0].double().log_softmax(dim=-1)
    return sum(float(logs[i - 1, tokens[i]]) for i in range(len(tokens) - count, len(tokens)))
