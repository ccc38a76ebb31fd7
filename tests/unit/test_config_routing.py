"""Words, sides and predictions made elsewhere in a config: each fault with its place and what is right."""

import pytest

from strataprobe.config import ELSEWHERE, Study, check
from tests.unit.test_config import DROP, changed, faults

MADE = {"path": "made.csv", "partition": {"past": ["was", "had"], "future": ["will"]}}
RAW = {
    "seeds": [42],
    "measures": ["routing", "many_class"],
    "datasets": {
        "words": {"path": "words.jsonl", "kind": "vocabulary", "design": "design.json"},
        "care": {"path": "care.jsonl", "partition": {"near": ["help", "harm"], "far": ["lies", "theft"]}},
        "plain": {"path": "care.jsonl"},
        "who": {"path": "who.jsonl", "kind": "control", "prompts": "prompts.json"},
    },
    "models": {
        "tiny": {
            "source": {"hub": {"repo": "a/b"}},
            "layers": 4,
            "revisions": ["one", "two"],
            "vocabulary_layers": [3, 1],
        },
        "bare": {
            "source": {"hub": {"repo": "a/c"}},
            "layers": 4,
            "revisions": ["main"],
            "measures": ["probes"],
        },
        "made": {"source": {"predictions": MADE}},
    },
    "figures": {
        "plane": {"kind": "routing_plane", "models": ["tiny"], "dataset": "words"},
        "matrix": {"kind": "routing_matrix", "model": "tiny", "dataset": "words", "revision": "two"},
        "groups": {"kind": "many_class", "model": "tiny", "dataset": "care"},
    },
}
PLANE = RAW["figures"]["plane"]


@pytest.fixture
def base(tmp_path):
    for name in ("words.jsonl", "design.json", "care.jsonl", "who.jsonl", "prompts.json", "made.csv"):
        (tmp_path / name).write_text("")
    return tmp_path


def of(*edits, **further):
    return changed(*edits, of=RAW, **further)


# what the config means


def test_the_study_of_these_tests_is_sound_and_measures_each_dataset_by_its_kind(base):
    study = Study.load(RAW, base=base)
    assert study.measured("routing") == [("tiny", "words"), ("made", ELSEWHERE)]
    assert study.measured("many_class") == [("tiny", "care")]
    assert study.models["tiny"].vocabulary_layers == (1, 3)
    # Words are captured by themselves, at few blocks.
    assert list(study.bundles(study.models["tiny"])) == ["care", "plain", "who"]
    assert study.config.concentration.side_mass == [0.20, 0.80]


def test_words_are_routed_at_the_revisions_the_study_names(base):
    study = Study.load(of(("models.tiny.at", {"routing": ["two"]})), base=base)
    tiny = study.models["tiny"]
    assert [revision.name for revision in tiny.measured_at("routing")] == ["two"]
    assert tiny.measured_at("many_class") == tiny.revisions


def test_predictions_made_elsewhere_change_no_other_model(base):
    with_them, without = (Study.load(raw, base=base) for raw in (RAW, changed(("models.made", DROP), of=RAW)))
    assert with_them.models.keys() - without.models.keys() == {"made"}
    for name, model in without.models.items():
        assert with_them.models[name] == model
        assert with_them.bundles(model) == without.bundles(model)
    for measure in ("probes", "fragility", "transfer", "levels", "many_class"):
        assert with_them.measured(measure) == without.measured(measure)
    assert with_them.measured("routing") == [*without.measured("routing"), ("made", ELSEWHERE)]


def test_predictions_made_elsewhere_ask_for_nothing_of_a_model(base):
    made = Study.load(RAW, base=base).models["made"]
    assert (made.datasets, made.measures, made.vocabulary_layers) == ((), (), ())
    assert [revision.name for revision in made.revisions] == ["main"]
    assert list(made.source["partition"]) == ["past", "future"], "the order says which side is the second"


@pytest.mark.parametrize(
    "figure",
    [
        {"kind": "routing_plane", "models": ["made"]},
        {"kind": "routing_sensitivity", "models": ["made"]},
        {"kind": "routing_matrix", "model": "made"},
    ],
    ids=["plane", "sensitivity", "matrix"],
)
def test_a_figure_of_predictions_needs_no_dataset(base, figure):
    assert check(of(("figures.made", figure)), base=base).figures["made"].kind == figure["kind"]


# faults, one by one

DATASETS = [
    ("words.design", DROP, ".design: is missing; a vocabulary needs the file with its words and scopes"),
    ("care.design", "design.json", ".design: only words have it; did you mean kind: vocabulary?"),
    ("who.design", "design.json", ".design: only words have it; did you mean kind: vocabulary?"),
    ("words.prompts", "prompts.json", ".prompts: only control items have it; did you mean kind: control?"),
    ("who.partition", {"a": ["x"], "b": ["y"]},
     ".partition: only minimal pairs have it; did you mean kind: pairs?"),
    ("words.partition", {"a": ["x"], "b": ["y"]},
     ".partition: only minimal pairs have it; did you mean kind: pairs?"),
    ("words.kind", "vocabulry", ".kind: 'vocabulry' is not one of 'pairs', 'control' or 'vocabulary'"),
    ("care.partition", {"a": ["x"]},
     ".partition: has 1 side; a property has two, each with its list of groups"),
    ("care.partition", {"a": ["x"], "b": ["y"], "c": ["z"]},
     ".partition: has 3 sides; a property has two, each with its list of groups"),
    ("care.partition", {}, ".partition: has 0 sides; a property has two"),
    ("care.partition", {"a": ["x", "y"], "b": ["y"]}, ".partition: group 'y' is given more than once"),
    ("care.partition", {"a": ["x", "x"], "b": ["y"]}, ".partition: group 'x' is given more than once"),
    ("care.partition", {"a": ["x"], "b": []},
     ".partition.b: has no group; a partition needs some on both sides"),
    ("care.partition", {"a": "x", "b": ["y"]}, ".partition.a: 'x': input should be a valid list"),
    ("care.partition", ["a", "b"], ".partition: ['a', 'b']: input should be a valid dictionary"),
    ("care.partition", {"../a": ["x"], "b": ["y"]}, ".partition.../a: '../a' cannot name a file"),
]  # fmt: skip
MODELS = [
    ("tiny.vocabulary_layers", DROP,
     ".vocabulary_layers: is missing; the words of 'words' are read at some of its blocks, such as"),
    ("tiny.vocabulary_layers", None, ".vocabulary_layers: is missing; the words of 'words' are read at some"),
    ("tiny.vocabulary_layers", [], ".vocabulary_layers: the list is empty; give at least one"),
    ("tiny.vocabulary_layers", [1, 4], ".vocabulary_layers: 4 is not one of the blocks 0 to 3"),
    ("tiny.vocabulary_layers", [1, 1], ".vocabulary_layers: 1 given more than once"),
    ("tiny.vocabulary_layers", [-1], ".vocabulary_layers.0: -1 is not a whole number of at least 0"),
    ("tiny.vocabulary_layers", 3, ".vocabulary_layers: 3: input should be a valid list"),
    ("tiny.layers", DROP, ".layers: is missing, and has no default"),
    ("tiny.layers", None, ".layers: is missing, and has no default"),
    ("tiny.at", {"routing": ["three"]},
     ".at.routing: 'three' is not a revision of that model; known here: one, two"),
    ("tiny.at", {"many_class": ["on"]},
     ".at.many_class: 'on' is not a revision of that model; did you mean 'one'?"),
    ("tiny.at", {"routing": []}, ".at.routing: the list is empty; give at least one"),
    ("tiny.at", {"routng": ["one"]}, ".at.routng: unknown key; did you mean 'routing'?"),
    ("tiny.measures", ["routng"], ".measures.0: 'routng' is not one of 'probes', 'fragility',"),
    ("made.layers", 4, ": layers: a file of predictions has none; leave out all but source"),
    ("made.vocabulary_layers", [1], ": vocabulary_layers: a file of predictions has none; leave out all but"),
    ("made.datasets", ["words"], ": datasets: a file of predictions has none; leave out all but source"),
    ("made.source.hub", {"repo": "a/b"},
     ".source: needs exactly one of pretrain, wheel, local, hub, lora, published, predictions; has hub and"),
    ("made.source.predictions.path", DROP, ".source.predictions.path: is missing, and has no default"),
    ("made.source.predictions.path", "mad.csv",
     ".source.predictions.path: there is no file 'mad.csv'; did you mean 'made.csv'?"),
    ("made.source.predictions.pth", "x", ".source.predictions.pth: unknown key; did you mean 'path'?"),
    ("made.source.predictions.partition", DROP,
     ".source.predictions.partition: is missing, and has no default"),
    ("made.source.predictions.partition", {"past": ["was"]},
     ".source.predictions.partition: has 1 side; a property has two, each with its list of classes"),
    ("made.source.predictions.partition", {"a": ["x"], "b": ["y"], "c": ["z"]},
     ".source.predictions.partition: has 3 sides; a property has two, each with its list of classes"),
    ("made.source.predictions.partition", {"past": ["was"], "future": []},
     ".source.predictions.partition.future: has no class; a partition needs some on both sides"),
    ("made.source.predictions.partition", {"past": ["was"], "future": ["will", "was"]},
     ".source.predictions.partition: class 'was' is given more than once"),
]  # fmt: skip
FIGURES = [
    ({**PLANE, "dataset": "care"},
     ".dataset: 'care' holds minimal pairs; a figure of kind 'routing_plane' shows words"),
    ({**PLANE, "dataset": "who"},
     ".dataset: 'who' holds control items; a figure of kind 'routing_plane' shows words"),
    ({**PLANE, "dataset": "wrds"}, ".dataset: 'wrds' is not a dataset of this study; did you mean 'words'?"),
    ({**PLANE, "models": ["tinny"]}, ".models: 'tinny' is not a model of this study; did you mean 'tiny'?"),
    ({**PLANE, "models": None}, ".models: is missing; a figure of kind 'routing_plane' needs a list of them"),
    ({**PLANE, "dataset": None}, ".dataset: is missing; a figure of kind 'routing_plane' needs one"),
    ({"kind": "routing_matrix", "models": ["tiny"], "dataset": "words"},
     ".model: is missing; a figure of kind 'routing_matrix' needs one"),
    ({"kind": "routing_matrix", "model": "tiny", "dataset": "words", "revision": "on"},
     ".revision: 'on' is not a revision of that model; did you mean 'one'?"),
    ({**PLANE, "revision": "on"}, ".revision: 'on' is not a revision of 'tiny'; did you mean 'one'?"),
    ({"kind": "routing_plane", "models": ["made"], "revision": "one"},
     ".revision: 'one' is not a revision of 'made'; known here: main"),
    ({**PLANE, "kind": "routing_plan"}, ".kind: 'routing_plan' is not one of"),
    ({**PLANE, "models": ["tiny", "made"]},
     ".models: 'made': predictions made elsewhere need a figure of their own"),
    ({**PLANE, "models": ["made"]},
     ".dataset: predictions made elsewhere are of no dataset of this study; leave it out"),
    ({**PLANE, "models": ["tiny", "bare"]}, ": routing of 'words' is not among the measures of 'bare'"),
    ({"kind": "many_class", "model": "bare", "dataset": "care"},
     ": many_class of 'care' is not among the measures of 'bare'"),
    ({"kind": "many_class", "model": "tiny", "dataset": "plain"},
     ".dataset: 'plain' has no partition of its groups into two sides"),
    ({"kind": "many_class", "model": "tiny", "dataset": "words"},
     ".dataset: 'words' holds words; a figure of kind 'many_class' shows minimal pairs"),
    ({"kind": "saturation", "model": "made", "dataset": "care"},
     ": 'made' holds predictions made elsewhere; a figure of kind 'saturation' shows a model"),
]  # fmt: skip
MEASURES = [
    ("concentration", {"side_mass": [0.8, 0.2]},
     ": side_mass: [0.8, 0.2] must be the least, then the greatest share"),
    ("concentration", {"side_mass": [0.5, 0.5]}, ": side_mass: [0.5, 0.5] must be the least, then"),
    ("concentration", {"side_mass": [0.2]}, ".side_mass: [0.2]: list should have at least 2 items"),
    ("concentration", {"lucky": 1}, ".lucky: 1 is not a number between 0 and 1, both excluded"),
    ("concentration", {"lucky": 0}, ".lucky: 0 is not a number between 0 and 1, both excluded"),
    ("concentration", {"hhi": 70}, ".hhi: 70 is not a number between 0 and 1, both excluded"),
    ("concentration", {"lukcy": 0.9}, ".lukcy: unknown key; did you mean 'lucky'?"),
    ("concentration", {"sensitivity": []}, ".sensitivity: the list is empty; give at least one"),
    ("concentration", {"sensitivity": [0.9, 1.5]}, ".sensitivity.1: 1.5 is not a number between 0 and 1"),
    ("concentration", {"bootstrap": 0}, ".bootstrap: 0 is not a whole number of at least 1"),
    ("routing", {"folds": 1}, ".folds: 1: input should be greater than or equal to 2"),
    ("routing", {"C": 0}, ".C: 0 is not a number greater than 0"),
    ("routing", {"tolerance": "small"}, ".tolerance: 'small' is not a number greater than 0"),
]  # fmt: skip


def the_one(raw, base) -> str:
    lines = faults(raw, base)
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.parametrize(("place", "value", "said"), DATASETS)
def test_a_fault_of_a_vocabulary_or_of_sides_is_named_once(base, place, value, said):
    # Without figures: one that shows the dataset would be at fault beside it.
    raw = of((f"datasets.{place}", value), ("figures", {}))
    assert the_one(raw, base).startswith(f"datasets.{place.split('.')[0]}{said}")


@pytest.mark.parametrize(("place", "value", "said"), MODELS)
def test_a_fault_of_a_model_of_words_or_of_predictions_is_named_once(base, place, value, said):
    raw = of((f"models.{place}", value), ("figures", {}))
    assert the_one(raw, base).startswith(f"models.{place.split('.')[0]}{said}")


@pytest.mark.parametrize(("figure", "said"), FIGURES)
def test_a_fault_of_a_figure_of_words_or_groups_is_named_once(base, figure, said):
    assert the_one(of(("figures.mine", figure)), base).startswith(f"figures.mine{said}")


@pytest.mark.parametrize(("section", "values", "said"), MEASURES)
def test_a_fault_of_the_gate_or_the_solver_is_named_once(base, section, values, said):
    assert the_one(of((section, values)), base).startswith(f"{section}{said}")


def test_a_figure_shows_a_revision_that_its_measure_is_taken_at(base):
    at = ("models.tiny.at", {"routing": ["one"]})
    assert the_one(of(at), base) == (
        "figures.matrix.revision: routing of that model is not taken at 'two'; known here: one"
    )
    assert check(of(at, ("figures.matrix.revision", "one")), base=base)
    assert check(of(at, ("figures.groups.revision", "two"), ("figures.matrix", PLANE)), base=base)


def test_words_that_nobody_asks_for_need_no_blocks(base):
    for edit in (("models.tiny.measures", ["probes"]), ("models.tiny.datasets", ["care"])):
        raw = of(edit, ("models.tiny.vocabulary_layers", DROP), ("figures", {}))
        assert Study.load(raw, base=base).models["tiny"].vocabulary_layers == ()


def test_all_faults_stand_in_one_message(base):
    raw = of(
        ("datasets.words.design", DROP),
        ("datasets.care.partition", {"near": ["help", "harm"], "far": []}),
        ("models.tiny.vocabulary_layers", [1, 9]),
        ("models.tiny.at", {"routing": ["thre"]}),
        ("models.made.source.predictions.path", "mad.csv"),
        ("models.made.seeds", [1]),
        ("figures.plane.dataset", "care"),
        ("concentration", {"lucky": 95, "hhi": 0}),
        ("routing", {"folds": 1}),
    )
    places = [line.split(": ")[0] for line in faults(raw, base)]
    assert sorted(places) == sorted(
        [
            "datasets.words.design", "datasets.care.partition.far", "models.tiny.vocabulary_layers",
            "models.tiny.at.routing", "models.made.source.predictions.path", "models.made",
            "figures.plane.dataset", "concentration.lucky", "concentration.hhi", "routing.folds",
        ]
    )  # fmt: skip


@pytest.mark.parametrize("value", [None, 3, "x", [], ["x"], {"x": 3}])
@pytest.mark.parametrize(
    "place",
    [
        "datasets.words", "datasets.care.partition", "models.tiny", "models.tiny.at", "models.made.source",
        "models.made.source.predictions.partition", "figures.plane",
    ],
)  # fmt: skip
def test_anything_else_in_the_place_of_an_entry_is_a_fault_and_no_crash(base, place, value):
    if value is None and place == "datasets.care.partition":
        return
    assert faults(of((place, value)), base)
