"""A few control items with short frames, and what a model says of a text when asked by plain transformers."""

import json
from dataclasses import replace
from pathlib import Path

import torch

from strataprobe.datasets.control import ControlDataset, read_control
from strataprobe.datasets.frames import Variant
from tests.tiny_models import BOS, EOS, PAD

FRAMES = {
    "en": {
        "qa": {"prompt": "{sentence} Who will {action}?", "continuation": " {c} will {action}."},
        "paraphrase": {"prompt": "{sentence} So", "continuation": " the truth is: {c} will {action}."},
        "statement": {"prompt": "{sentence}", "continuation": " {c} {past}."},
        "forced_choice": {"prompt": "{sentence} {first} or {second}?", "continuation": " {c}."},
        "label_choice": {
            "prompt": "{sentence} A: {first}. B: {second}.",
            "labels": ["A", "B"],
            "continuation": " {label}",
        },
        "contrastive": {"prompt": "{sentence} The one is", "continuation": " {c}."},
        "unconditional": {
            "qa": {"prompt": "Who will {action}?", "continuation": " {c} will {action}."},
            "paraphrase": {"prompt": "So", "continuation": " the truth is: {c} will {action}."},
            "statement": {"prompt": "See.", "continuation": " {c} {past}."},
        },
    },
    "zh": {
        "qa": {"prompt": "{sentence}谁?", "continuation": "{c}会{action}。"},
        "paraphrase": {"prompt": "{sentence}就是:", "continuation": "{c}会{action}。"},
        "statement": {"prompt": "{sentence}", "continuation": "{c}{past}。"},
    },
    "de": {
        "qa": {"prompt": "{sentence} Wer?", "continuation": " {c} wird {action}."},
        "paraphrase": {"prompt": "{sentence} Also", "continuation": " wird {c} {action}."},
    },
}

_SENTENCES = {
    "en": ("The clerk {verb} the nurse to count the bells.", "clerk", "nurse", "count the bells", "counted"),
    "zh": ("小王{verb}小狗去看河。", "小王", "小狗", "看河", "看了河"),
    "de": ("Der Händler {verb} Ängste, zu fahren.", "Händler", "Ängste", "fahren", "fuhr"),
}
_VERBS = {
    "en": {"subject_control": "promised", "object_control": "told"},
    "zh": {"subject_control": "答应", "object_control": "让"},
    "de": {"subject_control": "versprach", "object_control": "bat"},
}


def rows(languages=("en", "zh", "de")) -> list[dict]:
    """A minimal pair a language: candidate a is the matrix subject."""
    found = []
    for language in languages:
        sentence, a, b, action, past = _SENTENCES[language]
        for kind, verb in _VERBS[language].items():
            found.append(
                {
                    "id": f"{language}_{kind[:3]}", "item_group": kind, "pair": "01", "language": language,
                    "control_type": kind, "verb": verb, "predicate": action.split()[0],
                    "sentence": sentence.format(verb=verb), "candidate_a": a, "candidate_b": b,
                    "gold": "a" if kind == "subject_control" else "b", "action": action, "past": past,
                }
            )  # fmt: skip
    return found


def write(directory: Path, items: list[dict], frames=FRAMES) -> tuple[Path, Path]:
    """The files of a control dataset: items, and prompts by language."""
    directory.mkdir(parents=True, exist_ok=True)
    data, prompts = directory / "items.jsonl", directory / "prompts.json"
    data.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in items), encoding="utf-8")
    prompts.write_text(json.dumps(frames, ensure_ascii=False), encoding="utf-8")
    return data, prompts


def dataset(directory: Path, items: list[dict] | None = None, frames=FRAMES) -> ControlDataset:
    data, prompts = write(directory, rows() if items is None else items, frames)
    return read_control(data, "tiny", frames=prompts)


def asking(directory: Path, *, prompt: str, a: str, b: str) -> ControlDataset:
    """One item with one prompt, word for word."""
    made = dataset(directory, rows(["en"])[:1])
    (item,) = made.controls
    return replace(made, controls=(replace(item, prompts={"qa": Variant(prompt, a, b)}),))


def continuation_tokens(lm, context: str, continuation: str) -> tuple[list[int], int]:
    """All tokens, and how many at the end hold bytes of the continuation.

    By bytes, not by offsets: a piece of a byte-level vocabulary has one character a byte.
    """
    tokens = lm.tokenizer(context + continuation)["input_ids"]
    left, count = len(continuation.encode()), 0
    for piece in reversed(lm.tokenizer.convert_ids_to_tokens(tokens)):
        if left <= 0:
            break
        left -= len(piece.encode()) if piece in (BOS, EOS, PAD) else len(piece)
        count += 1
    return tokens, count


def plain_score(lm, context: str, continuation: str) -> float:
    """Sum of log-probabilities by transformers' own model, on this text alone."""
    tokens, count = continuation_tokens(lm, context, continuation)
    with torch.inference_mode():
        logits = lm.model(torch.tensor([tokens])).logits[0].double()
    logs = logits.log_softmax(dim=-1)
    return sum(float(logs[i - 1, tokens[i]]) for i in range(len(tokens) - count, len(tokens)))
