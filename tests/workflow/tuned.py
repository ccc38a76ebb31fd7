"""A tiny study with fine-tuned checkpoints in it, and how its jobs are called."""

import json
from pathlib import Path
from typing import Any

from tests.workflow.study import job, pairs, study_config, write_pairs
from tests.workflow.trees import Tree

REVISIONS = ("step0010", "step0020")
CONDITIONS = ("fables", "claims")
SEEDS = (1, 2)
MODELS = tuple(f"tiny-lora-{condition}-s{seed}" for condition in CONDITIONS for seed in SEEDS)
FIGURES = ("curation", "curation_heatmaps", "curation_loss", "curation_differences")
TABLES = ("curation", "curation_layers", "curation_differences")
PAIR = {"experiment": "tuned", "dataset": "size"}

_STORIES = ("A nurse shared her bread with the child.", "The baker kept the coin that was not his.")


def write_corpora(tree: Tree) -> None:
    texts = [{"id": f"t{n}", "title": f"No. {n}", "text": " ".join(_STORIES * 2)} for n in range(8)]
    (tree / "data/fables.jsonl").write_text("".join(json.dumps(text) + "\n" for text in texts))
    claims = {
        "acts": {"right": ["sharing bread", "helping a child"], "wrong": ["keeping coins", "lying"]},
        "templates": {"right": ["{Act} is right."], "wrong": ["{Act} is wrong.", "It is wrong: {act}."]},
    }
    (tree / "data/claims.json").write_text(json.dumps(claims))


def tuned_config() -> dict[str, Any]:
    """Two conditions, two runs each, two adapters a run, of one dataset and probe seed."""
    config = study_config()
    config["datasets"] = {"size": config["datasets"]["size"]}
    config["models"]["tiny"]["revisions"] = ["step0000", "step0100"]
    training = {"rank": 2, "alpha": 4, "learning_rate": 0.01, "warmup_steps": 2, "batch_size": 2}
    training |= {"sequence_length": 16, "steps": 20, "save_every": 10}
    source = {
        "base": "tiny",
        "revision": "step0100",
        "conditions": {name: [name] for name in CONDITIONS},
        "seeds": list(SEEDS),
        "training": training,
    }
    config["models"]["tuned"] = {"source": {"lora": source}, "layers": 2, "seeds": [42]}
    config["corpora"] = {
        "fables": {"texts": "data/fables.jsonl"},
        "claims": {"statements": {"path": "data/claims.json", "texts": 8, "statements": 6, "seed": 1}},
    }
    config["curation"] = {"bootstrap": 50}
    config["paper_tables"] = True
    config["figures"] = {kind: {"kind": kind, **PAIR} for kind in FIGURES}
    return config


def build(place: Path) -> Tree:
    """The project with the study in it, nothing run."""
    from tests.tiny_models import save_tiny_model

    tree = Tree.new(place)
    write_pairs(tree / "data/size.jsonl", pairs("size"))
    write_corpora(tree)
    for seed, revision in enumerate(("step0000", "step0100")):
        save_tiny_model("llama", tree / f"weights/tiny/{revision}", seed=seed, max_positions=64)
    return tree


# jobs, by name


def training(models=MODELS) -> set[str]:
    return {job(f"train_lora_{model}") for model in models}


def measuring(models=MODELS) -> set[str]:
    """What the ordinary rules do with fine-tuned checkpoints."""
    return {
        *(job(f"capture_{model}_size") for model in models),
        *(
            job(f"{rule}_{model}", dataset="size", seed=42)
            for model in models
            for rule in ("train_probes", "measure_fragility")
        ),
        *(
            job(f"tabulate_{kind}", model=model, dataset="size")
            for model in models
            for kind in ("probes", "fragility")
        ),
    }


COMPARING = {job("compare_curation_tuned_size")}
TABULATING = {job("tabulate_curation_tuned_size")}
JOINING = {job("join_table", table=table) for table in TABLES}
DRAWING = {job(f"draw_{kind}") for kind in FIGURES}
PAPER = {job("tabulate_curation_paper")}
