"""Figures show the numbers of their tables, say what is missing, and are the same bytes every time."""

import math
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pytest
from matplotlib import colors
from matplotlib.collections import PatchCollection, QuadMesh

from strataprobe import figures, tables
from strataprobe.config.models import FigureEntry
from strataprobe.errors import StrataprobeError
from strataprobe.figures import depth, layer_profile, loss, noise_curves, saturation, scale, style

STEPS = (0, 20, 40, 80, 160, 320, 640, 1000)
GRID = (0.1, 0.3, 1.0, 3.0, 10.0)
LAYERS = 6
THRESHOLD_Z = 0.2533


def normal_cdf(value: float) -> float:
    return 0.5 * (1 + math.erf(value / math.sqrt(2)))


def curve_point(margin: float, sigma: float) -> float:
    """Accuracy of items that all have this margin (a made-up model that has a closed form)."""
    return normal_cdf(margin / sigma)


def state_of(value: float | None) -> str:
    return "below_threshold" if value is None else "value"


def control_of(margin: float, weak: bool, top: float) -> dict:
    star = None if weak else margin / THRESHOLD_Z
    on_grid = None if weak else next((level for level in GRID if level > star), None)
    grid_state = "below_threshold" if weak else "censored" if on_grid is None else "value"
    sigma = np.geomspace(0.03, top, 60)
    exact = [0.55 if weak else curve_point(margin, level) for level in GRID]
    return {
        "noise_levels": list(GRID),
        "sampled_accuracy": [min(1.0, value + 0.004) for value in exact],
        "exact_accuracy": exact,
        "curve": {
            "sigma": list(sigma),
            "accuracy": [0.55 if weak else curve_point(margin, level) for level in sigma],
        },
        "grid_sampled": {"value": on_grid, "state": grid_state},
        "grid_exact": {"value": on_grid, "state": grid_state},
        "continuous": {
            "value": star,
            "state": state_of(star),
            "interval": [None, None] if weak else [0.8 * star, 1.2 * star],
        },
    }


def means_of(found: list[dict], statistic: str) -> dict:
    values = [control[statistic]["value"] for control in found]
    kept = [value for value in values if value is not None]
    capped = [10.0 if c[statistic]["state"] == "censored" else c[statistic]["value"] for c in found]
    capped = [value for value in capped if value is not None]
    return {
        "all": {
            "capped": sum(capped) / len(capped) if capped else None,
            "dropped": sum(kept) / len(kept) if kept else None,
            "layers": len(found),
            "counted": len(kept),
        }
    }


def pair_of_summaries(step: int, seed: int, *, weak: bool = False, layers: int = LAYERS) -> tuple[dict, dict]:
    """A probe and a fragility summary of one made-up checkpoint; at step 0 half of the layers are weak."""
    rise = 1 - math.exp(-step / 60)
    jitter = 0.02 * (seed - 43)
    probe_scores, fragile_scores, controls = [], [], []
    for layer in range(layers):
        dull = weak or (step < 30 and layer < layers // 2)
        accuracy = 0.55 if dull else 0.62 + 0.35 * rise + jitter * rise * (1 - layer / layers)
        rms = 0.5 + 0.4 * layer + step / 800
        relative = (0.08 + 0.15 * rise) * (1 + 0.05 * layer) * (1 + 2 * jitter)
        found = {
            "raw": control_of(relative * rms, dull, 30),
            "rms_after": control_of(relative, dull, 30),
            "rms_before": control_of(1.3 * relative, dull, 30),
            "within_class": control_of(0.7 * relative, dull, 30),
        }
        controls.append(found)
        probe_scores.append(
            {
                "layer": layer,
                "depth": layer / layers,
                "accuracy": accuracy,
                "loss": 0.4,
                "auc": accuracy,
                "d_prime": 1.0,
                "log_loss": 0.5,
                "accuracy_interval": [accuracy - 0.05, min(1.0, accuracy + 0.04)],
            }
        )
        fragile_scores.append(
            {
                "layer": layer,
                "depth": layer / layers,
                "baseline_accuracy": accuracy,
                "band": "early" if layer < layers // 3 else "mid",
                "controls": found,
                "geometry": {
                    "activation_rms": rms,
                    "mean_norm": 8 * rms,
                    "weight_norm": 1.0,
                    "first_token_share": 0.05 * (layer + 1),
                    "margin_mean": relative * rms,
                    "margin_sd": 0.1,
                    "margin_over_rms": relative,
                    "gaussian_critical_noise": None,
                },
                "ceiling": {"continuous": {"value": 5 * relative * rms, "state": "value"}},
            }
        )
    mean = sum(score["accuracy"] for score in probe_scores) / layers
    about = {
        "model": "made-up",
        "revision": f"step{step}",
        "step": step,
        "dataset": "moral",
        "seed": seed,
        "metadata": {
            "conventions": "default",
            "pooling": "mean_rest",
            "train_pairs": 192,
            "test_pairs": 48,
            "draws": 10,
        },
    }
    probe = {
        **about,
        "layer_scores": probe_scores,
        "mean_accuracy": mean,
        "onset_layer": None if weak else 0,
        "peak_accuracy": 1.0,
        "mean_accuracy_interval": [mean - 0.03, min(1.0, mean + 0.03)],
    }
    raw_mean = {name: means_of([c[name] for c in controls], "continuous")["all"] for name in found}
    fragile = {
        **about,
        "layer_scores": fragile_scores,
        "means": {
            name: {
                statistic: means_of([c[name] for c in controls], statistic)
                for statistic in ("grid_sampled", "grid_exact", "continuous")
            }
            for name in found
        },
        "mean_intervals": {
            name: None if mean["dropped"] is None else [0.9 * mean["dropped"], 1.1 * mean["dropped"]]
            for name, mean in raw_mean.items()
        },
    }
    return probe, fragile


def frames_of(
    steps=STEPS, seeds=(42, 43), leave_out=(), weak=False, layers=LAYERS
) -> dict[str, pd.DataFrame]:
    made = [
        pair_of_summaries(step, seed, weak=weak, layers=layers)
        for step in steps
        for seed in seeds
        if (step, seed) not in leave_out and step not in leave_out
    ]
    probes, fragilities = [probe for probe, _ in made], [fragile for _, fragile in made]
    return {
        "probing": pd.DataFrame(tables.probing_rows(probes)),
        "fragility": pd.DataFrame(tables.fragility_rows(fragilities)),
        "trajectory": pd.DataFrame(tables.trajectory_rows(probes, fragilities)),
        "scale": pd.DataFrame(tables.scale_rows(fragilities)),
    }


def losses_of(last: int = 1000) -> pd.DataFrame:
    steps = np.arange(0, last + 1, 5)
    values = 1.5 + 4.5 * np.exp(-steps / 150) + 0.05 * np.sin(steps)
    frame = pd.DataFrame({"step": steps, "loss": values, "learning_rate": 3e-3 * (1 - steps / (last + 1))})
    frame["tokens"] = frame["step"] * 2048
    frame["heldout_loss"] = np.where(frame["step"] % 100 == 0, values + 0.1, np.nan)
    return frame


EXPECTED = tuple((f"step{step}", step) for step in STEPS)


def drawings(made: dict[str, pd.DataFrame], expected=EXPECTED, seeds=(42, 43)) -> dict:
    """Every kind of figure from the same tables."""
    last = {name: frame[frame["step"] == frame["step"].max()] for name, frame in made.items()}
    over = {"expected": expected, "seeds": seeds}
    return {
        "saturation": lambda: saturation.draw(made["trajectory"], title="Saturation", **over),
        "depth": lambda: depth.draw(made["probing"], made["fragility"], title="Depth", **over),
        "scale": lambda: scale.draw(made["scale"], made["fragility"], title="Scale", **over),
        "noise_curves": lambda: noise_curves.draw(pair_of_summaries(640, 42)[1], title="Noise"),
        "layer_profile": lambda: layer_profile.draw(
            last["probing"], last["fragility"], last["scale"], title="Profile"
        ),
        "loss": lambda: loss.draw(losses_of(), title="Loss", checkpoints=STEPS),
    }


@pytest.fixture(scope="module")
def made() -> dict[str, pd.DataFrame]:
    return frames_of()


@pytest.fixture(scope="module")
def shown(made) -> dict:
    """Each kind drawn once, for the tests that only look."""
    return {kind: draw() for kind, draw in drawings(made).items()}


@pytest.fixture(scope="module")
def gappy() -> dict[str, pd.DataFrame]:
    """Step 160 is missing altogether, step 320 has one of two seeds."""
    return frames_of(leave_out=(160, (320, 43)))


def panel(figure, start: str):
    found = [axes for axes in figure.axes if axes.get_title(loc="left").startswith(start)]
    assert len(found) == 1, start
    return found[0]


def line(axes, label: str):
    found = [each for each in axes.lines if each.get_label() == label]
    assert len(found) == 1, f"{label}: {[each.get_label() for each in axes.lines]}"
    return found[0]


def labels(axes) -> list[str]:
    return [each.get_label() for each in axes.get_children()]


def small_print(figure) -> str:
    return figure.get_supxlabel()


@pytest.mark.parametrize("kind", ["depth", "layer_profile", "loss", "noise_curves", "saturation", "scale"])
def test_the_same_tables_give_the_same_bytes(kind, made, tmp_path):
    draw = drawings(made)[kind]
    for turn in ("one", "two"):
        style.save(draw(), tmp_path / f"{turn}.svg", tmp_path / f"{turn}.png")
    for suffix in ("svg", "png"):
        first = (tmp_path / f"one.{suffix}").read_bytes()
        assert first == (tmp_path / f"two.{suffix}").read_bytes()
        assert len(first) > 5000
    text = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert "<dc:date>" not in text
    assert str(tmp_path) not in text


def test_a_users_matplotlib_settings_do_not_change_the_figure(made, tmp_path):
    import matplotlib as mpl

    style.save(drawings(made)["loss"](), tmp_path / "plain.svg", tmp_path / "plain.png")
    with mpl.rc_context(
        {"font.size": 20, "axes.facecolor": "pink", "svg.hashsalt": "other", "savefig.dpi": 30}
    ):
        style.save(drawings(made)["loss"](), tmp_path / "odd.svg", tmp_path / "odd.png")
        assert mpl.rcParams["font.size"] == 20
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "odd.svg").read_bytes()
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "odd.png").read_bytes()


def test_the_registry_names_a_module_with_draw_for_every_kind():
    for kind in figures.KINDS:
        assert callable(figures.module(kind).draw)
    assert set(figures.KINDS) == set(get_args(FigureEntry.model_fields["kind"].annotation))
    with pytest.raises(StrataprobeError, match=r"no figure kind 'heat'; there are: checkpoints, controls"):
        figures.module("heat")


@pytest.mark.parametrize("module", ["strataprobe.figures", "strataprobe.tables"])
def test_listing_kinds_and_writing_tables_load_no_heavy_library(module):
    heavy = ("matplotlib", "pandas", "numpy", "seaborn")
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    library = Path(tables.__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=library, capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("start", "label", "quantity", "control", "statistic", "means"),
    [
        ("a", "seed mean", "mean_accuracy", "", "", ""),
        ("b", "exact, continuous", "mean_critical_noise", "raw", "continuous", "dropped"),
        ("b", "published grid, capped", "mean_critical_noise", "raw", "grid_sampled", "capped"),
        ("b", "published grid, dropped", "mean_critical_noise", "raw", "grid_sampled", "dropped"),
        ("c", "RMS after (same probe)", "mean_critical_noise", "rms_after", "continuous", "dropped"),
        ("c", "RMS before (probe retrained)", "mean_critical_noise", "rms_before", "continuous", "dropped"),
        ("c", "within-class shape", "mean_critical_noise", "within_class", "continuous", "dropped"),
    ],
)
def test_saturation_lines_are_the_tables_seed_means(
    made, shown, start, label, quantity, control, statistic, means
):
    frame = made["trajectory"]
    rows = frame[
        (frame["seed"] == "mean")
        & (frame["quantity"] == quantity)
        & (frame["control"] == control)
        & (frame["statistic"] == statistic)
        & (frame["means"] == means)
    ]
    drawn = line(panel(shown["saturation"], start), label)
    assert list(drawn.get_xdata()) == list(rows["step"]) == list(STEPS)
    np.testing.assert_array_equal(drawn.get_ydata(), rows["value"].to_numpy(dtype=float))


def test_step_zero_is_drawn_inside_the_axis(shown):
    figure = shown["saturation"]
    for start in "abc":
        axes = panel(figure, start)
        assert axes.get_xlim()[0] < 0 < axes.get_xlim()[1]
        assert axes.get_xscale() == "linear"
    heat = shown["depth"]
    assert heat.axes[2].get_xticklabels()[0].get_text() == "0"


def test_the_seed_band_is_the_tables_interval(made, shown):
    axes = panel(shown["saturation"], "a")
    frame = made["trajectory"]
    rows = frame[(frame["seed"] == "mean") & (frame["quantity"] == "mean_accuracy")]
    corners = axes.collections[0].get_paths()[0].vertices
    at_last = corners[corners[:, 0] == 1000, 1]
    assert at_last.min() == pytest.approx(float(rows["interval_low"].iloc[-1]))
    assert at_last.max() == pytest.approx(float(rows["interval_high"].iloc[-1]))


def test_raw_critical_noise_never_stands_without_a_scaled_panel(shown):
    for kind in ("saturation", "depth", "layer_profile", "scale", "noise_curves"):
        titles = [axes.get_title(loc="left") for axes in shown[kind].axes]
        assert any("raw" in title for title in titles), kind
        assert any("RMS" in title or "scale divided out" in title for title in titles), kind


def test_onset_of_the_seed_mean_is_marked_at_its_step(shown):
    axes = panel(shown["saturation"], "a")
    # By hand from the made-up curve: mean accuracy is 0.585+ at 0 and 20 and past 0.70 at step 40.
    assert list(line(axes, "_onset").get_xdata()) == [40, 40]
    assert axes.get_title(loc="right") == "onset: step 40, sustained"


def test_a_missing_checkpoint_is_hatched_and_named_and_breaks_the_line(gappy):
    figure = drawings(gappy)["saturation"]()
    for start in "abc":
        axes = panel(figure, start)
        bands = [each for each in axes.patches if each.get_label() == "_no data: 160"]
        assert [band.get_hatch() for band in bands] == ["xxxx"]
        assert "_gap mark: 160" in labels(axes)
        assert "_no data: 320" not in labels(axes)
    drawn = line(panel(figure, "a"), "seed mean")
    assert list(drawn.get_xdata()) == list(STEPS)
    assert np.isnan(drawn.get_ydata()).nonzero()[0].tolist() == [STEPS.index(160)]
    assert "No data (hatched) for accuracy and critical noise: step160." in small_print(figure)
    assert "Fewer than 2 seeds for accuracy and critical noise: step320 (1)." in small_print(figure)


def test_a_missing_checkpoint_is_a_hatched_column_of_every_heatmap(gappy):
    figure = drawings(gappy)["depth"]()
    for axes in figure.axes[:3]:
        holes = [each for each in axes.collections if each.get_label() == "no data"]
        assert [hole.get_hatch() for hole in holes] == ["xxxx"]
        columns = {tuple(path.get_extents().intervalx) for path in holes[0].get_paths()}
        assert columns == {(STEPS.index(160) - 0.5, STEPS.index(160) + 0.5)}
        assert len(holes[0].get_paths()) == LAYERS
    assert "step160" in small_print(figure)


def test_a_missing_checkpoint_is_hatched_in_the_colour_bar_of_the_scale_figure(gappy):
    chosen = (0, 160, 1000)
    figure = scale.draw(gappy["scale"], gappy["fragility"], title="Scale", expected=EXPECTED, steps=chosen)
    assert "_no data: 160" in labels(figure.axes[-1])
    assert "step160" in small_print(figure)


def test_heatmap_cells_are_the_seed_means_and_weak_cells_are_hatched(made, shown):
    figure = shown["depth"]
    frame = made["fragility"]
    for axes, control in zip(figure.axes[1:3], ("raw", "rms_after"), strict=True):
        mesh = next(each for each in axes.collections if isinstance(each, QuadMesh))
        cells = np.ma.asarray(mesh.get_array()).reshape(LAYERS, len(STEPS))
        rows = frame[(frame["control"] == control) & (frame["statistic"] == "continuous")]
        rows = rows[(rows["step"] == 320) & (rows["layer"] == 4)]
        assert cells[4, STEPS.index(320)] == pytest.approx(rows["critical_noise"].astype(float).mean())
        assert isinstance(mesh.norm, colors.LogNorm)
        weak = next(each for each in axes.collections if isinstance(each, PatchCollection))
        assert weak.get_label() == "below the threshold without noise"
        assert weak.get_hatch() == "////"
        # Steps 0 and 20 in the lower half of the layers, and nowhere else.
        assert len(weak.get_paths()) == 2 * (LAYERS // 2)
        assert np.ma.getmaskarray(cells).sum() == 2 * (LAYERS // 2)
    accuracy = next(each for each in figure.axes[0].collections if isinstance(each, QuadMesh))
    cells = np.ma.asarray(accuracy.get_array()).reshape(LAYERS, len(STEPS))
    probing = made["probing"]
    rows = probing[(probing["step"] == 1000) & (probing["layer"] == 2)]
    assert cells[2, -1] == pytest.approx(rows["accuracy"].mean())


def test_noise_curves_are_the_dense_curves_with_the_samples_and_crossings_on_them():
    summary = pair_of_summaries(640, 42)[1]
    figure = noise_curves.draw(summary, title="Noise")
    for axes, control in zip(figure.axes[:2], ("raw", "rms_after"), strict=True):
        found = summary["layer_scores"][3]["controls"][control]
        exact = line(axes, "_exact, layer 3")
        np.testing.assert_array_equal(exact.get_xdata(), found["curve"]["sigma"])
        np.testing.assert_array_equal(exact.get_ydata(), found["curve"]["accuracy"])
        crossing = line(axes, "_critical noise, layer 3")
        assert list(crossing.get_xdata()) == [found["continuous"]["value"]]
        assert list(crossing.get_ydata()) == [0.6]
        bars = next(each for each in axes.containers if each.get_label() == "_sampled, layer 3")
        np.testing.assert_array_equal(bars.lines[0].get_ydata(), found["sampled_accuracy"])
        low, high = bars.lines[2][0].get_segments()[-1][:, 1]
        p = found["sampled_accuracy"][-1]
        assert (high - low) / 2 == pytest.approx(math.sqrt(p * (1 - p) / (96 * 10)))


def test_noise_curves_without_dense_curves_use_the_grid_and_at_most_eight_layers():
    summary = pair_of_summaries(640, 42, layers=30)[1]
    for score in summary["layer_scores"]:
        for control in score["controls"].values():
            del control["curve"]
    axes = noise_curves.draw(summary, title="Noise").axes[0]
    exact = [each for each in axes.lines if str(each.get_label()).startswith("_exact")]
    assert len(exact) == 8
    assert list(exact[0].get_xdata()) == list(GRID)
    assert exact[0].get_label() == "_exact, layer 0"
    assert exact[-1].get_label() == "_exact, layer 29"
    with pytest.raises(StrataprobeError, match="no layer 30; the model has 0 to 29"):
        noise_curves.draw(summary, title="Noise", layers=[30])


def test_noise_curves_say_which_layers_have_no_critical_noise():
    figure = noise_curves.draw(pair_of_summaries(0, 42)[1], title="Noise")
    said = "Layers without critical noise (raw, rms_after): below the threshold without noise: 0, 1, 2."
    assert said in small_print(figure)


def test_scale_lines_are_the_tables_numbers(made, shown):
    figure = shown["scale"]
    frame = made["scale"]
    for start, column in (("a", "activation_rms"), ("d", "first_token_share"), ("e", "margin_over_rms")):
        rows = frame[frame["step"] == 1000].groupby("layer")[column].mean()
        drawn = line(panel(figure, start), "_step1000")
        np.testing.assert_allclose(drawn.get_ydata(), rows.to_numpy(dtype=float), rtol=1e-12)
    assert "_step0" in labels(panel(figure, "a"))


def test_layer_profile_shows_accuracy_its_bootstrap_and_the_ceiling(made, shown):
    figure = shown["layer_profile"]
    probing = made["probing"][made["probing"]["step"] == 1000].groupby("layer")
    top = panel(figure, "a")
    np.testing.assert_allclose(line(top, "probe").get_ydata(), probing["accuracy"].mean(), rtol=1e-12)
    np.testing.assert_allclose(
        line(top, "_interval_low").get_ydata(), probing["interval_low"].mean(), rtol=1e-12
    )
    ceiling = made["scale"][made["scale"]["step"] == 1000].groupby("layer")["ceiling_critical_noise"].mean()
    drawn = line(panel(figure, "b"), "ceiling without\na probe")
    np.testing.assert_allclose(drawn.get_ydata(), ceiling, rtol=1e-12)
    assert "mean over all tokens but the first" in small_print(figure)


def test_loss_figure_shows_every_step_the_heldout_loss_and_the_checkpoints():
    frame = losses_of()
    axes = loss.draw(frame, title="Loss", checkpoints=STEPS).axes[0]
    np.testing.assert_array_equal(line(axes, "training batch").get_ydata(), frame["loss"])
    assert line(axes, "training batch").get_xdata()[0] == 0
    assert len(line(axes, "held-out text").get_xdata()) == 11
    assert list(line(axes, f"checkpoint ({len(STEPS)})").get_xdata()) == list(STEPS)
    with pytest.raises(StrataprobeError, match="column 'tokens' is missing"):
        loss.draw(frame.drop(columns="tokens"), title="Loss")


def test_a_model_that_never_reaches_the_threshold_is_still_drawn():
    weak = frames_of(weak=True, seeds=(42,))
    kinds = ("saturation", "depth", "scale", "layer_profile")
    drawn = {kind: drawings(weak, seeds=(42,))[kind]() for kind in kinds}
    for figure in drawn.values():
        figure.draw_without_rendering()
    axes = panel(drawn["saturation"], "b")
    assert any("no layer reaches" in each.get_text() for each in axes.texts)
    assert panel(drawn["saturation"], "a").get_title(loc="right") == "onset: not reached"


@pytest.mark.parametrize("kind", ["saturation", "depth", "scale"])
def test_one_checkpoint_alone_is_drawn(kind):
    figure = drawings(frames_of(steps=(0,)), expected=(("step0", 0),))[kind]()
    figure.draw_without_rendering()
    assert figure.axes[0].get_title(loc="left").startswith("a")


def test_pooling_with_the_first_token_comes_with_its_caveat(made):
    pooled = {name: frame.assign(pooling="mean") for name, frame in made.items()}
    figure = drawings(pooled)["scale"]()
    assert "The first token is a sink in many models" in small_print(figure)


def test_a_symlog_step_axis_shows_step_zero_too(made):
    axes = panel(saturation.draw(made["trajectory"], title="t", step_scale="symlog"), "b")
    assert axes.get_xscale() == "symlog"
    assert axes.get_xlim()[0] < 0


def test_tables_that_were_written_and_read_back_give_the_same_figure(made, tmp_path):
    rows = made["trajectory"].astype(object).where(made["trajectory"].notna(), None).to_dict("records")
    tables.write_csv(tmp_path / "trajectory.csv", rows, tables.COLUMNS["trajectory"])
    frame = tables.read_table(tmp_path / "trajectory.csv")
    drawn = line(panel(saturation.draw(frame, title="t"), "b"), "exact, continuous")
    wanted = line(panel(saturation.draw(made["trajectory"], title="t"), "b"), "exact, continuous")
    np.testing.assert_allclose(drawn.get_ydata(), wanted.get_ydata(), rtol=1e-5)


def test_rows_of_two_models_are_refused_by_name(made):
    other = made["trajectory"].assign(model="second", pooling="mean")
    mixed = pd.concat([made["trajectory"], other])
    with pytest.raises(StrataprobeError) as caught:
        saturation.draw(mixed, title="t")
    assert "2 problems" in str(caught.value)
    assert "model: made-up, second; choose one" in str(caught.value)
    assert "pooling: mean, mean_rest; choose one" in str(caught.value)


def test_no_rows_and_a_revision_without_a_step_are_refused(made):
    with pytest.raises(StrataprobeError, match="nothing to draw"):
        saturation.draw(made["trajectory"].iloc[:0], title="t")
    with pytest.raises(StrataprobeError, match="main: it has no step"):
        saturation.draw(made["trajectory"].assign(revision="main", step=None), title="t")
