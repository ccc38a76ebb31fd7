"""Gates: each passes at its threshold and fails just beyond it; the shipped sets pass all of theirs."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from strataprobe.datasets.gates import check, check_paraphrases, report, token_gate
from strataprobe.datasets.pairs import PairsDataset, read_pairs
from strataprobe.datasets.profiles import PROFILES
from strataprobe.errors import DatasetError
from strataprobe.files import read_json, write_json
from tests.gate_cases import CASES, SENTENCES, swap, two

DATASETS = Path(__file__).parents[2] / "resources" / "datasets"
KEYWORDS = DATASETS / "moral_keywords.txt"
SHIPPED = {
    "sentiment": ("sentiment", {}),
    "syntax": ("syntax", {}),
    "compositional": (
        "compositional",
        {"blocklist": DATASETS / "strong_valence_blocklist.txt", "animate": DATASETS / "animate_words.txt"},
    ),
    "moral": ("moral", {"keywords": KEYWORDS}),
    "moral_paraphrases": ("paraphrase", {"keywords": KEYWORDS}),
    "moral_adversarial": ("adversarial", {"keywords": KEYWORDS}),
}

# What a set of four pairs in two groups can be asked in place of the moral profile's 25.
FEW = {"distinct_contrast_words_at_least": 2}


@pytest.fixture
def words(tmp_path):
    """A list of words for every gate that takes one."""
    path = tmp_path / "words.txt"
    path.write_text("# a remark\nbetray*  # with another\n\nevil\nporter*\n", encoding="utf-8")
    return path


@pytest.fixture
def dataset(tmp_path):
    """Rows as a file, read back: what a user's own file goes through."""

    def read(rows, name="mine"):
        numbered = [{"id": f"{row['group']}{number}", **row} for number, row in enumerate(rows)]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in numbered), encoding="utf-8")
        return read_pairs(path, name)

    return read


def good():
    return [swap(*row, group="ab"[number % 2]) for number, row in enumerate(SENTENCES)]


@pytest.mark.parametrize(
    ("name", "threshold", "passing", "failing", "named"), CASES, ids=[case[0] for case in CASES]
)
def test_a_gate_passes_at_its_threshold_and_fails_just_beyond(
    dataset, words, name, threshold, passing, failing, named
):
    lists = dict.fromkeys(("keywords", "blocklist", "animate"), words)
    for rows, holds in ((passing, True), (failing, False)):
        gates = check(dataset(rows), profile="generic", thresholds={name: threshold}, **lists)
        gate = next(gate for gate in gates if gate.name == name)
        assert gate.passed is holds, str(gate)
        assert gate.threshold == threshold
        assert (gate.count == 0) is (holds and "animate" not in name and "shared" not in name)
    assert gate.worst[0] == named


def test_every_gate_of_every_profile_is_tried_above():
    assert {name for gates in PROFILES.values() for name in gates} <= {case[0] for case in CASES}


def test_a_sound_set_passes_every_moral_gate(dataset, words):
    words.write_text("evil\n", encoding="utf-8")
    gates = check(dataset(good()), profile="moral", thresholds=FEW, keywords=words)
    assert len(gates) == 12
    assert [str(gate) for gate in gates if not gate.passed] == []


def test_one_fault_trips_its_own_gate_alone(dataset, words):
    words.write_text("evil\n", encoding="utf-8")
    rows = good()
    rows[0] = swap("An {} porter saw the duchess near the evil gate.", "odd", "old")
    gates = check(dataset(rows), profile="moral", thresholds=FEW, keywords=words)
    assert [gate.name for gate in gates if not gate.passed] == ["moral_keywords_on_the_neutral_side_at_most"]


def test_a_gate_reads_as_one_line(dataset):
    gates = {gate.name: gate for gate in check(dataset(good()[:3]), profile="syntax")}
    line = "group_balance_at_least 1: failed with 0.5: b (1 pairs): 0.5"
    assert str(gates["group_balance_at_least"]) == line


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_set_passes_its_profile(name):
    profile, lists = SHIPPED[name]
    gates = check(shipped(name), profile=profile, **lists)
    assert [str(gate) for gate in gates if not gate.passed] == []


def test_every_shipped_set_has_a_profile_and_a_card():
    found = {path.stem for path in DATASETS.glob("*.jsonl")}
    assert found == set(cards())
    # Control sets and words have checks of their own: test_control_sets.py, test_operators_data.py.
    assert {name for name in found if "control" not in name and name != "operators"} == set(SHIPPED)


def shipped(name: str) -> PairsDataset:
    return read_pairs(DATASETS / f"{name}.jsonl", name)


def cards() -> dict[str, str]:
    """Name of a set -> the text of its card."""
    text = (DATASETS / "README.md").read_text(encoding="utf-8")
    parts = re.split(r"^# .*`(\w+)\.jsonl`$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_card_shows_the_gates_and_what_was_measured(name):
    profile, lists = SHIPPED[name]
    gates = check(shipped(name), profile=profile, **lists)
    if name == "moral_paraphrases":
        gates += check_paraphrases(shipped(name), shipped("moral"))
    rows = re.findall(r"^\| `(\w+_at_(?:most|least))` \| (\S+) \| (\S+) \|$", cards()[name], re.MULTILINE)
    shown = [(gate.name, f"{gate.threshold:g}", f"{round(gate.value, 3):g}") for gate in gates]
    assert [row for row in rows if row[0] != "equal_token_counts_at_least"] == shown


def test_the_adversarial_set_is_laid_out_for_folds_in_file_order():
    """Its cues are balanced in each fold; pairs in another order lean, and fall below one half."""
    whole = shipped("moral_adversarial")
    order = np.random.default_rng(0).permutation(len(whole.pairs))
    mixed = PairsDataset("adv", whole.path, tuple(whole.pairs[i] for i in order), whole.sha256)
    cue = "function_words_cue_at_most"
    values = [
        next(gate.value for gate in check(one, profile="adversarial") if gate.name == cue)
        for one in (whole, mixed)
    ]
    assert values[0] <= 0.1 < 0.3 < values[1]


def test_the_paraphrases_are_of_the_moral_pairs_in_other_words(dataset):
    moral, paraphrases = (shipped(name) for name in ("moral", "moral_paraphrases"))
    assert [gate.passed for gate in check_paraphrases(paraphrases, moral)] == [True, True]
    (old_loaded, old_neutral), (loaded, neutral) = (
        [{pair.contrast[side].lower() for pair in one.pairs} for side in (0, 1)]
        for one in (moral, paraphrases)
    )
    assert loaded & (old_loaded | old_neutral) == set()
    assert neutral & old_loaded == set()
    strays = check_paraphrases(dataset([two("Moral.", "Not.", contrast=["Not"])]), moral)[0]
    assert (strays.passed, strays.worst) == (False, ["a0 (a)"])
    assert not check_paraphrases(moral, moral)[1].passed


def test_a_file_of_ones_own_gets_the_generic_report(dataset, tmp_path):
    mine = dataset([two("Ann saw her dog.", "Ann saw her cat."), two("Is it so?", "It is, so.", group="b")])
    made = report(check(mine, profile="generic"), mine, profile="generic")
    write_json(tmp_path / "report.json", made)
    assert read_json(tmp_path / "report.json") == made
    assert {
        key: made[key] for key in ("dataset", "path", "sha256", "pairs", "groups", "profile", "passed")
    } == {
        "dataset": "mine",
        "path": str(tmp_path / "mine.jsonl"),
        "sha256": mine.sha256,
        "pairs": 2,
        "groups": {"a": 1, "b": 1},
        "profile": "generic",
        "passed": False,  # no content word is shared in the second pair
    }
    assert {gate["name"]: gate["passed"] for gate in made["gates"]} == {
        "length_ratio_at_most": True,
        "content_overlap_at_least": False,
        "repeated_sentences_at_most": True,
        "group_balance_at_least": True,
        "opening_uses_at_most": True,
    }
    assert made["gates"][1] == {
        "name": "content_overlap_at_least",
        "threshold": 0.3,
        "value": 0.0,
        "passed": False,
        "worst": ["b1: 0"],
        "count": 1,
    }


def test_a_report_names_some_of_many_faults_and_counts_them_all(dataset):
    mine = dataset([two(f"{n}.", f"{n} what is much longer.") for n in range(50)])
    gate = report(check(mine, profile="generic"), mine, profile="generic")["gates"][0]
    assert (len(gate["worst"]), gate["count"]) == (20, 50)


def test_sets_without_groups_to_speak_of_or_contrast_words_are_reported_and_not_refused(dataset, words):
    mine = dataset([two("Ann paid Bob.", "Bob paid Ann.", group="only")])
    for profile in PROFILES:
        gates = check(mine, profile=profile, keywords=words, blocklist=words)
        made = report(gates, mine, profile=profile)
        assert all(np.isfinite(gate["value"]) for gate in made["gates"])
        assert made["passed"] is (profile == "generic")
    cue = next(gate for gate in check(mine, profile="adversarial") if gate.name == "words_cue_at_most")
    assert cue.worst == ["only (1 usable pairs, too few to tell): 0.5"]


def test_thresholds_are_overridden_by_name_and_gates_of_other_profiles_added(dataset):
    thresholds = {"opening_uses_at_most": 0, "words_at_most": 4}
    before = check(dataset(good()), profile="generic")
    after = check(dataset(good()), profile="generic", thresholds=thresholds)
    assert [gate.name for gate in after] == [*(gate.name for gate in before), "words_at_most"]
    assert [gate.name for gate in after if not gate.passed] == [*thresholds]


def test_everything_wrong_with_what_is_asked_is_said_at_once(dataset):
    thresholds = {"length_ratio": 2, "words_at_most": "many", "words_at_least": float("nan"), "zzz": 1}
    with pytest.raises(DatasetError) as caught:
        check(dataset(good()), profile="morals", thresholds=thresholds)
    lines = str(caught.value).splitlines()
    assert lines[0] == "the gates of dataset 'mine': 5 problems"
    assert "profile 'morals' is unknown; did you mean 'moral'?" in lines[1]
    assert "gate 'length_ratio' is unknown; did you mean 'length_ratio_at_most'?" in lines[2]
    assert "gate 'words_at_most': 'many' is not a number" in lines[3]
    assert "gate 'words_at_least': nan is not a number" in lines[4]
    assert "gate 'zzz' is unknown; known are length_ratio_at_most, " in lines[5]


def test_a_list_that_a_profile_needs_and_is_not_given_is_named(dataset):
    for profile, needed in (("moral", "keywords"), ("compositional", "blocklist")):
        with pytest.raises(DatasetError, match=f"needs '{needed}'"):
            check(dataset(good()), profile=profile)


def test_a_dataset_without_pairs_is_refused():
    with pytest.raises(DatasetError, match="'mine' has no pairs"):
        check(PairsDataset(name="mine", path="mine.jsonl", pairs=(), sha256="0" * 64), profile="generic")


def test_token_counts_are_equal_in_enough_pairs():
    pairs = np.repeat(np.arange(10), 2)
    ids = [f"p{index}:{side}" for index in range(10) for side in ("positive", "negative")]
    counts = np.full(20, 7)
    counts[[4, 9]] = [9, 10]
    passing = token_gate(counts, pairs, ids)
    assert (passing.name, passing.passed, passing.value) == ("equal_token_counts_at_least", True, 0.8)
    counts[0] = 8
    failing = token_gate(counts, pairs, ids)
    assert (failing.passed, failing.value, failing.count) == (False, 0.7, 3)
    assert failing.worst == ["p4: 7 and 10 tokens", "p2: 9 and 7 tokens", "p0: 8 and 7 tokens"]
    # The order of the items does not matter but for which half of a pair comes first.
    order = np.array([*range(10, 20), *range(10)])
    assert set(token_gate(counts[order], pairs[order], [ids[i] for i in order]).worst) == set(failing.worst)


@pytest.mark.parametrize(
    ("counts", "pairs", "ids"),
    [
        ([1, 2], [0, 0], ["a"]),
        ([], [], []),
        ([1, 2, 3], [0, 0, 1], ["a", "b", "c"]),
        ([1] * 4, [0, 0, 0, 1], "abcd"),
    ],
)
def test_token_counts_that_are_not_of_pairs_are_refused(counts, pairs, ids):
    with pytest.raises(DatasetError):
        token_gate(np.array(counts), np.array(pairs), ids)
