"""Groups of pairs as classes: the probes are scikit-learn's, and a group left out goes where it lies."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from strataprobe import files, routing
from strataprobe.concentration import Partition, Thresholds
from strataprobe.errors import DatasetError, ProbeError, StrataprobeError, numbered

GROUPS = ("care", "fair", "loyal", "order", "pure")
PARTITION = Partition(("self", "others"), {
    "care": "others", "fair": "others", "loyal": "self", "order": "self", "pure": "self",
})  # fmt: skip
SETTINGS = {"C": 1.0, "tolerance": 1e-9, "max_iterations": 100, "folds": 4, "bootstrap": 50, "seed": 3}


def pairs(centres, *, each=8, hidden=10, layers=2, noise=1.0, seed=0):
    """States of pairs by group: positives around the group's centre, negatives anywhere.

    Returns what `many_class_rows` takes: states (layers, items, hidden), ids, labels and groups.
    """
    rng = np.random.default_rng(seed)
    names = [group for _ in range(each) for group in GROUPS for _ in range(2)]
    labels = np.tile([1, -1], len(names) // 2)
    states = noise * rng.standard_normal((layers, len(names), hidden))
    for row, (name, label) in enumerate(zip(names, labels.tolist(), strict=True)):
        states[:, row] += centres[name] if label > 0 else 50 * rng.standard_normal(hidden)
    # Not in the order of the ids, as pairs of a file need not be.
    ids = [f"p{(row // 2 * 7) % 40:02d}:{'+' if row % 2 == 0 else '-'}" for row in range(len(names))]
    return states.astype(np.float32), ids, labels, names


def rows(states, ids, labels, groups, *, partition=PARTITION, **changes):
    return routing.many_class_rows(
        states, ids, labels, groups, name="reach", partition=partition, settings={**SETTINGS, **changes},
        thresholds=Thresholds(),
    )  # fmt: skip


def random_centres(seed=0, hidden=10):
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(hidden) for name in GROUPS}


def probe():
    return LogisticRegression(tol=1e-10, solver="newton-cholesky")


def test_both_kinds_of_probe_are_scikit_learn_s():
    states, ids, labels, groups = pairs(random_centres())
    found = rows(states, ids, labels, groups)
    assert [row["layer"] for row in found] == [0, 1]
    order = sorted(np.flatnonzero(labels > 0), key=lambda row: ids[row])
    group = np.array([groups[row] for row in order])
    side = np.array([PARTITION.of[name] for name in group])
    for row, of_layer in zip(found, states.astype(float), strict=True):
        x = of_layer[order]
        inside, outside = group.copy(), group.copy()
        folds = StratifiedKFold(SETTINGS["folds"], shuffle=True, random_state=SETTINGS["seed"])
        for kept, held in folds.split(x, group):
            inside[held] = probe().fit(x[kept], group[kept]).predict(x[held])
        for name in GROUPS:
            held = group == name
            outside[held] = probe().fit(x[~held], group[~held]).predict(x[held])
        sent_in, sent_out = (np.array([PARTITION.of[name] for name in by]) for by in (inside, outside))
        assert row["class_accuracy"] == pytest.approx((inside == group).mean())
        assert row["property_accuracy"] == pytest.approx((sent_in == side).mean())
        assert row["coarse_accuracy"] == pytest.approx((sent_out == side).mean())
        assert row["side_mass"] == pytest.approx((sent_out == "others").mean())
        shares = {
            where: [max((by[group == name] == to).mean() for to in GROUPS) for name in GROUPS]
            for where, by in (("in_", inside), ("", outside))
        }
        for where, own in shares.items():
            assert row[f"{where}p_top_min"] == pytest.approx(min(own))
            assert row[f"{where}p_top_mean"] == pytest.approx(np.mean(own))
        marginal = np.array([(outside == name).mean() for name in GROUPS])
        assert row["max_share"] == pytest.approx(marginal.max())
        assert row["top_class"] == GROUPS[int(marginal.argmax())]
        assert row["hhi"] == pytest.approx((marginal**2).sum())
        assert row["effective_targets"] == pytest.approx(1 / (marginal**2).sum())
        assert (row["partition"], row["classes"], row["items"], row["stimuli"]) == ("reach", 5, 5, 40)
        assert row["depth"] == row["layer"] / 2


def test_a_group_left_out_goes_to_the_groups_beside_it():
    """Sides lie apart, and the groups of a side lie close: what is left out stays on its side."""
    centre = {
        name: 6 * np.eye(10)[0] * (1 if PARTITION.of[name] == "self" else -1) + 2 * np.eye(10)[1 + number]
        for number, name in enumerate(GROUPS)
    }
    for row in rows(*pairs(centre)):
        assert row["coarse_accuracy"] == 1.0
        assert row["property_accuracy"] == 1.0
        # `care` and `fair` have one neighbour each, so these two go to one class, and the others to two.
        assert row["side_mass"] == pytest.approx(2 / 5)
    for row in rows(*pairs(centre), partition=Partition(("a", "b"), dict(zip(GROUPS, "abbaa", strict=True)))):
        assert row["coarse_accuracy"] < 0.8, "another partition of the same predictions"
        assert row["property_accuracy"] > 0.8


def test_a_group_that_goes_to_one_class_alone_is_a_lucky_default():
    """Every group has one nearest neighbour, of its own side: deterministic, and all on the right side."""
    spots = {"care": (9, 0), "fair": (9, 2), "loyal": (-9, 0), "order": (-9, 2), "pure": (-9, 3)}
    centre = {name: np.eye(10)[0] * x + np.eye(10)[1] * y for name, (x, y) in spots.items()}
    for row in rows(*pairs(centre, noise=0.1)):
        assert (row["coarse_accuracy"], row["p_top_min"], row["verdict"]) == (1.0, 1.0, "lucky default")


def test_negative_sentences_and_the_order_of_items_change_nothing():
    states, ids, labels, groups = pairs(random_centres(2))
    first = rows(states, ids, labels, groups)
    other = states.copy()
    other[:, labels < 0] *= -3
    assert rows(other, ids, labels, groups) == first
    order = np.random.default_rng(1).permutation(len(ids))
    turned = rows(states[:, order], [ids[i] for i in order], labels[order], [groups[i] for i in order])
    assert turned == first
    assert files.canonical_json(first)


def test_a_partition_that_does_not_fit_is_refused_with_every_group():
    given = pairs(random_centres())
    missing = replace(PARTITION, of={name: PARTITION.of[name] for name in ("care", "loyal", "order")})
    with pytest.raises(StrataprobeError) as error:
        rows(*given, partition=missing)
    assert "'fair' is on no side" in str(error.value)
    assert "'pure' is on no side" in str(error.value)
    with pytest.raises(StrataprobeError, match="is on the side 'others'"):
        rows(*given, partition=replace(PARTITION, of=dict.fromkeys(GROUPS, "self")))


def test_groups_that_are_too_small_and_sides_of_one_group_are_refused_together():
    states, ids, labels, groups = pairs(random_centres())
    kept = np.array([name != "fair" or int(one[1:3]) < 10 for one, name in zip(ids, groups, strict=True)])
    lone = replace(PARTITION, of={**PARTITION.of, "fair": "self"})
    with pytest.raises(DatasetError) as error:
        rows(
            states[:, kept], np.array(ids)[kept].tolist(), labels[kept], np.array(groups)[kept].tolist(),
            partition=lone,
        )  # fmt: skip
    count = int((kept & (labels > 0) & (np.array(groups) == "fair")).sum())
    assert 0 < count < SETTINGS["folds"]
    assert str(error.value) == (
        "partition 'reach': 2 problems\n"
        f"  group 'fair' has {numbered(count, 'pair')}, fewer than the 4 folds of cross-validation\n"
        "  side 'others' has the group 'care' alone: with it left out, no class is on that side"
    )


def test_states_that_are_not_finite_and_too_few_steps_are_refused():
    states, ids, labels, groups = pairs(random_centres())
    with pytest.raises(ProbeError, match="of 5 groups did not converge in 1 iterations"):
        rows(states, ids, labels, groups, max_iterations=1)
    states[1, 4] = np.nan
    with pytest.raises(ProbeError, match="features of 1 item are not finite, in problems \\[1\\]"):
        rows(states, ids, labels, groups)
