"""Results of the reference implementation, turned into the summaries that our tables take.

What a file states of its layers (means, peak, onset) is computed again from the layers, so that all of
our rules hold: both means over layers, the state of every critical noise, step 0 as a step.

Source: field names from the fragility paper, appendix E.6; the traps from the authors' files.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from strataprobe.fragility.critical import Critical, grid_critical_noise
from strataprobe.fragility.means import bands, extremes, means
from strataprobe.probes.scores import summarise
from strataprobe.published.fields import Fields

Summary = dict[str, Any]

GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
FRAGILITY_THRESHOLD = ONSET_THRESHOLD = 0.6
_CHANCE_BITS = float(np.log(2))


@dataclass(frozen=True)
class Frame:
    """Whose numbers a file holds."""

    model: str
    revision: str
    step: int
    dataset: str
    seed: int | str
    file: str
    sha256: str

    def around(self, summary: Summary, source: Fields, benchmark: str) -> Summary:
        """The summary with its names; its metadata is the file's, with how its authors always pool."""
        info = source.obj.get("model_info")
        known = source.obj.get("metadata")
        return {
            "benchmark_name": benchmark,
            "model_info": info if isinstance(info, dict) else {},
            "model": self.model,
            "revision": self.revision,
            "step": self.step,
            "checkpoint_step": self.step,
            "dataset": self.dataset,
            "seed": self.seed,
            **summary,
            "metadata": {
                **(known if isinstance(known, dict) else {}),
                "conventions": "published",
                "pooling": "mean",
            },
            "provenance": {"stage": "published", "file": self.file, "sha256": self.sha256},
        }


def probing(source: Fields, frame: Frame) -> Summary:
    """A layer probe's file as a probe summary."""
    layers = []
    for score in by_layer(source, "layer_scores"):
        accuracy, loss = score.number("accuracy", 0, 1), score.number("loss", 0, required=False)
        bits = None if loss is None else loss / _CHANCE_BITS
        layers.append({"accuracy": accuracy, "loss": loss, "log_loss": bits})
    return frame.around(probe_summary(layers, onset_threshold(source)), source, "layer_wise_moral_probe")


def fragility(source: Fields, frame: Frame) -> Summary:
    """A fragility test's file as a fragility summary: the raw control on the sampled grid, no more."""
    threshold = source.inner("metadata", required=False).number("fragility_threshold", 0, 1, required=False)
    threshold = FRAGILITY_THRESHOLD if threshold is None else threshold
    levels = noise_levels(source)
    layers = [
        {"baseline_accuracy": score.number("baseline_accuracy", 0, 1), **_critical(score, levels, threshold)}
        for score in by_layer(source, "layer_scores")
    ]
    stated = source.number("mean_critical_noise", 0, required=False)
    return frame.around(fragility_summary(layers, levels, stated), source, "moral_fragility_test")


def by_layer(source: Fields, name: str) -> list[Fields]:
    return in_order(list(source.each(name)), source, name)


def in_order(scores: list[Fields], source: Fields, name: str) -> list[Fields]:
    """Entries by their `layer`, which must be 0, 1, ... without a gap, and as many as the model has."""
    placed = [(score.whole("layer"), score) for score in scores]
    if any(layer is None for layer, _ in placed):
        return scores
    placed.sort(key=lambda entry: entry[0] or 0)
    numbers = [layer for layer, _ in placed]
    if numbers != list(range(len(numbers))):
        source.fault(
            name, f"has the layers {', '.join(map(str, numbers))}, not each of 0 to {len(numbers) - 1} once"
        )
    info = source.obj.get("model_info")
    layers = info.get("n_layers") if isinstance(info, dict) else None
    if isinstance(layers, int) and layers != len(numbers):
        source.fault(name, f"has {len(numbers)} layers, but model_info.n_layers is {layers}")
    return [score for _, score in placed]


def onset_threshold(source: Fields) -> float:
    given = source.inner("metadata", required=False).number("onset_threshold", 0, 1, required=False)
    return ONSET_THRESHOLD if given is None else given


def noise_levels(source: Fields) -> list[float]:
    levels = source.of("noise_levels", list)
    numbers = [v for v in levels if isinstance(v, int | float) and not isinstance(v, bool) and 0 < v < np.inf]
    if not levels and "noise_levels" not in source.obj:
        return []
    if not levels or len(numbers) < len(levels) or sorted(set(numbers)) != numbers:
        source.fault("noise_levels", "is not a list of rising numbers above 0")
        return []
    return [float(level) for level in numbers]


def _critical(score: Fields, levels: list[float], threshold: float) -> dict[str, Any]:
    """Critical noise with its state, checked against the accuracies it was read from."""
    curve = score.inner("accuracy_by_noise")
    accuracy = {str(name): curve.number(name, 0, 1) for name in curve.obj}
    given = score.number("critical_noise", 0, required=False)
    if "critical_noise" not in score.obj:
        score.fault("critical_noise", "is missing (a censored layer has it as null)")
    clean = score.obj.get("baseline_accuracy")
    unread: dict[str, Any] = {"accuracy_by_noise": accuracy, "critical": Critical(None, "censored")}
    try:
        by_level = {float(name): value for name, value in accuracy.items()}
    except ValueError:
        score.fault("accuracy_by_noise", "has a name that is no noise level")
        return unread
    if not levels:
        return unread
    if sorted(by_level) != levels:
        score.fault(
            "accuracy_by_noise", f"has other levels than noise_levels ({', '.join(map(str, levels))})"
        )
        return unread
    if None in by_level.values() or not isinstance(clean, int | float):
        return unread
    values = np.array([by_level[level] for level in levels], float)
    critical = grid_critical_noise(values, clean, levels, threshold)
    if "critical_noise" in score.obj and critical.value != given:
        said = "null" if given is None else f"{given:g}"
        found = "none" if critical.value is None else f"{critical.value:g}"
        score.fault(
            "critical_noise", f"is {said}, but the first level with accuracy below {threshold:g} is {found}"
        )
    ordered = dict(sorted(accuracy.items(), key=lambda entry: float(entry[0])))
    return {"accuracy_by_noise": ordered, "critical": critical}


def probe_summary(layers: list[dict[str, Any]], threshold: float) -> Summary:
    accuracy = [layer["accuracy"] for layer in layers]
    if not layers or None in accuracy:
        return {}
    count = len(layers)
    scores = [{"layer": place, "depth": place / count, **layer} for place, layer in enumerate(layers)]
    return {**summarise(np.array(accuracy), threshold), "layer_scores": scores}


def fragility_summary(layers: list[dict[str, Any]], levels: list[float], stated: float | None) -> Summary:
    if not layers or not levels:
        return {}
    values = [layer["critical"] for layer in layers]
    band, count = bands(len(layers)), len(layers)
    both = means(values, levels[-1])
    fragile, robust = extremes(values, levels[-1])
    scores = []
    for place, layer in enumerate(layers):
        critical = layer["critical"]
        sampled = list(layer["accuracy_by_noise"].values())
        raw = {"noise_levels": levels, "sampled_accuracy": sampled, "grid_sampled": critical.as_json()}
        scores.append(
            {
                "layer": place,
                "depth": place / count,
                "band": band[place],
                "baseline_accuracy": layer["baseline_accuracy"],
                "accuracy_by_noise": layer["accuracy_by_noise"],
                "critical_noise": critical.value,
                "critical_noise_state": critical.state,
                "controls": {"raw": raw},
            }
        )
    return {
        "noise_levels": levels,
        "mean_critical_noise": both["all"]["dropped"],
        "stated_mean_critical_noise": stated,
        "stated_mean_is": _which(stated, both["all"]),
        "most_fragile_layers": fragile,
        "most_robust_layers": robust,
        "most_fragile_layer": fragile[0] if fragile else None,
        "most_robust_layer": robust[0] if robust else None,
        "layer_scores": scores,
        "means": {"raw": {"grid_sampled": both}},
        "mean_intervals": {},
    }


def _which(stated: float | None, both: dict[str, Any]) -> str:
    """Which of the two means a file's own mean is."""
    if stated is None:
        return "none stated"
    same = [
        n
        for n in ("dropped", "capped")
        if both[n] is not None and abs(both[n] - stated) < 1e-6 * max(1, stated)
    ]
    return "both" if len(same) == 2 else same[0] if same else "neither"
