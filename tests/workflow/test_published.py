"""Published result files as a source: tables and figures of numbers that nobody here made."""

import json

import pytest
import yaml

from tests.unit.test_published_files import fragility_file, probe_file
from tests.workflow.study import job, pairs, write_pairs
from tests.workflow.trees import Tree, errors

STEPS = (0, 1000, 2000)


@pytest.fixture
def published(tmp_path) -> Tree:
    """A study whose only model is a folder of result files."""
    tree = Tree.new(tmp_path / "study")
    write_pairs(tree / "data/care.jsonl", pairs("care"))
    for place, step in enumerate(STEPS):
        folder = tree / f"files/step{step}"
        folder.mkdir(parents=True)
        found = probe_file(step, (0.5, (6 + place) / 10, (7 + place) / 10))
        (folder / "probe.json").write_text(json.dumps(found))
        (folder / "fragility.json").write_text(json.dumps(fragility_file(step)))
    config = {
        "conventions": "published",
        "seeds": [42],
        "measures": ["probes", "fragility"],
        "datasets": {"care": {"path": "data/care.jsonl"}},
        "models": {
            "paper": {
                "source": {"published": {"directory": "files"}},
                "layers": 3,
                "datasets": ["care"],
                "seeds": [42],
                "revisions": [f"step{step}" for step in STEPS],
            }
        },
        "figures": {
            "saturation": {"kind": "saturation", "model": "paper", "dataset": "care"},
            "emergence": {"kind": "emergence", "model": "paper", "datasets": ["care"]},
        },
    }
    (tree / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return tree


def test_tables_and_figures_are_drawn_from_published_files(published):
    run = published.run()
    assert job("read_published_paper") in run.done
    assert not any(name.startswith(("capture", "train", "measure", "pin", "identify")) for name in run.done)
    onsets = (published / "results/tables/onsets.csv").read_text()
    assert ",42,onset_step,2000," in onsets  # means over layers: 0.6, 0.667, 0.733
    trajectory = (published / "results/tables/trajectory.csv").read_text()
    assert "mean_critical_noise,raw,grid_sampled,all,dropped,2," in trajectory
    assert "mean_critical_noise,raw,grid_sampled,all,capped,4.66667," in trajectory
    for figure in ("saturation", "emergence"):
        assert (published / f"results/figures/{figure}.png").stat().st_size > 5000
    assert published.plan() == set()


def test_a_checkpoint_that_is_not_there_is_named_and_a_changed_file_is_read_again(published):
    with published.changed_config() as config:
        config["models"]["paper"]["revisions"].append("step3000")
    (error,) = errors(published.run(fails=True).output)
    assert "step3000: no probes result" in error
    with published.changed_config() as config:
        config["models"]["paper"]["revisions"].remove("step3000")
    published.run()
    published.edit("files/step2000/probe.json", "0.9", "0.95")
    assert job("read_published_paper") in published.plan()
