"""Everything fragility says of one (checkpoint, dataset, seed): all layers, all controls.

Source: fragility paper, section 3.4; DESIGN section 4; field names from the paper's appendix E.6.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from strataprobe import statistics
from strataprobe.cache import ActivationCache
from strataprobe.fragility.ceiling import Ceiling
from strataprobe.fragility.controls import CONTROLS, Control, controls
from strataprobe.fragility.critical import Critical, continuous_critical_noise, grid_critical_noise
from strataprobe.fragility.geometry import first_token_share, geometry
from strataprobe.fragility.means import bands, extremes, means
from strataprobe.fragility.noise import exact_accuracy, sampled_accuracy
from strataprobe.probes.scores import score
from strataprobe.probes.store import Problem, Trained
from strataprobe.statistics import finite

_CURVE_POINTS = 49
UNITS = {
    "raw": "activation units",
    "rms_before": "training RMS of the layer (divided before training)",
    "rms_after": "training RMS of the layer",
    "within_class": "sqrt(tr S / d) of the within-class training covariance S, noise shaped like S",
}


def measure(
    trained: Trained, problem: Problem, cache: ActivationCache, *, seed: int, settings: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Fragility of the trained probes of one dataset at one checkpoint.

    Args:
        trained: probes of all layers.
        problem: the activations and split they were trained on.
        cache: the opened cache, for the first token's share.
        seed: seeds noise draws and bootstrap.
        settings: the study's `fragility` section.

    Returns:
        One dict a layer (the curve: `FragilityLayerScore` and our fields), and the summary over layers.
    """
    forms = controls(trained, problem)
    labels = problem.labels[problem.test]
    logits = {variant: trained.logits(variant, problem.test_states) for variant in ("raw", "rms_before")}
    measured = _measure_controls(forms, logits, problem, seed, settings)
    ceiling = Ceiling(problem.train_states, problem.labels[problem.train])
    sigma = np.array(settings["noise_levels"])
    ceiling_accuracy, ceiling_critical = (
        ceiling.accuracy(sigma),
        ceiling.critical_noise(settings["threshold"]),
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        margins = labels * logits["raw"] / forms["raw"].reach[:, None]
    shapes = geometry(problem, margins, forms["raw"].reach, first_token_share(cache), settings["threshold"])
    scores = score(logits["raw"], labels)
    band = bands(len(margins))
    layers = []
    for layer in range(len(margins)):
        raw = measured["raw"][layer]
        layers.append(
            {
                "layer": layer,
                "depth": layer / len(margins),
                "band": band[layer],
                "baseline_accuracy": float(scores["accuracy"][layer]),
                "accuracy_by_noise": dict(
                    zip(map(str, raw["noise_levels"]), raw["sampled_accuracy"], strict=True)
                ),
                "critical_noise": raw["grid_sampled"]["value"],
                "critical_noise_state": raw["grid_sampled"]["state"],
                "controls": {name: measured[name][layer] for name in CONTROLS},
                "geometry": shapes[layer],
                "ceiling": {
                    "noise_levels": sigma.tolist(),
                    "accuracy": ceiling_accuracy[layer].tolist(),
                    "continuous": ceiling_critical[layer].as_json(),
                },
                **{name: finite(scores[name][layer]) for name in ("auc", "d_prime", "log_loss")},
            }
        )
    return layers, _summary(layers, settings, measured)


def _measure_controls(
    forms: dict[str, Control],
    logits: dict[str, np.ndarray],
    problem: Problem,
    seed: int,
    settings: dict[str, Any],
) -> dict[str, list[dict[str, Any]]]:
    """control -> one dict a layer."""
    labels = problem.labels[problem.test]
    signed = {variant: labels * values.astype(np.float64) for variant, values in logits.items()}
    # z > 0 is the positive class, also where z is exactly 0.
    clean = {name: ((values > 0) == (labels > 0)).mean(axis=1) for name, values in logits.items()}
    counts = _bootstrap_counts(problem, settings["bootstrap"], seed)
    crossings = {
        variant: [_crossings(row, settings["threshold"], counts) for row in rows]
        for variant, rows in signed.items()
    }
    sampled = _sample(forms, logits, problem, seed, settings)
    result: dict[str, list[dict[str, Any]]] = {}
    for name, form in forms.items():
        levels = _levels(name, settings)
        result[name] = [
            _one(form, layer, signed[form.variant][layer], float(clean[form.variant][layer]),
                 crossings[form.variant][layer], levels, sampled[name][layer], settings["threshold"])
            for layer in range(len(form.reach))
        ]  # fmt: skip
    return result


def _levels(control: str, settings: dict[str, Any]) -> list[float]:
    return list(settings["noise_levels"] if control == "raw" else settings["rms_noise_levels"])


def _bootstrap_counts(problem: Problem, replicates: int, seed: int) -> np.ndarray:
    """(replicates, test items): both halves of a drawn pair count together."""
    _, member = np.unique(problem.pairs[problem.test], return_inverse=True)
    return statistics.cluster_counts(int(member.max()) + 1, replicates, seed)[:, member]


def _crossings(signed: np.ndarray, threshold: float, counts: np.ndarray) -> tuple[float, np.ndarray]:
    """Critical noise of y z itself (noise of sd 1 in the logit): point value and bootstrap replicates.

    Every control of one probe is this number divided by the logit noise that its unit gives.
    """
    if not signed.any():
        return float("nan"), np.full(len(counts), np.nan)
    once = np.ones_like(counts[:1])
    found = continuous_critical_noise(signed, threshold, np.vstack([once, counts]))
    return float(found[0]), found[1:]


def _sample(
    forms: dict[str, Control],
    logits: dict[str, np.ndarray],
    problem: Problem,
    seed: int,
    settings: dict[str, Any],
) -> dict[str, np.ndarray]:
    """control -> (layers, levels) sampled accuracy. All controls share their draws."""
    levels = {name: _levels(name, settings) for name in CONTROLS}
    union = sorted({level for given in levels.values() for level in given})
    width = max(form.projections.shape[1] for form in forms.values())
    # Rows of zeros beyond a control's own width: noise there reaches nothing.
    padded = [
        np.pad(forms[name].projections, ((0, 0), (0, width - forms[name].projections.shape[1])))
        for name in CONTROLS
    ]
    stacked = sampled_accuracy(
        np.concatenate([logits[forms[name].variant] for name in CONTROLS]),
        problem.labels[problem.test] > 0,
        np.concatenate(padded).astype(np.float32),
        [problem.ids[item] for item in problem.test],
        union,
        draws=settings["draws"],
        seed=seed,
    )
    return {
        name: rows[:, [union.index(level) for level in levels[name]]]
        for name, rows in zip(CONTROLS, np.split(stacked, len(CONTROLS)), strict=True)
    }


def _one(
    form: Control,
    layer: int,
    signed: np.ndarray,
    clean: float,
    crossing: tuple[float, np.ndarray],
    levels: Sequence[float],
    sampled: np.ndarray,
    threshold: float,
) -> dict[str, Any]:
    """One control at one layer."""
    reach = float(form.reach[layer])
    if reach == 0:
        undefined = Critical(None, "undefined").as_json()
        return {
            "unit": UNITS[form.name], "noise_levels": list(levels), "sampled_accuracy": sampled.tolist(),
            "exact_accuracy": [clean] * len(levels), "grid_sampled": undefined, "grid_exact": undefined,
            "continuous": {**undefined, "interval": [None, None]}, "replicates": None,
            "curve": {"sigma": [], "accuracy": []},
        }  # fmt: skip
    margins = signed[None, :] / reach
    exact = exact_accuracy(margins, np.array(levels))[0]
    point, replicates = crossing[0] / reach, crossing[1] / reach
    state = "below_threshold" if np.isnan(point) else "value"
    sigma = np.geomspace(levels[0] / 10, levels[-1] * 10, _CURVE_POINTS)
    return {
        "unit": UNITS[form.name],
        "noise_levels": list(levels),
        "sampled_accuracy": sampled.tolist(),
        "exact_accuracy": exact.tolist(),
        "grid_sampled": grid_critical_noise(sampled, clean, levels, threshold).as_json(),
        "grid_exact": grid_critical_noise(exact, clean, levels, threshold).as_json(),
        "continuous": {
            **Critical(finite(point), state).as_json(),
            "interval": statistics.percentile_interval(replicates),
        },
        "replicates": replicates,
        "curve": {"sigma": sigma.tolist(), "accuracy": exact_accuracy(margins, sigma)[0].tolist()},
    }


def _summary(
    layers: list[dict[str, Any]], settings: dict[str, Any], measured: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    """The summary over layers; takes the bootstrap replicates out of the layers on the way."""
    intervals = {}
    for name in CONTROLS:
        replicates = [row.pop("replicates") for row in measured[name]]
        kept = np.array([values for values in replicates if values is not None])
        # The same estimator as the point value `dropped`: layers below the threshold are left out.
        with np.errstate(invalid="ignore"):
            counted = np.isfinite(kept).sum(axis=0) if len(kept) else np.zeros(1)
            mean = np.where(counted > 0, np.nansum(kept, axis=0) / np.maximum(counted, 1), np.nan)
        intervals[name] = statistics.percentile_interval(np.atleast_1d(mean))
    by_control = {name: _means_of(measured[name], _levels(name, settings)[-1]) for name in CONTROLS}
    grid = [Critical(**row["grid_sampled"]) for row in measured["raw"]]
    fragile, robust = extremes(grid, settings["noise_levels"][-1])
    noise = [row["controls"]["raw"]["continuous"]["value"] for row in layers]
    scaled = [row["controls"]["rms_after"]["continuous"]["value"] for row in layers]
    return {
        "noise_levels": list(settings["noise_levels"]),
        "mean_critical_noise": by_control["raw"]["grid_sampled"]["all"]["dropped"],
        "most_fragile_layer": fragile[0] if fragile else None,
        "most_robust_layer": robust[0] if robust else None,
        "most_fragile_layers": fragile,
        "most_robust_layers": robust,
        "layer_scores": [_without_curves(layer) for layer in layers],
        "means": by_control,
        "mean_intervals": intervals,
        "what_it_adds": {
            "spearman": {
                unit: {key: _rank_correlation(values, layers, key) for key in ("auc", "d_prime", "log_loss")}
                for unit, values in (("raw", noise), ("rms_after", scaled))
            }
        },
    }


def _means_of(rows: list[dict[str, Any]], cap: float) -> dict[str, Any]:
    """statistic -> band -> both means, of one control."""
    result = {}
    for statistic in ("grid_sampled", "grid_exact", "continuous"):
        values = [Critical(row[statistic]["value"], row[statistic]["state"]) for row in rows]
        result[statistic] = means(values, None if statistic == "continuous" else cap)
    return result


def _rank_correlation(noise: list[float | None], layers: list[dict[str, Any]], key: str) -> float | None:
    other = [np.nan if layer[key] is None else layer[key] for layer in layers]
    return statistics.spearman([np.nan if value is None else value for value in noise], other)


def _without_curves(layer: dict[str, Any]) -> dict[str, Any]:
    """The layer's record without its dense curve, which stands in the layer's own file."""
    kept = {
        name: {key: value for key, value in row.items() if key != "curve"}
        for name, row in layer["controls"].items()
    }
    return {**layer, "controls": kept}
