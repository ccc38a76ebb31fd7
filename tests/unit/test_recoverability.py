"""Probe recoverability as a whole: one result from end to end, and the script on a study's own files."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import measure_recoverability
from strataprobe import cache, files, recoverability
from strataprobe.behavior import accuracy, describe
from strataprobe.behavior import splits as other_splits
from strataprobe.datasets.answers import splits_held
from strataprobe.datasets.control import read_control
from strataprobe.errors import CacheError, DatasetError
from strataprobe.provenance import made_from
from strataprobe.recoverability.codings import coded
from tests import control_items

SETTINGS = {**control_items.SETTINGS, "epochs": 40, "permutations": 19}
ROOT = Path(__file__).parents[2]
SUBJECT, OBJECT = "subject_control", "object_control"


def measured(items, states, **changes):
    data = control_items.dataset(items)
    return recoverability.measure(states, data, first_layer=0, settings={**SETTINGS, **changes})


@pytest.fixture(scope="module")
def whole():
    items = control_items.make(pairs=6, verbs=3)
    states = control_items.make_states(items, layers=3, hidden=10, twins=1.0)
    for position in "ab":  # block 1 tells control, and nothing before it does
        states[position][2, :, 0] += 6 * np.array([1 if item.gold == "a" else -1 for item in items])
    return items, measured(items, states)


def test_the_measure_finds_control_where_it_is_and_says_so_in_every_way(whole):
    items, found = whole
    assert found["layers"] == [
        {"layer": 0, "block": None, "depth": 0.0},
        {"layer": 1, "block": 0, "depth": 0.5},
        {"layer": 2, "block": 1, "depth": 1.0},
    ]
    assert found["items"] == describe(control_items.dataset(items))
    paper = found["codings"]["paper"]
    assert paper["label_is_subject_control"] == 1.0
    for name in ("pair_out", "group_out"):
        assert paper[name]["pick"]["global"]["layer"] == 2
        assert paper[name]["pick"]["global"]["accuracy"] > 0.9
        assert paper["null"][name]["p"] == 1 / 20
        assert paper["null"][name]["layer"] == 2
        assert paper["nested"][name]["accuracy"]["all"] > 0.9
    assert paper["pick"]["global"]["layer"] == 2
    assert all(
        noise is not None
        for noise in (rows[2] for rows in paper["critical_noise"]["pair_out"]["ab"]["raw"].values())
    )
    # v knows nothing of it, and decorrelated a and b carry it no more at a fixed place, but together.
    assert max(paper["pair_out"]["modes"]["v"]["accuracy"]["all"]) < 0.75


def test_accuracies_are_those_of_the_vectors(whole):
    items, found = whole
    types = np.array([item.control_type for item in items])
    for coding in found["codings"].values():
        for scheme in (coding, coding["pair_out"], coding["group_out"]):
            for mode in SETTINGS["modes"]:
                rows = scheme["modes"][mode]
                for layer in range(3):
                    texts = [rows["correct"][str(seed)][layer] for seed in SETTINGS["seeds"]]
                    assert {len(text) for text in texts} == {len(items)}
                    for split, mask in (("all", None), (SUBJECT, types == SUBJECT)):
                        each = [accuracy(text, mask) for text in texts]
                        assert rows["accuracy"][split][layer] == pytest.approx(np.mean(each))
                    each = [accuracy(text) for text in texts]
                    assert rows["sd"][layer] == pytest.approx(np.std(each, ddof=1))
        own = coding["verb_out"]["modes"]["ab"]
        texts = [own["correct"][str(seed)][2] for seed in SETTINGS["seeds"]]
        expected = np.mean([accuracy(text, types == SUBJECT) for text in texts])
        assert own["types"][SUBJECT]["verb_out"][2] == pytest.approx(expected)
        nested = coding["nested"]["item_out"]
        assert nested["accuracy"]["all"] == accuracy(nested["correct"])


def test_splits_are_those_of_the_other_levels_and_empty_ones_are_left_out(whole):
    items, found = whole
    theirs = other_splits(describe(control_items.dataset(items)))
    assert set(found["codings"]["paper"]["modes"]["v"]["accuracy"]) == set(theirs)
    assert {
        name: mask.tolist() for name, mask in splits_held(describe(control_items.dataset(items))).items()
    } == {name: mask.tolist() for name, mask in theirs.items()}
    kept = [item for item in items if (item.language, item.control_type) != ("de", OBJECT)]
    few = measured(kept, control_items.make_states(kept), modes=["v"])
    assert files.canonical_json(few)  # no NaN
    assert "de:object_control" not in few["codings"]["paper"]["nested"]["item_out"]["accuracy"]
    assert few["refused"]["balanced"].endswith("de: no object_control verb to hold out beside the others")


def test_the_script_imports_neither_torch_nor_other_large_packages():
    code = (
        "import sys; sys.path.insert(0, 'workflow_scripts'); import measure_recoverability;"
        "print([m for m in ('torch', 'sklearn', 'pandas', 'scipy.stats') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def test_labels_and_roles_are_written_beside_the_vectors(whole):
    items, found = whole
    for name, coding in found["codings"].items():
        expected = coded(items, name)
        assert [one == "1" for one in coding["labels"]] == (expected.labels > 0).tolist()
        assert [one == "1" for one in coding["swapped"]] == expected.swapped.tolist()


def test_random_labels_give_accuracies_near_one_half_where_no_twin_is_left():
    items = control_items.make(languages=("en", "zh", "de"), pairs=8, verbs=4)
    shares = []
    for seed in range(6):
        states = control_items.make_states(items, layers=2, hidden=16, twins=1.0, seed=seed)
        found = measured(items, states, modes=["ab", "v"], permutations=5)["codings"]["paper"]
        rows = found["pair_out"]["modes"]
        shares.append(np.mean([rows[mode]["accuracy"]["all"] for mode in ("ab", "v")]))
        assert np.mean([found["modes"][mode]["accuracy"]["all"] for mode in ("ab", "v")]) < 0.45
        assert np.mean(list(found["null"]["item_out"]["single"].values())) < 0.45
    assert np.mean(shares) == pytest.approx(0.5, abs=4 * np.std(shares) / np.sqrt(6) + 0.01)


def test_states_of_other_items_are_refused():
    items = control_items.make()
    with pytest.raises(DatasetError, match="the states are of 16 items, the dataset has 15"):
        measured(items[1:], control_items.make_states(items))


def test_one_seed_has_no_spread():
    items = control_items.make(pairs=2)
    found = measured(items, control_items.make_states(items), seeds=[5], modes=["v"])["codings"]["paper"]
    assert found["modes"]["v"]["sd"] == [None] * 3
    assert found["pick"]["global"]["sd"] == 0.0


COMMISSIVE, DIRECTIVE = ("promised", "swore to", "vowed to"), ("told", "asked", "urged")
ROWS = [
    {
        "id": f"{language}_{kind[:4]}_{pair}", "item_group": f"{pair}{kind[0]}", "pair": f"{pair}",
        "language": language, "control_type": kind, "verb": f"{verb}{language}", "predicate": "leave",
        "sentence": f"Ann {verb} Bob to leave {pair}.", "candidate_a": "Ann", "candidate_b": "Bob",
        "gold": "a" if kind == SUBJECT else "b",
        "qa_prompt": "Who? Answer:", "qa_answer_a": " Ann", "qa_answer_b": " Bob",
        "paraphrase_prompt": "Which? Answer:", "paraphrase_a": " Ann did", "paraphrase_b": " Bob did",
        "bare_prompt": "So", "bare_a": " Ann did", "bare_b": " Bob did",
    }
    for language in ("en", "de")
    for pair in range(3)
    for kind, verb in ((SUBJECT, COMMISSIVE[pair]), (OBJECT, DIRECTIVE[pair]))
]  # fmt: skip


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "control.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path, {
        "fields": None,
        "kind": "control",
        "name": "control",
        "path": str(path),
        "prompts": None,
    }


def write_revision(folder, entry, name, embed=True):
    """A cache and an identity as capture leaves them; the states are returned."""
    data = read_control(entry["path"], "control")
    items = data.items()
    identity = {
        "model": "tiny", "revision": name, "step": 1, "source": "local", "layers": 2, "parameters": 10,
        "weights_sha256": name * 8, "tokenizer_sha256": "t" * 8,
    }  # fmt: skip
    files.write_json(folder / f"{name}.json", identity)
    states = control_items.make_states(data.controls, layers=3, hidden=6, seed=len(name))
    layers = cache.layer_names(2, embed=embed)
    with cache.create(
        folder / f"{name}.h5", ids=items.ids, labels=items.labels, groups=items.groups, pairs=items.pairs,
        layers=layers, positions=["mean", "mean_rest", "a", "b", "v"], hidden_size=6,
        provenance=made_from(identity) | {"dataset_sha256": items.sha256},
    ) as writer:  # fmt: skip
        noise = np.zeros((len(ROWS), 2, 6), np.float32)
        stored = {
            layer: np.concatenate([noise, *(states[p][row + (not embed), :, None] for p in "abv")], axis=1)
            for row, layer in enumerate(layers)
        }
        writer.write(0, stored, np.full(len(ROWS), 7))
    return states


def run(folder, entry, names, **changes):
    settings = {**SETTINGS, "modes": ["ab", "v"], "epochs": 5, **changes}
    paths = [[str(folder / f"{name}.{kind}") for name in names] for kind in ("h5", "json", "out")]
    measure_recoverability.main(*paths, dataset=entry, settings=settings)
    return [files.read_json(path) for path in paths[2]]


def test_a_study_s_revisions_are_measured_one_by_one(study):
    folder, entry = study
    states = write_revision(folder, entry, "a")
    write_revision(folder, entry, "bb", embed=False)
    with_embedding, without = run(folder, entry, ["a", "bb"])
    assert with_embedding["benchmark_name"] == "control_recoverability"
    assert (with_embedding["revision"], without["revision"]) == ("a", "bb")
    assert [place["layer"] for place in with_embedding["layers"]] == [0, 1, 2]
    assert without["layers"] == [
        {"layer": 1, "block": 0, "depth": 0.5},
        {"layer": 2, "block": 1, "depth": 1.0},
    ]
    data = read_control(entry["path"], "control")
    direct = recoverability.measure(
        states, data, first_layer=0, settings={**SETTINGS, "modes": ["ab", "v"], "epochs": 5}
    )
    assert files.canonical_json(direct["codings"]) == files.canonical_json(with_embedding["codings"])
    assert with_embedding["provenance"]["settings"]["ridge"] == SETTINGS["ridge"]


def test_states_of_another_version_of_the_sentences_are_stale(study):
    folder, entry = study
    write_revision(folder, entry, "a")
    text = (folder / "control.jsonl").read_text()
    (folder / "control.jsonl").write_text(text.replace("leave 2.", "leave 9."))
    with pytest.raises(CacheError, match="dataset_sha256"):
        run(folder, entry, ["a"])
