"""A decision rule asks for what its study measures, or is refused with what would be right."""

import pytest

from strataprobe.config import Study, check
from tests.unit.test_config import RAW, changed, faults

# Checkpoints of `nano` are step0000, step0020 and step0100; it has a second pre-training seed, `nano-p2`.
RULE = {"model": "nano", "dataset": "moral", "first": "step0020", "second": "step0100"}
OF_LOCAL = {"model": "local", "dataset": "own", "first": "step1000", "second": "end"}
RULED = changed(
    ("decision_rules", {"decline": RULE}),
    ("models.local.seeds", [7, 8]),
    ("models.local.measures", ["probes", "fragility"]),
)


def test_a_rule_says_little_and_means_the_published_quantity():
    (rule,) = check(RULED).decision_rules.values()
    assert (rule.control, rule.statistic, rule.band, rule.means) == ("raw", "grid_sampled", "all", "dropped")
    assert rule.least_drop == 1.0
    assert check(RAW).decision_rules == {}


@pytest.mark.parametrize("rule", [{**RULE, "model": "nano-p2"}, OF_LOCAL], ids=["further seed", "listed"])
def test_a_rule_may_be_of_any_model_of_the_study(rule):
    study = Study.load(changed(("decision_rules.decline", rule), of=RULED))
    assert study.config.decision_rules["decline"].second in study.models[rule["model"]].steps


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "nan"}, "decline.model: 'nan' is not a model of this study; did you mean 'nano'?"),
        ({"dataset": "morla"},
         "decline.dataset: 'morla' is not a dataset of this study; did you mean 'moral'?"),
        ({"first": "step0021"},
         "decline.first: 'step0021' is not a revision of that model; did you mean 'step0020'?"),
        ({"model": "nano-p2", "second": "end"},
         "decline.second: 'end' is not a revision of that model; known here: step0000, step0020, step0100"),
        ({**OF_LOCAL, "second": "ende"},
         "decline.second: 'ende' is not a revision of that model; did you mean 'end'?"),
        ({"second": "step0020"},
         "decline.second: 'step0020' is the first checkpoint too; a decline is between two"),
        ({"least_drop": 0}, "decline.least_drop: 0 is not a number greater than 0"),
        ({"least_dorp": 1}, "decline.least_dorp: unknown key; did you mean 'least_drop'?"),
        ({"control": "rms"}, "decline.control: 'rms' is not one of 'raw', 'rms_before', 'rms_after' or"),
        ({"statistic": "grid"}, "decline.statistic: 'grid' is not one of 'grid_sampled', 'grid_exact' or"),
        ({"band": "end"}, "decline.band: 'end' is not one of 'all', 'early', 'mid' or 'late'"),
        ({"means": "kept"}, "decline.means: 'kept' is not one of 'capped' or 'dropped'"),
        # A list in the place of one name is a fault like any other, and no crash.
        ({"model": ["nano"]}, "decline.model: ['nano'] cannot name a file"),
        ({"dataset": ["moral"]}, "decline.dataset: ['moral'] cannot name a file"),
        ({"first": ["step0020"]}, "decline.first: ['step0020'] cannot name a file"),
    ],
)  # fmt: skip
def test_a_fault_of_a_rule_is_named_with_its_place_and_what_would_be_right(change, said):
    lines = faults(changed(("decision_rules.decline", {**RULE, **change}), of=RULED))
    assert len(lines) == 1
    assert lines[0].startswith(f"decision_rules.{said}")


@pytest.mark.parametrize("key", list(RULE))
def test_a_rule_needs_a_model_a_dataset_and_two_checkpoints(key):
    rule = {name: value for name, value in RULE.items() if name != key}
    lines = faults(changed(("decision_rules.decline", rule), of=RULED))
    assert lines == [f"decision_rules.decline.{key}: is missing, and has no default"]


@pytest.mark.parametrize(
    ("place", "of", "said"),
    [
        ("seeds", RULE, "'moral' has [42] in 'nano'"),
        ("models.nano.seeds", RULE, "'moral' has [42] in 'nano'"),
        ("models.nano.seeds", {**RULE, "model": "nano-p2"}, "'moral' has [42] in 'nano-p2'"),
        ("models.local.seeds", OF_LOCAL, "'own' has [42] in 'local'"),
        ("datasets.moral.seeds", RULE, "'moral' has [42] in 'nano'"),
    ],
)
def test_one_seed_cannot_differ_from_itself(place, of, said):
    raw = changed((place, [42]), ("decision_rules.decline", of), of=RULED)
    assert faults(raw) == [f"decision_rules.decline: a spread over seeds needs at least 2; {said}"]


def test_the_seeds_that_count_are_those_the_dataset_is_measured_with():
    one = changed(("seeds", [42]), ("models.nano.seeds", [7]), ("datasets.moral.seeds", [1, 2]), of=RULED)
    assert check(one).decision_rules


@pytest.mark.parametrize(
    "edit",
    [
        ("measures", ["probes"]),
        ("models.nano.measures", ["probes"]),
        ("datasets.moral.measures", ["probes"]),
        ("models.nano.datasets", ["own"]),
        ("datasets.moral.tests", "own"),
    ],
    ids=lambda edit: edit[0],
)
def test_a_rule_on_what_has_no_critical_noise_is_refused(edit):
    """Else the whole study would fail on a file that nothing makes."""
    assert faults(changed(edit, of=RULED)) == [
        "decision_rules.decline: critical noise of 'moral' is not measured in 'nano'"
    ]


def test_rules_in_another_form_are_a_fault_and_no_crash():
    for given in ([RULE], "decline", {"decline": "moral"}):
        (line,) = faults(changed(("decision_rules", given), of=RULED))
        assert line.startswith("decision_rules")


# What figures share with rules


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nano", "'step20' is not a revision of that model; did you mean 'step0020'?"),
        ("nano-p2", "'step20' is not a revision of that model; did you mean 'step0020'?"),
        ("local", "'step20' is not a revision of that model; did you mean 'step1000'?"),
    ],
)
def test_a_figure_of_a_checkpoint_that_is_not_there_is_refused(model, said):
    figure = {"kind": "controls", "model": model, "dataset": "own", "revision": "step20"}
    assert faults(changed(("figures.one", figure))) == [f"figures.one.revision: {said}"]
    known = {"nano": "step0020", "nano-p2": "step0100", "local": "end"}[model]
    check(changed(("figures.one", {**figure, "revision": known})))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("figures.saturation.model", ["nano"]),
        ("figures.saturation.dataset", ["moral"]),
        ("models.local.datasets", [["own"]]),
        ("datasets.own.tests", ["moral"]),
    ],
)
def test_a_list_in_the_place_of_a_name_is_a_fault_and_no_crash(place, value):
    (line,) = faults(changed((place, value)))
    assert line.startswith(place)
    assert "cannot name a file" in line
