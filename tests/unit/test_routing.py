"""Routing studies: every cell is the probe it says, and planted geometry comes out as what it is."""

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from strataprobe import files, routing
from strataprobe.concentration import Thresholds
from strataprobe.datasets.vocabulary import Design, Scope, Stimulus, VocabularyDataset, Word
from strataprobe.errors import CacheError, DatasetError, ProbeError
from strataprobe.routing.audit import audit, read_tokenizer

SIDE = dict.fromkeys(("ash", "oak", "zib", "nud"), "two") | dict.fromkeys(("elm", "fir", "wex", "pog"), "one")
CLASSES, ITEMS = ("ash", "elm", "oak", "fir"), ("zib", "nud", "wex", "pog")
WORD, END = "operator-after", "sentence-final"
DESIGN = Design(
    property="number",
    sides=("two", "one"),
    classes={word: Word(SIDE[word], "1") for word in CLASSES},
    invented={word: Word(SIDE[word], "2+") for word in ITEMS},
    scopes={"2x2": Scope(("ash", "elm"), ("zib", "wex")), "4x4": Scope(("fir", "elm", "oak", "ash"), ITEMS)},
    anchors={"mention": (WORD,), "call": (WORD, END), "swapped": (END, WORD)},
    directions=(("mention", "call"), ("call", "mention")),
    controls={"call": "swapped"},
    sha256="0" * 64,
)
SETTINGS = {
    "C": 1.0,
    "tolerance": 1e-9,
    "max_iterations": 100,
    "folds": 3,
    "seed": 7,
    "bootstrap": 50,
    "sensitivity": [0.99, 0.6],
}
BLOCKS = [3, 7, 11]


@dataclass
class Cache:
    """States by anchor, as an opened cache gives them."""

    ids: list[str]
    blocks: list[int]
    states: dict[str, np.ndarray]

    def stack(self, anchor):
        return self.states[anchor]


def stimulus(word, notation, template, *, held_out=False):
    text = f"{template} has {word}."
    return Stimulus(
        id=f"{notation}:{template}:{word}",
        item=word,
        canonical=word in CLASSES,
        property=SIDE[word],
        notation=notation,
        template=template,
        held_out=held_out,
        text=text,
        anchors={WORD: (len(template) + 5, len(text) - 1), END: (len(text) - 1, len(text))},
    )


def vocabulary(templates=10):
    """Every word in every template of every notation, and each class in three held-out ones."""
    stimuli = [
        stimulus(word, notation, f"t{number:02d}")
        for notation in DESIGN.anchors
        for number in range(templates)
        for word in SIDE
    ] + [
        stimulus(word, notation, f"h{number}", held_out=True)
        for notation in ("mention", "call")
        for number in range(3)
        for word in CLASSES
    ]
    return VocabularyDataset("trees", DESIGN, tuple(stimuli), "trees.jsonl", "0" * 64)


def cached(dataset, state, *, blocks=BLOCKS, hidden=12, noise=0.05):
    """A cache of states that `state(one, anchor, block)` gives, with a little noise."""
    rng = np.random.default_rng(0)
    states = {}
    for anchor in (WORD, END):
        drawn = noise * rng.standard_normal((len(blocks), len(dataset.stimuli), hidden))
        for place, block in enumerate(blocks):
            for row, one in enumerate(dataset.stimuli):
                drawn[place, row] += state(one, anchor, block)
        states[anchor] = drawn.astype(np.float32)
    return Cache([one.id for one in dataset.stimuli], list(blocks), states)


def axis(number, hidden=12):
    return np.eye(hidden)[number]


def whole(texts):
    """A tokenizer to which every word is one token."""
    offsets = []
    for text in texts:
        offsets.append([found.span() for found in re.finditer(r"[^ ]+", text)])
    return [list(range(len(own))) for own in offsets], offsets


def measured(dataset, cache, **changes):
    return routing.measure(
        cache, dataset, whole, layers=20, settings={**SETTINGS, **changes}, thresholds=Thresholds()
    )


def noise_study(seed=0, templates=8):
    """States in which words, templates and notations all show, none of them clearly."""
    rng = np.random.default_rng(seed)
    vectors: dict = {}

    def state(one, anchor, block):
        parts = [(block, anchor, one.item), (block, anchor, one.template), (block, anchor, one.notation)]
        return sum(vectors.setdefault(part, rng.standard_normal(12)) for part in parts)

    dataset = vocabulary(templates)
    return dataset, cached(dataset, state, noise=1.0)


@pytest.fixture(scope="module")
def noisy():
    dataset, cache = noise_study()
    return dataset, cache, *measured(dataset, cache)


def rows_of(summary, **equal):
    return [row for row in summary["cells"] if all(row[name] == value for name, value in equal.items())]


def rows_at(dataset, notation, words, held_out=False):
    """Places of a notation's stimuli of these words in the dataset, and which word each is of."""
    found = [
        (row, words.index(one.item))
        for row, one in enumerate(dataset.stimuli)
        if one.notation == notation and one.item in words and one.held_out is held_out
    ]
    return np.array(found).T


def test_every_cell_is_the_probe_of_scikit_learn(noisy):
    dataset, cache, summary, crossings = noisy
    assert len(summary["cells"]) == 2 * (1 * 2 + 2 * 1) * len(BLOCKS)
    for crossing in crossings:
        words = crossing.classes
        trained, labels = rows_at(dataset, crossing.train, words)
        for (train, test, place), _ in np.ndenumerate(np.empty(crossing.shape)):
            states = cache.stack(crossing.train_anchors[train])[place].astype(float)
            asked = cache.stack(crossing.test_anchors[test])[place].astype(float)
            model = LogisticRegression(tol=1e-10, solver="newton-cholesky").fit(states[trained], labels)
            if len(words) == 2:  # one sigmoid there, softmax over both here
                model = LogisticRegression(C=2.0, tol=1e-10, solver="newton-cholesky")
                model.fit(states[trained], labels)
            for part in (crossing.invented, crossing.canonical, *(crossing.swapped or ())):
                rows = [cache.ids.index(name) for name in part.stimuli.ids]
                assert np.array_equal(part.classes[train, test, place], model.predict(asked[rows]))
            rows, true = rows_at(dataset, crossing.test, words)
            (found,) = rows_of(
                summary,
                scope=crossing.scope,
                direction=f"{crossing.train}->{crossing.test}",
                train_anchor=crossing.train_anchors[train],
                test_anchor=crossing.test_anchors[test],
                layer=BLOCKS[place],
            )
            assert found["class_accuracy"] == pytest.approx((model.predict(asked[rows]) == true).mean())
            assert found["depth"] == BLOCKS[place] / 20
            assert (found["classes"], found["items"]) == (len(words), len(crossing.invented.stimuli.words))


def test_leakage_folds_are_scikit_learn_s_and_held_out_templates_are_never_trained_on(noisy):
    dataset, cache, summary, _ = noisy
    assert len(summary["leakage"]) == (1 + 2) * len(BLOCKS) * 2
    for row in summary["leakage"]:
        words = {len(scope.classes): scope.classes for scope in DESIGN.scopes.values()}[row["classes"]]
        states = cache.stack(row["anchor"])[BLOCKS.index(row["layer"])].astype(float)
        trained, labels = rows_at(dataset, row["notation"], words)
        order = np.argsort([cache.ids[place] for place in trained])
        trained, labels = trained[order], labels[order]
        C = 2.0 if len(words) == 2 else 1.0
        model = LogisticRegression(C=C, tol=1e-10, solver="newton-cholesky")
        found = np.empty(len(labels), int)
        folds = StratifiedKFold(SETTINGS["folds"], shuffle=True, random_state=SETTINGS["seed"])
        for kept, held in folds.split(trained, labels):
            found[held] = model.fit(states[trained[kept]], labels[kept]).predict(states[trained[held]])
        side = np.array([SIDE[word] for word in words])
        assert row["folds_accuracy"] == pytest.approx((found == labels).mean())
        assert row["folds_property_accuracy"] == pytest.approx((side[found] == side[labels]).mean())
        unseen, true = rows_at(dataset, row["notation"], words, held_out=True)
        assert len(unseen) == 3 * len(words)
        found = model.fit(states[trained], labels).predict(states[unseen])
        assert row["held_out_accuracy"] == pytest.approx((found == true).mean())
        assert row["held_out_property_accuracy"] == pytest.approx((side[found] == side[true]).mean())


def test_order_of_stimuli_changes_nothing(noisy):
    dataset, cache, summary, crossings = noisy
    rng = np.random.default_rng(1)
    order, other = (rng.permutation(len(cache.ids)) for _ in range(2))
    turned = replace(dataset, stimuli=tuple(dataset.stimuli[row] for row in order))
    states = {anchor: values[:, other] for anchor, values in cache.states.items()}
    again, recrossed = measured(turned, Cache([cache.ids[row] for row in other], BLOCKS, states))
    assert again == summary
    for one, two in zip(crossings, recrossed, strict=True):
        assert one.invented.stimuli.ids == two.invented.stimuli.ids
        assert np.array_equal(one.invented.classes, two.invented.classes)


def test_states_that_follow_the_print_are_told_from_states_that_follow_the_word():
    """At the end of a call the number of printed arguments shows, at the word the word's own side does."""
    dataset = vocabulary()
    other = {"two": "one", "one": "two"}

    def state(one, anchor, block):
        shown = other[one.property] if (one.notation, anchor) == ("swapped", END) else one.property
        return 3 * axis(0) * (1 if shown == "two" else -1) + axis(1 + list(SIDE).index(one.item))

    summary, _ = measured(dataset, cached(dataset, state))
    for scope in DESIGN.scopes:
        for anchor, left in ((END, 0.0), (WORD, 1.0)):
            for row in rows_of(summary, scope=scope, direction="mention->call", test_anchor=anchor):
                assert (row["coarse_accuracy"], row["property_accuracy"]) == (1.0, 1.0)
                assert (row["swapped_coarse_accuracy"], row["swapped_property_accuracy"]) == (left, left)
    for row in rows_of(summary, direction="call->mention"):
        assert row["swapped_coarse_accuracy"] is row["swapped_property_accuracy"] is None


def test_a_readout_that_collapses_under_a_new_class_is_a_lucky_default_and_a_wrong_one_is_retracted():
    """All items lie on `oak`, which the smaller readout lacks, in block 3; most `one` items do in block 7."""
    dataset = vocabulary(templates=10)
    centre = {"ash": 3 * axis(0), "elm": -3 * axis(0), "oak": 6 * axis(1), "fir": 6 * axis(2)}

    def state(one, anchor, block):
        if one.canonical:
            return centre[one.item]
        number = int(one.template[1:])
        right = 1 if one.property == "two" else -1
        leans = axis(0) * (right if number < 8 else -right)
        drawn = block == 3 or (block == 7 and one.property == "one" and number < 7)
        return leans + 9 * axis(1) * drawn

    summary, _ = measured(dataset, cached(dataset, state))
    expected = {3: ("lucky default", 1.0, 0.5), 7: ("retracted", 0.7, 0.45), 11: ("pass", 0.8, 0.8)}
    for block, (path, floor, coarse) in expected.items():
        small, large = (rows_of(summary, scope=scope, layer=block) for scope in DESIGN.scopes)
        assert len(small) == len(large) == 4
        for row in small:
            assert (row["verdict"], row["coarse_accuracy"], row["p_top_min"]) == ("pass", 0.8, 0.8)
        for row in large:
            assert row["p_top_min"] == floor
            assert row["coarse_accuracy"] == pytest.approx(coarse)
            assert row["canonical_p_top_min"] == 1.0
        assert {row["path"] for row in small + large} == {path}
    assert {row["top_class"] for row in rows_of(summary, scope="4x4", layer=3)} == {"oak"}
    assert summary["sensitivity"] == [
        {"threshold": 0.99, "flagged": 4, "passed": 12},
        {"threshold": 0.6, "flagged": 12, "passed": 12},
    ]


def test_templates_that_carry_the_class_are_found_by_held_out_ones():
    """Block 3 knows templates, each of which is all but one class's own; block 7 knows words."""
    dataset = vocabulary()
    own = [
        one
        for one in dataset.stimuli
        if not one.canonical or one.held_out or int(one.template[1:]) % 4 == CLASSES.index(one.item)
    ]
    # Three copies of each, as if a template's text varied without its state.
    copies = [replace(one, id=f"{one.id}:{copy}") for one in own for copy in range(3)]
    dataset = replace(dataset, stimuli=tuple(copies))
    rng = np.random.default_rng(3)
    vectors: dict = {}

    def state(one, anchor, block):
        known = one.template if block == 3 else one.item
        return 4 * vectors.setdefault(known, rng.standard_normal(12))

    summary, _ = measured(dataset, cached(dataset, state, blocks=[3, 7]), folds=2)
    rows = [row for row in summary["leakage"] if row["classes"] == 4]
    leaky, sound = ([row for row in rows if row["layer"] == block] for block in (3, 7))
    assert all(row["folds_accuracy"] == 1.0 for row in leaky + sound)
    assert all(row["held_out_accuracy"] < 0.5 for row in leaky)
    assert all(row["held_out_accuracy"] == 1.0 for row in sound)


def test_without_held_out_templates_their_columns_are_empty(noisy):
    dataset, cache, *_ = noisy
    kept = tuple(one for one in dataset.stimuli if not one.held_out)
    summary, _ = measured(replace(dataset, stimuli=kept), cache)
    for row in summary["leakage"]:
        assert row["held_out_accuracy"] is row["held_out_property_accuracy"] is None
        assert row["folds_accuracy"] is not None


def test_every_accuracy_can_be_traced_to_the_predictions_on_file(noisy, tmp_path):
    dataset, _, summary, crossings = noisy
    routing.write_predictions(tmp_path / "predictions.h5", crossings, SETTINGS)
    kept = routing.read_predictions(tmp_path / "predictions.h5")
    assert len(kept) == 2 * (4 + 2)
    by_id = {one.id: one for one in dataset.stimuli}
    parts = {"invented": "coarse_accuracy", "canonical": "property_accuracy"}
    parts |= {f"swapped_{part}": f"swapped_{column}" for part, column in parts.items()}
    for (scope, direction, part), found in kept.items():
        assert found["predicted"].dtype == np.uint8
        shown = [by_id[name] for name in found["ids"]]
        notation = direction.partition("->")[2]
        assert {one.notation for one in shown} == {"swapped" if part.startswith("swapped") else notation}
        right = np.vectorize(lambda place, of=found["classes"]: SIDE[of[place]])(found["predicted"])
        accuracy = (right == [SIDE[one.item] for one in shown]).mean(axis=-1).ravel()
        rows = [row[parts[part]] for row in rows_of(summary, scope=scope, direction=direction)]
        assert rows == pytest.approx(accuracy.tolist())
        if not part.startswith("swapped"):
            assert counted(summary, scope, direction, part == "canonical") == recounted(found, shown)


def counted(summary, scope, direction, canonical):
    """(item, predicted class) -> stimuli over all cells, by the summary's rows."""
    found: dict = {}
    for row in summary["counts"]:
        if (row["scope"], row["direction"], row["canonical"]) == (scope, direction, canonical):
            assert row["item_property"] == SIDE[row["item"]]
            assert row["predicted_property"] == SIDE[row["predicted"]]
            key = row["item"], row["predicted"]
            found[key] = found.get(key, 0) + row["count"]
    return found


def recounted(kept, shown):
    """The same from the predictions on file."""
    found: dict = {}
    cells = kept["predicted"].reshape(-1, len(shown))
    for cell in cells:
        for one, place in zip(shown, cell.tolist(), strict=True):
            key = one.item, kept["classes"][place]
            found[key] = found.get(key, 0) + 1
    return found


def test_predictions_on_file_are_the_same_bytes_and_damage_is_told(noisy, tmp_path):
    *_, crossings = noisy
    for name in ("a.h5", "b.h5"):
        routing.write_predictions(tmp_path / name, crossings, SETTINGS)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "b.h5"]
    content = (tmp_path / "a.h5").read_bytes()
    (tmp_path / "a.h5").write_bytes(content[: len(content) // 2])
    with pytest.raises(ProbeError, match=r"a\.h5 is damaged"):
        routing.read_predictions(tmp_path / "a.h5")


def test_words_say_what_share_of_invented_stimuli_they_attract(noisy):
    *_, summary, crossings = noisy
    assert [row["word"] for row in summary["words"]] == [*CLASSES, *ITEMS]
    own = {row["word"]: row["attracted"] for row in summary["words"]}
    assert [own[word] for word in ITEMS] == [None] * 4
    assert sum(own[word] for word in CLASSES) == pytest.approx(1)
    large = [crossing for crossing in crossings if crossing.scope == "4x4"]
    predicted = np.concatenate([crossing.invented.classes.ravel() for crossing in large])
    names = np.array(large[0].classes)[predicted]
    for word in CLASSES:
        assert own[word] == pytest.approx((names == word).mean())
    assert {row["word"]: row["out_of_design"] for row in summary["words"]} == {
        **dict.fromkeys(CLASSES, False), **dict.fromkeys(ITEMS, True),
    }  # fmt: skip
    assert {row["real_words"] for row in summary["words"] if not row["canonical"]} == set(ITEMS)


def test_the_summary_is_ready_for_json_and_progress_is_told(noisy, tmp_path):
    dataset, cache, summary, _ = noisy
    files.write_json(tmp_path / "summary.json", summary)
    assert files.read_json(tmp_path / "summary.json") == summary
    told = []
    routing.measure(
        cache, dataset, whole, layers=20, settings=SETTINGS, thresholds=Thresholds(), workers=2,
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_cache_of_other_stimuli_and_classes_too_few_for_the_folds_are_refused(noisy):
    dataset, cache, *_ = noisy
    short = Cache(cache.ids[:-2], BLOCKS, cache.states)
    with pytest.raises(CacheError, match=r"lacks 2 of 216 stimuli, the first is 'call:h2:oak'"):
        measured(dataset, short)
    few = {("mention", "ash"): 2, ("call", "fir"): 0}
    kept = tuple(
        one
        for one in dataset.stimuli
        if one.held_out or int(one.template[1:]) < few.get((one.notation, one.item), 99)
    )
    with pytest.raises(DatasetError) as error:
        measured(replace(dataset, stimuli=kept), cache)
    assert str(error.value) == (
        "dataset 'trees': 2 problems\n"
        "  class 'ash' has 2 stimuli in 'mention', fewer than the 3 folds of cross-validation\n"
        "  class 'fir' has 0 stimuli in 'call', fewer than the 3 folds of cross-validation"
    )


def test_probes_that_do_not_converge_are_an_error_with_a_remedy(noisy):
    dataset, cache, *_ = noisy
    with pytest.raises(ProbeError, match=r"of 2 classes on 'mention' did not converge in 1 it.*\(raise"):
        measured(dataset, cache, max_iterations=1)


@pytest.mark.parametrize("bos", [True, False])
def test_the_audit_of_a_tokenizer_on_disk_is_that_of_transformers(tmp_path, bos):
    from tests.tiny_models import tiny_tokenizer

    tokenizer = tiny_tokenizer(bos=bos)
    tokenizer.save_pretrained(tmp_path)
    words = {"the": Word("two", "1"), "truth": Word("one", "2-3")}
    invented = {"nighen": Word("two", "1"), "thetru": Word("one", "2+")}
    design = replace(DESIGN, classes=words, invented=invented)
    stimuli = [
        replace(stimulus("ash", "mention", "They said"), id=word, item=word, text=f"They said {word} now.",
                anchors={WORD: (10, 10 + len(word))})
        for word in design.words
    ]  # fmt: skip
    dataset = VocabularyDataset("words", design, tuple(stimuli), "words.jsonl", "0" * 64)
    for one in audit(dataset, read_tokenizer(tmp_path)):
        tokens = tokenizer.tokenize(f" {one.word}")
        assert [piece.replace("Ġ", "") for piece in tokens if piece != "Ġ"] == list(one.mentioned)
        assert one.mentioned == one.spaced
        words_alone = [
            piece for piece in dict.fromkeys((*one.mentioned, one.word))
            if len(piece) >= 3 and len(tokenizer.tokenize(f" {piece}")) == 1
        ]  # fmt: skip
        assert list(one.real_words) == ([] if one.canonical else words_alone)
        target = design.words[one.word]
        assert one.out_of_design == (not target.fits(len(one.mentioned)))
    found = {one.word: one for one in audit(dataset, read_tokenizer(tmp_path))}
    assert found["the"].mentioned == ("the",)
    assert len(found["thetru"].mentioned) > 1
