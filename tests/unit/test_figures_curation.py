"""Figures of fine-tuning experiments: what is drawn are the tables' numbers, and what is missing is named."""

import math
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from strataprobe import tables, tabular
from strataprobe.figures import curation
from strataprobe.figures.frames import where
from strataprobe.tabular.curation_columns import CURATION_COLUMNS
from tests.figure_checks import band, labels, legend, line

GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
NAMES = ("narrative", "declarative", "general")
HOW = {"dataset": "moral", "conventions": "default", "pooling": "mean_rest"}
STATISTICS = {
    "raw": ("grid_sampled", "grid_exact", "continuous"),
    "rms_before": ("continuous",),
    "rms_after": ("continuous",),
    "within_class": ("continuous",),
}


def accuracy_of(name: str, run: int, step: int, seed: int, layer: int) -> float:
    """Layer 0 of the declarative condition never reaches the threshold, in run 2 nor in run 1."""
    if name == "declarative" and layer == 0:
        return 0.55
    return 0.68 + 0.1 * step / (step + 50) + 0.01 * run + 0.004 * (seed - 42) + 0.02 * (layer % 3)


def noise_of(name: str, run: int, step: int, seed: int, layer: int) -> float:
    """Raw: narrative grows with the layer until it leaves the grid, declarative falls with the steps."""
    tilt = {"base": 1.0, "narrative": 1.8, "declarative": 0.3, "general": 1.2}.get(name, 1.0)
    return (
        (0.4 + 0.95 * layer) * (1 + (tilt - 1) * step / (step + 50)) * (1 + 0.05 * run + 0.02 * (seed - 42))
    )


def layer_rows(key: dict, layers: int, grid=GRID) -> list[dict]:
    """Rows of one probe: a made-up model whose every control is a known multiple of the raw one."""
    rows = []
    place = key["condition"], int(key["run"] or 0), key["step"], int(key["seed"])
    for layer in range(layers):
        accuracy, raw = accuracy_of(*place, layer), noise_of(*place, layer)
        below, whose = accuracy < 0.6, {**key, "layer": layer, "depth": layer / layers}
        named = {"quantity": "accuracy", "control": "", "statistic": ""}
        rows.append({**whose, **named, "value": accuracy, "state": ""})
        for control, statistics in STATISTICS.items():
            star = raw if control == "raw" else raw / (1 + layer)
            for statistic in statistics:
                named = {"quantity": "critical_noise", "control": control, "statistic": statistic}
                value = star
                if statistic.startswith("grid"):
                    value = next((level for level in grid if below or level > star), None)
                elif below:
                    value = None
                state = "below_threshold" if below else "censored" if value is None else "value"
                rows.append({**whose, **named, "value": value, "state": state})
    return rows


def probe_means(key: dict, rows: list[dict], grid=GRID) -> list[dict]:
    """What the table of means has of one probe."""
    named = {"control": "", "statistic": "", "means": ""}
    accuracies = [row["value"] for row in rows if row["quantity"] == "accuracy"]
    found = [
        {**named, "quantity": "peak_accuracy", "value": max(accuracies)},
        {**named, "quantity": "mean_accuracy", "value": float(np.mean(accuracies))},
    ]
    for control, statistics in STATISTICS.items():
        for statistic in statistics:
            own = [row for row in rows if (row["control"], row["statistic"]) == (control, statistic)]
            kept = [row["value"] for row in own if row["value"] is not None]
            filled = [grid[-1] if row["value"] is None else row["value"] for row in own]
            named = {"control": control, "statistic": statistic}
            noise = {**named, "quantity": "mean_critical_noise"}
            dropped = float(np.mean(kept)) if kept else None
            found.append({**noise, "means": "capped", "value": float(np.mean(filled))})
            found.append({**noise, "means": "dropped", "value": dropped})
            if statistic.startswith("grid"):
                fragile = sum(value < grid[-1] for value in kept)
                found.append({**named, "quantity": "fragile_layers", "means": "", "value": fragile})
    return [{**key, **row, "interval_low": None, "interval_high": None} for row in found]


def mean_rows(rows: list[dict]) -> list[dict]:
    """Means over runs of their means over seeds, with the spread over runs (of the base over seeds)."""
    group = ["experiment", "condition", "step", *HOW, "quantity", "control", "statistic", "means"]
    means = []
    for place, own in pd.DataFrame(rows).groupby(group):
        runs = own.groupby("run")["value"].mean().dropna()
        spread = own["value"] if "base" in place else runs
        mean, sd = (runs.mean() if len(runs) else None), (spread.std(ddof=1) if len(spread) > 1 else None)
        bounds = {"interval_low": sd and mean - sd, "interval_high": sd and mean + sd}
        whole = {"run": "mean", "seed": "mean", "model": "", "revision": ""}
        means.append({**dict(zip(group, place, strict=True)), **whole, "value": mean, **bounds})
    return means


def experiment(
    folder, conditions=NAMES, runs=(1, 2), layers=4, steps=(20, 60, 100), seeds=(42, 43), gone=(), grid=GRID
):
    """Both tables of a made-up experiment as they are read; `gone`: (condition, run, step) without probes."""
    whole, means = [], []
    for name, run, step in [("base", "", 0), *product(conditions, map(str, runs), steps)]:
        key = {"experiment": "nano-lora", "condition": name, "run": run, "step": step, **HOW}
        key |= {"model": f"m-{name}-{run}", "revision": f"step{step:04d}"}
        for seed in seeds if (name, run, step) not in gone else ():
            own = layer_rows({**key, "seed": str(seed)}, layers, grid)
            whole += own
            means += probe_means({**key, "seed": str(seed)}, own, grid)
    for (name, run), step in product(product(conditions, runs), (0, *steps)):
        fall = {"declarative": 4.0, "narrative": 0.4}.get(name, 0.7)
        loss = 5.0 + 0.1 * run + 0.2 * fall - fall * (1 - math.exp(-step / 40))
        key = {"experiment": "nano-lora", "condition": name, "run": str(run), "step": step, **HOW, "seed": ""}
        key |= {"model": f"m-{name}-{run}", "revision": f"step{step:04d}" if step else ""}
        named = {"quantity": "loss", "control": "", "statistic": "", "means": "", "value": loss}
        means.append({**key, **named, "interval_low": None, "interval_high": None})
    means = [
        {name: None if value != value else value for name, value in row.items()}
        for row in [*means, *mean_rows(means)]
    ]
    tables.write_csv(folder / "means.csv", means, CURATION_COLUMNS["curation"])
    tables.write_csv(folder / "layers.csv", whole, CURATION_COLUMNS["curation_layers"])
    read = (tabular.read_table(folder / f"{name}.csv") for name in ("means", "layers"))
    return SimpleNamespace(**dict(zip(("means", "layers"), read, strict=True)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Sixteen layers: of each condition some leave the grid, of one some runs only."""
    return experiment(tmp_path_factory.mktemp("curation"), layers=16)


@pytest.fixture(scope="module")
def shown(made):
    return curation.draw(made.means, made.layers, title="t", conditions=NAMES)


def of_run(found, name: str, layers=16, step=100) -> np.ndarray:
    """(runs, layers) mean over two probe seeds of each run of a condition; of the base one row a seed."""
    places = (
        [("", 0, [seed]) for seed in (42, 43)] if name == "base" else [(r, step, [42, 43]) for r in (1, 2)]
    )
    return np.array(
        [
            [np.mean([found(name, run or 0, at, seed, layer) for seed in seeds]) for layer in range(layers)]
            for run, at, seeds in places
        ]
    )


def on_grid(*place) -> float:
    below = accuracy_of(*place) < 0.6
    return GRID[0] if below else next((level for level in GRID if level > noise_of(*place)), 10.0)


def bars(axes, label: str):
    (found,) = [each for each in axes.containers if each.get_label() == label]
    return found.patches[0]


def note(figure) -> str:
    return figure.get_supxlabel().replace("\n", " ")


@pytest.mark.parametrize("name", ["base", *NAMES])
def test_bars_are_means_over_runs_with_every_run_and_their_spread(shown, name):
    axes = shown.axes[0]
    accuracies = of_run(accuracy_of, name)
    for quantity, runs in (
        ("peak_accuracy", accuracies.max(axis=1)),
        ("mean_accuracy", accuracies.mean(axis=1)),
    ):
        bar = bars(axes, f"_{quantity} {name}")
        assert bar.get_height() == pytest.approx(runs.mean(), abs=1e-5)
        assert sorted(line(axes, f"_single {quantity} {name}").get_ydata()) == pytest.approx(
            sorted(runs), abs=1e-5
        )
        ends = [runs.mean() - runs.std(ddof=1), runs.mean() + runs.std(ddof=1)]
        middle = bar.get_x() + bar.get_width() / 2
        spread = [
            segment[:, 1]
            for each in axes.collections
            for segment in each.get_segments()
            if segment[0, 0] == pytest.approx(middle)
        ]
        assert spread == [pytest.approx(ends, abs=1e-5)]
    low, high = axes.get_ylim()
    assert low < accuracies.mean(axis=1).min()
    assert high > accuracies.max()
    assert f"axis from {low:g}" in axes.get_title(loc="left")


def test_chance_is_drawn_where_the_axis_reaches_it(made, shown):
    assert "_chance" not in labels(shown.axes[0])
    figure = curation.draw(made.means, made.layers, title="t", chance=0.7)
    assert line(figure.axes[0], "_chance").get_ydata()[0] == 0.7
    assert "chance" in legend(figure.axes[0])


@pytest.mark.parametrize("name", ["base", *NAMES])
def test_lines_on_the_grid_have_censored_layers_at_its_top(shown, name):
    axes, runs = shown.axes[1], of_run(on_grid, name)
    drawn = line(axes, f"_{name}")
    assert drawn.get_ydata() == pytest.approx(runs.mean(axis=0), abs=1e-5)
    assert np.abs(drawn.get_xdata() - np.arange(16)).max() < 0.5
    # What is moved so that equal lines are seen is the place on the page, by less than a marker.
    moved = drawn.get_transform().transform((0, 1.0)) - axes.transData.transform((0, 1.0))
    assert np.abs(moved).max() < 0.05 * shown.dpi
    marks = line(axes, f"_censored {name}")
    lost = of_run(noise_of, name).min(axis=0) > 10
    expected = np.flatnonzero(lost & (of_run(accuracy_of, name).min(axis=0) > 0.6))
    assert marks.get_xdata().round().tolist() == expected.tolist()
    assert set(marks.get_ydata()) <= {10.0}
    fragile = (runs < 10).sum(axis=1).mean()
    assert f"{name}\n{fragile:.3g} of 16 fragile, mean {runs.mean():.3g}" in legend(axes)


def test_some_layers_are_censored_and_some_in_part(made):
    """The tests above would show nothing if every layer had a number."""
    found = where(made.layers, control="raw", statistic="grid_sampled", step=100)
    states = found.groupby(["condition", "layer"])["state"].agg(lambda each: "/".join(sorted(set(each))))
    assert {"below_threshold", "value", "censored", "censored/value"} <= set(states)


def test_the_top_of_the_grid_is_found_where_no_layer_has_it_as_its_number(tmp_path):
    made = experiment(tmp_path, conditions=("narrative",), grid=(0.5, 0.51), layers=3)
    assert made.layers.loc[made.layers["statistic"] == "grid_exact", "value"].max() < 0.51
    figure = curation.draw(made.means, made.layers, title="t")
    assert line(figure.axes[1], "_censored narrative").get_ydata().tolist() == [0.51] * 3
    assert "counts as the grid's top, 0.51" in note(figure)


@pytest.mark.parametrize("name", ["base", *NAMES])
def test_noise_in_units_of_rms_is_the_mean_over_runs_with_its_band(shown, name):
    axes, place = shown.axes[2], ["base", *NAMES].index(name)
    runs = of_run(noise_of, name) / (1 + np.arange(16))
    drawn = line(axes, f"_{name}")
    there = of_run(accuracy_of, name).min(axis=0) > 0.6
    assert drawn.get_ydata()[there] == pytest.approx(runs.mean(axis=0)[there], rel=1e-5)
    assert np.isnan(drawn.get_ydata()[~there]).all()
    edges = band(axes, place)
    for layer in np.flatnonzero(there):
        low, high = edges[drawn.get_xdata()[layer]]
        assert (high + low) / 2 == pytest.approx(runs[:, layer].mean(), rel=1e-4)
        assert (high - low) / 2 == pytest.approx(runs[:, layer].std(ddof=1), rel=1e-3)
    crosses = [each for each in labels(axes) if each.startswith("_no value")]
    assert crosses == ["_no value declarative"]
    assert f"{name}: mean {runs[:, there].mean():.3g}" in legend(axes)
