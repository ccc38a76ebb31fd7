"""Every fault of a study is named at once, with its place and what would be right."""

import copy
import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from strataprobe.config import Study, check
from strataprobe.config.schema import schema
from strataprobe.errors import ConfigError

ROOT = Path(__file__).parents[2]
DROP = object()
PRETRAIN = {
    "seeds": [1, 2],
    "architecture": {
        "hidden_size": 64, "heads": 4, "intermediate_size": 128, "vocab_size": 300, "max_positions": 64,
    },
    "corpus": {"seed": 1, "documents": 100},
    "training": {
        "batch_size": 8, "sequence_length": 32, "learning_rate": 0.003, "warmup_steps": 2,
        "weight_decay": 0.0, "gradient_norm": 1.0,
    },
    "checkpoints": [100, 0, 20],
}  # fmt: skip
RAW = {
    "study": "mine",
    "seeds": [42, 43],
    "datasets": {
        "moral": {"path": "moral.jsonl", "bundle": "core"},
        "syntax": {"path": "syntax.jsonl", "bundle": "core"},
        "own": {"path": "own.jsonl"},
    },
    "models": {
        "nano": {"source": {"pretrain": PRETRAIN}, "layers": 2},
        "local": {
            "source": {"local": {"directory": "weights/{revision}"}},
            "layers": 6,
            "revisions": ["step1000", {"name": "end", "ref": "main", "step": 2000}],
            "datasets": ["own"],
            "seeds": [7],
            "measures": ["probes"],
        },
    },
    "figures": {"saturation": {"kind": "saturation", "model": "nano", "dataset": "moral"}},
}


# A study with what rests on probes: groups, controls, datasets that test another one's probes, all figures.
STRUCTURE = {
    "study": "structure",
    "seeds": [42, 43],
    "measures": ["probes", "transfer", "controls"],
    "datasets": {
        "moral": {"path": "moral.jsonl", "profile": "moral", "keywords": "words.txt", "measures": ["probes"]},
        "own": {"path": "own.jsonl", "seeds": [7], "thresholds": {"words_at_least": 5}},
        "again": {"path": "syntax.jsonl", "tests": "own", "blocklist": "words.txt"},
        "hard": {"path": "syntax.jsonl", "tests": "own"},
    },
    "models": {
        "first": {"source": {"hub": {"repo": "a/b"}}, "layers": 2, "revisions": ["main"]},
        "second": {
            "source": {"hub": {"repo": "a/c"}},
            "layers": 2,
            "revisions": ["main"],
            "datasets": ["moral", "own", "hard"],
            "seeds": [1],
            "measures": ["probes", "controls", "foundations"],
        },
    },
    "figures": {
        "emergence": {"kind": "emergence", "model": "first", "datasets": ["moral", "own"]},
        "transfer": {"kind": "transfer", "model": "first", "dataset": "own"},
        "foundations": {"kind": "foundations", "model": "second", "dataset": "own"},
        "floors": {"kind": "floors", "model": "first", "datasets": ["moral", "own"]},
        "gates": {"kind": "gates", "datasets": ["moral", "own", "again", "hard"]},
    },
}


@pytest.fixture
def base(tmp_path):
    (tmp_path / "words.txt").write_text("")
    for name in ("moral", "syntax", "own"):
        (tmp_path / f"{name}.jsonl").write_text("")
    (tmp_path / "weights").mkdir()
    return tmp_path


def changed(*edits, of=RAW):
    """A config with values set at dotted places."""
    raw = copy.deepcopy(of)
    for place, value in edits:
        *path, last = place.split(".")
        section = raw
        for part in path:
            section = section[part]
        if value is DROP:
            del section[last]
        else:
            section[last] = value
    return raw


def faults(raw, base=None):
    with pytest.raises(ConfigError) as caught:
        check(raw, base=base)
    title, *lines = str(caught.value).split("\n")
    assert title == f"config.yaml: {len(lines)} problem{'s' if len(lines) > 1 else ''}"
    return [line.strip() for line in lines]


def test_the_study_of_these_tests_has_no_fault(base):
    assert check(RAW, base=base).study == "mine"


def test_a_measure_is_taken_at_the_revisions_the_study_names_in_the_models_order(base):
    study = Study.load(changed(("models.nano.at", {"levels": ["step0100", "step0000"]})), base=base)
    for name in ("nano", "nano-p2"):
        nano = study.models[name]
        assert [revision.step for revision in nano.measured_at("levels")] == [0, 100]
        assert nano.measured_at("probes") == nano.measured_at(None) == nano.revisions
    assert study.models["local"].measured_at("levels") == study.models["local"].revisions


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("models.nano.layers", "six", "models.nano.layers: 'six' is not a whole number of at least 1"),
        ("models.nano.layers", 0, "models.nano.layers: 0 is not a whole number of at least 1"),
        ("models.nano.layers", True, "models.nano.layers: True is not a whole number of at least 1"),
        ("models.nano.layers", DROP, "models.nano.layers: is missing, and has no default"),
        ("datasets.own.bundel", "x", "datasets.own.bundel: unknown key; did you mean 'bundle'?"),
        ("model", {}, "model: unknown key; did you mean 'models'?"),
        ("models.nano.source.pretrain.training.learning_rat", 1,
         "models.nano.source.pretrain.training.learning_rat: unknown key; did you mean 'learning_rate'?"),
        ("probe", {"epoch": 5}, "probe.epoch: unknown key; did you mean 'epochs'?"),
        ("seeds", [42, 43, 42], "seeds: 42 given more than once"),
        ("seeds", [], "seeds: the list is empty"),
        ("models.local.seeds", [7, 7], "models.local.seeds: 7 given more than once"),
        ("seeds", [-1], "seeds.0: -1 is not a whole number of at least 0"),
        ("study", "../out", "study: '../out' cannot name a file"),
        ("figures.a/b", {"kind": "loss", "model": "nano"}, "figures.a/b: 'a/b' cannot name a file"),
        ("models.local.revisions", ["a..b"], "models.local.revisions.0.name: 'a..b' cannot name a file"),
        ("models.local.revisions", ["a", "b", "a"], "models.local: revisions: a given more than once"),
        ("models.local.revisions", DROP, "models.local: needs revisions"),
        ("models.local.revisions", [], "models.local: needs revisions"),
        ("models.nano.revisions", ["main"], "models.nano: revisions of a pretrain model follow from its"),
        ("models.local.source", {"local": {"directory": "weights"}},
         "models.local: source.local.directory: 'weights' is one folder for 2 revisions"),
        ("models.local.source", {},
         "source: needs exactly one of pretrain, wheel, local, hub, lora, published, predictions; has"),
        ("models.local.source.hub", {"repo": "a/b"}, "has local and hub"),
        ("models.local.source", {"hub": {"repo": "no-owner"}}, "models.local.source.hub.repo: 'no-owner'"),
        ("models.local.datasets", ["ovn"],
         "models.local.datasets: 'ovn' is not among the study's datasets; did you mean 'own'?"),
        ("models.nano-p2", RAW["models"]["local"], "models: two models would be called 'nano-p2'"),
        ("datasets.own.path", "onw.jsonl",
         "datasets.own.path: there is no file 'onw.jsonl'; did you mean 'own.jsonl'?"),
        ("models.local.source.local.directory", "wieghts/{revision}",
         "models.local.source.local.directory: there is no folder 'wieghts/{revision}'"),
        ("figures.saturation.model", "nan", "figures.saturation.model: 'nan' is not a model of this study"),
        ("figures.saturation.dataset", DROP, "figures.saturation.dataset: is missing"),
        ("figures.saturation.kind", "saturate", "figures.saturation.kind: 'saturate' is not one of 'satur"),
        ("fragility", {"threshold": 0.5}, "fragility.threshold: 0.5 is not a number between 0.5 (chance)"),
        ("fragility", {"threshold": float("nan")}, "fragility.threshold: nan is not a number"),
        ("fragility", {"noise_levels": [1.0, 0.3]}, "noise_levels: [1.0, 0.3] must rise from left to right"),
        ("probe", {"test_fraction": 1}, "probe.test_fraction: 1 is not a number between 0 and 1"),
        ("models.local.at", {"levels": ["ende"]},
         "models.local.at.levels: 'ende' is not a revision of that model; did you mean 'end'?"),
        ("models.nano.at", {"levels": ["step0010"]}, "models.nano.at.levels: 'step0010' is not a revision"),
        ("models.nano.at", {"level": ["step0000"]}, "at.level: unknown key; did you mean 'levels'?"),
        ("models", {}, "models: the study has no model"),
        ("seeds", "[7]", "seeds: '[7]': input should be a valid list"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_place_and_what_would_be_right(base, place, value, said):
    lines = faults(changed((place, value)), base)
    assert any(said in line for line in lines), lines


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("datasets.again.tests", "onw",
         "datasets.again.tests: 'onw' is not another dataset of this study; did you mean 'own'?"),
        ("datasets.again.tests", "again",
         "datasets.again.tests: 'again' is not another dataset of this study"),
        ("datasets.again.tests", "hard",
         "datasets.again.tests: 'hard' itself tests another dataset, so it has no"),
        ("datasets.moral.profile", "morla",
         "datasets.moral.profile: 'morla' is not one of 'generic', 'moral'"),
        ("datasets.moral.keywords", "wrods.txt",
         "datasets.moral.keywords: there is no file 'wrods.txt'; did you mean 'words.txt'?"),
        ("datasets.again.blocklist", "gone", "datasets.again.blocklist: there is no file 'gone'"),
        ("datasets.own.animate", "gone", "datasets.own.animate: there is no file 'gone'"),
        ("datasets.own.thresholds", {"words_at_least": "five"},
         "datasets.own.thresholds.words_at_least: 'five'"),
        ("datasets.own.seeds", [7, 7], "datasets.own.seeds: 7 given more than once"),
        ("datasets.own.measures", ["transfr"], "datasets.own.measures.0: 'transfr' is not one of 'probes'"),
        ("datasets.own.measures", [], "datasets.own.measures: the list is empty"),
        ("measures", ["probes", "probes"], "measures: 'probes' given more than once"),
        ("floors", {"folds": 1}, "floors.folds: 1: input should be greater than or equal to 2"),
        ("floors", {"characters": [4]}, "floors.characters: [4]: list should have at least 2 items"),
        ("floors", {"characters": [4, 1]}, "floors: characters: [4, 1] must be the shortest run, then"),
        ("floors", {"margins": 0.1}, "floors.margins: unknown key; did you mean 'margin'?"),
        ("transfer", {"folds": 2}, "transfer.folds: 2: input should be greater than or equal to 3"),
        ("transfer", {"C": 0}, "transfer.C: 0 is not a number greater than 0"),
        ("foundations", {"permutations": 0},
         "foundations.permutations: 0 is not a whole number of at least 1"),
        ("controls", {"false_discovery": 1.5},
         "controls.false_discovery: 1.5 is not a number between 0 and 1"),
        ("controls", {"permutation": 9}, "controls.permutation: unknown key; did you mean 'permutations'?"),
        ("figures.emergence.datasets", DROP,
         "figures.emergence.datasets: is missing; a figure of kind 'emergence' needs a list of them"),
        ("figures.floors.model", DROP,
         "figures.floors.model: is missing; a figure of kind 'floors' needs one"),
        ("figures.gates.datasets", DROP,
         "figures.gates.datasets: is missing; a figure of kind 'gates' needs a list"),
        ("figures.gates.datasets", ["moral", "onw"],
         "figures.gates.datasets: 'onw' is not a dataset of this study; did you mean 'own'?"),
        ("figures.gates.datasets", ["own", "own"], "figures.gates.datasets: 'own' given more than once"),
        ("figures.transfer.dataset", DROP,
         "figures.transfer.dataset: is missing; a figure of kind 'transfer' needs"),
        ("figures.foundations.model", "secnd",
         "figures.foundations.model: 'secnd' is not a model of this study; did you mean 'second'?"),
    ],
)  # fmt: skip
def test_a_fault_in_what_rests_on_probes_is_named_with_its_place(base, place, value, said):
    check(STRUCTURE, base=base)
    lines = faults(changed((place, value), of=STRUCTURE), base)
    assert any(said in line for line in lines), lines


def test_published_files_are_of_one_dataset_and_one_seed_and_hold_two_measures(base):
    (base / "files").mkdir()
    of_files = {
        "source": {"published": {"directory": "files"}},
        "layers": 16,
        "revisions": ["step1000"],
        "datasets": ["own"],
        "seeds": [42],
        "measures": ["probes", "fragility", "transfer"],
    }
    found = check(changed(("models.paper", of_files), of=STRUCTURE), base=base)
    assert found.models["paper"].source.kind == "published"
    study = Study.load(changed(("models.paper", of_files), of=STRUCTURE))
    assert study.models["paper"].measures == ("probes", "fragility")
    several = {**of_files, "seeds": [42, 43], "source": {"published": {"directory": "flies"}}}
    del several["datasets"]
    (fault, folder) = faults(changed(("models.paper", several), of=STRUCTURE), base)
    assert fault.startswith("models.paper: datasets: published files are of one; name it, such as [moral]")
    assert "seeds: published files are of one" in fault
    assert folder == "models.paper.source.published.directory: there is no folder 'flies'"


def test_a_local_model_of_one_revision_needs_its_own_folder(base):
    edits = [("models.local.revisions", ["main"]), ("models.local.source.local.directory", "weights/mine")]
    assert faults(changed(*edits), base) == [
        "models.local.source.local.directory: there is no folder 'weights/mine'"
    ]
    (base / "weights" / "mine").mkdir()
    check(changed(*edits), base=base)


def test_all_faults_are_in_one_message(base):
    lines = faults(
        changed(
            ("models.nano.layers", "six"),
            ("datasets.own.bundel", "x"),
            ("datasets.moral.path", "gone.jsonl"),
            ("seeds", [1, 1]),
            ("models.local.datasets", ["nope"]),
            ("figures.saturation.model", "nona"),
        ),
        base,
    )
    places = {line.split(":")[0] for line in lines}
    assert places == {
        "models.nano.layers", "datasets.own.bundel", "datasets.moral.path", "seeds", "models.local.datasets",
        "figures.saturation.model",
    }  # fmt: skip


@given(st.text(max_size=12))
def test_no_slug_leaves_the_results_root(name):
    try:
        study = Study.load(changed(("study", name)))
    except ConfigError:
        return
    root = Path(study.layout.root)
    assert ".." not in root.parts
    assert not root.is_absolute()
    assert len(root.parts) == (1 if name == "default" else 3)


def test_models_are_those_of_the_config_and_one_for_each_further_pretraining_seed():
    study = Study.load(RAW)
    assert list(study.models) == ["nano", "nano-p2", "local"]
    assert [study.models[name].source["seed"] for name in ("nano", "nano-p2")] == [1, 2]
    assert {**study.models["nano"].source, "seed": 2} == study.models["nano-p2"].source
    assert study.models["nano"].made_here
    assert not study.models["local"].made_here


def test_revisions_of_a_trajectory_are_its_checkpoints_in_order_of_steps():
    study = Study.load(RAW)
    assert study.models["nano"].steps == {"step0000": 0, "step0020": 20, "step0100": 100}
    long = Study.load(changed(("models.nano.source.pretrain.checkpoints", [0, 143000])))
    assert list(long.models["nano"].steps) == ["step000000", "step143000"]


@pytest.mark.parametrize(
    ("name", "step"),
    [("step0", 0), ("step143000", 143000), ("stage1-step-40000-tokens84B", 40000), ("main", None)],
)
def test_the_step_is_read_from_a_revision_name(name, step):
    study = Study.load(changed(("models.local.revisions", [name])))
    assert study.models["local"].steps == {name: step}


def test_a_revision_keeps_its_own_ref_and_step():
    first, second = Study.load(RAW).models["local"].revisions
    assert (first.name, first.ref, first.step) == ("step1000", "step1000", 1000)
    assert (second.name, second.ref, second.step) == ("end", "main", 2000)


def test_step_0_is_a_real_step():
    study = Study.load(changed(("models.local.revisions", [{"name": "step5", "step": 0}])))
    assert study.models["local"].steps == {"step5": 0}


def test_a_model_says_for_itself_or_takes_the_study_s_own():
    study = Study.load(RAW)
    nano, local = study.models["nano"], study.models["local"]
    assert (nano.seeds, nano.datasets, nano.measures) == (
        (42, 43), ("moral", "syntax", "own"), ("probes", "fragility"),
    )  # fmt: skip
    assert (local.seeds, local.datasets, local.measures) == ((7,), ("own",), ("probes",))


def test_a_dataset_that_tests_another_is_captured_and_not_probed():
    study = Study.load(STRUCTURE)
    first, second = study.models.values()
    assert study.tasks(first) == study.tasks(second) == ("moral", "own")
    assert study.tests_of(first, "own") == ("again", "hard")
    assert study.tests_of(second, "own") == ("hard",)
    assert study.tests_of(first, "moral") == ()
    assert list(study.bundles(first)) == ["moral", "own", "again", "hard"]


def test_of_a_model_s_measures_a_dataset_takes_those_it_names():
    study = Study.load(STRUCTURE)
    everywhere = [("first", "moral"), ("first", "own"), ("second", "moral"), ("second", "own")]
    assert study.measured("probes") == everywhere
    assert study.measured("transfer") == [("first", "own")]
    assert study.measured("controls") == [("first", "own"), ("second", "own")]
    assert study.measured("foundations") == [("second", "own")]
    assert study.measured("fragility") == []
    asked = changed(("datasets.moral.measures", ["probes", "fragility"]), of=STRUCTURE)
    assert Study.load(asked).measured("fragility") == [], "asked for more than its models are to give"


def test_a_dataset_s_own_seeds_come_before_the_model_s():
    study = Study.load(STRUCTURE)
    first, second = study.models.values()
    assert (study.seeds(first, "moral"), study.seeds(first, "own")) == ((42, 43), (7,))
    assert (study.seeds(second, "moral"), study.seeds(second, "own")) == ((1,), (7,))


def test_a_dataset_without_a_bundle_is_its_own():
    study = Study.load(RAW)
    assert study.bundles(study.models["nano"]) == {"core": ["moral", "syntax"], "own": ["own"]}
    assert study.bundles(study.models["local"]) == {"own": ["own"]}


@pytest.mark.parametrize(
    ("conventions", "pooling", "draws"), [("default", "mean_rest", 10), ("published", "mean", 1)]
)
def test_conventions_fill_what_is_not_said(conventions, pooling, draws):
    study = Study.load(changed(("conventions", conventions)))
    assert study.settings("probe")["pooling"] == study.settings("fragility")["pooling"] == pooling
    assert study.settings("fragility")["draws"] == draws
    assert study.settings("probe")["conventions"] == conventions
    said = Study.load(
        changed(("conventions", conventions), ("probe", {"pooling": "mean"}), ("fragility", {"draws": 3}))
    )
    assert said.settings("fragility")["pooling"] == "mean"
    assert said.settings("fragility")["draws"] == 3


@pytest.mark.parametrize("stage", ["transfer", "foundations", "controls"])
def test_what_rests_on_probes_reads_the_states_that_probes_read(stage):
    published = Study.load(changed(("conventions", "published"), of=STRUCTURE)).settings(stage)
    assert (published["pooling"], published["conventions"]) == ("mean", "published")
    said = Study.load(changed(("probe", {"pooling": "mean", "epochs": 7}), of=STRUCTURE))
    assert said.settings(stage)["pooling"] == "mean"
    if stage != "transfer":
        assert said.settings(stage)["probe"] == said.settings("probe")


@pytest.mark.parametrize(
    "stage", ["capture", "probe", "fragility", "floors", "transfer", "foundations", "controls"]
)
def test_settings_are_one_sorted_dict_of_plain_values(stage):
    settings = Study.load(RAW).settings(stage)
    assert list(settings) == sorted(settings)
    assert json.loads(json.dumps(settings)) == settings


def test_the_published_settings_are_the_paper_s():
    probe, fragility = Study.load(RAW).settings("probe"), Study.load(RAW).settings("fragility")
    assert (probe["learning_rate"], probe["epochs"], probe["test_fraction"]) == (0.01, 50, 0.2)
    assert fragility["noise_levels"] == [0.1, 0.3, 1.0, 3.0, 10.0]
    assert fragility["threshold"] == 0.6
    assert fragility["rms_noise_levels"][-1] == 100


def test_the_shipped_schema_is_made_from_the_models():
    assert json.loads((ROOT / "schemas" / "config.schema.json").read_text()) == json.loads(
        json.dumps(schema())
    )


CONDITIONS = ("narrative", "declarative", "general")


def test_the_default_study_is_valid_and_has_37_checkpoints():
    raw = yaml.safe_load((ROOT / "config.yaml").read_text())
    study = Study.load(raw, base=ROOT)
    assert list(raw["models"]) == ["nano", "smollm2-135m-instruct", "nano-lora", "smollm2-lora"]
    tuned = [f"nano-lora-{name}-s{seed}" for name in CONDITIONS for seed in (1, 2)]
    tuned += [f"smollm2-135m-instruct-lora-{name}-s1" for name in CONDITIONS]
    assert list(study.models) == ["nano", "smollm2-135m-instruct", *tuned]
    assert {study.models[name].base for name in tuned} == {"nano", "smollm2-135m-instruct"}
    assert len(study.models["nano"].revisions) == 37
    assert study.models["nano"].revisions[0].step == 0
    assert study.layout.root == "results"


def test_the_default_study_measures_every_dataset_as_the_paper_does():
    study = Study.load(yaml.safe_load((ROOT / "config.yaml").read_text()), base=ROOT)
    nano, smollm = list(study.models.values())[:2]
    assert study.tasks(nano) == study.tasks(smollm) == ("moral", "sentiment", "syntax", "compositional")
    assert study.seeds(nano, "compositional") == (42, 43, 44, 45)
    assert study.measured("transfer") == [(model.name, "compositional") for model in (nano, smollm)]
    assert ("nano", "moral") in study.measured("foundations")
    assert set(study.measured("controls")) >= {(smollm.name, "moral")}
    assert study.tests_of(smollm, "moral") == ("moral_paraphrases", "moral_adversarial")
    assert study.config.capture.embed, "the floor of the embedding layer needs it"
