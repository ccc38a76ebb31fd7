"""A trained probe on paraphrases and on an adversarial set: differences and their intervals."""

import numpy as np
import pytest

from strataprobe import controls, probes
from strataprobe.errors import DatasetError
from strataprobe.files import canonical_json


def reader(layers=2, hidden=3):
    """Probes that read the sign of the first coordinate."""
    weights = np.zeros((2, layers, hidden), np.float32)
    weights[:, :, 0] = 1
    zeros = np.zeros((2, layers), np.float32)
    return probes.Trained(weights, zeros, zeros + 1, zeros)


def states_read_as(signs, layers=2, hidden=3):
    states = np.random.default_rng(0).standard_normal((layers, len(signs), hidden)).astype(np.float32)
    states[:, :, 0] = signs
    return states


LABELS, PAIRS = np.tile([1, -1], 20), np.arange(40) // 2


def test_paraphrases_that_read_the_same_differ_by_nothing():
    states = states_read_as(LABELS)
    found = controls.paraphrase_transfer(reader(), states, 3 * states, LABELS, PAIRS, 100, 0)
    assert found["pairs"] == 20
    for row in (*found["layers"], found["mean"]):
        assert (row["original"], row["accuracy"], row["difference"], row["agreement"]) == (1, 1, 0, 1)
        assert row["difference_interval"] == [0, 0]
    canonical_json(found)


def test_a_paired_difference_and_its_interval_are_those_of_drawing_pairs_by_hand():
    rng = np.random.default_rng(1)
    right, after = (np.where(rng.random(40) < share, LABELS, -LABELS) for share in (0.9, 0.6))
    found = controls.paraphrase_transfer(
        reader(), states_read_as(right), states_read_as(after), LABELS, PAIRS, 4000, 0
    )
    change = (after == LABELS).astype(float) - (right == LABELS)
    drawn = rng.integers(20, size=(4000, 20))
    by_hand = change.reshape(20, 2).mean(axis=1)[drawn].mean(axis=1)
    for row in (*found["layers"], found["mean"]):
        assert row["difference"] == pytest.approx(change.mean())
        assert row["agreement"] == pytest.approx((right == after).mean())
        assert row["difference_interval"] == pytest.approx(np.percentile(by_hand, [2.5, 97.5]), abs=0.03)


def test_an_adversarial_set_is_read_whole_and_by_group():
    signs = LABELS.copy()
    signs[20:] *= -1  # the second group is read the wrong way round
    groups = ["length"] * 20 + ["position"] * 20
    original = np.where(np.arange(40) < 4, -LABELS, LABELS)
    found = controls.adversarial_transfer(
        reader(),
        states_read_as(original),
        LABELS,
        PAIRS,
        states_read_as(signs),
        LABELS,
        PAIRS,
        groups,
        400,
        0,
    )
    assert found["mean"]["original"] == pytest.approx(0.9)
    assert found["mean"]["accuracy"] == pytest.approx(0.5)
    assert found["mean"]["difference"] == pytest.approx(-0.4)
    low, high = found["mean"]["difference_interval"]
    assert low < -0.4 < high < 0
    assert {name: part["mean"]["accuracy"] for name, part in found["groups"].items()} == {
        "length": 1.0,
        "position": 0.0,
    }
    assert [part["pairs"] for part in found["groups"].values()] == [10, 10]
    # Only the originals vary within this group: the interval is theirs, turned round.
    low, high = found["groups"]["length"]["mean"]["difference_interval"]
    assert 0 <= low < 0.1 < high
    canonical_json(found)


def test_the_two_samples_of_an_adversarial_comparison_are_drawn_apart():
    """The same sentences on both sides, drawn together, would differ by nothing."""
    signs = np.where(np.arange(40) % 8 < 2, -LABELS, LABELS)
    states = states_read_as(signs)
    found = controls.adversarial_transfer(
        reader(), states, LABELS, PAIRS, states, LABELS, PAIRS, ["a"] * 40, 2000, 0
    )
    low, high = found["mean"]["difference_interval"]
    # Two independent means over 20 pairs of 0/1 with share 0.75: sd sqrt(2 x 0.1875 / 20).
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(2 * 0.1875 / 20), rel=0.15)


def test_counterparts_are_found_by_id():
    assert controls.matched_items(["b", "a"], ["a", "c", "b"]).tolist() == [2, 0]
    with pytest.raises(DatasetError) as caught:
        controls.matched_items(["b", "x", "y"], ["b"])
    assert "2 problems" in str(caught.value)
    assert "'x'" in str(caught.value)


def test_states_of_another_shape_are_refused():
    states = states_read_as(LABELS)
    with pytest.raises(ValueError, match="paraphrases"):
        controls.paraphrase_transfer(reader(), states, states[:, :10], LABELS, PAIRS, 10, 0)
    with pytest.raises(ValueError, match="for 2 layers"):
        controls.paraphrase_transfer(reader(), states[:1], states[:1], LABELS, PAIRS, 10, 0)
