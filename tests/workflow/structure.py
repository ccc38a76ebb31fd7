"""The study of `test_structure`: what is in it, and how its further jobs are called."""

from collections.abc import Sequence
from typing import Any

from tests.workflow.study import job, measuring

STEPS = ("step0000", "step0100")
SEED_OF = {"care": 42, "truth": 43}
GROUPS = {"care": ["help", "harm"], "truth": ["lies", "theft"]}
PAIRS = 10
ALL_FIGURES = ("emergence", "transfer", "foundations", "controls", "floors", "gates")
READ = ("probes", "fragility", "transfer")
# Of a dataset whose measures are READ.
READ_TABLES = ("fragility", "onsets", "probing", "scale", "trajectory", "transfer")

_WORDS = {
    "help": ("The nurse {} a child by the river.", "By the river the old nurse {} one child."),
    "harm": ("In the yard the boy {} the dog.", "The boy {} the brown dog behind that wall."),
    "lies": ("The lawyer {} an old man in town.", ""),
    "theft": ("At noon the clerk {} the red coat.", ""),
    "large": ("Today the guard saw a {} stone.", ""),
}
_POSITIVE = (
    "rescued", "helped", "saved", "healed", "fed", "hurt", "kicked", "beat", "burned", "starved",
    "fooled", "cheated", "tricked", "misled", "duped", "stole", "robbed", "snatched", "grabbed", "looted",
)  # fmt: skip
_NEGATIVE = (
    "noticed", "passed", "met", "saw", "heard", "watched", "counted", "called", "drew", "weighed",
    "joined", "asked", "phoned", "paid", "answered", "wore", "cleaned", "folded", "ironed", "moved",
)  # fmt: skip


def worded(groups: Sequence[str], *, again: bool = False, contrast: bool = True) -> list[dict[str, Any]]:
    """10 pairs a group, each with two verbs of its own; `again`: the same verbs in other sentences."""
    rows = []
    for place, group in enumerate(groups):
        for i in range(PAIRS):
            words = [verbs[(place * PAIRS + i) % len(verbs)] for verbs in (_POSITIVE, _NEGATIVE)]
            yes, no = (_WORDS[group][again].format(word) for word in words)
            row = {"id": f"{group}{i:02d}", "positive": yes, "negative": no, "group": group}
            rows.append(row | ({"contrast": words} if contrast else {}))
    return rows


def structure_config() -> dict[str, Any]:
    """A dataset with all measures, one that tests its probes, and one with seeds and measures of its own."""
    return {
        "seeds": [42],
        "measures": ["probes", "fragility", "transfer", "foundations", "controls"],
        "datasets": {
            "care": {"path": "data/care.jsonl", "bundle": "core"},
            "truth": {
                "path": "data/truth.jsonl",
                "seeds": [43],
                "measures": list(READ),
                "thresholds": {"words_at_least": 7},
            },
            "again": {
                "path": "data/again.jsonl",
                "bundle": "core",
                "profile": "paraphrase",
                "keywords": "data/keywords.txt",
                "tests": "care",
            },
        },
        "models": {
            "tiny": {
                "source": {"local": {"directory": "weights/tiny/{revision}"}},
                "layers": 2,
                "revisions": list(STEPS),
            }
        },
        "capture": {"device": "cpu", "embed": True},
        "probe": {"bootstrap": 20},
        "fragility": {"bootstrap": 10},
        "floors": {"bootstrap": 20},
        "transfer": {"bootstrap": 20, "singled_out": ["harm", "role_reversal"]},
        "foundations": {"permutations": 10},
        "controls": {"control_tasks": 2, "permutations": 10, "code_orders": 1, "bootstrap": 20},
        "figures": {
            "emergence": {"kind": "emergence", "model": "tiny", "datasets": ["care", "truth"]},
            "transfer": {"kind": "transfer", "model": "tiny", "dataset": "care"},
            "foundations": {"kind": "foundations", "model": "tiny", "dataset": "care"},
            "controls": {"kind": "controls", "model": "tiny", "dataset": "care"},
            "floors": {"kind": "floors", "model": "tiny", "datasets": ["care", "truth"]},
            "gates": {"kind": "gates", "datasets": ["care", "truth", "again"]},
        },
    }


# jobs, by name


def flooring(datasets: Sequence[str]) -> set[str]:
    """The floors of these datasets, and the table of all."""
    return {job("measure_floors", dataset=dataset) for dataset in datasets} | {job("tabulate_floors")}


def transferring(datasets: Sequence[str]) -> set[str]:
    return {
        job("measure_transfer_tiny", revision=step, dataset=dataset) for step in STEPS for dataset in datasets
    }


def on_care(*kinds: str) -> set[str]:
    return measuring([f"measure_{kind}" for kind in kinds], STEPS, ["care"], [42])
