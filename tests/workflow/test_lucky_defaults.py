"""Words put to probes of many classes, from a checkpoint to figures, and what a change runs again."""

import csv
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import h5py
import pytest
import yaml

from strataprobe import routing
from strataprobe.workflow import designs
from tests.vocabulary_cases import DESIGN, HELD_OUT, row
from tests.workflow.study import NOTHING, checking, drawing, identifying, job, joining, pairs, write_pairs
from tests.workflow.trees import Run, Tree, built_once, differing, errors, half_files

STEPS = ("step0000", "step0100")
PARTITION = {"near": ["help", "harm"], "far": ["lies", "theft"]}
SIDES = {"past": ["was", "had"], "future": ["will", "shall"]}
TEXTS = {
    "plain": ("On it stood {} here.", "They saw {} there?", "Near a wall was {} once.", "We read {} aloud."),
    "call": ("On it stood {}(n) here.", "They saw {}(m) there.", "Near was {}(k) once.", "We read {}(l)."),
    "turned": ("On it stood {}(n, o) here.", "They saw {}(m, o) there.", "Near was {}(k, o) once.",
               "We read {}(l, o)."),
}  # fmt: skip
# Item -> its side, and the classes predicted for its stimuli: spread at the small readout, one at the large.
SMALL = {"zim": ("future", "will will was shall"), "gop": ("past", "was had was was")}
LARGE = {"zim": ("future", "will will will will"), "gop": ("past", "was was was was")}
OF_TINY = ("matrix", "paths", "plane", "sensitivity")
OF_MADE = ("plane-made", "matrix-made")
ROUTING = ("routing_cells", "routing_counts", "routing_words", "routing_leakage", "routing_sensitivity")


def words(texts: dict[str, tuple[str, ...]] = TEXTS) -> list[dict]:
    """A vocabulary of five words, four stimuli of each in each notation, and held-out ones of the classes."""
    every = [*DESIGN["classes"], *DESIGN["invented"]]
    return [
        row(word, notation, f"t{number}", text)
        for notation, own in texts.items()
        for number, text in enumerate(own, start=1)
        for word in every
    ] + [row(word, "plain", "h1", HELD_OUT, held_out=True) for word in DESIGN["classes"]]


def predictions() -> list[str]:
    """A csv of two readouts and two layers; at layer 5 nothing collapses."""
    cells = (("small", 3, SMALL), ("large", 3, LARGE), ("small", 5, SMALL), ("large", 5, SMALL))
    return ["scope,layer,item,property,stimulus,predicted"] + [
        f"{scope},{layer},{item},{side},s{number},{name}"
        for scope, layer, table in cells
        for item, (side, predicted) in table.items()
        for number, name in enumerate(predicted.split())
    ]


def config() -> dict[str, Any]:
    one, several = {"model": "tiny", "dataset": "words"}, {"models": ["tiny"], "dataset": "words"}
    made = {"predictions": {"path": "data/made.csv", "partition": SIDES}}
    return {
        "seeds": [42],
        "measures": ["many_class", "routing"],
        "paper_tables": True,
        "datasets": {
            "words": {"path": "data/words.jsonl", "kind": "vocabulary", "design": "data/design.json"},
            "care": {"path": "data/care.jsonl", "partition": PARTITION},
        },
        "models": {
            "tiny": {
                "source": {"local": {"directory": "weights/tiny/{revision}"}},
                "layers": 2,
                "revisions": list(STEPS),
                "vocabulary_layers": [0, 1],
            },
            "made": {"source": made},
        },
        "capture": {"device": "cpu"},
        "routing": {"folds": 2},
        "concentration": {"bootstrap": 50},
        "figures": {
            "matrix": {"kind": "routing_matrix", **one},
            "paths": {"kind": "routing_paths", **several},
            "plane": {"kind": "routing_plane", **several},
            "sensitivity": {"kind": "routing_sensitivity", **several},
            "groups": {"kind": "many_class", "model": "tiny", "dataset": "care"},
            "plane-made": {"kind": "routing_plane", "models": ["made"]},
            "matrix-made": {"kind": "routing_matrix", "model": "made"},
        },
    }


def write_words(tree: Tree, rows: list[dict], design: dict = DESIGN, name: str = "words") -> None:
    (tree / f"data/{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows))
    place = "design" if name == "words" else f"{name}_design"
    (tree / f"data/{place}.json").write_text(json.dumps(design))


def write_predictions(tree: Tree, rows: list[str], name: str = "made") -> None:
    (tree / f"data/{name}.csv").write_text("".join(f"{line}\n" for line in rows))


def build(place: Path) -> None:
    from tests.tiny_models import save_tiny_model

    tree = Tree.new(place)
    (tree / "data").mkdir()
    write_words(tree, words())
    write_pairs(tree / "data/care.jsonl", pairs("care") + pairs("truth"))
    write_predictions(tree, predictions())
    for seed, step in enumerate(STEPS):
        save_tiny_model("llama", tree / f"weights/tiny/{step}", seed=seed)
    (tree / "config.yaml").write_text(yaml.safe_dump(config(), sort_keys=False))
    run = tree.run()
    (place.parent / "lucky.json").write_text(json.dumps(sorted(run.done)))


@pytest.fixture(scope="session")
def whole(shared) -> Tree:
    """The finished study: nobody changes it."""
    return Tree(built_once(shared / "lucky_defaults" / "study", build))


@pytest.fixture
def mine(whole, tmp_path) -> Tree:
    return whole.copy(tmp_path / "study")


def at(rule: str, steps=STEPS, **further: str) -> set[str]:
    return {job(rule, revision=step, **further) for step in steps}


def tabulated(model: str, dataset: str) -> set[str]:
    return {job("tabulate_routing", model=model, dataset=dataset)}


WORDS = at("capture_vocabulary_tiny", dataset="words")
CARE = at("capture_tiny_care")
ROUTED = at("measure_routing_tiny", dataset="words")
GROUPS = at("measure_many_class_tiny", dataset="care")
READ = {job("read_predictions_made")}
PAPER = {job("tabulate_lucky_paper")}
OF_GROUPS = (
    {job("tabulate_many_class", model="tiny", dataset="care")} | joining(["many_class"]) | drawing(["groups"])
)
AFTER_WORDS = tabulated("tiny", "words") | joining(ROUTING) | PAPER | drawing(OF_TINY)
AFTER_MADE = tabulated("made", "predictions") | joining(ROUTING) | PAPER | drawing(OF_MADE)


def table(tree: Tree, name: str, **wanted: str) -> list[dict[str, str]]:
    rows = csv.DictReader((tree / f"results/tables/{name}.csv").read_text(encoding="utf-8").splitlines())
    return [one for one in rows if wanted.items() <= one.items()]


# what runs, and what comes of it


def test_a_study_of_words_groups_and_predictions_runs_these_jobs_and_no_others(whole):
    done = set(json.loads((whole.path.parent / "lucky.json").read_text()))
    measured = identifying(STEPS) | WORDS | CARE | ROUTED | GROUPS | READ | checking(["care"])
    assert done == measured | AFTER_WORDS | AFTER_MADE | OF_GROUPS
    assert half_files(whole) == []


def test_a_finished_study_has_nothing_to_do(mine):
    assert mine.plan() == NOTHING


def test_the_cache_of_words_holds_the_blocks_asked_for_at_their_anchors_alone(whole):
    from strataprobe import cache

    with cache.open_activations(whole / "results/activations/tiny/step0100/words.h5") as acts:
        assert acts.blocks == [0, 1]
        assert set(acts.positions) == {"operator-after", "close-paren", "sentence-final"}
        assert len(acts.ids) == len(words())


def test_every_a_pi_of_the_table_can_be_traced_to_single_predictions(whole):
    """From the predictions of each stimulus by hand, and from the table of counts, comes the same number."""
    side = {name: own["property"] for name, own in {**DESIGN["classes"], **DESIGN["invented"]}.items()}
    rows = table(whole, "routing_cells", model="tiny")
    assert len(rows) == 2 * 2 * (2 * 3 * 2 + 3 * 2 * 2), (
        "revisions, scopes, anchors of both directions, layers"
    )
    counted = defaultdict(lambda: [0, 0])
    for one in table(whole, "routing_counts", model="tiny", canonical="no"):
        cell = tuple(one[name] for name in CELL)
        counted[cell][one["predicted_property"] == one["item_property"]] += int(one["count"])
    for step in STEPS:
        found = agreement(whole / f"results/routing/tiny/{step}/words/predictions.h5", step, side)
        own = [one for one in rows if one["revision"] == step]
        assert {tuple(one[name] for name in CELL) for one in own} == set(found)
        for one in own:
            cell = tuple(one[name] for name in CELL)
            wrong, right = counted[cell]
            assert wrong + right == int(one["stimuli"]) == 8
            assert float(one["coarse_accuracy"]) == pytest.approx(right / 8, abs=1e-5)
            assert found[cell] == right / 8


CELL = ("revision", "scope", "direction", "train_anchor", "test_anchor", "layer")


def agreement(path: Path, step: str, side: dict[str, str]) -> dict[tuple[str, ...], float]:
    """Cell -> share of invented stimuli whose class is on their word's side, from the file of predictions."""
    read = routing.read_predictions(path)
    found = {}
    with h5py.File(path) as file:
        for (scope, direction, part), own in read.items():
            if part != "invented":
                continue
            names = file[scope][direction].attrs
            axes = [json.loads(names[name]) for name in ("train_anchors", "test_anchors", "layers")]
            intended = [side[name.rsplit(":", 1)[1]] for name in own["ids"]]
            for (i, train), (j, test), (k, layer) in (
                (a, b, c) for a in enumerate(axes[0]) for b in enumerate(axes[1]) for c in enumerate(axes[2])
            ):
                said = [side[own["classes"][place]] for place in own["predicted"][i, j, k]]
                right = sum(a == b for a, b in zip(said, intended, strict=True))
                found[step, scope, direction, train, test, str(layer)] = right / len(intended)
    return found


def test_predictions_made_elsewhere_stand_in_the_same_tables_by_hand(whole):
    rows = {(one["scope"], one["layer"]): one for one in table(whole, "routing_cells", model="made")}
    found = {
        place: tuple(one[name] for name in ("coarse_accuracy", "p_top_min", "side_mass", "verdict", "path"))
        for place, one in rows.items()
    }
    assert found == {
        ("small", "3"): ("0.875", "0.5", "0.375", "pass", "lucky default"),
        ("large", "3"): ("1", "1", "0.5", "lucky default", "lucky default"),
        ("small", "5"): ("0.875", "0.5", "0.375", "pass", "pass"),
        ("large", "5"): ("0.875", "0.5", "0.375", "pass", "pass"),
    }
    assert {one["property_accuracy"] for one in rows.values()} == {""}
    assert table(whole, "routing_words", model="made") == table(whole, "routing_leakage", model="made") == []
    flagged = {one["threshold"]: one["flagged"] for one in table(whole, "routing_sensitivity", model="made")}
    assert (flagged["0.95"], flagged["0.6"]) == ("1", "1")


def test_the_groups_of_pairs_have_the_same_columns_at_every_block(whole):
    rows = table(whole, "many_class", dataset="care")
    assert [(one["revision"], one["layer"]) for one in rows] == [(s, b) for s in STEPS for b in "01"]
    assert {one["partition"] for one in rows} == {"near | far"}
    assert {(one["classes"], one["stimuli"]) for one in rows} == {("4", "40")}
    assert all(0 <= float(one["coarse_accuracy"]) <= 1 for one in rows)


# what a change runs again


def test_another_threshold_judges_everything_again_and_captures_nothing(mine):
    with mine.changed_config() as changed:
        changed["concentration"]["coarse_accuracy"] = 0.6
    assert mine.plan() == ROUTED | GROUPS | READ | AFTER_WORDS | AFTER_MADE | OF_GROUPS


def test_another_penalty_trains_again_and_captures_nothing(mine):
    with mine.changed_config() as changed:
        changed["routing"]["C"] = 0.5
    planned = mine.plan()
    assert planned >= ROUTED | GROUPS | AFTER_WORDS | OF_GROUPS
    assert planned <= ROUTED | GROUPS | READ | AFTER_WORDS | AFTER_MADE | OF_GROUPS


def test_other_sides_of_the_groups_ask_their_probes_alone_again(mine):
    with mine.changed_config() as changed:
        changed["datasets"]["care"]["partition"] = {"near": ["help", "lies"], "far": ["harm", "theft"]}
    assert mine.plan() == GROUPS | OF_GROUPS


def test_the_order_of_the_sides_counts_since_the_second_one_is_a_column(mine):
    with mine.changed_config() as changed:
        changed["datasets"]["care"]["partition"] = dict(reversed(PARTITION.items()))
    assert mine.plan() == GROUPS | OF_GROUPS


def test_another_block_captures_the_words_again_and_no_sentence(mine):
    with mine.changed_config() as changed:
        changed["models"]["tiny"]["vocabulary_layers"] = [1]
    assert mine.plan() == WORDS | ROUTED | AFTER_WORDS


def test_other_scopes_of_the_design_measure_again_and_capture_nothing(mine, whole):
    """States do not hang on the readouts: a cache serves all of them."""
    scopes = {"3x2": DESIGN["scopes"]["3x2"]}
    write_words(mine, words(), {**DESIGN, "scopes": scopes})
    assert mine.run("results/tables/routing_cells.csv").done == ROUTED | tabulated("tiny", "words") | joining(
        ["routing_cells"]
    )
    assert {one["scope"] for one in table(mine, "routing_cells", model="tiny")} == {"3x2"}
    assert differing(mine.results("activations/**/*"), whole.results("activations/**/*")) == []


def test_words_in_another_order_are_captured_again(mine):
    """Words are numbered in a cache as the design lists them; the stimuli are the same."""
    write_words(mine, words(), {**DESIGN, "classes": dict(reversed(DESIGN["classes"].items()))})
    assert mine.plan() == WORDS | ROUTED | AFTER_WORDS


@pytest.mark.parametrize(
    ("key", "value", "same"),
    [
        ("scopes", {"3x2": DESIGN["scopes"]["3x2"]}, True),
        ("directions", [["plain", "call"]], True),
        ("controls", {}, True),
        ("property", "time", True),
        ("classes", {**DESIGN["classes"], "had": {"property": "past", "pieces": "7"}}, True),
        ("sides", ["future", "past"], False),
        ("classes", dict(reversed(DESIGN["classes"].items())), False),
        ("classes", {**DESIGN["classes"], "had": {"property": "future", "pieces": "1-2"}}, False),
        ("invented", {"zim": DESIGN["invented"]["zim"]}, False),
        ("anchors", {**DESIGN["anchors"], "plain": ["sentence-final", "operator-after"]}, False),
        ("anchors", "none", False),
    ],
)
def test_a_design_is_captured_again_for_its_words_sides_and_anchors_alone(tmp_path, key, value, same):
    """As the items of a cache are: the ids, labels, pairs and positions that it is known by."""
    checksums = []
    for number, design in enumerate((DESIGN, {**DESIGN, key: value})):
        place = tmp_path / f"{number}.json"
        place.write_text(json.dumps(design))
        checksums.append(designs.states_checksum(place))
    assert (checksums[0] == checksums[1]) == same


def test_one_more_prediction_reads_and_draws_its_own_chain_alone(mine, whole):
    write_predictions(mine, [*predictions(), "small,3,zim,future,s9,was"])
    assert mine.plan() == READ | AFTER_MADE
    assert mine.run("results/tables/routing_cells.csv").done == (
        READ | tabulated("made", "predictions") | joining(["routing_cells"])
    )
    changed = differing(mine.results(), whole.results())
    cells = {f"tables/{part}routing_{name}{made}.csv" for name in ("cells", "counts")
             for part, made in (("parts/", "/made/predictions"),)}  # fmt: skip
    assert set(changed) == cells | {"routing/made/main/predictions/summary.json", "tables/routing_cells.csv"}
    (row,) = table(mine, "routing_cells", model="made", scope="small", layer="3")
    assert (row["stimuli"], float(row["coarse_accuracy"])) == ("9", pytest.approx(7 / 9, abs=1e-5))


def test_words_are_routed_at_the_checkpoints_that_the_study_names(mine):
    with mine.changed_config() as changed:
        changed["models"]["tiny"]["at"] = {"routing": ["step0100"]}
    run = mine.run("lucky_defaults")
    assert run.done == AFTER_WORDS
    assert {one["revision"] for one in table(mine, "routing_cells", model="tiny")} == {"step0100"}
    assert {one["revision"] for one in table(mine, "many_class")} == set(STEPS)
    mine.remove("results/activations/tiny/step0000/words.h5", "results/routing/tiny/step0000")
    assert mine.plan() == NOTHING


# what is deleted, or mistyped


def test_a_deleted_cache_that_is_asked_for_comes_back_the_same(mine, whole):
    wanted = "results/activations/tiny/step0000/words.h5"
    mine.remove(wanted)
    assert mine.run(wanted).done == at("capture_vocabulary_tiny", ["step0000"], dataset="words")
    assert differing(mine.results(), whole.results()) == []


def test_deleted_summaries_tables_and_figures_come_back_the_same(mine, whole):
    mine.remove(
        "results/routing/tiny/step0000/words/*",
        "results/many_class/tiny/step0100/care/summary.json", "results/routing/made/main/predictions/*",
        "results/tables/*routing*", "results/tables/parts/routing_*", "results/tables/paper/lucky_*",
        "results/figures/matrix.*", "results/figures/sensitivity.png", "results/figures/groups.svg",
    )  # fmt: skip
    remade = at("measure_routing_tiny", ["step0000"], dataset="words") | READ | AFTER_WORDS | AFTER_MADE
    asked = "results/many_class/tiny/step0100/care/summary.json"
    done = mine.run("lucky_defaults", asked).done
    assert done - OF_GROUPS == remade | at("measure_many_class_tiny", ["step0100"], dataset="care")
    assert drawing(["groups"]) <= done
    assert differing(mine.results(), whole.results()) == []


def test_a_deleted_figure_is_all_that_is_drawn_again(mine, whole):
    mine.remove("results/figures/matrix.png")
    assert mine.run().done == drawing(["matrix"])
    assert differing(mine.results(), whole.results()) == []


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("results/routng/tiny/step0100/words/summary.json",
         "results/routing/tiny/step0100/words/summary.json"),
        ("results/many_clas/tiny/step0100/care/summary.json",
         "results/many_class/tiny/step0100/care/summary.json"),
        ("results/routing/made/main/predicitons/summary.json",
         "results/routing/made/main/predictions/summary.json"),
        ("results/tables/paper/lucky_tabel2.csv", "results/tables/paper/lucky_table2.csv"),
    ],
)  # fmt: skip
def test_a_mistyped_result_gets_the_nearest_one_that_is_made(whole, asked, meant):
    said = whole.run("--dry-run", asked, fails=True).output
    assert f"did you mean '{meant}'?" in said


# bad input


def bad_config() -> dict[str, Any]:
    """The study with a model more for each vocabulary, dataset or file that is bad."""
    bad = config()
    tiny = {**bad["models"]["tiny"], "revisions": ["step0100"]}
    bad["models"]["tiny"]["datasets"] = ["words", "care"]
    for name in ("single", "unseen"):
        bad["datasets"][name] = {
            "path": f"data/{name}.jsonl", "kind": "vocabulary", "design": f"data/{name}_design.json",
        }  # fmt: skip
        bad["models"][f"of-{name}"] = {**tiny, "datasets": [name]}
    for name, partition in PARTITIONS.items():
        bad["datasets"][name] = {"path": "data/care.jsonl", "bundle": "bad", "partition": partition}
    bad["models"]["of-groups"] = {**tiny, "datasets": list(PARTITIONS)}
    bad["models"]["misfit"] = {**tiny, "layers": 3, "vocabulary_layers": [2], "datasets": ["words"]}
    bad["models"]["spoiled"] = {"source": {"predictions": {"path": "data/spoiled.csv", "partition": SIDES}}}
    return bad


PARTITIONS = {
    "missed": {"near": ["help", "harm"], "far": ["lies"]},
    "alone": {"near": ["help", "harm", "lies"], "far": ["theft"]},
}
SPOILED = [
    "scope,layer,item,property,stimulus,predicted",
    "small,3,zim,future,s1,wil",
    "small,3,zim,future,s1,will",
    "small,3,zim,futur,s2,will",
    "small,3,gop,past,,was",
    "small,3,gop,past,s2,was",
    "small,3,dax,past,s1,was",
    "small,3,zim,past,s4,was",
]


@pytest.fixture(scope="session")
def bad(shared, whole) -> tuple[Tree, Run]:
    """One run of a study in which vocabularies, partitions, a model and a csv are bad, one figure deleted."""

    def make(place: Path) -> None:
        tree = whole.copy(place)
        write_words(tree, one_alone(), name="single")
        unseen = [one for one in words() if (one["item"], one["notation"]) != ("had", "call")]
        write_words(tree, unseen, name="unseen")
        write_predictions(tree, SPOILED, name="spoiled")
        with tree.changed_config() as changed:
            changed.clear()
            changed.update(bad_config())
        tree.remove("results/figures/plane.*")
        run = tree.run(fails=True)
        (place.parent / "bad.json").write_text(json.dumps(vars(run)))

    place = built_once(shared / "lucky_bad" / "study", make)
    return Tree(place), Run(**json.loads((place.parent / "bad.json").read_text()))


def one_alone() -> list[dict]:
    """The vocabulary with a single stimulus left of one word in one notation."""
    few = [("zim", "call", f"t{number}") for number in (2, 3, 4)]
    return [one for one in words() if (one["item"], one["notation"], one["template"]) not in few]


def error_of(bad: tuple[Tree, Run], log: str) -> str:
    """The one error in a job's log."""
    (message,) = errors((bad[0] / f"logs/{log}.log").read_text())
    return message


FAILING = {
    job("capture_vocabulary_of-single", revision="step0100", dataset="single"),
    job("capture_vocabulary_of-unseen", revision="step0100", dataset="unseen"),
    job("measure_many_class_of-groups", revision="step0100", dataset="missed"),
    job("measure_many_class_of-groups", revision="step0100", dataset="alone"),
    job("identify_local_misfit", revision="step0100"),
    job("read_predictions_spoiled"),
}


def test_bad_input_loses_nothing_and_does_not_keep_the_rest_from_being_done(bad, whole):
    tree, run = bad
    fine = {job(f"identify_local_of-{name}", revision="step0100") for name in ("single", "unseen", "groups")}
    fine |= {job("capture_of-groups_bad", revision="step0100")} | drawing(["plane"])
    fine |= {job("check_dataset", dataset=name) for name in PARTITIONS} | {job("tabulate_gates")}
    assert run.done == FAILING | fine
    before = whole.results()
    lost = [name for name in differing(tree.results(), before) if name in before]
    assert lost == ["tables/gates.csv"], "of the two datasets more"
    assert half_files(tree) == []
    made = [str(path.relative_to(tree.path)) for path in (tree / "results").rglob("*") if path.is_file()]
    assert not [path for path in made if "spoiled" in path and "benchmarks" not in path]
    assert not [path for path in made if "routing/of-" in path or "many_class/of-" in path]


def test_each_bad_input_is_one_error_without_a_traceback(bad):
    said = errors(bad[1].output)
    assert len(said) == len(set(said)) == len(FAILING)
    assert "Traceback" not in bad[1].output


def test_a_partition_that_misses_a_group_names_it(bad):
    message = error_of(bad, "measure_many_class_of-groups/step0100/missed")
    assert "of 'missed'" in message
    assert "group 'theft' is on no side" in message


def test_a_side_of_one_group_is_refused_with_the_reason(bad):
    message = error_of(bad, "measure_many_class_of-groups/step0100/alone")
    assert "side 'far' has the group 'theft' alone: with it left out, no class is on that side" in message


def test_a_word_with_a_single_stimulus_is_refused_with_the_reason(bad):
    message = error_of(bad, "capture_vocabulary_of-single/step0100/single")
    assert "data/single.jsonl" in message
    assert "item 'zim' has this stimulus alone in notation 'call'" in message
    assert "would be 1 whatever the probe does" in message


def test_a_class_that_no_probe_could_have_seen_is_refused(bad):
    message = error_of(bad, "capture_vocabulary_of-unseen/step0100/unseen")
    assert "data/unseen.jsonl" in message
    assert "class 'had' has no stimuli in notation 'call' to train on" in message


def test_blocks_that_the_weights_have_not_are_found_before_anything_is_captured(bad):
    assert "layers: the study says 3, config.json says 2" in error_of(bad, "identify_local_misfit/step0100")


def test_all_faults_of_a_csv_are_told_at_once(bad):
    message = error_of(bad, "read_predictions_spoiled")
    for fault in (
        "spoiled.csv:2: class 'wil' is not of the partition; did you mean 'will'?",
        "spoiled.csv:3: item 'zim' has stimuli again in the same cell",
        "spoiled.csv:4: property 'futur' is not of the partition; did you mean 'future'?",
        "spoiled.csv:5: field 'stimulus' is empty",
        "spoiled.csv:7: item 'dax' has a single stimulus in its cell: its top-class share is 1 whatever",
        "spoiled.csv:8: item 'zim' is 'past' here, but 'future' on line 2",
    ):
        assert fault in message, f"not said: {fault}\n{message}"


def test_blocks_and_figures_that_cannot_be_are_found_before_anything_runs(mine):
    with mine.changed_config() as changed:
        changed["models"]["tiny"]["vocabulary_layers"] = [0, 2]
        changed["models"]["made"]["source"]["predictions"]["path"] = "data/mad.csv"
        changed["datasets"]["words"]["design"] = "data/desing.json"
        changed["figures"]["plane"]["dataset"] = "care"
    run = mine.run(fails=True)
    for fault in (
        "models.tiny.vocabulary_layers: 2 is not one of the blocks 0 to 1",
        "models.made.source.predictions.path: there is no file 'data/mad.csv'; did you mean 'data/made.csv'?",
        "datasets.words.design: there is no file 'data/desing.json'; did you mean 'data/design.json'?",
        "figures.plane.dataset: 'care' holds minimal pairs; a figure of kind 'routing_plane' shows words",
    ):
        assert fault in run.output, f"not said: {fault}\n{run.output}"
    assert run.jobs == []
    assert "Traceback" not in run.output
