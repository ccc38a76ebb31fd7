"""Effects, their intervals and peaks, against scipy and by hand."""

import numpy as np
import pytest
from scipy import stats

from strataprobe.tracing.designs import Traced
from strataprobe.tracing.effects import block_effects, of_items, summarise, total_effects, with_difference

HOW = {"bootstrap": 4000, "seed": 3}


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def traced(clean, blocks, corrupted=None):
    return Traced(
        np.array(clean, float), {name: np.array(own, float) for name, own in blocks.items()}, corrupted
    )


def test_an_effect_is_what_noise_takes_and_what_restoring_brings_back():
    one = traced(
        [-1.0, -2.0],
        # One draw, two blocks, both answers.
        {"published": [[[-4.0, -2.5], [-1.5, -2.0]]], "restoration": [[[-2.0, -3.0], [-3.0, -3.5]]]},
        np.array([[-3.5, -2.0]]),
    )  # fmt: skip
    assert block_effects([one], "published", "expected").tolist() == [[[3.0, 0.5]]]
    # Clean contrast 1; with noise -1.5 and 0.5.
    assert block_effects([one], "published", "contrast").tolist() == [[[2.5, 0.5]]]
    assert block_effects([one], "restoration", "expected").tolist() == [[[1.5, 0.5]]]
    # Corrupted contrast -1.5; restored 1 and 0.5.
    assert block_effects([one], "restoration", "contrast").tolist() == [[[2.5, 2.0]]]
    assert total_effects([one], "expected").tolist() == [[2.5]]
    assert total_effects([one], "contrast").tolist() == [[2.5]]


def test_a_whole_restoration_brings_the_total_effect_back(rng):
    clean, corrupted = rng.normal(size=(6, 2)), rng.normal(size=(6, 3, 2))
    whole = [
        Traced(one, {"restoration": np.broadcast_to(one, (3, 1, 2))}, own)
        for one, own in zip(clean, corrupted, strict=True)
    ]
    for score in ("expected", "contrast"):
        effects = block_effects(whole, "restoration", score)[..., 0]
        assert effects == pytest.approx(total_effects(whole, score))


def test_intervals_are_those_of_scipy_s_bootstrap_over_items(rng):
    effects = rng.normal([1.0, 0.2, -0.5], 1.0, size=(30, 4, 3))
    found = summarise(effects, [0, 5, 9], 10, **HOW)
    by_item = effects.mean(axis=1)
    for place, one in enumerate(found["layer_scores"]):
        wanted = stats.bootstrap(
            (by_item[:, place],), np.mean, method="percentile", rng=rng, n_resamples=4000
        )
        assert one["mean_indirect_effect"] == pytest.approx(by_item[:, place].mean())
        assert one["interval"] == pytest.approx(list(wanted.confidence_interval), abs=0.04)
    wanted = stats.bootstrap((by_item.mean(axis=1),), np.mean, method="percentile", rng=rng, n_resamples=4000)
    assert found["mean_effect"]["interval"] == pytest.approx(list(wanted.confidence_interval), abs=0.03)
    assert of_items(by_item[:, 0], **HOW)["interval"] == pytest.approx(found["layer_scores"][0]["interval"])


def test_blocks_have_their_own_numbers_and_depths(rng):
    found = summarise(rng.normal(size=(5, 2, 3)), [0, 5, 9], 10, **HOW)
    assert [(one["layer"], one["depth"]) for one in found["layer_scores"]] == [(0, 0), (5, 0.5), (9, 0.9)]


def test_the_spread_over_draws_is_that_of_their_means(rng):
    effects = rng.normal(size=(8, 5, 2))
    found = summarise(effects, [0, 1], 2, **HOW)
    wanted = np.std([effects[:, draw].mean(axis=0) for draw in range(5)], axis=0, ddof=1)
    assert [one["draw_sd"] for one in found["layer_scores"]] == pytest.approx(wanted)


def test_the_peak_is_the_first_of_the_largest_and_says_how_sure_it_is(rng):
    tied = np.zeros((4, 2, 3))
    tied[..., 1:] = 1.0
    found = summarise(tied, [2, 4, 6], 8, **HOW)
    assert found["peak_layer"] == {"value": 4, "interval": [4.0, 4.0]}
    assert found["draw_peaks"] == [4, 4]
    assert found["peak_effect"] == 1.0
    clear = rng.normal([0, 9, 0], 0.1, size=(20, 3, 3))
    assert summarise(clear, [0, 1, 2], 3, **HOW)["peak_layer"]["interval"] == [1.0, 1.0]
    # Nothing but noise: any block may come out on top.
    nothing = rng.normal(size=(20, 1, 9))
    low, high = summarise(nothing, list(range(9)), 9, **HOW)["peak_layer"]["interval"]
    assert high - low >= 3


def test_agreement_is_the_share_of_draws_with_the_same_peak():
    effects = np.zeros((3, 4, 2))
    effects[:, :3, 1] = 1.0
    effects[:, 3, 0] = 1.0
    found = summarise(effects, [0, 7], 8, **HOW)
    assert found["peak_layer"]["value"] == 7
    assert found["draw_peaks"] == [7, 7, 7, 0]
    assert found["draw_agreement"] == 0.75


def test_the_control_is_set_against_its_own_sentence(rng):
    sides = {"positive": rng.normal(size=(4, 2, 3)), "negative": rng.normal(size=(4, 2, 3))}
    found = with_difference(sides)
    assert list(found) == ["positive", "negative", "difference"]
    assert found["difference"] == pytest.approx(sides["positive"] - sides["negative"])
