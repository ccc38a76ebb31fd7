"""The tiny study of these tests: what is in it, and how its jobs are called."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REVISIONS = ("step0000", "step0100", "step0200")
SEEDS = (42, 43)
BUNDLES = {"core": ("care", "truth"), "size": ("size",)}
DATASETS = ("care", "truth", "size")
FIGURES = ("saturation", "depth", "scale", "layer_profile", "noise_curves")
TABLES = ("fragility", "onsets", "probing", "scale", "trajectory")
NOTHING = frozenset[str]()

_WHO = ("nurse", "baker", "farmer", "sailor", "teacher", "driver", "singer", "guard", "cook", "clerk")
_SENTENCES = {
    "care": {
        "help": ("The {} rescued a child by the river.", "The {} noticed a child by the river."),
        "harm": ("In the yard the {} kicked the dog.", "In the yard the {} passed the dog."),
    },
    "truth": {
        "lies": ("The {} fooled an old man in town.", "The {} called an old man in town."),
        "theft": ("At noon the {} stole the red coat.", "At noon the {} wore the red coat."),
    },
    "size": {
        "large": ("Today the {} saw a huge stone.", "Today the {} saw a grey stone."),
        "small": ("The {} found a tiny key.", "The {} found a steel key."),
    },
}


def pairs(dataset: str) -> list[dict[str, str]]:
    """20 pairs in 2 groups."""
    return [
        {"id": f"{group}{i:02d}", "positive": yes.format(who), "negative": no.format(who), "group": group}
        for group, (yes, no) in _SENTENCES[dataset].items()
        for i, who in enumerate(_WHO)
    ]


def write_pairs(path: Path, rows: Sequence[dict[str, Any] | str]) -> None:
    """One object a line; a text stands in the file as it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


def study_config() -> dict[str, Any]:
    """The config of the finished study."""
    drawn = {name: {"kind": name, "model": "tiny", "dataset": "care"} for name in FIGURES}
    drawn["scale"]["dataset"] = "size"
    return {
        "seeds": list(SEEDS),
        "datasets": {
            "care": {"path": "data/care.jsonl", "bundle": "core"},
            "truth": {"path": "data/truth.jsonl", "bundle": "core"},
            "size": {"path": "data/size.jsonl"},
        },
        "models": {
            "tiny": {
                "source": {"local": {"directory": "weights/tiny/{revision}"}},
                "layers": 2,
                "revisions": list(REVISIONS),
            }
        },
        "capture": {"device": "cpu"},
        "probe": {"bootstrap": 20},
        "fragility": {"bootstrap": 10},
        "figures": drawn,
    }


# jobs, by name


def job(rule: str, **wildcards: Any) -> str:
    """How a job is named in these tests: "train_probes_tiny dataset=care revision=step0000 seed=42"."""
    return " ".join([rule, *(f"{key}={value}" for key, value in sorted(wildcards.items()))])


def identifying(revisions: Sequence[str] = REVISIONS) -> set[str]:
    return {job("identify_local_tiny", revision=revision) for revision in revisions}


def capturing(revisions: Sequence[str] = REVISIONS, bundles: Sequence[str] = tuple(BUNDLES)) -> set[str]:
    return {job(f"capture_tiny_{bundle}", revision=revision) for revision in revisions for bundle in bundles}


def measuring(
    rules: Sequence[str] = ("train_probes", "measure_fragility"),
    revisions: Sequence[str] = REVISIONS,
    datasets: Sequence[str] = DATASETS,
    seeds: Sequence[int] = SEEDS,
) -> set[str]:
    return {
        job(f"{rule}_tiny", revision=revision, dataset=dataset, seed=seed)
        for rule in rules
        for revision in revisions
        for dataset in datasets
        for seed in seeds
    }


def tabulating(
    datasets: Sequence[str] = DATASETS, of: Sequence[str] = ("probes", "onsets", "fragility")
) -> set[str]:
    return {job(f"tabulate_{kind}", model="tiny", dataset=dataset) for kind in of for dataset in datasets}


def checking(datasets: Sequence[str] = DATASETS) -> set[str]:
    """The gate reports of these datasets, and the table of all."""
    return {job("check_dataset", dataset=dataset) for dataset in datasets} | {job("tabulate_gates")}


def joining(tables: Sequence[str] = TABLES) -> set[str]:
    return {job("join_table", table=table) for table in tables}


def drawing(figures: Sequence[str] = FIGURES) -> set[str]:
    return {job(f"draw_{figure}") for figure in figures}
