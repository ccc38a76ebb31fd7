"""Summaries of a small made-up study over training, measured by the library on states of known make."""

import json
from functools import cache
from types import SimpleNamespace

import numpy as np

import measure_transfer
from strataprobe import controls, files, probes
from strataprobe.datasets import floors
from strataprobe.datasets.pairs import Pair, PairsDataset
from strataprobe.probes import by_group
from tests import synthetic

STEPS = (0, 10, 20, 40)
SEEDS = (42, 43)
GROUPS = ("care_harm", "role_reversal", "third")
PAIRS, LAYERS, HIDDEN = 12, 3, 8  # pairs a group
SIGNAL = {0: 0.0, 10: 0.4, 20: 1.0, 40: 2.5}  # by step, how far apart the two sides are

PROBE = {**synthetic.PROBE, "permutations": 20}
TRANSFER = {
    "C": 1.0,
    "bootstrap": 100,
    "conventions": "default",
    "folds": 4,
    "max_iterations": 1000,
    "pooling": "mean_rest",
    "seed": 42,
    "singled_out": ["role_reversal"],
}
FLOORS = {"bootstrap": 100, "characters": [1, 3], "folds": 4, "margin": 0.1, "max_iter": 1000}
CONTROLS = {"code_orders": 1, "control_tasks": 2, "false_discovery": 0.05, "permutations": 20}
WORDS = ["harbor", "lantern", "meadow", "copper", "window", "basket", "river", "saddle", "pepper", "candle"]


@cache
def dataset(name: str = "moral") -> PairsDataset:
    """Pairs of drawn words, one swapped for a cue that recurs in most pairs of its side, not in all."""
    rng = np.random.default_rng(5)
    pairs = []
    for number in range(len(GROUPS) * PAIRS):
        words = rng.choice(WORDS, 6).tolist()
        sides = ["good", "bad"] if rng.random() < 0.8 else ["bad", "good"]
        positive, negative = (" ".join([*words, side]) + "." for side in sides)
        group = GROUPS[number // PAIRS]
        pairs.append(
            Pair(id=f"p{number:03d}", group=group, positive=positive, negative=negative, contrast=sides)
        )
    return PairsDataset(name=name, path=f"{name}.jsonl", pairs=tuple(pairs), sha256="b" * 64)


def states(step: int, strength: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """(layers, items, hidden) and labels; the same noise at every step, so that accuracy rises."""
    signal = strength * SIGNAL[step]
    return synthetic.make_states(layers=LAYERS, pairs=len(GROUPS) * PAIRS, hidden=HIDDEN, signal=signal)


def item_groups() -> list[str]:
    return [group for group in GROUPS for _ in range(2 * PAIRS)]


def problem(step: int, strength: float = 1.0, test_pairs: int = 4) -> probes.Problem:
    """The last pairs of each group are held out."""
    made, labels = states(step, strength)
    pair = np.arange(len(labels)) // 2
    held = pair % PAIRS >= PAIRS - test_pairs
    sides = np.flatnonzero(~held), np.flatnonzero(held)
    return probes.Problem(made, labels, pair, synthetic.make_ids(len(labels)), *sides, "mean_rest", "0" * 64)


def framed(found, step, seed, metadata, name="moral", model="made-up"):
    """As a job writes it and another reads it back."""
    identity = {
        "model": model, "source": "local", "layers": LAYERS, "step": step, "revision": f"step{step}",
        "weights_sha256": "a" * 64,
    }  # fmt: skip
    summary = probes.framed(
        found, benchmark="made-up", identity=identity, dataset=name, seed=seed, metadata=metadata,
        settings={}, activations=synthetic.PROVENANCE,
    )  # fmt: skip
    return json.loads(files.canonical_json(summary))


@cache
def lexical() -> dict:
    return floors.measure(dataset(), seeds=[42], settings=FLOORS)


@cache
def floor_file(name: str = "moral") -> dict:
    return json.loads(files.canonical_json({"dataset": name, **lexical()}))


@cache
def transfer_summary(step: int, folds: int = 4) -> dict:
    made, labels = states(step)
    acts = SimpleNamespace(
        labels=labels,
        pairs=np.arange(len(labels)) // 2,
        groups=item_groups(),
        ids=synthetic.make_ids(len(labels)),
        layers=["layer_00"],
        token_counts=np.full(len(labels), 8),
        stack=lambda pooling: made,
    )
    settings = {**TRANSFER, "folds": folds}
    found = measure_transfer.measure(acts, dataset(), lexical(), settings, FLOORS)
    return framed(found, step, None, {"conventions": "default", "pooling": "mean_rest"})


@cache
def foundations_summary(step: int, seed: int, permutations: int = 20) -> dict:
    settings = {**PROBE, "permutations": permutations}
    found = by_group.measure(problem(step), item_groups(), seed=seed, settings=settings)
    return framed(found, step, seed, {**by_group.metadata(settings), "pooling": "mean_rest"})


@cache
def probe_summary(step: int, seed: int, name: str = "moral", strength: float = 1.0) -> dict:
    posed = problem(step, strength)
    _, _, measured = probes.measure(posed, seed=seed, settings=PROBE)
    return framed(measured, step, seed, probes.metadata(posed, PROBE), name)


@cache
def controls_summary(step: int, seed: int) -> dict:
    posed, pairs = problem(step), dataset()
    settings = {**PROBE, **CONTROLS}
    found = controls.measure(
        posed, [pair.contrast for pair in pairs.pairs], seed=seed, settings=settings, groups=pairs.groups
    )
    trained, _, _ = probes.measure(posed, seed=seed, settings=PROBE)
    test = posed.labels[posed.test], posed.pairs[posed.test]
    others = posed.states, posed.labels, posed.pairs, item_groups()
    found["validity"] = {
        "swapped": controls.adversarial_transfer(trained, posed.test_states, *test, *others, 50, seed),
        "said_again": controls.paraphrase_transfer(
            trained, posed.test_states, posed.test_states, *test, 50, seed
        ),
    }
    return framed(found, step, seed, probes.metadata(posed, PROBE))


def worded_controls(step: int, seed: int) -> dict:
    """Controls of a set whose contrast words can be left out, as `controls.measure` says it of one."""
    values = [0.5, 0.75, 0.875]
    split = {
        "refused": None,
        "accuracy": values,
        "interval": [[value - 0.1, value + 0.1] for value in values],
        "mean_accuracy": sum(values) / len(values),
        "mean_interval": [0.6, 0.8],
    }
    return {**controls_summary(step, seed), "lexeme_split": split}
