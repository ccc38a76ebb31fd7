"""The reference implementation's other results: foundation probes, causal tracing, LoRA fine-tuning."""

from dataclasses import replace
from typing import Any

import numpy as np

from strataprobe.fragility.critical import Critical
from strataprobe.probes.scores import summarise
from strataprobe.published.fields import Fields
from strataprobe.published.results import (
    GRID,
    Frame,
    Summary,
    by_layer,
    fragility,
    fragility_summary,
    in_order,
    noise_levels,
    onset_threshold,
    probe_summary,
    probing,
)


def foundations(source: Fields, frame: Frame) -> Summary:
    """A foundation probe's file: for each foundation its accuracy by layer and their summary."""
    threshold = onset_threshold(source)
    found: dict[str, list[Fields]] = {}
    for score in source.each("foundation_layer_scores"):
        found.setdefault(score.of("foundation", str), []).append(score)
    groups = {}
    for name, scores in found.items():
        ordered = in_order(scores, source, f"foundation_layer_scores of {name!r}")
        accuracy = [score.number("accuracy", 0, 1) for score in ordered]
        train = scores[0].whole("n_pairs", required=False)
        if None not in accuracy:
            groups[name] = {
                "accuracy": accuracy,
                "train_pairs": train,
                **summarise(np.array(accuracy), threshold),
            }
    return frame.around({"groups": groups}, source, "foundation_specific_probe")


def tracing(source: Fields, frame: Frame) -> Summary:
    """A causal tracer's file: mean indirect effect by layer over its prompts, and the peak.

    The prompts themselves are not kept.
    """
    rows = []
    for prompt in source.each("prompt_results"):
        rows.append([effect.number("indirect_effect") for effect in by_layer(prompt, "layer_effects")])
    if len({len(row) for row in rows}) > 1:
        source.fault("prompt_results", "has prompts with different numbers of layers")
    if not rows or len({len(row) for row in rows}) > 1 or any(None in row for row in rows):
        return frame.around({}, source, "moral_causal_tracer")
    effect = np.array(rows, float)
    mean = effect.mean(axis=0)
    peak = int(mean.argmax())
    summary = {
        "layer_scores": [
            {"layer": layer, "depth": layer / len(mean), "mean_indirect_effect": float(value)}
            for layer, value in enumerate(mean)
        ],
        "prompts": len(rows),
        "mean_indirect_effect": float(mean.mean()),
        "peak_causal_layer": peak,
        "peak_mean_indirect_effect": float(mean[peak]),
        "causal_depth": peak / len(mean),
    }
    return frame.around(summary, source, "moral_causal_tracer")


def lora(source: Fields, frame: Frame) -> tuple[list[Summary], list[Summary], Summary]:
    """A LoRA experiment's file: summaries of its snapshots, and the training itself.

    Snapshots keep accuracies and critical noise only, and the two come from probes trained apart: so the
    fragility probe's accuracy without noise is not known (`baseline_accuracy` None), and a layer cannot be
    found to be `below_threshold`. The probes of `final_*` were trained once more; they stand beside the
    snapshots.

    Returns:
        Probe summaries, fragility summaries, and the training: `loss` as (step, nats), tokens, settings,
        `final_probing` and `final_fragility`.
    """
    condition = source.of("corpus_name", str)
    derived = replace(frame, model=f"{frame.model}-lora-{condition}")
    final = source.inner("final_fragility", required=False)
    levels = noise_levels(final) if final.obj else list(GRID)
    snapshots = [_snapshot(one, source, derived, levels) for one in source.each("probe_snapshots")]
    last = max((probes["step"] for probes, _ in snapshots), default=0)
    training = _training(source, replace(derived, step=last, revision="final"))
    summary = derived.around({"condition": condition, **training}, source, "lora_experiment")
    return [probes for probes, _ in snapshots], [curves for _, curves in snapshots], summary


def _snapshot(
    snapshot: Fields, source: Fields, derived: Frame, levels: list[float]
) -> tuple[Summary, Summary]:
    """The probe summary and the fragility summary of one snapshot."""
    step = snapshot.whole("step")
    at = replace(derived, step=-1 if step is None else step, revision=f"step{step or 0:04d}")
    probed, tested = snapshot.inner("probing"), snapshot.inner("fragility")
    accuracy = [{"accuracy": value, "loss": None, "log_loss": None} for value in _accuracies(probed)]
    critical = [
        {"baseline_accuracy": None, "accuracy_by_noise": {}, "critical": Critical(value, state)}
        for value, state in _snapshot_noise(tested, levels)
    ]
    if len(accuracy) != len(critical):
        snapshot.fault("", f"has {len(accuracy)} layer_accuracies, but {len(critical)} layer_critical_noise")
    stated = tested.number("mean_critical_noise", 0, required=False)
    return (
        at.around(probe_summary(accuracy, onset_threshold(source)), source, "layer_wise_moral_probe"),
        at.around(fragility_summary(critical, levels, stated), source, "moral_fragility_test"),
    )


def _training(source: Fields, ended: Frame) -> Summary:
    """The training itself, and the probes that were trained on its end once more."""
    steps = source.each("training_steps", required=False)
    tested, probed = (source.inner(f"final_{name}", required=False) for name in ("fragility", "probing"))
    return {
        "corpus_tokens": source.whole("corpus_tokens", required=False),
        "base_step": source.whole("base_step", required=False),
        "loss": [[one.whole("step"), one.number("loss")] for one in steps],
        "lora_config": source.of("lora_config", dict, required=False),
        "training_config": source.of("training_config", dict, required=False),
        "final_fragility": fragility(tested, ended) if tested.obj else None,
        "final_probing": probing(probed, ended) if probed.obj else None,
    }


def _accuracies(probed: Fields) -> list[float | None]:
    values = {f"layer_accuracies[{i}]": value for i, value in enumerate(probed.of("layer_accuracies", list))}
    read = Fields(values, probed.file, probed.place, probed.faults)
    return [read.number(name, 0, 1) for name in values]


def _snapshot_noise(tested: Fields, levels: list[float]) -> list[tuple[float | None, Any]]:
    found: list[tuple[float | None, Any]] = []
    for index, value in enumerate(tested.of("layer_critical_noise", list)):
        known = value if value in levels else None
        if value is not known:
            tested.fault(f"layer_critical_noise[{index}]", f"is {value!r}, which is no noise level")
        found.append((known, "censored" if known is None else "value"))
    return found
