"""One revision that cannot be loaded does not end a sweep."""

from tests.workflow.study import (
    FIGURES,
    capturing,
    checking,
    drawing,
    identifying,
    joining,
    measuring,
    tabulating,
)
from tests.workflow.trees import differing, errors, half_files

BAD, GOOD = ["step0100"], ["step0000", "step0200"]
# Not layer_profile and noise_curves, which show one revision and have nothing of another one to wait for.
OVER_TRAINING = ["saturation", "depth", "scale"]


def test_the_others_finish_the_gap_can_be_drawn_and_repairing_runs_its_chain(study, finished):
    with study.changed_config() as config:
        del config["datasets"]["care"], config["datasets"]["truth"]
        for figure in config["figures"].values():
            figure["dataset"] = "size"
    study.remove("results", ".snakemake", "logs")
    weights = study / "weights/tiny/step0100/model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])

    run = study.run(fails=True)
    good = {"revisions": GOOD, "datasets": ["size"]}
    assert run.done == (
        checking(["size"])
        | identifying()
        | capturing(GOOD, ["size"])
        | measuring(**good)
        | drawing(["noise_curves"])
    )
    (error,) = errors(run.output)
    assert "step0100" in error
    assert "model.safetensors" in error
    for kind in ("activations", "probes", "fragility"):
        of_good = [f"{kind}/tiny/{revision}/size{rest}" for revision in GOOD for rest in (".h5", "/**/*")]
        assert differing(study.results(*of_good), finished.results(*of_good)) == []
    assert not list(study.path.glob("results/*/tiny/step0100*"))

    gaps = study.run("--config", "gaps=draw")
    rest = [figure for figure in FIGURES if figure != "noise_curves"]
    assert gaps.done == tabulating(["size"]) | joining() | drawing(rest)
    for figure in OVER_TRAINING:
        assert "step0100" in (study / f"results/figures/{figure}.svg").read_text(), f"{figure} hides the gap"

    weights.write_bytes(whole)
    bad = {"revisions": BAD, "datasets": ["size"]}
    assert study.run().done == (
        identifying(BAD)
        | capturing(BAD, ["size"])
        | measuring(**bad)
        | tabulating(["size"])
        | joining()
        | drawing(rest)
    )
    same = ["activations/tiny/*/size.h5", "probes/tiny/*/size/**/*", "fragility/tiny/*/size/**/*"]
    same += ["tables/parts/*/tiny/size.csv", "figures/scale.*", "checkpoints/**/*"]
    assert differing(study.results(*same), finished.results(*same)) == []
    assert half_files(study) == []
