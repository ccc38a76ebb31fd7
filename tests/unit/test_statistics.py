"""Small estimators, against scipy, scikit-learn and counting by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from sklearn import metrics
from sklearn.covariance import ledoit_wolf_shrinkage

from strataprobe import statistics

# Few distinct values, so that ties are the rule.
TIED = hnp.arrays(
    float, hnp.array_shapes(min_dims=1, max_dims=2, min_side=2, max_side=12), elements=st.integers(-3, 3)
)


@given(TIED)
def test_ranks_are_scipy_s_average_ranks(values):
    assert np.array_equal(statistics.rank_average(values), stats.rankdata(values, axis=-1))


@given(st.integers(0, 2**32), st.integers(2, 30), st.booleans())
def test_auc_is_scikit_learn_s_also_with_ties(seed, items, tied):
    rng = np.random.default_rng(seed)
    positive = np.r_[True, False, rng.random(items) < 0.5]
    scores = rng.integers(-2, 3, (3, len(positive))) if tied else rng.standard_normal((3, len(positive)))
    expected = [metrics.roc_auc_score(positive, row) for row in scores]
    assert statistics.auc(scores, positive) == pytest.approx(expected, abs=1e-12)


def test_auc_of_one_class_is_refused():
    with pytest.raises(ValueError, match="both classes"):
        statistics.auc(np.arange(3.0), np.ones(3, bool))


def test_d_prime_is_the_mean_distance_in_pooled_deviations():
    scores = np.array([[1.0, 3.0, 5.0, 0.0, 1.0], [2.0, 2.0, 2.0, 1.0, 1.0]])
    positive = np.array([True, True, True, False, False])
    # By hand: means 3 and 0.5, variances 4 and 0.5, so 2.5 / sqrt(2.25).
    assert statistics.d_prime(scores, positive)[0] == pytest.approx(2.5 / 1.5)
    assert np.isnan(statistics.d_prime(scores, positive)[1])


def test_d_prime_of_two_unit_normals_is_their_distance(rng):
    scores = np.r_[rng.normal(1.7, 1, 40_000), rng.normal(0, 1, 40_000)]
    found = statistics.d_prime(scores, np.arange(80_000) < 40_000)
    assert found == pytest.approx(1.7, abs=4 * np.sqrt(2 / 40_000))
    assert statistics.auc(scores, np.arange(80_000) < 40_000) == pytest.approx(
        stats.norm.cdf(1.7 / np.sqrt(2)), abs=0.01
    )


def test_log_loss_is_scikit_learn_s(rng):
    logits, positive = rng.normal(0, 3, (4, 50)), rng.random(50) < 0.4
    expected = [metrics.log_loss(positive, 1 / (1 + np.exp(-row))) for row in logits]
    assert statistics.log_loss(logits, positive) == pytest.approx(expected, rel=1e-9)


def test_log_loss_of_huge_logits_does_not_overflow():
    found = statistics.log_loss(np.array([[1e4, -1e4], [-1e4, 1e4]], np.float32), np.array([True, False]))
    assert found == pytest.approx([0, 1e4])


@given(TIED.filter(lambda values: values.ndim == 2 and len(values) > 1 and values.shape[1] > 2))
def test_spearman_is_scipy_s_and_none_without_spread(values):
    a, b = values[:2]
    found = statistics.spearman(a, b)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        assert found is None
    else:
        assert found == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)


def test_spearman_leaves_out_what_is_not_given_and_needs_three():
    a, b = [1.0, 2.0, np.nan, 4.0, 3.0], [2.0, 5.0, 9.0, np.nan, 4.0]
    assert statistics.spearman(a, b) == pytest.approx(stats.spearmanr([1, 2, 3], [2, 5, 4]).statistic)
    assert statistics.spearman([1.0, np.nan, 2.0], [1.0, 2.0, 3.0]) is None


@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 2**40))
def test_a_bootstrap_replicate_draws_as_many_clusters_as_there_are(clusters, replicates, seed):
    counts = statistics.cluster_counts(clusters, replicates, seed)
    assert counts.shape == (replicates, clusters)
    assert (counts.sum(axis=1) == clusters).all()
    assert np.array_equal(counts, statistics.cluster_counts(clusters, replicates + 7, seed)[:replicates])


def test_clusters_are_drawn_uniformly_with_replacement():
    counts = statistics.cluster_counts(10, 20_000, 3)
    assert stats.chisquare(counts.sum(axis=0)).pvalue > 1e-4
    # With replacement: a cluster is absent with probability 0.9 ** 10.
    assert (counts == 0).mean() == pytest.approx(0.9**10, abs=0.01)
    assert not np.array_equal(counts, statistics.cluster_counts(10, 20_000, 4))


def test_the_bootstrap_interval_of_a_mean_is_the_textbook_s(rng):
    values = rng.normal(5, 2, 400)
    counts = statistics.cluster_counts(400, 2000, 1)
    low, high = statistics.percentile_interval(counts @ values / 400)
    half = 1.96 * values.std() / 20
    assert low == pytest.approx(values.mean() - half, abs=0.05 * half + 0.02)
    assert high == pytest.approx(values.mean() + half, abs=0.05 * half + 0.02)


def test_an_interval_is_not_given_when_most_replicates_have_no_value():
    few = np.r_[np.full(60, np.nan), np.arange(40.0)]
    most = np.r_[np.full(40, np.nan), np.arange(60.0)]
    assert statistics.percentile_interval(few) == [None, None]
    assert statistics.percentile_interval(most) == pytest.approx(
        list(np.percentile(np.arange(60), [2.5, 97.5]))
    )
    assert statistics.percentile_interval(np.full(5, np.nan)) == [None, None]


@settings(deadline=None)
@given(st.integers(2, 30), st.integers(1, 30), st.integers(0, 2**32))
def test_shrinkage_is_scikit_learn_s_with_more_or_fewer_items_than_features(items, features, seed):
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((items, features)) @ rng.standard_normal((features, features))
    data -= data.mean(axis=0)
    expected = ledoit_wolf_shrinkage(data, assume_centered=True)
    if features > 1:  # of one feature scikit-learn says 0, where any intensity gives the same covariance
        assert statistics.ledoit_wolf_shrinkage(data) == pytest.approx(expected, abs=1e-8)


@pytest.fixture
def rng():
    return np.random.default_rng(20)
