"""Causal tracing of one checkpoint on one dataset of pairs.

Source: fragility paper, appendix B; the designs beside the published one are in docs/methods.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from strataprobe.behavior.continuations import Continuations
from strataprobe.datasets.pairs import PairsDataset
from strataprobe.errors import ModelError, listing
from strataprobe.lm import LoadedLM, OutputMap
from strataprobe.lm.edited import keep, keeping, over
from strataprobe.tracing.designs import DESIGNS, PUBLISHED, RESTORATION, RMS, Plan, Traced, trace
from strataprobe.tracing.effects import (
    SCORES,
    block_effects,
    of_items,
    scored,
    summarise,
    total_effects,
    with_difference,
)
from strataprobe.tracing.noise import Units, sizes
from strataprobe.tracing.prompts import SIDES, Asked, chosen, prepare
from strataprobe.tracing.rows import rows_of

Progress = Callable[[int, int], object]


def measure(
    lm: LoadedLM,
    dataset: PairsDataset,
    settings: Mapping[str, Any],
    *,
    progress: Progress | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Trace the chosen sentences of a dataset and their neutral controls.

    Args:
        lm: the checkpoint, loaded.
        dataset: the pairs.
        settings: `chat`; of `capture` `batch_tokens` and `threads`; of `tracing` `questions` (by dataset:
            `text`, `expected`, `other`), `items`, `choice`, `blocks`, `designs`, `draws`, `raw_sigma`,
            `rms_sigma`, `embedding_sds`, `bootstrap` and `seed`.
        progress: called with the number of sentences just done, and of all.

    Returns:
        The summary: what was traced, the units of noise, `clean` scores by side, and `results`: one a design,
        side ("positive", "negative", or their "difference" within pairs) and score (`effects.SCORES`); and
        a row a sentence, design, draw and block, with the scores themselves.

    Raises:
        ModelError: settings that cannot be used, or texts or a model that cannot be traced.
    """
    tracing = settings["tracing"]
    _check(tracing, dataset.name)
    output = OutputMap.of(lm)
    pairs = chosen(dataset.pairs, tracing["items"], tracing["choice"])
    asked = prepare(lm, pairs, tracing["questions"][dataset.name], chat=settings["chat"])
    with keeping(lm):
        units = _units(lm, asked, settings)
        plan = _plan(lm, units, settings)
        traced = _traced(output, asked, plan, settings, progress)
    _check_finite(lm, asked, traced)
    summary = {
        **_about(asked, plan, tracing["questions"][dataset.name]),
        "scale": {"rms": units.rms.tolist(), "embedding_sd": units.embedding_sd},
        **_results(traced, plan, lm.n_layers, tracing),
    }
    return summary, rows_of(asked, traced, plan)


def traced_layers(n_layers: int, blocks: int | None) -> list[int]:
    """So many blocks, evenly apart, the first and the last among them; all where there are no more."""
    return sorted({round(place) for place in np.linspace(0, n_layers - 1, min(blocks or n_layers, n_layers))})


def _check(tracing: Mapping[str, Any], dataset: str) -> None:
    faults = [
        f"design {name!r} is unknown; known are {', '.join(DESIGNS)}"
        for name in tracing["designs"]
        if name not in DESIGNS
    ]
    if dataset not in tracing["questions"]:
        known = ", ".join(tracing["questions"]) or "none"
        faults.append(
            f"{dataset!r} has no question (there is one of {known}); tracing needs its text and answers"
        )
    if faults:
        raise ModelError(listing("tracing", faults))


def _units(lm: LoadedLM, asked: Asked, settings: Mapping[str, Any]) -> Units:
    """What noise is measured by, over all sentences of both sides."""

    def of(sentence: tuple[int, str]) -> tuple[np.ndarray, np.ndarray]:
        kept = keep(lm, asked.continuations.read, asked.rows(lm, *sentence)[0])
        return sizes(kept, asked.prompt_tokens(*sentence), asked.subjects[sentence])

    return Units.of(list(over(asked.sentences, of, lm=lm, threads=settings["capture"]["threads"])))


def _plan(lm: LoadedLM, units: Units, settings: Mapping[str, Any]) -> Plan:
    tracing = settings["tracing"]
    layers = traced_layers(lm.n_layers, tracing["blocks"])
    return Plan(
        layers=layers,
        designs=tracing["designs"],
        draws=tracing["draws"],
        sigma={
            PUBLISHED: np.full(len(layers), tracing["raw_sigma"]),
            RMS: tracing["rms_sigma"] * units.rms[layers],
        },
        embedding_sigma=tracing["embedding_sds"] * units.embedding_sd,
        seed=tracing["seed"],
        batch_tokens=settings["capture"]["batch_tokens"],
    )


def _traced(
    output: OutputMap, asked: Asked, plan: Plan, settings: Mapping[str, Any], progress: Progress | None
) -> dict[str, list[Traced]]:
    """Side -> every sentence of it, in the pairs' order."""
    found: dict[str, list[Traced]] = {side: [] for side in SIDES}
    done = over(
        asked.sentences,
        lambda sentence: trace(output, asked, *sentence, plan),
        lm=output.lm,
        threads=settings["capture"]["threads"],
    )
    for (_, side), one in zip(asked.sentences, done, strict=True):
        found[side].append(one)
        if progress:
            progress(1, len(asked.sentences))
    return found


def _about(asked: Asked, plan: Plan, question: Mapping[str, str]) -> dict[str, Any]:
    texts = asked.continuations
    return {
        "question": dict(question),
        "pairs": {
            "ids": [pair.id for pair in asked.pairs],
            "groups": [pair.group for pair in asked.pairs],
        },
        "layers": list(plan.layers),
        "draws": plan.draws,
        "answer_tokens": _lengths(texts),
        "borders": int(sum(texts.borders)),
        "whole_sentences": asked.whole,
    }


def _lengths(texts: Continuations) -> dict[str, list[int]]:
    """Answer -> in how many tokens it comes, rising: its first may join what stands before it."""
    found: dict[str, set[int]] = {}
    for number, text in enumerate(texts.texts):
        found.setdefault(text, set()).add(len(texts.targets(number)))
    return {text: sorted(lengths) for text, lengths in found.items()}


def _results(
    traced: Mapping[str, Sequence[Traced]], plan: Plan, n_layers: int, tracing: Mapping[str, Any]
) -> dict[str, Any]:
    how = {"bootstrap": tracing["bootstrap"], "seed": tracing["seed"]}
    clean, results = [], []
    for score in SCORES:
        by_side = {side: np.array([scored(one.clean, score) for one in own]) for side, own in traced.items()}
        for side, values in with_difference(by_side).items():
            clean.append({"side": side, "score": score, "n": len(values), **of_items(values, **how)})
    for design in plan.designs:
        for score in SCORES:
            by_side = {side: block_effects(own, design, score) for side, own in traced.items()}
            totals = {
                side: total_effects(own, score) for side, own in traced.items() if design == RESTORATION
            }
            totals = with_difference(totals) if totals else {}
            for side, effects in with_difference(by_side).items():
                named = {"design": design, "side": side, "score": score, "n": len(effects)}
                total = {"total_effect": of_items(totals[side].mean(axis=1), **how)} if totals else {}
                results.append({**named, **total, **summarise(effects, plan.layers, n_layers, **how)})
    return {"clean": clean, "results": results}


def _check_finite(lm: LoadedLM, asked: Asked, traced: Mapping[str, Sequence[Traced]]) -> None:
    wrong = [
        f"{asked.pairs[place].id}:{side}: a log-probability of its answers is not a finite number"
        for side, own in traced.items()
        for place, one in enumerate(own)
        if not all(np.isfinite(part).all() for part in (one.clean, *one.blocks.values()))
    ]
    if wrong:
        remedy = "; bfloat16 and float32 hold what float16 cannot" if lm.dtype == "float16" else ""
        raise ModelError(listing(f"{lm.name} (dtype {lm.dtype}{remedy})", wrong))
