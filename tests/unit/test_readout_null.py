"""The null of the best readout over layers and tasks, against enumeration and simulation."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from strataprobe.readout.null import item_flips, maximum_null

ALL48 = {"all": np.ones(48, bool)}


def accuracies(margins, flips):
    """One flip after another, as one would by hand."""
    found = []
    for signs in flips:
        flipped = margins * signs
        found.append([np.mean([m > 0 for m in row if np.isfinite(m)]) for row in flipped])
    return np.array(found)


def test_the_null_is_that_of_a_loop_over_flips_and_rows():
    rng = np.random.default_rng(0)
    margins = rng.normal(size=(7, 12))
    margins[2, 3] = margins[4, 0] = 0.0  # ties stay wrong
    margins[5, :4] = np.nan  # no answer
    flips, mask = item_flips(12, 300, 5), np.arange(12) > 1
    found = maximum_null(margins, flips, {"all": np.ones(12, bool), "some": mask})
    for name, own in (("all", np.ones(12, bool)), ("some", mask)):
        best = accuracies(margins[:, own], flips[:, own]).max(axis=1)
        observed = accuracies(margins[:, own], np.ones((1, own.sum()))).max()
        assert found[name]["maximum"] == pytest.approx(observed)
        assert found[name]["mean"] == pytest.approx(best.mean())
        assert found[name]["quantile_95"] == pytest.approx(np.quantile(best, 0.95))
        assert found[name]["p"] == pytest.approx((1 + (best >= observed - 1e-9).sum()) / 301)


def test_ten_thousand_flips_stand_for_all_of_them():
    margins = np.random.default_rng(1).normal(size=(5, 8))
    every = np.array(list(product([-1.0, 1.0], repeat=8)))
    best = accuracies(margins, every).max(axis=1)
    found = maximum_null(margins, item_flips(8, 10_000, 1729), {"all": np.ones(8, bool)})["all"]
    assert found["mean"] == pytest.approx(best.mean(), abs=0.005)
    assert found["p"] == pytest.approx((best >= found["maximum"] - 1e-9).mean(), abs=0.02)


def test_independent_layers_have_the_maximum_of_as_many_binomials():
    margins = np.random.default_rng(2).normal(size=(60, 48))
    found = maximum_null(margins, item_flips(48, 10_000, 1729), ALL48)["all"]
    # Distribution function of the maximum of 60 independent Binomial(48, 1/2).
    reach = stats.binom.cdf(np.arange(49), 48, 0.5) ** 60
    mean = (np.arange(49) * np.diff(reach, prepend=0)).sum() / 48
    assert found["mean"] == pytest.approx(mean, abs=0.01)
    assert 0.65 < mean < 0.68


def layers(correlation, rng, rows=31, tasks=2):
    """Margins of neighbouring layers that agree, as a residual stream's do; tasks are independent."""
    found = []
    for _ in range(tasks):
        own = rng.normal(size=(1, 48))
        for _ in range(rows - 1):
            step = correlation * own[-1] + np.sqrt(1 - correlation**2) * rng.normal(size=48)
            own = np.vstack([own, step])
        found.append(own)
    return np.concatenate(found)


def test_layers_that_agree_give_fewer_tries_and_a_chance_level_as_simulated_before():
    rng = np.random.default_rng(3)
    flips = item_flips(48, 2000, 1729)
    means, highs = {}, {}
    for correlation in (0.0, 0.95):
        drawn = [maximum_null(layers(correlation, rng), flips, ALL48)["all"] for _ in range(8)]
        means[correlation] = np.mean([one["mean"] for one in drawn])
        highs[correlation] = np.mean([one["quantile_95"] for one in drawn])
    assert means[0.95] < means[0.0]
    # 0.61 to 0.64, and 95 % at 0.69 to 0.71, for about 30 layers and two tasks on 48 items.
    assert 0.61 <= means[0.95] <= 0.65
    assert 0.68 <= highs[0.95] <= 0.73


def test_p_is_uniform_where_nothing_is_read_and_least_where_all_is():
    rng = np.random.default_rng(4)
    flips = item_flips(48, 400, 1729)
    p = [maximum_null(layers(0.9, rng, rows=10), flips, ALL48)["all"]["p"] for _ in range(300)]
    for level in (0.05, 0.2, 0.5):
        assert np.mean(np.array(p) <= level) <= level + 3 * np.sqrt(level * (1 - level) / 300)
    assert np.mean(p) == pytest.approx(0.5, abs=0.12)  # discrete, so a little above
    perfect = np.vstack([layers(0.9, rng, rows=10), np.ones(48)])
    assert maximum_null(perfect, flips, ALL48)["all"]["p"] == pytest.approx(1 / 401)


def test_a_flip_does_not_depend_on_how_many_there_are():
    few, many = item_flips(6, 10, 3), item_flips(6, 1000, 3)
    np.testing.assert_array_equal(few, many[:10])
    assert set(np.unique(many)) == {-1.0, 1.0}
    assert abs(many.mean()) < 0.05
    assert (item_flips(6, 10, 4) != few).any()


def test_a_split_without_answers_has_no_null():
    margins = np.full((2, 4), np.nan)
    margins[0, 0] = 1.0
    masks = {"one": np.array([True, False, False, False]), "none": np.array([False, True, True, True])}
    found = maximum_null(margins, item_flips(4, 50, 0), masks)
    assert set(found) == {"one"}
    assert found["one"]["maximum"] == 1.0
