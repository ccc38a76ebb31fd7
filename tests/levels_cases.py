"""Summaries of made-up checkpoints at three levels, written by the levels' own code and read back as JSON.

Right and wrong are drawn, so that no two levels, layers or seeds are alike by construction.
"""

import json
from functools import cache
from pathlib import Path

import numpy as np

from strataprobe import files, probes
from strataprobe.behavior.measures import measures, variants
from strataprobe.datasets.answers import describe, margins, splits
from strataprobe.datasets.control import ControlDataset, read_control
from strataprobe.datasets.frames import VARIANTS
from strataprobe.readout.measure import layer_rows, summarise
from strataprobe.readout.null import item_flips
from strataprobe.recoverability import measure as probe
from tests import synthetic

DATASETS = Path(__file__).parents[1] / "resources/datasets"
BLOCKS, HIDDEN = 3, 6
SETTINGS = {"bootstrap": 200, "conventions": "default", "seed": 1729}
PROBES = {
    "clean_gap": 0.1, "clean_window": 0.6, "codings": ["paper", "decorrelated"], "conventions": "default",
    "epochs": 20, "leak_gap": 0.3, "learning_rate": 0.05, "least_item_out": 0.75,
    "modes": ["ab", "av", "bv", "abv", "v"], "permutations": 20, "ridge": 0.1,
    "seeds": [1729, 2718, 3141], "noise_threshold": 0.6,
}  # fmt: skip


@cache
def dataset() -> ControlDataset:
    return read_control(DATASETS / "control.jsonl", "control", frames=DATASETS / "control_prompts.json")


def framed(found, level, model="made-up", step=None):
    """As a job writes it and another reads it back."""
    identity = {
        "model": model, "source": "local", "layers": BLOCKS, "step": step, "revision": f"step{step or 0}",
        "weights_sha256": "a" * 64,
    }  # fmt: skip
    summary = probes.framed(
        found, benchmark=f"control_{level}", identity=identity, dataset="control", seed=None,
        metadata={"conventions": "default"}, settings={}, activations=synthetic.PROVENANCE,
    )  # fmt: skip
    return json.loads(files.canonical_json(summary))


@cache
def behavior(seed=0, model="made-up", step=None, skill=0.4):
    """Scores of every variant; gold is ahead by `skill` sd on average."""
    rng, items = np.random.default_rng([seed, 1]), describe(dataset())
    gold = np.array([one == "a" for one in items["gold"]])
    scores = {}
    for variant in VARIANTS:
        own = rng.normal(-10, 1, (len(gold), 2))
        own[np.arange(len(gold)), np.where(gold, 0, 1)] += skill
        scores[variant] = own
    scores["contrastive"][3] = np.nan  # an item that lacks the variant
    found = {"items": items, "variants": variants(scores, items["gold"]), "measures": measures(scores, items)}
    return framed(found | {"borders": 0}, "behavior", model, step)


@cache
def readout(seed=0, model="made-up", step=None):
    rng, items = np.random.default_rng([seed, 2]), describe(dataset())
    masks, flips = splits(items), item_flips(len(items["ids"]), 50, 1)
    definitions = {}
    for name, tasks in (
        ("default", ("qa", "paraphrase")),
        ("code", ("qa", "paraphrase")),
        ("paper", ("sentence",)),
    ):
        margin = {}
        for task in tasks:
            scores = rng.normal(size=(BLOCKS + 1, len(items["ids"]), 2))
            if name == "paper":
                scores[:, [5, 20]] = np.nan  # collisions
            margin[task] = margins(scores, items["gold"])
        definitions[name] = summarise(margin, masks, flips) | {"collisions": 2 if name == "paper" else 0}
    found = {"items": items, "layers": layer_rows(BLOCKS), "definitions": definitions}
    return framed(found, "readout", model, step)


@cache
def _probed(embed: bool) -> dict:
    rng, items = np.random.default_rng(3), dataset().controls
    labels = np.array([1.0 if item.gold == "a" else -1.0 for item in items])
    layers = BLOCKS + embed
    states = {}
    for position in "abv":
        own = rng.normal(size=(layers, len(items), HIDDEN))
        own[..., 0] += labels * np.linspace(0, 0.6, layers)[:, None] * (position != "a")
        states[position] = own.astype(np.float32)
    return probe(states, dataset(), first_layer=0 if embed else 1, settings=PROBES)


def recoverability(seed=0, model="made-up", step=None, embed=True):
    """Of seed 0 as it is measured; of another, the same answers given to other items.

    Only the answers are turned: what was summed up of them stays that of seed 0.
    """
    return framed(_turned(_probed(embed), 7 * seed), "recoverability", model, step)


def _turned(found, by: int):
    """Every text of right and wrong, begun `by` items later."""
    if isinstance(found, dict):
        return {name: _turned(one, by) for name, one in found.items()}
    if isinstance(found, list):
        return [_turned(one, by) for one in found]
    if isinstance(found, str) and len(found) == len(dataset().controls) and set(found) <= set("01"):
        return found[by:] + found[:by]
    return found


def summaries(seed=0, **given):
    """The three levels of one checkpoint."""
    return behavior(seed, **given), readout(seed, **given), recoverability(seed, **given)
