"""The published probes in one batched solve: equal to a plain loop, blind to what they hold out."""

from itertools import product

import numpy as np
import pytest
import torch

from bench import recoverability as bench
from strataprobe.probes.solve import initial_columns, solve_adam, solve_many
from strataprobe.probes.training import initial_probe
from strataprobe.recoverability.codings import CODINGS, MODES, coded, features
from strataprobe.recoverability.folds import all_folds
from strataprobe.recoverability.leave_out import leave_out
from tests import control_items

SETTINGS = {"seeds": [1729, 2718], "learning_rate": 0.01, "epochs": 12}


def plain_loop(told, labels, held_out, start, epochs):
    """nn.Linear with Adam on the items that are not held out; (logits of those held out, |w|)."""
    kept = torch.tensor([item not in held_out for item in range(len(told))])
    states, target = torch.from_numpy(told), torch.from_numpy((labels > 0).astype(np.float32))
    probe = torch.nn.Linear(told.shape[1], 1)
    with torch.no_grad():
        probe.weight[0], probe.bias[0] = torch.from_numpy(start[:-1]), float(start[-1])
    optimiser = torch.optim.Adam(probe.parameters(), lr=0.01)
    for _ in range(epochs):
        optimiser.zero_grad()
        loss = torch.nn.functional.binary_cross_entropy_with_logits(probe(states[kept])[:, 0], target[kept])
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        return probe(states[~kept])[:, 0].numpy(), float(probe.weight.norm())


@pytest.fixture(scope="module")
def solved():
    items = control_items.make(pairs=3)
    states = control_items.make_states(items, layers=2, hidden=7)
    schemes, refused = all_folds(items)
    assert refused == {}
    codings = [coded(items, name) for name in CODINGS]
    found = leave_out(states, codings, list(schemes.values()), settings=SETTINGS, first_layer=1)
    return states, codings, schemes, found


@pytest.mark.parametrize("scheme", ["item_out", "pair_out", "group_out", "verb_out", "balanced"])
def test_every_probe_is_that_of_a_torch_loop_over_its_fold(solved, scheme):
    states, codings, schemes, found = solved
    folds = schemes[scheme]
    for (place, seed), coding, mode in product(enumerate(SETTINGS["seeds"]), codings, MODES):
        held = found[coding.name, scheme, mode]
        told = features({p: values[1] for p, values in states.items()}, mode, coding.swapped)
        for fold in range(len(folds.names)):
            own = np.flatnonzero(folds.held == fold)
            start = initial_probe(2, told.shape[1], seed + folds.stride * fold)
            logits, norm = plain_loop(told, coding.labels, own.tolist(), start, SETTINGS["epochs"])
            assert held.logits[place, 1, own] == pytest.approx(logits, abs=2e-5)
            assert held.norms[place, 1, own] == pytest.approx(norm, rel=1e-5)
            right = (torch.sigmoid(torch.from_numpy(logits)).numpy() >= 0.5) == (coding.labels[own] > 0)
            assert np.array_equal(held.correct[place, 1, own], right)


def test_training_rms_is_of_the_items_a_fold_trains_on(solved):
    states, codings, schemes, found = solved
    coding = codings[1]
    told = features({p: s[1] for p, s in states.items()}, "abv", coding.swapped).astype(float)
    rms = found[coding.name, "pair_out", "abv"].rms[1]
    for item in (0, 5):
        kept = schemes["pair_out"].held != schemes["pair_out"].held[item]
        assert rms[item] == pytest.approx(np.sqrt((told[kept] ** 2).mean()), rel=1e-6)


def test_what_is_held_out_moves_no_probe(solved):
    """Change item 3 beyond recognition: of leave-one-out, only its own probe stays as it was."""
    states, codings, schemes, found = solved
    changed = {position: values.copy() for position, values in states.items()}
    for values in changed.values():
        values[:, 3] = 100 - 3 * values[:, 3]
    again = leave_out(changed, codings[:1], [schemes["item_out"]], settings=SETTINGS, first_layer=1)
    for mode in MODES:
        before, after = (one["paper", "item_out", mode] for one in (found, again))
        same = np.isclose(before.norms, after.norms, rtol=1e-5).all(axis=(0, 1))
        assert same[3]
        assert same.sum() == 1
        assert np.isclose(before.rms, after.rms, rtol=1e-5).all(axis=0).tolist() == same.tolist()


def test_probes_do_not_depend_on_what_is_solved_beside_them(solved):
    states, codings, schemes, found = solved
    alone = leave_out(
        {position: values[1:] for position, values in states.items()},
        codings[1:],
        [schemes["verb_out"]],
        settings={**SETTINGS, "seeds": SETTINGS["seeds"][1:]},
        first_layer=2,
        modes=["bv"],
    )
    (held,) = alone.values()
    assert set(alone) == {("decorrelated", "verb_out", "bv")}
    both = found["decorrelated", "verb_out", "bv"]
    assert held.logits[0, 0] == pytest.approx(both.logits[1, 1], abs=1e-5)


def test_columns_start_where_their_seed_says():
    start = initial_columns([0, 4], 6, [9, 3, 9])
    assert start.shape == (2, 7, 3)
    for row, layer in enumerate((0, 4)):
        for column, seed in enumerate((9, 3, 9)):
            assert np.array_equal(start[row, :, column], initial_probe(layer, 6, seed))
    wide = initial_columns([0], 400, list(range(200)))
    # nn.Linear(400, 1): uniform within +-1/20, so of sd 1/20/sqrt(3); 80,200 draws.
    assert np.abs(wide).max() <= 0.05
    assert wide.std() == pytest.approx(0.05 / np.sqrt(3), rel=0.01)
    assert len(np.unique(wide)) > 80_000


def test_columns_of_one_start_are_the_study_s_own_solver():
    rng = np.random.default_rng(3)
    states = rng.standard_normal((3, 20, 5)).astype(np.float32)
    labels = np.where(rng.random((4, 20)) < 0.5, -1, 1)
    used = rng.random((4, 20)) < 0.8
    settings = {"solver": "adam", "learning_rate": 0.01, "epochs": 20}
    weights, biases = solve_many(states, labels, used, seed=8, settings=settings)
    own = solve_adam(states, labels, used, initial_columns(range(3), 5, [8] * 4), settings)
    assert np.array_equal(own[:, :5], weights)
    assert np.array_equal(own[:, 5:], biases)


def test_blocks_of_columns_and_layers_change_nothing(monkeypatch):
    from strataprobe.probes import solve

    rng = np.random.default_rng(4)
    states = rng.standard_normal((5, 12, 30)).astype(np.float32)
    labels = np.where(rng.random((70, 12)) < 0.5, -1, 1)
    used = rng.random((70, 12)) < 0.9
    start = initial_columns(range(5), 30, list(range(70)))
    whole = solve_adam(states, labels, used, start, SETTINGS)
    monkeypatch.setattr(solve, "_CACHED_BYTES", 1)
    monkeypatch.setattr(solve, "_FEWEST_COLUMNS", 9)
    parts = solve_adam(states, labels, used, start, SETTINGS)
    assert np.abs(parts - whole).max() < 1e-6


def test_a_gradient_that_is_zero_throughout_leaves_weights_where_they_were():
    """Epsilon keeps 0 / 0 out: a feature that is 0 in all items has no gradient, ever."""
    states = np.random.default_rng(0).standard_normal((1, 8, 3)).astype(np.float32)
    states[..., 1] = 0
    labels = np.array([[1, -1] * 4])
    start = initial_columns([0], 3, [5])
    weights = solve_adam(states, labels, np.ones((1, 8), bool), start, SETTINGS)
    assert np.isfinite(weights).all()
    assert weights[0, 1, 0] == start[0, 1, 0]


def test_the_comparison_finds_identical_predictions_and_notices_others(monkeypatch):
    found = bench.measure(shape=(2, 12, 8), sample=3, repeats=1)
    assert found.numbers["differing predictions"] == "0 of 15"
    assert float(found.numbers["largest difference of a held-out logit"]) < 1e-4
    monkeypatch.setattr(bench, "torch_fit", lambda states, coding, *fit: np.nan)
    assert not bench.measure(shape=(2, 12, 8), sample=3, repeats=1).passed
