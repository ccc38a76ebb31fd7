"""A study is one config, complete by itself, with results of its own; checkpoints are shared."""

from tests.workflow.study import capturing, drawing, job, measuring
from tests.workflow.trees import differing, half_files

FILE = "studies/second.yaml"


def second(study) -> None:
    """A study of one revision and one dataset, while the default one has more."""
    with study.changed_config(FILE) as config:
        config["study"] = "second"
        config["seeds"] = [42]
        config["datasets"] = {"size": config["datasets"]["size"]}
        config["models"]["tiny"]["revisions"] = ["step0000"]
        config["figures"] = {"profile": {"kind": "layer_profile", "model": "tiny", "dataset": "size"}}


def test_a_study_has_exactly_its_own_models_and_files_and_shares_checkpoints(study, finished):
    second(study)
    with study.changed_config() as config:
        config["models"]["another"] = config["models"]["tiny"]  # only the default study knows it
    wanted = ["results/studies/second/figures/profile.svg", "results/studies/second/tables/probing.csv"]
    run = study.run("--configfile", FILE, "--", *wanted)
    one = {"revisions": ["step0000"], "datasets": ["size"], "seeds": [42]}
    tables = {job(f"tabulate_{kind}", model="tiny", dataset="size") for kind in ("probes", "fragility")}
    assert run.done == (
        capturing(["step0000"], ["size"])
        | measuring(**one)
        | tables
        | {job("join_table", table="probing")}
        | drawing(["profile"])
    ), "not exactly this study's jobs, or a checkpoint identified twice"
    assert "another" not in study.run("--configfile", FILE, "--summary").output

    root = "studies/second/"
    changed = differing(study.results(), finished.results())
    assert [name for name in changed if not name.startswith(root)] == [], "not only this study's files"
    mine = {name.removeprefix(root): sha for name, sha in study.results(f"{root}**/*").items()}
    kinds = {name.split("/")[0] for name in mine}
    assert kinds == {"activations", "figures", "fragility", "probes", "tables"}
    theirs = finished.results()
    same = [name for name in mine if name.startswith(("activations", "probes", "fragility"))]
    assert len(same) == 1 + 4 + 3
    assert [name for name in same if mine[name] != theirs[name]] == []
    assert half_files(study) == []


def test_a_study_does_not_inherit_what_the_default_one_says(study):
    second(study)
    (study / "config.yaml").write_text("models: this file is broken, and nobody may read it\n")
    planned = study.plan("--configfile", FILE)
    assert planned >= capturing(["step0000"], ["size"]) | drawing(["profile"])
    assert [name for name in planned if "step0100" in name or "step0200" in name] == []
