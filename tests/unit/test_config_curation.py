"""Fine-tuning experiments in a config: their models, what they depend on, and what is wrong with one."""

import copy
from pathlib import Path
from typing import Any

import pytest

from strataprobe.config import Study, check
from strataprobe.curation.lora import Settings
from strataprobe.errors import ConfigError

LORA = {
    "base": "tiny",
    "revision": "step1",
    "conditions": {"fables": ["fables"], "mixed": ["fables", "book"]},
    "seeds": [3, 5],
    "training": {"steps": 25, "save_every": 10, "warmup_steps": 2},
}
RAW = {
    "seeds": [42, 43],
    "datasets": {"own": {"path": "own.jsonl"}},
    "corpora": {
        "fables": {"texts": "fables.jsonl"},
        "book": {"book": {"address": "https://books.example/1.txt", "sha256": "a" * 64}},
        "claims": {"statements": {"path": "claims.json", "texts": 3, "statements": 4, "seed": 1}},
    },
    "models": {
        "tiny": {
            "source": {"local": {"directory": "weights/{revision}"}},
            "layers": 2,
            "revisions": ["step0", "step1"],
        },
        "tuned": {"source": {"lora": LORA}, "layers": 2, "seeds": [42]},
    },
    "figures": {"five": {"kind": "curation", "experiment": "tuned", "dataset": "own"}},
}


@pytest.fixture
def base(tmp_path) -> Path:
    for name in ("own.jsonl", "fables.jsonl", "claims.json", "plain.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "weights").mkdir()
    return tmp_path


def changed(place: str, value: Any) -> dict[str, Any]:
    raw = copy.deepcopy(RAW)
    *path, last = place.split(".")
    inner = raw
    for key in path:
        inner = inner[key]
    if value is None:
        inner.pop(last)
    else:
        inner[last] = value
    return raw


def faults(raw: dict[str, Any], base: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        check(raw, base=base)
    return str(caught.value).splitlines()


def test_an_experiment_is_a_model_for_each_condition_and_seed(base):
    study = Study.load(RAW, base=base)
    tuned = [name for name in study.models if "-lora-" in name]
    assert tuned == [f"tiny-lora-{condition}-s{seed}" for condition in ("fables", "mixed") for seed in (3, 5)]
    model = study.models["tiny-lora-mixed-s5"]
    assert list(model.steps.items()) == [("step0010", 10), ("step0020", 20), ("step0025", 25)]
    assert (model.kind, model.base, model.made_here) == ("lora", "tiny", True)
    experiment = study.experiments["tuned"]
    assert (experiment.base, experiment.revision) == ("tiny", "step1")
    assert [run.model for run in experiment.runs] == tuned
    assert experiment.conditions == ("fables", "mixed")


def test_a_run_depends_on_no_other_condition_or_seed(base):
    """Otherwise another condition would train all of them again."""
    source = Study.load(RAW, base=base).models["tiny-lora-fables-s3"].source
    wider = changed("models.tuned.source.lora.conditions", {**LORA["conditions"], "claims": ["claims"]})
    wider["models"]["tuned"]["source"]["lora"]["seeds"] = [3, 5, 7]
    assert Study.load(wider, base=base).models["tiny-lora-fables-s3"].source == source
    assert source["corpora"] == ["fables"]
    faster = changed("models.tuned.source.lora.training", {**LORA["training"], "learning_rate": 0.1})
    assert Study.load(faster, base=base).models["tiny-lora-fables-s3"].source != source


def test_training_left_out_is_the_published_one(base):
    study = Study.load(changed("models.tuned.source.lora.training", None), base=base)
    model = study.models["tiny-lora-fables-s3"]
    assert Settings(**{**model.source["training"], "target_modules": ("q_proj", "v_proj")}) == Settings()
    assert [revision.name for revision in model.revisions] == [f"step{n:04d}" for n in range(100, 1001, 100)]
    assert Settings().saved_steps() == [revision.step for revision in model.revisions]


def test_fine_tuned_checkpoints_are_tried_on_a_text_only_where_they_have_their_own(base):
    raw = {**copy.deepcopy(RAW), "perplexity": {"text": "plain.txt"}}
    assert Study.load(raw, base=base).models["tiny-lora-fables-s3"].perplexity_text is None
    assert Study.load(raw, base=base).models["tiny"].perplexity_text == "plain.txt"
    raw["models"]["tuned"]["perplexity_text"] = "plain.txt"
    assert Study.load(raw, base=base).models["tiny-lora-fables-s3"].perplexity_text == "plain.txt"


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("models.tuned.source.lora.base", "tini", "lora.base: 'tini' is not a model of this study; did you"),
        ("models.tuned.source.lora.revision", "step2", "'step2' is not a revision of 'tiny'; did you mean"),
        ("models.tuned.source.lora.conditions", {"a": ["fabels"]}, "conditions.a: 'fabels' is not a corpus"),
        ("models.tuned.source.lora.conditions", {"base": ["fables"]}, "this name stands for the checkpoint"),
        ("models.tuned.source.lora.conditions", {}, "models.tuned.source.lora.conditions: "),
        ("models.tuned.source.lora.training.warmup_steps", 30, "warmup_steps: 30 is more than steps (25)"),
        ("models.tuned.source.lora.training.save_every", 30, "save_every: 30 is more than steps (25)"),
        ("models.tuned.source.lora.training.dropout", 1.0, "models.tuned.source.lora.training.dropout: 1.0"),
        ("models.tuned.source.lora.training.rnak", 3, "rnak: unknown key; did you mean 'rank'?"),
        ("models.tiny.dtype", "bfloat16", "dtype: is 'float32', but its base 'tiny', which stands as step 0"),
        ("models.tuned.source.lora.tokens", 1000, "tokens: 1000 do not fill one sequence of 1024"),
        ("models.tuned.layers", 3, "models.tuned.layers: is 3, but its base 'tiny' has 2"),
        ("models.tuned.revisions", ["main"], "revisions of a lora model follow from its training"),
        ("models.tuned.base", "tiny", "base: is source.lora.base; leave it out"),
        ("models.tuned.placement", {"weights": "blockwise"}, "placement: what is trained here"),
        ("models.tuned.seeds", [42, 44], "[44] of 'own' are not among those of its base 'tiny'"),
        ("models.tiny.measures", ["probes"], "step 0 is 'tiny', where fragility of 'own' is not measured"),
        ("corpora.fables.texts", "fabels.jsonl", "no file 'fabels.jsonl'; did you mean 'fables.jsonl'?"),
        ("corpora.claims.statements.path", "c.json", "corpora.claims.statements.path: there is no file"),
        ("corpora.fables.book", {"address": "https://a.example"}, "has texts and book"),
        ("corpora.book.book.address", "file:///etc/passwd", "corpora.book.book.address: "),
        ("corpora.book.book.sha256", "short", "'short' is not a SHA-256 checksum"),
        ("figures.five.experiment", "tuend", "'tuend' is not a fine-tuning experiment of this study; did"),
        ("figures.five.experiment", None, "figures.five.experiment: is missing"),
        ("figures.five.dataset", None, "figures.five.dataset: is missing"),
        ("models.tuned.measures", ["probes"], "probes and fragility of 'own' are not measured in 'tuned'"),
    ],
)
def test_a_fault_is_named_with_its_place_and_what_would_be_right(base, place, value, said):
    assert any(said in line for line in faults(changed(place, value), base))


def test_an_experiment_in_a_figure_of_another_kind_is_refused(base):
    raw = changed("figures.five.kind", "depth")
    raw["figures"]["five"]["model"] = "tiny"
    assert any("a figure of kind 'depth' shows none; leave it out" in line for line in faults(raw, base))


def test_a_base_that_is_fine_tuned_itself_is_refused(base):
    raw = copy.deepcopy(RAW)
    again = {**LORA, "base": "tiny-lora-fables-s3", "revision": "step0010"}
    raw["models"]["again"] = {"source": {"lora": again}, "layers": 2, "seeds": [42]}
    said = "models.again.source.lora.base: 'tiny-lora-fables-s3' is fine-tuned itself"
    assert any(said in line for line in faults(raw, base))
