"""Controls: what they say of labels that are random, of words that were memorised, of a real class."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from strataprobe import controls, probes
from strataprobe.controls.mdl import FRACTIONS, TEMPERATURES, _ranks, block_ends, codelengths
from strataprobe.controls.null import benjamini_hochberg, p_values, pair_flips
from strataprobe.controls.tasks import control_labels, item_types, seen_share, word_types
from strataprobe.errors import DatasetError
from strataprobe.files import canonical_json
from strataprobe.probes.solve import accuracies, solve_many
from tests import synthetic

SETTINGS = {
    **synthetic.PROBE,
    "permutations": 39,
    "control_tasks": 5,
    "code_orders": 2,
    "false_discovery": 0.05,
}
LOGISTIC = {**SETTINGS, "solver": "logistic"}


def own_words(pairs):
    return [[f"good{pair}", f"bad{pair}"] for pair in range(pairs)]


def measured(problem, contrast=None, seed=0, **changes):
    contrast = own_words(len(problem.labels) // 2) if contrast is None else contrast
    return controls.measure(problem, contrast, seed=seed, settings={**SETTINGS, **changes})


@pytest.mark.parametrize("settings", [SETTINGS, LOGISTIC], ids=["adam", "logistic"])
def test_columns_are_probes_trained_one_by_one(settings):
    states, labels = synthetic.make_states(layers=5, pairs=60, hidden=48)
    rng = np.random.default_rng(1)
    columns = np.where(rng.random((6, 120)) < 0.5, -1, 1)
    columns[0] = labels
    used = rng.random((6, 120)) < np.array([1, 1, 0.8, 0.6, 0.4, 0.2])[:, None]
    weights, biases = solve_many(states, columns, used, seed=5, settings=settings)
    logits = states @ weights + biases
    for column in range(6):
        kept = used[column]
        one = probes.train(states[:, kept], columns[column, kept], seed=5, settings=settings)
        assert np.abs(weights[:, :, column] - one.weights[0]).max() < 1e-5
        assert np.abs(biases[:, 0, column] - one.biases[0]).max() < 1e-5
        assert np.abs(logits[:, :, column] - one.logits("raw", states)).max() < 1e-3
    expected = ((logits > 0) == (columns > 0).T[None]).mean(axis=1)
    assert np.array_equal(accuracies(states, columns, weights, biases), expected.T)


def test_a_column_does_not_depend_on_the_others():
    states, labels = synthetic.make_states(layers=3)
    many = np.concatenate([labels[None], labels * pair_flips(40, 30, 0)[:, np.arange(80) // 2]])
    used = np.ones(many.shape, bool)
    alone, _ = solve_many(states, many[:1], used[:1], seed=0, settings=SETTINGS)
    together, _ = solve_many(states, many, used, seed=0, settings=SETTINGS)
    assert np.abs(alone[..., 0] - together[..., 0]).max() < 1e-5


def test_flips_change_pairs_as_a_whole_and_do_not_depend_on_their_number():
    flips = pair_flips(50, 400, 3)
    assert np.array_equal(flips[:10], pair_flips(50, 10, 3))
    assert not np.array_equal(flips[:10], pair_flips(50, 10, 4))
    assert set(np.unique(flips)) == {-1, 1}
    # Means of 400 and of 50 fair signs, five sd.
    assert np.abs(flips.mean(axis=0)).max() < 5 / np.sqrt(400)
    assert np.abs(flips.mean(axis=1)).max() < 5 / np.sqrt(50)


def test_p_counts_the_observed_labelling_and_ties():
    null = np.array([[0.4, 0.9], [0.5, 0.9], [0.6, 0.9]])
    assert p_values(np.array([0.5, 0.1]), null) == pytest.approx([3 / 4, 1.0])
    assert p_values(np.array([1.0, 1.0]), null) == pytest.approx([1 / 4, 1 / 4])
    assert p_values(np.array(0.1 + 0.2), np.array([0.3])) == 1.0


def test_adjusted_p_is_scipy_s():
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 30):
        p = np.round(rng.random(size) ** 3, 2) + 0.001
        assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(np.minimum(p, 1)))


def test_false_discoveries_stay_at_the_rate():
    rng = np.random.default_rng(0)
    shares = []
    for _ in range(2000):
        p = rng.random(20)
        p[:10] = stats.norm.sf(rng.standard_normal(10) + 3)  # half of them real
        found = benjamini_hochberg(p) <= 0.2
        shares.append(found[10:].sum() / max(1, found.sum()))
    # BH holds the expected share at q times the share of true nulls.
    assert np.mean(shares) == pytest.approx(0.1, abs=5 * np.std(shares) / np.sqrt(2000))


def random_problems(count, layers=2):
    for seed in range(count):
        yield synthetic.make_problem(layers=layers, pairs=24, test_pairs=8, hidden=6, signal=0.0, seed=seed)


def test_random_labels_give_chance_no_selectivity_and_uniform_p():
    single, best, selectivity = [], [], []
    for seed, problem in enumerate(random_problems(100)):
        result = measured(problem, seed=seed, permutations=19, code_orders=1, control_tasks=2, epochs=20)
        single.append(result["layers"][0]["p"])
        best.append(result["max"]["p"])
        selectivity.append(result["mean"]["selectivity"])
    for p in (single, best):
        for level in (0.05, 0.1, 0.2, 0.5):
            # Exact tests: never more often than their level; ties make them a little rarer.
            spread = np.sqrt(level * (1 - level) / len(p))
            assert level / 4 - spread < np.mean(np.array(p) <= level) < level + 4 * spread
    assert np.mean(selectivity) == pytest.approx(0, abs=4 * np.std(selectivity) / np.sqrt(100))


def test_random_labels_cost_a_bit_each_and_accuracy_is_one_half():
    results = [
        measured(synthetic.make_problem(layers=4, pairs=100, test_pairs=20, hidden=32, signal=0.0, seed=seed))
        for seed in range(10)
    ]
    bits = np.array([[row["codelength_bits"] for row in result["layers"]] for result in results])
    assert (np.abs(bits - 200) < np.log2(len(TEMPERATURES)) + 4).all()
    assert np.mean([result["mean"]["accuracy"] for result in results]) == pytest.approx(0.5, abs=0.06)
    assert np.mean([result["mean"]["null_mean"] for result in results]) == pytest.approx(0.5, abs=0.02)
    assert np.mean([row["significant"] for result in results for row in result["layers"]]) < 0.1


def word_problem(kind, pairs=160, vocabulary=8, hidden=40, seed=0):
    """States that say which word stands there, or which class; few words, used often."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(vocabulary, size=(pairs, 2))
    contrast = [[f"good{a}", f"bad{b}"] for a, b in chosen.tolist()]
    problem = synthetic.make_problem(layers=2, pairs=pairs, test_pairs=pairs // 4, hidden=hidden, signal=0.0)
    if kind == "words":
        embedding = 4 * rng.standard_normal((2 * vocabulary, hidden))
        places = (chosen + np.array([0, vocabulary])).ravel()
        signal = np.broadcast_to(embedding[places], problem.states.shape)
    else:
        signal = 4 * problem.labels[None, :, None] * np.eye(hidden)[0]
    return replace(problem, states=(problem.states + signal).astype(np.float32)), contrast


def test_memorised_words_have_no_selectivity_and_a_class_has():
    problem, contrast = word_problem("words")
    words = measured(problem, contrast)
    problem, contrast = word_problem("class")
    real = measured(problem, contrast)
    assert words["control"] == {"tasks": 5, "words": 16, "seen": 1.0, "ceiling": 1.0}
    for row in words["layers"]:
        assert row["accuracy"] > 0.95
        assert row["control_accuracy"] > 0.9
        assert abs(row["selectivity"]) < 0.1
    for row in real["layers"]:
        assert row["accuracy"] > 0.9
        assert row["selectivity"] > 0.3
        assert (row["p"], row["significant"]) == (1 / 40, True)
        assert row["compression"] > 1.5


def test_left_out_words_undo_a_memory_but_not_a_class():
    rng = np.random.default_rng(0)
    contrast = [[f"good{pair // 4}", f"bad{pair // 4}"] for pair in range(160)]
    problem = synthetic.make_problem(layers=2, pairs=160, test_pairs=40, hidden=64, signal=0.0)
    order = rng.permutation(160)
    train, test = order[:120], order[120:]
    problem = replace(
        problem,
        train=np.flatnonzero(np.isin(problem.pairs, train)),
        test=np.flatnonzero(np.isin(problem.pairs, test)),
    )
    embedding = 5 * rng.standard_normal((40, 2, 64))
    words = embedding[problem.pairs // 4, np.arange(320) % 2]
    memory = measured(replace(problem, states=(problem.states + words).astype(np.float32)), contrast)
    klass = 5 * problem.labels[None, :, None] * np.eye(64)[0]
    real = measured(replace(problem, states=(problem.states + klass).astype(np.float32)), contrast)
    assert memory["mean"]["accuracy"] > 0.8
    assert memory["lexeme_split"]["mean_accuracy"] < 0.7
    assert real["lexeme_split"]["mean_accuracy"] > 0.9
    assert memory["lexeme_split"]["test_pairs"] == 40
    assert memory["lexeme_split"]["largest_set"] == 4
    low, high = memory["lexeme_split"]["interval"][0]
    assert low <= memory["lexeme_split"]["accuracy"][0] <= high


def test_control_labels_belong_to_words_alone():
    types = ["met", "beat", "met", "walked", "kicked", "beat"]
    labels = control_labels(types, np.arange(6), 20, 7)
    assert labels.shape == (20, 6)
    assert np.array_equal(labels[:, 0], labels[:, 2])
    assert np.array_equal(labels[:, 1], labels[:, 5])
    assert (np.abs(labels.sum(axis=1)) < 6).all()
    many = [*types, *(f"w{i}" for i in range(200))]
    wide, again = (control_labels(many, np.arange(206), tasks, 7) for tasks in (30, 20))
    assert np.array_equal(wide[:20], again)
    assert abs(wide[:, 6:].mean()) < 5 / np.sqrt(30 * 200)
    assert not np.array_equal(wide, control_labels(many, np.arange(206), 30, 8))


def test_a_control_task_on_one_word_is_refused():
    with pytest.raises(DatasetError, match="training pairs have 1 different"):
        control_labels(["is"] * 6, np.arange(6), 3, 0)


def test_the_words_of_a_half_are_its_own():
    types = word_types([["Beat", "met"], ["the"], ["set", "free", "paid"]])
    assert types == [
        ("beat", "met"),
        ("the (positive)", "the (negative)"),
        ("set free paid (positive)", "set free paid (negative)"),
    ]
    items = item_types(types[:2], np.array([1, -1, -1, 1]), np.array([0, 0, 1, 1]))
    assert items == ["beat", "met", "the (negative)", "the (positive)"]
    assert seen_share(["a", "b", "a", "c"], np.array([0, 1]), np.array([2, 3])) == 0.5


def test_blocks_end_at_the_papers_shares_in_whole_pairs():
    assert block_ends(240) == [2, 4, 8, 15, 30, 60, 120, 240]
    assert block_ends(1) == [1]
    assert max(FRACTIONS) == 1


def test_the_code_is_that_of_probes_trained_block_by_block():
    problem = synthetic.make_problem(layers=3, pairs=48, hidden=12, signal=0.5)
    states, labels, pairs = problem.states, problem.labels, problem.pairs
    mixed, own = codelengths(states, labels, pairs, orders=1, seed=3, settings=SETTINGS)
    ranks = _ranks(48, 3, 0)[pairs]
    assert sorted(ranks.tolist()) == sorted(np.repeat(np.arange(48), 2).tolist())
    ends = block_ends(48)
    lengths = np.zeros((len(TEMPERATURES), 3))
    own_lengths = np.zeros(3)
    for end, after in pairwise(ends):
        seen, sent = ranks < end, (ranks >= end) & (ranks < after)
        trained = probes.train(states[:, seen], labels[seen], seed=3, settings=SETTINGS)
        logits = trained.logits("raw", states[:, sent]).astype(float)
        size = np.sqrt((trained.logits("raw", states[:, seen]).astype(float) ** 2).mean(axis=1))[:, None]
        own_lengths -= np.log2(1 / (1 + np.exp(-labels[sent] * logits))).sum(axis=1)
        for place, temperature in enumerate(TEMPERATURES):
            probability = 1 / (1 + np.exp(-labels[sent] * logits / size * temperature))
            lengths[place] -= np.log2(probability).sum(axis=1)
    first = 2 * ends[0]
    assert own == pytest.approx(first + own_lengths, rel=1e-4)
    assert mixed == pytest.approx(first - np.log2(np.mean(2.0**-lengths, axis=0)), rel=1e-4)


@pytest.mark.parametrize("scale", [0.01, 1.0, 1000.0])
def test_the_code_never_costs_much_more_than_knowing_nothing(scale):
    states, labels = synthetic.make_states(layers=4, pairs=60, hidden=64, signal=0.0)
    scaled = (states * scale).astype(np.float32)
    mixed, own = codelengths(scaled, labels, np.arange(120) // 2, orders=2, seed=0, settings=SETTINGS)
    longer = np.log2(len(TEMPERATURES)) + 1e-9
    assert (mixed <= 120 + longer).all()
    assert scale < 1000 or (own > 1000).all()  # what the probe's own probabilities would cost


def test_one_pair_has_nothing_to_be_coded_by():
    states, labels = synthetic.make_states(layers=2, pairs=1)
    mixed, own = codelengths(states, labels, np.zeros(2, int), orders=3, seed=0, settings=SETTINGS)
    assert mixed.tolist() == own.tolist() == [2.0, 2.0]


def test_the_accuracy_is_the_study_s_probe_s_and_the_result_is_json():
    problem = synthetic.make_problem(layers=4, pairs=48, signal=0.7)
    result = measured(problem, seed=9)
    _, layers, _ = probes.measure(problem, seed=9, settings=synthetic.PROBE)
    assert [row["accuracy"] for row in result["layers"]] == [row["accuracy"] for row in layers]
    assert canonical_json(result) == canonical_json(measured(problem, seed=9))
    assert (result["train_pairs"], result["test_pairs"]) == (38, 10)
    assert result["mean"]["significant_layers"] == sum(row["significant"] for row in result["layers"])
    for row in result["layers"]:
        assert row["q"] >= row["p"]
        assert row["selectivity"] == pytest.approx(row["accuracy"] - row["control_accuracy"])
    assert result["max"]["accuracy"] == max(row["accuracy"] for row in result["layers"])


def test_the_logistic_solver_is_measured_too():
    problem = synthetic.make_problem(layers=2, pairs=40, hidden=8, signal=2.0)
    result = measured(problem, solver="logistic", permutations=9)
    assert result["settings"]["solver"] == "logistic"
    assert result["layers"][0]["p"] == 0.1
    assert result["layers"][0]["compression"] > 1.3


def test_without_contrast_words_what_needs_none_is_still_there():
    problem = synthetic.make_problem(layers=2)
    result = measured(problem, [[]] * 40)
    assert "no contrast words" in result["control"]["refused"]
    assert "no contrast words" in result["lexeme_split"]["refused"]
    assert [row["selectivity"] for row in result["layers"]] == [None, None]
    assert all(row["p"] > 0 and row["codelength_bits"] > 0 for row in result["layers"])
    canonical_json(result)


def test_some_pairs_without_contrast_words_are_an_error_that_names_them():
    contrast = own_words(40)
    contrast[3] = contrast[17] = []
    with pytest.raises(DatasetError, match="none in p003, p017"):
        measured(synthetic.make_problem(), contrast)


def test_words_that_cannot_be_left_out_are_a_reason_not_a_failure():
    result = measured(synthetic.make_problem(layers=2), [["is", "are"], ["are", "is"]] * 20)
    assert "tie 40 of 40 pairs" in result["lexeme_split"]["refused"]
    assert result["lexeme_split"]["accuracy"] is None
    assert result["control"]["words"] == 2


def test_contrast_words_of_another_dataset_are_refused():
    with pytest.raises(DatasetError, match="given for 39 pairs, the activations are of 40"):
        measured(synthetic.make_problem(), own_words(39))
