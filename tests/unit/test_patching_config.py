"""What a study may ask of patching, and what it starts from."""

import pytest

from strataprobe.config import Study
from strataprobe.errors import ConfigError


def raw(**changed):
    made = {
        "seeds": [1],
        "measures": ["levels", "patching"],
        "datasets": {
            "who": {"path": "who.jsonl", "kind": "control", "prompts": "p.json"},
            "moral": {"path": "moral.jsonl"},
        },
        "models": {
            "tiny": {
                "source": {"local": {"directory": "weights/{revision}"}}, "layers": 2,
                "revisions": ["one", "two", "three"],
            }
        },
    }  # fmt: skip
    return made | changed


def with_model(**changed):
    made = raw()
    made["models"]["tiny"] |= changed
    return made


def refusal(config) -> str:
    with pytest.raises(ConfigError) as caught:
        Study.load(config)
    return str(caught.value)


def at(study) -> list[str]:
    return [revision.name for revision in study.models["tiny"].measured_at("patching")]


def test_it_is_of_control_items_and_says_its_conventions():
    study = Study.load(raw())
    assert study.measured("patching") == [("tiny", "who")]
    assert study.settings("patching")["conventions"] == "default"
    published = Study.load(raw(conventions="published")).settings("patching")
    assert published["conventions"] == "published"
    assert published["states"] == ["bare"]
    assert study.settings("patching")["states"] == ["own_prompt"]
    both = raw(patching={"states": ["bare", "own_prompt"]}, conventions="published")
    assert Study.load(both).settings("patching")["states"] == ["bare", "own_prompt"]


def test_it_is_taken_where_the_levels_are_unless_fewer_are_named():
    assert at(Study.load(raw())) == ["one", "two", "three"]
    assert at(Study.load(with_model(at={"levels": ["three", "one"]}))) == ["one", "three"]
    study = Study.load(with_model(at={"levels": ["one", "three"], "patching": ["three"]}))
    assert at(study) == ["three"]
    assert [one.name for one in study.models["tiny"].measured_at("levels")] == ["one", "three"]


def test_it_needs_the_levels_at_its_checkpoints():
    said = refusal(with_model(at={"levels": ["one", "three"], "patching": ["two", "thre"]}))
    assert "models.tiny.at.patching: levels is not measured at 'two'" in said
    assert "models.tiny.at.patching: 'thre' is not a revision of that model; did you mean 'three'?" in said
    said = refusal(raw(measures=["patching"]))
    assert "models.tiny.measures: patching of 'who' starts from the results of levels" in said
    assert "'moral'" not in said


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"tasks": ["qua"]}, "patching.tasks"),
        ({"first_layer": "peek"}, "patching.first_layer"),
        ({"donors": 0}, "patching.donors: 0 is not a whole number of at least 1"),
        ({"windows": [1, 1]}, "1 given more than once"),
        ({"windows": []}, "the list is empty"),
        ({"state": ["bare"]}, "patching.state: unknown key; did you mean 'states'?"),
    ],
)
def test_faults_of_the_section_are_named(section, said):
    assert said in refusal(raw(patching=section))


def test_figures_of_patching_show_control_items_that_are_patched():
    figure = {"kind": "patching_depth", "models": ["tiny"], "dataset": "who"}
    Study.load(raw(figures={"one": figure}))
    said = refusal(raw(figures={"one": figure | {"dataset": "moral"}}))
    assert "figures.one.dataset: 'moral' holds minimal pairs" in said
    assert "shows control items" in said
    said = refusal(raw(measures=["levels"], figures={"one": figure}))
    assert "figures.one: patching of 'who' is not among the measures of 'tiny'" in said
    said = refusal(with_model(at={"patching": ["two"]}) | {"figures": {"one": figure | {"revision": "one"}}})
    assert "figures.one.revision: patching of 'tiny' is not taken at 'one'; did you mean" not in said
    assert "patching of 'tiny' is not taken at 'one'" in said
    del figure["models"]
    assert "figures.one.models: is missing" in refusal(raw(figures={"one": figure}))
