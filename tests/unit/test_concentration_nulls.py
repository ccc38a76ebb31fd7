"""Nulls and intervals of coarse accuracy, against enumeration, scipy, simulation and plain loops."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from strataprobe import concentration
from strataprobe.concentration import nulls, resampling
from strataprobe.errors import StrataprobeError
from strataprobe.statistics import cluster_counts

CLASS_SIDES = np.array([0, 0, 1, 1, 0])
SIDES = np.array([0, 1, 1, 0, 1, 0, 1])


def make(cells: int, items: int, seed: int = 0, stimuli: int | None = None, concentration: float = 0.3):
    """(cells, items, classes) counts; items prefer few classes. `stimuli` an item, or 2 to 12 of them."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(5, concentration), (cells, items))
    sizes = rng.integers(2, 13, items) if stimuli is None else np.full(items, stimuli)
    return rng.multinomial(np.broadcast_to(sizes, (cells, items)), shares)


def accuracy(counts, sides) -> float:
    """Coarse accuracy by its definition."""
    agree = sum(
        counts[item, one]
        for item, side in enumerate(sides)
        for one in range(len(CLASS_SIDES))
        if CLASS_SIDES[one] == side
    )
    return agree / counts.sum()


def least_not_exceeded(values, chances) -> float:
    """The least value with at least 95 % of the distribution at or below it."""
    order = np.argsort(values)
    return values[order][np.searchsorted(chances[order].cumsum(), 0.95 - 1e-12)]


# Relabelling


def every_labelling(items: int, second: int):
    for chosen in itertools.combinations(range(items), second):
        labels = np.zeros(items, int)
        labels[list(chosen)] = 1
        yield labels


@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.data())
@settings(max_examples=40, deadline=None)
def test_relabelling_is_what_enumeration_gives(seed, items, data) -> None:
    counts = make(3, items, seed, stimuli=data.draw(st.sampled_from([None, 4])))
    sides = np.array(data.draw(st.lists(st.integers(0, 1), min_size=items, max_size=items)))
    found = concentration.relabelling(counts, CLASS_SIDES, sides, seed=0)
    ways = math.comb(items, int(sides.sum()))
    assert (found.exact, found.ways) == (True, ways)
    for cell in range(3):
        null = np.array([accuracy(counts[cell], one) for one in every_labelling(items, int(sides.sum()))])
        observed = accuracy(counts[cell], sides)
        assert found.mean[cell] == pytest.approx(null.mean())
        assert found.q95[cell] == pytest.approx(least_not_exceeded(null, np.full(ways, 1 / ways)))
        assert found.p[cell] == pytest.approx((null >= observed - 1e-9).mean())


def test_relabelling_of_sixteen_words_takes_all_12870_ways() -> None:
    sides = np.repeat([0, 1], 8)
    counts = 50 * np.eye(5, dtype=int)[[0] * 8 + [2] * 8][None]
    found = concentration.relabelling(counts, CLASS_SIDES, sides, seed=0)
    assert found.ways == 12_870
    assert found.p == 1 / 12_870
    # So many of 8 second-sided items keep their side as a hypergeometric law says.
    assert found.q95 == stats.hypergeom(16, 8, 8).ppf(0.95) / 8
    assert found.mean == 0.5


def test_relabelling_of_items_all_routed_to_one_class_can_show_nothing() -> None:
    """Table 1 at 15x16: whatever the labels, half of them agree."""
    counts = 50 * np.eye(5, dtype=int)[[0] * 16][None]
    found = concentration.relabelling(counts, CLASS_SIDES, np.repeat([0, 1], 8), seed=0)
    assert (found.mean, found.q95, found.p) == (0.5, 0.5, 1.0)


def test_too_many_ways_are_sampled_with_the_seed_and_agree_with_all_of_them() -> None:
    counts, sides = make(5, 12, seed=2), np.repeat([0, 1], 6)
    every = concentration.relabelling(counts, CLASS_SIDES, sides, seed=1)
    drawn = concentration.relabelling(counts, CLASS_SIDES, sides, most=923, seed=1)
    assert (every.exact, every.ways, drawn.exact, drawn.ways) == (True, 924, False, nulls.SAMPLED)
    error = 4 * np.sqrt(every.p * (1 - every.p) / nulls.SAMPLED) + 1 / nulls.SAMPLED
    assert (np.abs(drawn.p - every.p) <= error).all()
    assert drawn.mean == pytest.approx(every.mean)
    assert drawn.q95 == pytest.approx(every.q95, abs=0.03)
    again = concentration.relabelling(counts, CLASS_SIDES, sides, most=10, seed=1)
    other = concentration.relabelling(counts, CLASS_SIDES, sides, most=10, seed=2)
    assert np.array_equal(again.p, drawn.p)
    assert not np.array_equal(other.p, drawn.p)


def test_a_sampled_p_is_never_0() -> None:
    counts = 3 * np.eye(5, dtype=int)[[0] * 20 + [2] * 20]
    found = concentration.relabelling(counts, CLASS_SIDES, np.repeat([0, 1], 20), seed=0)
    assert found.p == 1 / (nulls.SAMPLED + 1)


def test_drawn_labellings_are_equally_likely_and_give_out_as_many_of_each_side() -> None:
    ways = nulls._drawn_ways(6, 2, seed=3)
    assert (ways.sum(axis=1) == 2).all()
    _, often = np.unique(ways, axis=0, return_counts=True)
    assert len(often) == 15
    assert stats.chisquare(often).pvalue > 1e-4


# Random prototypes


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
@settings(max_examples=40, deadline=None)
def test_prototypes_with_unequal_stimuli_are_what_enumeration_gives(seed, items) -> None:
    counts = make(3, items, seed)
    sides = np.random.default_rng(seed).integers(0, 2, items)
    found = concentration.prototypes(counts, CLASS_SIDES, sides)
    assert found.exact
    for cell in range(3):
        sizes = counts[cell].sum(axis=1)
        second = counts[cell][:, CLASS_SIDES == 1].sum() / sizes.sum()
        chance = np.where(sides == 1, second, 1 - second)
        outcomes = list(itertools.product((0, 1), repeat=items))
        chances = np.array([np.prod(np.where(one, chance, 1 - chance)) for one in outcomes])
        values = np.array([np.dot(one, sizes) for one in outcomes]) / sizes.sum()
        assert found.mean[cell] == pytest.approx(chances @ values)
        assert found.q95[cell] == pytest.approx(least_not_exceeded(values, chances))
        observed = accuracy(counts[cell], sides)
        assert found.p[cell] == pytest.approx(chances[values >= observed - 1e-9].sum())


def test_prototypes_with_equal_stimuli_are_a_sum_of_two_binomials() -> None:
    counts = make(6, 7, seed=4, stimuli=50)
    found = concentration.prototypes(counts, CLASS_SIDES, SIDES)
    for cell in range(6):
        second = counts[cell][:, CLASS_SIDES == 1].sum() / 350
        agree = np.convolve(
            stats.binom(4, second).pmf(range(5)), stats.binom(3, 1 - second).pmf(range(4))
        )  # 4 items of the second side, 3 of the first
        observed = accuracy(counts[cell], SIDES)
        reach = np.arange(8) / 7 >= observed - 1e-9
        assert found.p[cell] == pytest.approx(agree[reach].sum())
        assert found.q95[cell] == pytest.approx(least_not_exceeded(np.arange(8) / 7, agree))
        assert found.mean[cell] == pytest.approx(agree @ np.arange(8) / 7)


def test_prototypes_agree_with_drawing_a_class_for_each_item() -> None:
    counts = make(1, 7, seed=5, concentration=2.0)
    found = concentration.prototypes(counts, CLASS_SIDES, SIDES)
    rng, draws = np.random.default_rng(0), 200_000
    marginal = counts[0].sum(axis=0) / counts.sum()
    routes = rng.choice(5, (draws, 7), p=marginal)
    sizes = counts[0].sum(axis=1)
    null = ((CLASS_SIDES[routes] == SIDES) @ sizes) / sizes.sum()
    share = (null >= accuracy(counts[0], SIDES) - 1e-9).mean()
    assert 0.05 < share < 0.95
    assert found.p == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / draws))
    assert found.mean == pytest.approx(null.mean(), abs=4 * null.std() / np.sqrt(draws))
    assert found.q95 == pytest.approx(np.quantile(null, 0.95, method="inverted_cdf"))


def test_a_collapse_onto_one_class_is_all_that_its_own_marginal_can_give() -> None:
    counts = 50 * np.eye(5, dtype=int)[[0] * 7][None]
    found = concentration.prototypes(counts, CLASS_SIDES, SIDES)
    assert (found.mean, found.q95, found.p) == pytest.approx((3 / 7, 3 / 7, 1.0))


def test_a_lucky_default_is_within_what_random_prototypes_give_and_a_relabelling_is_not() -> None:
    """Why there are two nulls: routing as a whole agrees with 5 of 5 labels one time in ten."""
    counts = 50 * np.eye(5, dtype=int)[[0, 0, 0, 2, 2]][None]
    sides = np.array([0, 0, 0, 1, 1])
    assert concentration.relabelling(counts, CLASS_SIDES, sides, seed=0).p == pytest.approx(1 / 10)
    assert concentration.prototypes(counts, CLASS_SIDES, sides).p == pytest.approx(0.6**3 * 0.4**2)


# Intervals


def looped(counts, sides, drawn) -> dict[str, np.ndarray]:
    """Measure -> (replicates,), each replicate measured with its items listed one by one."""
    found: dict[str, list[float]] = {}
    for often in drawn:
        items = np.repeat(np.arange(len(often)), often)
        one = counts[items]
        shares = one.sum(axis=0) / one.sum()
        for name, value in (
            ("coarse_accuracy", accuracy(one, sides[items])),
            ("p_top_min", min(row.max() / row.sum() for row in one)),
            ("hhi", sum(share**2 for share in shares)),
            ("max_share", max(shares)),
        ):
            found.setdefault(name, []).append(value)
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.parametrize("stimuli", [None, 10], ids=["unequal", "equal"])
def test_intervals_are_those_of_a_loop_over_replicates(stimuli) -> None:
    counts = make(2, 7, seed=6, stimuli=stimuli)
    found = concentration.intervals(counts, CLASS_SIDES, SIDES, replicates=2000, seed=11)
    drawn = cluster_counts(7, 2000, seed=11)
    assert set(found) == {"coarse_accuracy", "p_top_min", "hhi", "max_share"}
    for cell in range(2):
        for name, values in looped(counts[cell], SIDES, drawn).items():
            expected = np.percentile(values, [2.5, 97.5])
            assert found[name][cell] == pytest.approx(expected, abs=1e-12), name


def test_the_interval_of_the_least_share_is_the_limit_of_drawing() -> None:
    """One of the r lowest of N is drawn with the chance 1 - (1 - r/N)^N; the loop can only come near."""
    for items in (2, 3, 5, 16, 40):
        counts = np.zeros((items, 5), int)
        counts[:, 0], counts[:, 1] = 100 + np.arange(items), 100 - np.arange(items)
        p_top = (100 + np.arange(items)) / 200
        found = concentration.intervals(counts, CLASS_SIDES, np.arange(items) % 2, replicates=1, seed=0)
        chance = np.array([1 - ((items - r) / items) ** items for r in range(1, items + 1)])
        low, high = (p_top[np.argmax(chance >= tail)] for tail in (0.025, 0.975))
        assert found["p_top_min"].tolist() == [low, high]
        assert low == p_top[0]


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """40 items of a population whose coarse accuracy is 0.7: 95 % intervals, in 400 studies."""
    rng = np.random.default_rng(7)
    agree = rng.binomial(20, rng.beta(3.5, 1.5, (400, 40)))
    counts = np.zeros((400, 40, 5), int)
    counts[..., 0], counts[..., 2] = agree, 20 - agree
    found = concentration.intervals(counts, CLASS_SIDES, np.zeros(40, int), replicates=1000, seed=0)
    low, high = found["coarse_accuracy"].T
    assert 0.90 <= ((low <= 0.7) & (high >= 0.7)).mean() <= 0.98


def test_items_alike_have_intervals_without_width() -> None:
    counts = np.tile([6, 2, 1, 1, 0], (8, 1))
    found = concentration.intervals(counts, CLASS_SIDES, np.zeros(8, int), replicates=50, seed=0)
    for name, value in (("coarse_accuracy", 0.8), ("p_top_min", 0.6), ("hhi", 0.42), ("max_share", 0.6)):
        assert found[name] == pytest.approx([value, value]), name


def test_a_cell_has_the_same_nulls_and_intervals_alone_and_among_others(monkeypatch) -> None:
    counts = make(6, 7, seed=8)
    own = (CLASS_SIDES, SIDES)
    together = concentration.intervals(counts, *own, replicates=300, seed=1)
    shaped = concentration.intervals(counts.reshape(2, 3, 7, 5), *own, replicates=300, seed=1)
    labelled = concentration.relabelling(counts, *own, most=5, seed=1)
    routed = concentration.prototypes(counts, *own)
    monkeypatch.setattr(resampling, "_AT_ONCE", 1)
    monkeypatch.setattr(nulls, "_AT_ONCE", 1)
    for cell in range(6):
        alone = concentration.intervals(counts[cell], *own, replicates=300, seed=1)
        for name, ends in alone.items():
            assert np.array_equal(ends, together[name][cell]), name
            assert np.array_equal(ends, shaped[name][divmod(cell, 3)]), name
        assert concentration.relabelling(counts[cell], *own, most=5, seed=1).p == labelled.p[cell]
        assert concentration.prototypes(counts[cell], *own).p == pytest.approx(routed.p[cell], rel=1e-12)


def test_another_seed_draws_anew_and_only_what_is_asked_for_is_given() -> None:
    counts = make(1, 7, seed=9)
    ends = {
        seed: concentration.intervals(counts, CLASS_SIDES, SIDES, replicates=100, seed=seed, of=["hhi"])
        for seed in (1, 2)
    }
    assert set(ends[1]) == {"hhi"}
    assert not np.array_equal(ends[1]["hhi"], ends[2]["hhi"])


def test_what_cannot_be_computed_is_refused() -> None:
    counts = make(1, 7)
    with pytest.raises(ValueError, match="0 replicates"):
        concentration.intervals(counts, CLASS_SIDES, SIDES, replicates=0, seed=0)
    with pytest.raises(ValueError, match="side_mass"):
        concentration.intervals(counts, CLASS_SIDES, SIDES, replicates=5, seed=0, of=["side_mass"])
    counts[0, 3] = [1, 0, 0, 0, 0]
    for ask in (concentration.prototypes, lambda *own: concentration.relabelling(*own, seed=0)):
        with pytest.raises(StrataprobeError, match="item 3 has a single stimulus"):
            ask(counts, CLASS_SIDES, SIDES)
