"""Picks of the tables, verb-out with its verdicts, and critical noise: hand-made cases and simulation."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from strataprobe import recoverability
from strataprobe.recoverability.leave_out import HeldOut
from strataprobe.recoverability.measure import _noise
from strataprobe.recoverability.picks import picks
from strataprobe.recoverability.verbs import clean_window, verb_table, verdict
from tests import control_items

SETTINGS = {**control_items.SETTINGS, "epochs": 40, "permutations": 19}
SUBJECT, OBJECT = "subject_control", "object_control"


def measured(items, states, **changes):
    data = control_items.dataset(items)
    return recoverability.measure(states, data, first_layer=0, settings={**SETTINGS, **changes})


def correct_of(counts, items=4):
    """(modes, seeds, layers, items) with so many right items, the first ones, from (modes, seeds, layers)."""
    return np.arange(items) < np.array(counts)[..., None]


def test_picks_are_those_of_the_tables():
    masks = {"all": np.ones(4, bool), SUBJECT: np.arange(4) < 2, OBJECT: np.arange(4) >= 2}
    places = [{"layer": k, "block": k - 1, "depth": k / 2} for k in range(3)]
    # Two modes, three seeds, three layers.
    counts = [[[1, 4, 2], [1, 1, 3], [1, 1, 3]], [[2, 2, 3], [2, 2, 3], [3, 2, 2]]]
    found = picks(correct_of(counts), masks, (SUBJECT, OBJECT), places, ["ab", "v"], [7, 8, 9])
    # Means over seeds of right items: ab 1, 2, 8/3; v 7/3, 2, 8/3. Equal ones: the first mode.
    assert (found["global"]["layer"], found["global"]["mode"]) == (2, "ab")
    assert found["global"]["seeds"] == {"7": 0.5, "8": 0.75, "9": 0.75}
    assert found["global"]["accuracy"] == pytest.approx(2 / 3)
    assert found["global"]["sd"] == pytest.approx(np.std([0.5, 0.75, 0.75]))
    assert found["global"]["splits"] == pytest.approx({"all": 2 / 3, SUBJECT: 1.0, OBJECT: 1 / 3})
    assert (found["seeds"]["7"]["layer"], found["seeds"]["7"]["mode"]) == (1, "ab")
    assert found["seeds"]["7"]["splits"] == {"all": 1.0, SUBJECT: 1.0, OBJECT: 1.0}
    assert (found["seeds"]["9"]["layer"], found["seeds"]["9"]["mode"]) == (0, "v")
    assert (found["modes"]["v"]["layer"], found["modes"]["v"]["accuracy"]) == (2, pytest.approx(2 / 3))
    # Subject control is right from two items on: layer 0 of v is the first with 2, 2 and 2.
    assert (found["types"][SUBJECT]["layer"], found["types"][SUBJECT]["mode"]) == (0, "v")
    assert found["types"][SUBJECT]["accuracy"] == 1.0
    assert (found["types"][OBJECT]["layer"], found["types"][OBJECT]["accuracy"]) == (1, pytest.approx(1 / 3))


@pytest.mark.parametrize(
    ("gap", "item_out", "said"),
    [
        (0.0999, 0.75, "clean"), (-0.0999, 0.8, "clean"), (0.05, 0.7499, "learned nothing"),
        (0.10, 0.9, "partial"), (0.2999, 0.2, "partial"), (0.30, 0.9, "leakage-dominant"),
        (-0.10, 0.9, "unstable"), (-0.5, 0.2, "unstable"),
    ],
)  # fmt: skip
def test_verdicts_at_their_thresholds(gap, item_out, said):
    assert verdict(gap, item_out, SETTINGS) == said


def test_the_clean_window_is_the_longest_unbroken_run():
    item_out = [0.95, 0.95, 0.80, 0.95, 0.95, 0.95, 1.00, 0.95]
    out = [0.95, 0.90, 0.95, 0.95, 0.91, 0.90, 0.90, 0.89]
    gap = [one - other for one, other in zip(item_out, out, strict=True)]
    gap[6] = 0.10
    assert clean_window(item_out, out, gap, SETTINGS) == (3, 5)
    assert clean_window(item_out[:3], out[:3], gap[:3], SETTINGS) == (0, 1)
    assert clean_window([0.8], [0.8], [0.0], SETTINGS) is None
    # A negative gap is below the threshold, too: only accuracies and the gap's upper end count.
    assert clean_window([0.9], [1.0], [-0.1], SETTINGS) == (0, 0)


def test_verb_out_is_pooled_over_folds_and_split_by_type_within_a_seed():
    masks = {SUBJECT: np.arange(20) < 10, OBJECT: np.arange(20) >= 10}
    labels = np.where(masks[SUBJECT], 1, -1)

    def right(subject, other):
        """(1, 2, 1, 20): so many of each type's ten, by seed."""
        rows = [np.r_[np.arange(10) < a, np.arange(10) < b] for a, b in zip(subject, other, strict=True)]
        return np.array(rows)[None, :, None]

    table = verb_table(
        right([10, 9], [8, 9]), right([9, 8], [9, 9]), labels, masks,
        [{"layer": 0, "block": None, "depth": 0.0}], ["bv"], [1, 2], SETTINGS,
    )  # fmt: skip
    subject = table["modes"]["bv"]["types"][SUBJECT]
    assert subject["item_out"] == [0.95]
    assert subject["item_out_sd"] == [pytest.approx(np.std([1.0, 0.9], ddof=1))]
    assert subject["gap"] == [0.1]  # a tenth exactly, so no longer clean
    assert subject["verdict"] == ["partial"]
    other = table["modes"]["bv"]["types"][OBJECT]
    assert (other["gap"], other["verdict"]) == ([-0.05], ["clean"])
    assert table["modes"]["bv"]["balanced_accuracy"] == [pytest.approx((0.85 + 0.9) / 2)]
    assert table["peaks"][SUBJECT]["bv"]["verb_out"] == 0.85
    assert table["clean_window"][SUBJECT]["bv"] is None


def test_a_memory_of_verbs_leaks_and_control_itself_does_not():
    # Verbs that hang together by pairs two by two, three languages.
    items = control_items.make(languages=("en", "zh", "de"), pairs=6, verbs=2)
    how = {"layers": 2, "hidden": 40, "seed": 3}
    memory = measured(
        items, control_items.make_states(items, verbs=5.0, **how), codings=["paper"], modes=["v"]
    )
    control = measured(
        items, control_items.make_states(items, signal=8.0, **how), codings=["paper"], modes=["v"]
    )
    for found, least, most in ((memory, 0.3, 1.0), (control, -0.1, 0.1)):
        for kind in (SUBJECT, OBJECT):
            rows = found["codings"]["paper"]["verb_out"]["modes"]["v"]["types"][kind]
            assert min(rows["item_out"]) > 0.8
            assert least <= min(rows["gap"])
            assert max(rows["gap"]) < most
    said = control["codings"]["paper"]["verb_out"]
    assert said["clean_window"][SUBJECT]["v"] == {
        "blocks": [None, 0],
        "depth": [0.0, 1.0],
        "layers": [0, 1],
    }
    assert said["balanced"]["modes"]["v"]["balanced_accuracy"][0] > 0.9
    assert memory["codings"]["paper"]["verb_out"]["balanced"]["modes"]["v"]["balanced_accuracy"][0] < 0.75
    assert (
        control["codings"]["paper"]["null"]["verb_out"]["p"]
        < memory["codings"]["paper"]["null"]["verb_out"]["p"]
    )


def test_at_the_critical_noise_accuracy_of_noisy_features_is_the_threshold():
    rng = np.random.default_rng(2)
    items, hidden = 40, 6
    labels = np.tile([1, -1], items // 2)
    told = rng.standard_normal((items, hidden)) + 0.8 * labels[:, None]
    weights = rng.standard_normal((items, hidden)) * 0.3 + 1
    logits = (told * weights).sum(axis=1)
    norms = np.linalg.norm(weights, axis=1)
    held = HeldOut(
        logits[None, None].astype(np.float32), norms[None, None].astype(np.float32),
        np.full((1, items), 2.5, np.float32), labels,
    )  # fmt: skip
    found = _noise(held, {**SETTINGS, "seeds": [4]})
    sigma = found["raw"]["4"][0]
    assert found["rms"]["4"][0] == pytest.approx(sigma / 2.5, rel=1e-6)
    noise = rng.standard_normal((20_000, items, hidden)).astype(np.float32)
    noisy = logits + sigma * np.einsum("nid,id->ni", noise, weights.astype(np.float32))
    right = ((noisy > 0) == (labels > 0)).mean(axis=1)
    assert right.mean() == pytest.approx(0.6, abs=4 * right.std() / np.sqrt(20_000))
    assert norm.cdf(labels * logits / norms / sigma).mean() == pytest.approx(0.6, abs=1e-6)
    below = _noise(replace(held, labels=-labels), {**SETTINGS, "seeds": [4]})
    assert below == {"raw": {"4": [None]}, "rms": {"4": [None]}}
