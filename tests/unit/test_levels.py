"""The three levels together: numbers against plain loops over items, intervals against resampling."""

import copy
import math
import random
import time
from statistics import NormalDist

import numpy as np
import pytest
from scipy import stats

from strataprobe import levels
from strataprobe.datasets.answers import accuracy, splits
from strataprobe.errors import StrataprobeError
from strataprobe.levels import Draws, Measured, estimate, read_checkpoint, vector
from strataprobe.statistics import cluster_counts
from tests import levels_cases as cases

B, SEED = 30, 7
SETTINGS = {"bootstrap": B, "conventions": "default", "seed": SEED}


@pytest.fixture(scope="module")
def summaries():
    return cases.summaries()


@pytest.fixture(scope="module")
def checkpoint(summaries):
    return read_checkpoint(*summaries)


@pytest.fixture(scope="module")
def measured(checkpoint):
    return Measured(checkpoint, SETTINGS)


@pytest.fixture(scope="module")
def resampled(checkpoint):
    """The sample's items, then each replicate's: a translation group drawn twice gives its items twice."""
    groups = list(dict.fromkeys(checkpoint.items.item_groups))
    members = {
        name: [i for i, own in enumerate(checkpoint.items.item_groups) if own == name] for name in groups
    }
    drawn = [[*range(len(checkpoint.items.ids))]]
    for counts in cluster_counts(len(groups), B, SEED).tolist():
        drawn.append([i for name, count in zip(groups, counts, strict=True) for i in members[name] * count])
    return drawn


def share(text: str, items: list[int], inside) -> float:
    """Share of "1" among the answers of these items, one by one."""
    answers = [text[item] for item in items if inside[item] and text[item] != "."]
    return answers.count("1") / len(answers) if answers else math.nan


def looped(resampled, number):
    """A number of a list of items, of the sample and of every replicate."""
    return [number(items) for items in resampled]


def same(drawn, expected):
    assert drawn.shape == (1 + B,)
    np.testing.assert_allclose(drawn, expected, rtol=0, atol=1e-12)


# Draws and intervals


def test_an_interval_is_that_of_explicit_resampling_of_whole_groups(summaries, measured, resampled):
    text, masks = summaries[0]["variants"]["qa"]["correct"], measured.splits
    for split in ("all", "de", "subject_control", "zh:object_control"):
        drawn = measured.accuracy("qa", split)
        expected = looped(resampled, lambda items, split=split: share(text, items, masks[split]))
        same(drawn, expected)
        found = estimate(drawn)
        kept = [value for value in expected[1:] if value == value]
        assert (found.value, found.low, found.high) == pytest.approx(
            (expected[0], *np.percentile(kept, [2.5, 97.5])), abs=1e-12
        )


def test_the_cluster_bootstrap_agrees_with_scipy_on_group_means():
    rng = np.random.default_rng(1)
    groups, size = 60, 3
    values = (rng.random((groups, 1)) + rng.random((groups, size)) > 1).astype(float)
    names = [str(group) for group in range(groups) for _ in range(size)]
    drawn = Draws.of(names, 4000, 3).mean(values.ravel(), np.ones(groups * size, bool))
    found = estimate(drawn)
    reference = stats.bootstrap(
        (values.mean(axis=1),), np.mean, n_resamples=4000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert found.low == pytest.approx(reference.low, abs=0.012)
    assert found.high == pytest.approx(reference.high, abs=0.012)
    # Items of a group are alike, so that items drawn one by one would give a narrower interval.
    alone = Draws.of([str(i) for i in range(groups * size)], 4000, 3)
    single = estimate(alone.mean(values.ravel(), np.ones(groups * size, bool)))
    assert found.high - found.low > 1.2 * (single.high - single.low)


def test_groups_need_neither_equal_sizes_nor_neighbouring_items():
    names, values = ["x", "y", "x", "z", "x"], np.array([1.0, 0.0, 1.0, np.nan, 0.0])
    draws = Draws.of(names, 20, 0)
    counts = cluster_counts(3, 20, 0)
    expected = [(2 * x) / (3 * x + y) if x or y else np.nan for x, y, _ in counts.tolist()]
    drawn = draws.mean(values, np.ones(5, bool))
    assert drawn[0] == 0.5
    np.testing.assert_allclose(drawn[1:], expected)
    assert draws.clusters(np.array([True, False, True, True, False])) == 2


def test_a_replicate_does_not_depend_on_how_many_there_are(checkpoint):
    more = Measured(checkpoint, {**SETTINGS, "bootstrap": 80}).probe("all")
    np.testing.assert_array_equal(Measured(checkpoint, SETTINGS).probe("all"), more[: 1 + B])
    other = Measured(checkpoint, {**SETTINGS, "seed": SEED + 1}).probe("all")
    assert other[0] == more[0]
    assert not np.array_equal(other[1:], more[1 : 1 + B])


def test_without_replicates_there_are_values_and_no_intervals(checkpoint):
    found = estimate(Measured(checkpoint, {**SETTINGS, "bootstrap": 0}).probe("all"))
    assert found.value is not None
    assert (found.low, found.high) == (None, None)


def test_best_takes_the_first_of_equal_cells_and_passes_over_cells_without_answers():
    draws = Draws.of(["a", "b", "c"], 0, 0)
    every = np.ones(3, bool)
    values = np.array([[0, 0, 1], [1, 1, 0], [1, 0, 1], [np.nan] * 3], float)
    assert draws.best(values, every).tolist() == [1]
    assert draws.best(values[::-1], every).tolist() == [1]
    # One right of one answered is more than two of three.
    sparse = np.array([[1, 1, 0], [np.nan, 1, np.nan]])
    assert draws.best(sparse, every).tolist() == [1]
    assert np.isnan(draws.mean_at(values, every, np.array([3]))[0])


def test_replicates_are_the_same_in_whatever_portions_they_are_compared(monkeypatch, checkpoint):
    whole = Measured(checkpoint, SETTINGS).readout("en")
    monkeypatch.setattr("strataprobe.bootstrap._ROWS", 7)
    np.testing.assert_array_equal(Measured(checkpoint, SETTINGS).readout("en"), whole)


def test_ten_thousand_replicates_of_a_deep_model_take_a_second_or_two():
    rng = np.random.default_rng(0)
    groups = [str(item % 16) for item in range(48)]
    draws = Draws.of(groups, 10_000, 1)
    values = rng.integers(0, 4, (41 * 5, 48)).astype(float)
    started = time.perf_counter()
    for _ in range(30):
        draws.mean_at(values, np.ones(48, bool), draws.best(values, np.ones(48, bool)))
    assert (time.perf_counter() - started) < 5, "30 maxima over 41 layers and 5 modes"


# Levels


def test_point_values_are_the_accuracies_that_the_levels_wrote_themselves(summaries, measured):
    behavior, readout, recoverability = summaries
    masks = splits(behavior["items"])
    assert {name: mask.tolist() for name, mask in measured.splits.items()} == {
        name: mask.tolist() for name, mask in masks.items()
    }
    for split, mask in masks.items():
        for name, one in behavior["variants"].items():
            if ":unconditional" in name:
                continue
            assert measured.accuracy(name, split)[0] == pytest.approx(accuracy(one["correct"], mask))
        for name in ("forced_choice", "label_choice"):
            own = behavior["measures"][name]
            assert measured.debiased(name, split)[0] == pytest.approx(own["accuracy"][split])
            assert measured.order_gap(name, split)[0] == pytest.approx(own["order_gap"][split])
        mean = behavior["measures"]["mean_behavior"]["accuracy"][split]
        assert measured.mean_behavior(split)[0] == pytest.approx(mean)
        for name, own in readout["definitions"].items():
            best = own["best"][split]
            assert measured.readout(split, name)[0] == pytest.approx(best["accuracy"])
            assert measured.place_of_readout(name, split) == (best["layer"], best["task"])
    for coding, own in recoverability["codings"].items():
        for name, one in ((coding, own), *((f"{s}:{coding}", own[s]) for s in ("pair_out", "group_out"))):
            chosen = one["pick"]["global"]
            assert measured.place_of_probe(name, "all") == (chosen["layer"], chosen["mode"])
            assert measured.probe("all", name)[0] == pytest.approx(chosen["accuracy"])
            for split, value in chosen["splits"].items():
                assert measured.probe_at_pick(split, name)[0] == pytest.approx(value)
            for seed, value in chosen["seeds"].items():
                assert measured.probe_at_mean_pick("all", name, int(seed))[0] == pytest.approx(value)
            for seed, best in one["pick"]["seeds"].items():
                assert measured.place_of_probe(name, "all", int(seed)) == (best["layer"], best["mode"])
                for split, value in best["splits"].items():
                    assert measured.probe_at_pick(split, name, int(seed))[0] == pytest.approx(value)
            for kind, best in one["pick"]["types"].items():
                assert measured.place_of_probe(name, kind) == (best["layer"], best["mode"])
                assert measured.probe(kind, name)[0] == pytest.approx(best["accuracy"])


def test_a_maximum_is_taken_anew_in_every_replicate(summaries, measured, resampled):
    tasks = summaries[1]["definitions"]["paper"]["sentence"]["correct"]
    mask = measured.splits["en"]
    same(
        measured.readout("en", "paper"),
        looped(resampled, lambda items: max(share(text, items, mask) for text in tasks)),
    )
    modes = summaries[2]["codings"]["paper"]["modes"]

    def best(items):
        """Over layers, then modes, of the mean over seeds."""
        return max(
            sum(share(modes[mode]["correct"][seed][layer], items, mask) for seed in modes[mode]["correct"])
            / 3
            for layer in range(cases.BLOCKS + 1)
            for mode in modes
        )

    same(measured.probe("en", "paper"), looped(resampled, best))


def test_what_is_best_over_all_items_is_read_in_a_split_replicate_by_replicate(
    summaries, measured, resampled
):
    definition = summaries[1]["definitions"]["code"]
    every, mask = measured.splits["all"], measured.splits["de"]

    def picked(items):
        texts = [
            definition[task]["correct"][layer]
            for layer in range(cases.BLOCKS + 1)
            for task in ("qa", "paraphrase")
        ]
        return share(max(texts, key=lambda text: share(text, items, every)), items, mask)

    same(measured.readout_at_pick("de", "code"), looped(resampled, picked))


def test_a_seed_at_the_pick_of_the_mean_is_read_replicate_by_replicate(summaries, measured, resampled):
    modes = summaries[2]["codings"]["decorrelated"]["modes"]
    every = measured.splits["all"]

    def picked(items):
        cells = [
            (layer, mode) for layer in range(cases.BLOCKS + 1) for mode in ("ab", "av", "bv", "abv", "v")
        ]

        def right(cell):
            texts = [rows[cell[0]] for rows in modes[cell[1]]["correct"].values()]
            return sum(text[item] == "1" for text in texts for item in items)

        layer, mode = max(cells, key=right)
        return share(modes[mode]["correct"]["2718"][layer], items, every)

    same(measured.probe_at_mean_pick("all", "decorrelated", 2718), looped(resampled, picked))


def test_equal_means_over_seeds_are_equal_whatever_the_order_of_their_sums():
    """2 of 3 and 1 of 3 seeds add up to one item, as one of all three does; in thirds they would not."""
    summaries = copy.deepcopy(cases.summaries())
    for mode, one in summaries[2]["codings"]["paper"]["modes"].items():
        for place, seed in enumerate(one["correct"]):
            rows = one["correct"][seed]
            for layer in range(len(rows)):
                rows[layer] = "0" * 48
            if mode == "ab":
                rows[1] = "".join("1" if item % 3 == place else "0" for item in range(48))
            if mode == "v":
                rows[1] = "1" * 16 + "0" * 32
    found = Measured(read_checkpoint(*summaries), {**SETTINGS, "bootstrap": 0})
    assert found.place_of_probe("paper", "all") == (1, "ab")
    assert found.probe("all", "paper")[0] == pytest.approx(1 / 3)


def test_collisions_are_left_out_of_the_readout_of_first_tokens(summaries, checkpoint, measured):
    assert np.isnan(checkpoint.readout["paper"]).sum(axis=2).tolist() == [[2]] * (cases.BLOCKS + 1)
    rows = {(one.measure, one.split): one for one in levels.observations(measured) if one.level == "readout"}
    assert rows["paper", "all"].n == 46
    assert rows["code", "all"].n == 48
    assert rows["collisions:paper", "all"].estimate.value == 2


def test_an_embedding_that_was_not_probed_shifts_no_layer_number():
    """Layer 1 is the first block in either cache."""
    summaries = cases.behavior(), cases.readout(), cases.recoverability(embed=False)
    checkpoint = read_checkpoint(*summaries)
    assert checkpoint.first == 1
    chosen = summaries[2]["codings"]["paper"]["pick"]["global"]
    assert Measured(checkpoint, SETTINGS).place_of_probe("paper", "all") == (chosen["layer"], chosen["mode"])
    layers = [
        one.hidden_state for one in levels.layer_observations(checkpoint) if one.measure == "verb_out:paper"
    ]
    assert (min(layers), max(layers)) == (1, cases.BLOCKS)


# What they say together


def test_surplus_ratio_and_deficit_are_differences_and_shares_of_the_same_replicates(
    summaries, measured, resampled
):
    variants = summaries[0]["variants"]
    masks = measured.splits
    probe = measured.probe_at_pick("zh")  # itself against loops above

    def mean(items, split):
        return (
            share(variants["qa"]["correct"], items, masks[split])
            + share(variants["paraphrase"]["correct"], items, masks[split])
        ) / 2

    behavior = np.array(looped(resampled, lambda items: mean(items, "zh")))
    same(levels.surplus(measured, "zh"), probe - behavior)
    same(levels.ratio(measured, "zh"), behavior / probe)
    qa = np.array(looped(resampled, lambda items: share(variants["qa"]["correct"], items, masks["zh"])))
    same(levels.surplus(measured, "zh", "qa"), probe - qa)
    same(
        levels.deficit(measured, "all"),
        looped(resampled, lambda items: mean(items, "object_control") - mean(items, "subject_control")),
    )
    same(
        levels.deficit(measured, "de"),
        looped(resampled, lambda items: mean(items, "de:object_control") - mean(items, "de:subject_control")),
    )
    assert levels.deficit(measured, "object_control") is None


def test_conventions_choose_what_is_compared(checkpoint):
    published = Measured(checkpoint, {**SETTINGS, "conventions": "published"})
    assert str(published.choice) == "readout code; coding paper, seed 1729"
    assert (
        str(Measured(checkpoint, SETTINGS).choice)
        == "readout default; coding pair_out:decorrelated, mean over seeds"
    )
    same(published.probe("all"), published.probe("all", "paper", 1729))
    same(published.readout("all"), published.readout("all", "code"))


def test_what_was_not_made_is_not_chosen(summaries):
    behavior, readout, recoverability = copy.deepcopy(summaries)

    def choice() -> str:
        return str(Measured(read_checkpoint(behavior, readout, recoverability), SETTINGS).choice)

    for coding in ("paper", "decorrelated"):
        recoverability["codings"][coding]["pair_out"] = {"refused": "no pairs"}
    assert choice() == "readout default; coding decorrelated, mean over seeds"
    del readout["definitions"]["default"], recoverability["codings"]["decorrelated"]
    assert choice() == "readout code; coding paper, mean over seeds"
    recoverability["codings"]["paper"]["pair_out"] = summaries[2]["codings"]["paper"]["pair_out"]
    assert choice() == "readout code; coding pair_out:paper, mean over seeds"


def test_twins_that_pull_a_left_out_item_to_the_wrong_side_do_not_stand_for_a_level():
    """On minimal pairs, leave-one-out is right by chance far less often than half of the time.

    The held-out item's twin is in training with the other label. Ours compares by probes that left both out.
    """
    rng = np.random.default_rng(5)
    items = cases.dataset().controls
    alike = {}
    for item in items:
        alike.setdefault((item.language, item.pair), rng.normal(size=cases.HIDDEN))
    states = {
        position: np.array([[alike[item.language, item.pair] for item in items]] * 2, np.float32)
        + rng.normal(0, 1e-3, (2, len(items), cases.HIDDEN)).astype(np.float32)
        for position in "abv"
    }
    found = cases.probe(states, cases.dataset(), first_layer=0, settings=cases.PROBES | {"epochs": 100})
    probed = cases.framed(found, "recoverability")
    measured = Measured(read_checkpoint(cases.behavior(), cases.readout(), probed), SETTINGS)
    assert measured.probe("all", "decorrelated")[0] < 0.4
    assert measured.probe("all")[0] == measured.probe("all", "pair_out:decorrelated")[0]
    assert 0.4 <= measured.probe("all")[0] <= 0.75


@pytest.mark.parametrize(
    ("values", "items", "inverted", "broken"),
    [
        ((0.5, 0.6, 0.7), 16, 0, 0),
        ((0.5, 0.5, 0.5), 16, 0, 0),
        # Table 5, Qwen3-0.6B Base, Chinese: half an item.
        ((21 / 32, 10 / 16, 16 / 16), 16, 1, 0),
        # Gemma-4 E4B Instruct, Chinese: exactly one.
        ((20 / 32, 9 / 16, 9 / 16), 16, 1, 0),
        # Gemma-4 E4B Base, German: one and a half.
        ((19 / 32, 8 / 16, 10 / 16), 16, 1, 1),
        # The same difference is more than one item of 48.
        ((20 / 32, 9 / 16, 9 / 16), 48, 1, 1),
        ((0.9, 0.6, 0.3), 16, 2, 2),
    ],
)
def test_order_is_judged_as_finely_as_a_cell_has_items(values, items, inverted, broken):
    found = levels.ordering(*values, items=items)
    assert (len(found.inverted), len(found.broken), found.holds) == (inverted, broken, not broken)
    assert found.note.count("within one item") == inverted - broken


def test_a_level_without_an_answer_has_no_order(summaries):
    behavior, readout, recoverability = copy.deepcopy(summaries)
    for task in ("qa", "paraphrase"):
        rows = readout["definitions"]["default"][task]["correct"]
        rows[:] = ["".join("." if i < 16 else c for i, c in enumerate(text)) for text in rows]
    found = Measured(read_checkpoint(behavior, readout, recoverability), SETTINGS)
    first = behavior["items"]["languages"][0]
    assert levels.ordering_of(found, first) is None
    assert levels.ordering_of(found, "all") is not None
    named = {(one.measure, one.split): one.estimate for one in levels.observations(found)}
    assert ("ordering", first) not in named
    assert named["default", first].value is None


@pytest.mark.parametrize("split", ["all", "en"])
def test_erasure_is_the_best_layer_less_the_last(split, summaries, measured, resampled):
    modes = summaries[2]["codings"]["decorrelated"]["pair_out"]["modes"]
    mask = measured.splits[split]

    def lost(items):
        def best(layers):
            return max(
                sum(share(rows[layer], items, mask) for rows in modes[mode]["correct"].values()) / 3
                for layer in layers
                for mode in modes
            )

        return best(range(cases.BLOCKS + 1)) - best([cases.BLOCKS])

    same(levels.erasure(measured, split), looped(resampled, lost))
    assert (levels.erasure(measured, split) >= 0).all()


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((0.11, 0.3), "erased"), ((0.10, 0.3), "undecided"), ((0.02, 0.11), "undecided"),
        ((0.02, 0.10), "kept"), ((None, None), ""),
    ],
)  # fmt: skip
def test_a_loss_is_erasure_where_its_interval_is_beyond_the_drop(bounds, said):
    assert levels.erasure_verdict(*bounds) == said


def test_information_that_late_layers_lose_is_called_erased(summaries):
    behavior, readout, recoverability = copy.deepcopy(summaries)
    for mode, one in recoverability["codings"]["decorrelated"]["pair_out"]["modes"].items():
        for rows in one["correct"].values():
            rows[2] = "1" * 48 if mode == "bv" else rows[2]
            rows[3] = "01" * 24
    found = Measured(read_checkpoint(behavior, readout, recoverability), SETTINGS)
    notes = {one.split: one.note for one in levels.observations(found) if one.measure == "erasure"}
    assert notes["all"].startswith("erased; ")


# Apart from bias


def test_d_prime_and_criterion_are_behaviour_s_own_with_an_interval_of_their_replicates(
    summaries, measured, resampled
):
    behavior = summaries[0]
    kinds = behavior["items"]["control_types"]

    def looped_detection(items, texts, inside):
        rates = []
        for kind, answer in (("object_control", "1"), ("subject_control", "0")):
            own = [
                text[i] for text in texts for i in items if inside[i] and kinds[i] == kind and text[i] != "."
            ]
            rates.append(NormalDist().inv_cdf((own.count(answer) + 0.5) / (len(own) + 1)))
        return rates[0] - rates[1], -sum(rates) / 2

    for name, variants in levels.parts(measured).items():
        texts = [
            behavior["variants"][one]["correct"]
            if one in behavior["variants"]
            else behavior["measures"][one]["correct"]
            for one in variants
        ]
        for split in ("all", "en"):
            found = levels.detection(measured, variants, split)
            own = [behavior["measures"][what][name][split] for what in ("d_prime", "criterion")]
            assert [drawn[0] for drawn in found] == pytest.approx(own)
            expected = looped(
                resampled,
                lambda items, split=split, texts=texts: looped_detection(
                    items, texts, measured.splits[split]
                ),
            )
            for drawn, wanted in zip(found, zip(*expected, strict=True), strict=True):
                np.testing.assert_allclose(drawn, wanted, atol=1e-9)
    assert levels.detection(measured, ("qa",), "object_control") is None


def test_always_the_subject_has_no_d_prime_but_a_criterion(summaries):
    behavior, *others = copy.deepcopy(summaries)
    kinds = behavior["items"]["control_types"]
    behavior["variants"]["qa"]["correct"] = "".join(
        "1" if kind == "subject_control" else "0" for kind in kinds
    )
    found = levels.detection(Measured(read_checkpoint(behavior, *others), SETTINGS), ("qa",), "all")
    assert found[0][0] == pytest.approx(0)
    assert found[1][0] > 1.5


def test_pairs_are_right_together_and_drawn_with_their_translations(summaries, measured):
    behavior = summaries[0]
    for name, variants in levels.parts(measured).items():
        found = levels.both_right(measured, variants)
        assert list(found) == ["all", *dict.fromkeys(behavior["items"]["languages"])]
        for split, (one, _, clusters) in found.items():
            assert one.value == pytest.approx(behavior["measures"]["both_right"][name][split])
            assert clusters == 8
    found = levels.both_right(measured, ("contrastive",))
    assert [pairs for _, pairs, _ in found.values()].count(8) == 2, "one pair lacks an answer"
    assert found["all"][1] == 23


def test_the_interval_of_pairs_is_that_of_explicit_resampling(summaries, measured):
    described, text = summaries[0]["items"], summaries[0]["variants"]["qa"]["correct"]
    pairs = {}
    for item, place in enumerate(zip(described["languages"], described["pairs"], strict=True)):
        pairs.setdefault(place, []).append(item)
    named = list(dict.fromkeys(pair for _, pair in pairs))
    right = {
        name: [all(text[item] == "1" for item in own) for (_, pair), own in pairs.items() if pair == name]
        for name in named
    }
    drawn = []
    for counts in cluster_counts(len(named), B, SEED).tolist():
        chosen = [one for name, count in zip(named, counts, strict=True) for one in right[name] * count]
        drawn.append(sum(chosen) / len(chosen))
    found = levels.both_right(measured, ("qa",))["all"][0]
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(drawn, [2.5, 97.5])))


def test_pairs_are_linked_by_their_groups_in_whatever_order_languages_list_them(summaries):
    """One language lists the other member first: its pairs still come with their translations."""
    described = summaries[0]["items"]
    german = [i for i, language in enumerate(described["languages"]) if language == "de"]
    order = [i for i in range(48) if i not in german] + german[::-1]
    turned = Measured(read_checkpoint(*(_reordered(own, order) for own in summaries)), SETTINGS)
    straight = Measured(read_checkpoint(*summaries), SETTINGS)
    for split, own in levels.both_right(straight, ("qa",)).items():
        found = levels.both_right(turned, ("qa",))[split]
        assert found[1:] == own[1:]
        assert found[0].value == pytest.approx(own[0].value)


def _reordered(found, order: list[int]):
    """The same items in another order."""
    if isinstance(found, dict):
        return {name: _reordered(one, order) for name, one in found.items()}
    if isinstance(found, list) and len(found) == 48:
        return [found[i] for i in order]
    if isinstance(found, list):
        return [_reordered(one, order) for one in found]
    if isinstance(found, str) and len(found) == 48:
        return "".join(found[i] for i in order)
    return found


# Reading


def test_a_vector_is_read_character_by_character():
    assert vector("10.1")[[0, 1, 3]].tolist() == [1, 0, 1]
    assert np.isnan(vector("10.1")[2])


@pytest.mark.parametrize("coding", ["paper", "decorrelated"])
def test_axes_are_seeds_layers_modes_and_items(summaries, checkpoint, coding):
    values, modes = checkpoint.recoverability[coding], summaries[2]["codings"][coding]["modes"]
    assert values.shape == (3, cases.BLOCKS + 1, 5, 48)
    rng = random.Random(0)
    for _ in range(50):
        seed, layer, mode, item = (rng.randrange(size) for size in values.shape)
        text = modes[checkpoint.modes[mode]]["correct"][str(checkpoint.seeds[seed])][layer]
        assert values[seed, layer, mode, item] == float(text[item])


def test_the_first_of_equal_tasks_is_question_answering_as_readout_itself_has_it(checkpoint):
    """Keys of JSON are in the alphabet's order, in which it would be the paraphrase."""
    assert checkpoint.tasks["default"] == ("qa", "paraphrase")
    assert list(checkpoint.readout) == ["default", "code", "paper"]
    assert checkpoint.codings == ("paper", "decorrelated")


def test_levels_of_different_checkpoints_or_items_are_refused_with_all_that_differs(summaries):
    behavior, readout, recoverability = copy.deepcopy(summaries)
    readout["revision"], readout["model"] = "step9", "other"
    recoverability["items"]["ids"][3] = "zz"
    with pytest.raises(StrataprobeError, match="3 problems") as caught:
        read_checkpoint(behavior, readout, recoverability)
    assert "readout: its model is 'other', that of behavior 'made-up'" in str(caught.value)
    assert "readout: its revision is 'step9'" in str(caught.value)
    assert "recoverability: its items are not those of behavior" in str(caught.value)
    assert "'zz'" in str(caught.value)


def test_answers_that_are_too_few_or_of_another_alphabet_are_named(summaries):
    behavior, readout, recoverability = copy.deepcopy(summaries)
    behavior["variants"]["qa"]["correct"] = "1" * 47
    readout["definitions"]["code"]["qa"]["correct"][2] = "x" * 48
    with pytest.raises(StrataprobeError, match="made-up step0, control: 2 problems") as caught:
        read_checkpoint(behavior, readout, recoverability)
    assert "behavior qa: 47 answers for 48 items" in str(caught.value)
    assert "readout code qa, layer 2: answers are written as 1, 0 and '.'" in str(caught.value)


def test_a_scheme_that_the_items_refuse_is_left_out(summaries):
    behavior, readout, recoverability = copy.deepcopy(summaries)
    own = recoverability["codings"]["paper"]
    own["pair_out"] = {"refused": "no pairs"}
    own["verb_out"] = {"refused": "one verb"}
    own["null"]["verb_out"] = {"refused": "no verbs"}
    checkpoint = read_checkpoint(behavior, readout, recoverability)
    assert "pair_out:paper" not in checkpoint.recoverability
    assert "pair_out:decorrelated" in checkpoint.recoverability
    measures = {one.measure for one in levels.observations(Measured(checkpoint, SETTINGS))}
    assert "pair_out:paper" not in measures
    assert "p:verb_out:paper" not in measures
    assert "verb_out:paper" not in {one.measure for one in levels.layer_observations(checkpoint)}
