"""Revisions of a hub model in the config: a list, a range with a pattern, every k-th of what its list has."""

import copy

import pytest

from strataprobe import revisions
from strataprobe.config import Study, check
from strataprobe.config.schema import schema
from strataprobe.errors import ConfigError

RANGE = {"pattern": "stage1-step{step}-tokens{tokens}B", "from": 0, "to": 4000, "every": 1000}
STEPS = [f"stage1-step{step}-tokens{step // 500}B" for step in range(0, 6000, 1000)]
RAW = {
    "seeds": [42],
    "datasets": {"own": {"path": "own.jsonl"}},
    "models": {"tiny": {"source": {"hub": {"repo": "lab/tiny"}}, "layers": 2, "revisions": RANGE}},
}


def config(given, **entry):
    raw = copy.deepcopy(RAW)
    raw["models"]["tiny"] |= {"revisions": given, **entry}
    return raw


def commits(*refs):
    return {ref: f"{number:07x}{number:033x}" for number, ref in enumerate(refs)}


@pytest.fixture
def base(tmp_path):
    """A working directory with the list of a repository's revisions."""
    (tmp_path / "own.jsonl").write_text("")
    table = revisions.listed("lab/tiny", commits("main", *STEPS, "stage2-ingredient1-step7"), {})
    revisions.write(tmp_path / revisions.place("tiny"), table)
    return tmp_path


def faults(raw, base, **how):
    with pytest.raises(ConfigError) as caught:
        check(raw, base=base, **how)
    title, *lines = str(caught.value).split("\n")
    assert title == f"config.yaml: {len(lines)} problem{'s' if len(lines) > 1 else ''}"
    return [line.strip() for line in lines]


def chosen(raw, base):
    return Study.load(raw, base=base).models["tiny"].revisions


def test_a_range_stands_for_the_refs_of_its_steps_each_with_its_commit(base):
    found = chosen(config(RANGE), base)
    assert [revision.ref for revision in found] == STEPS[:5]
    assert [revision.name for revision in found] == STEPS[:5]
    assert [revision.step for revision in found] == [0, 1000, 2000, 3000, 4000]
    pinned = commits("main", *STEPS)
    assert [revision.commit for revision in found] == [pinned[ref] for ref in STEPS[:5]]


def test_every_kth_is_of_what_the_list_has(base):
    assert [revision.ref for revision in chosen(config({"every": 3}), base)] == [
        STEPS[0], STEPS[3], "stage2-ingredient1-step7",
    ]  # fmt: skip
    only = config({"every": 4, "matching": "stage1-*"})
    assert [revision.ref for revision in chosen(only, base)] == [STEPS[0], STEPS[4]]


def test_a_listed_revision_takes_its_commit_from_the_list_by_ref_and_keeps_its_name_and_step(base):
    given = [{"name": "early", "ref": STEPS[1], "step": 17}, "main", "new"]
    early, main, new = chosen(config(given), base)
    pinned = commits("main", *STEPS)
    assert (early.name, early.step, early.commit) == ("early", 17, pinned[STEPS[1]])
    assert (main.name, main.step, main.commit) == ("main", None, pinned["main"])
    assert (new.name, new.ref, new.commit) == ("new", "new", None)


def test_a_study_of_listed_revisions_needs_no_list(tmp_path):
    (tmp_path / "own.jsonl").write_text("")
    (only,) = chosen(config(["ckpt_042"]), tmp_path)
    assert (only.ref, only.step, only.commit) == ("ckpt_042", 42, None)


@pytest.mark.parametrize("given", [RANGE, {"every": 2}])
def test_without_a_list_a_choice_is_refused_with_what_to_run_but_not_while_resolving(tmp_path, given):
    (tmp_path / "own.jsonl").write_text("")
    (line,) = faults(config(given), tmp_path)
    assert line == (
        "models.tiny.revisions: resources/revisions/tiny.tsv is missing, the list of lab/tiny that they are "
        "chosen from; it is made once by: snakemake --cores 1 resolve (with the same --configfile)"
    )
    study = Study.load(config(given), base=tmp_path, resolving=True)
    assert study.models["tiny"].revisions == ()
    assert study.asked_of_hub("tiny") == ({"matching": None, **given} if given != RANGE else RANGE)


def test_while_resolving_the_other_faults_are_still_told(base):
    (base / "own.jsonl").unlink()
    (base / revisions.place("tiny")).write_text("damaged")
    (line,) = faults(config(RANGE), base, resolving=True)
    assert line == "datasets.own.path: there is no file 'own.jsonl'"


def test_what_is_asked_of_the_hub_for_a_list_is_each_revision_s_ref():
    study = Study.load(config(["step1", {"name": "end", "ref": "main"}]))
    assert study.asked_of_hub("tiny") == ["step1", "main"]


def test_names_that_a_choice_stands_for_can_be_named_elsewhere_and_others_cannot(base):
    at = {"levels": [STEPS[0]]}
    assert len(Study.load(config(RANGE, at=at), base=base).models["tiny"].measured_at("levels")) == 1
    raw = config(RANGE, at={"levels": [STEPS[5]]})
    raw["figures"] = {
        "layers": {"kind": "layer_profile", "model": "tiny", "dataset": "own", "revision": "stage1-step1000"}
    }
    at_fault, figure = faults(raw, base)
    assert at_fault.startswith(
        f"models.tiny.at.levels: {STEPS[5]!r} is not a revision of that model; did you"
    )
    assert figure == (
        "figures.layers.revision: 'stage1-step1000' is not a revision of that model; "
        "did you mean 'stage1-step1000-tokens2B'?"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**RANGE, "to": 7000},
         ": lab/tiny has no ref like 'stage1-step{step}-tokens{tokens}B' of steps 6000, 7000; "
         f"nearest: {STEPS[5]}"),
        ({"every": 2, "matching": "stage3-*"}, ": no ref of lab/tiny matches 'stage3-*'; its 8 refs: stage1"),
        ({**RANGE, "pattern": "stage1"}, ".pattern: 'stage1' needs {step} once, where"),
        ({**RANGE, "pattern": "s{step}{step}"}, ".pattern: 's{step}{step}' needs {step} once"),
        ({**RANGE, "pattern": "s{step}-{token}"},
         ".pattern: 's{step}-{token}': only {step} and {tokens} may stand in braces"),
        ({**RANGE, "pattern": 7}, ".pattern: 7 needs {step} once"),
        ({**RANGE, "from": -1}, ".from: -1 is not a whole number of at least 0"),
        ({**RANGE, "every": 0}, ".every: 0 is not a whole number of at least 1"),
        ({**RANGE, "from": 5000}, ": to: 4000 is less than from: 5000"),
        ({**RANGE, "to": 10**9, "every": 1}, ": 1000000001 steps from 0 to 1000000000; at most"),
        ({**RANGE, "patern": "x"}, ".patern: unknown key; did you mean 'pattern'?"),
        ({**RANGE, "form": 1}, ".form: unknown key; did you mean 'from'?"),
        ({"pattern": "s{step}", "to": 3, "every": 1}, ".from: is missing, and has no default"),
        ({"every": 2, "matchin": "x"}, ".matchin: unknown key; did you mean 'matching'?"),
        ({"evry": 2}, ".evry: unknown key; did you mean 'every'?"),
        ({}, ".every: is missing, and has no default"),
        ("main", ": 'main': input should be a valid list"),
        ([{"name": "a", "reff": "b"}], ".0.reff: unknown key; did you mean 'ref'?"),
        (["a b"], ".0.name: 'a b' cannot name a file"),
    ],
)  # fmt: skip
def test_a_fault_is_named_with_its_place_and_what_would_be_right(base, given, said):
    lines = faults(config(given), base)
    assert any(line.startswith(f"models.tiny.revisions{said}") for line in lines), lines
    assert not [line for line in lines if "[" in line.split(":")[0]], "a mark of ours stands in a place"


def test_a_list_is_checked_as_before(base):
    assert faults(config([]), base) == [
        "models.tiny: needs revisions: a list with at least one, such as [main]"
    ]
    assert faults(config(["a", "a"]), base) == ["models.tiny: revisions: a given more than once"]


@pytest.mark.parametrize("given", [{"evry": 2}, {}, {**RANGE, "every": 0}])
def test_a_choice_with_a_fault_of_its_own_is_not_also_looked_up(base, given):
    (base / revisions.place("tiny")).unlink()
    assert not [line for line in faults(config(given), base) if "is missing, the list" in line]


def test_only_a_hub_has_something_to_choose_from(base):
    (base / "weights").mkdir()
    raw = config({"every": 2}, source={"local": {"directory": "weights/{revision}"}})
    (line,) = faults(raw, base)
    assert line == "models.tiny: revisions: only a hub lists what it has; give a list, such as [step1000]"


def test_a_list_of_another_repository_or_with_a_fault_is_refused_also_for_listed_revisions(base):
    elsewhere = config(["main"], source={"hub": {"repo": "lab/other"}})
    (line,) = faults(elsewhere, base)
    assert line.startswith(
        "models.tiny.revisions: resources/revisions/tiny.tsv is the list of lab/tiny, not of lab/other; it"
    )
    place = base / revisions.place("tiny")
    place.write_text(place.read_text().replace("\t1000\t", "\t1001\t"))
    wrong, advice = faults(config(["main"]), base)
    assert wrong.startswith("models.tiny.revisions: resources/revisions/tiny.tsv:4: step is '1001', but ")
    assert advice.endswith("mend it, or write it anew: snakemake --cores 1 resolve")


def test_the_rate_that_downloads_are_reckoned_with_is_a_positive_number(base):
    assert Study.load(config(RANGE), base=base).config.downloads.megabytes_per_second == 20
    (line,) = faults({**config(RANGE), "downloads": {"megabytes_per_second": 0}}, base)
    assert line == "downloads.megabytes_per_second: 0 is not a number greater than 0"


def test_the_schema_has_all_three_forms_with_the_keys_as_they_are_written():
    shown = schema()
    forms = [form.get("$ref", form.get("type")) for form in _forms(shown)]
    assert forms == ["array", "#/$defs/RevisionRange", "#/$defs/RevisionSample", "null"]
    assert set(shown["$defs"]["RevisionRange"]["properties"]) == {"pattern", "from", "to", "every"}


def _forms(shown):
    found = shown["$defs"]["ModelEntry"]["properties"]["revisions"]["anyOf"]
    return [form for given in found for form in given.get("oneOf", [given])]
