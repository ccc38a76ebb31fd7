"""Paths are the ones DESIGN names, and two studies never share a result."""

import pytest

from strataprobe.layout import Layout, layer_name

PLACES = {
    "identity": (("m", "r"), "results/checkpoints/m/r.json"),
    "weights": (("m", "r"), "results/checkpoints/m/r/model.safetensors"),
    "perplexity": (("m", "r"), "results/checkpoints/m/r.perplexity.json"),
    "activations": (("m", "r", "d"), "results/activations/m/r/d.h5"),
    "layer": (("fragility", "m", "r", "d", 42, 7), "results/fragility/m/r/d/seed42/layer07.json"),
    "measure": (("probes", "m", "r", "d", 42, "weights.h5"), "results/probes/m/r/d/seed42/weights.h5"),
    "whole": (("transfer", "m", "r", "d"), "results/transfer/m/r/d/summary.json"),
    "gates": (("d",), "results/datasets/d/gates.json"),
    "floors": (("d",), "results/datasets/d/floors.json"),
    "table": (("probing",), "results/tables/probing.csv"),
    "table_part": (("probing", "m", "d"), "results/tables/parts/probing/m/d.csv"),
    "checkpoints_part": (("m",), "results/tables/parts/checkpoints/m.csv"),
    "page": (("checkpoints",), "results/tables/checkpoints.html"),
    "figure": (("saturation", "svg"), "results/figures/saturation.svg"),
    "log": (("train_probes", "m", "r"), "logs/train_probes/m/r.log"),
    "benchmark": (("train_probes", "m", "r"), "results/benchmarks/train_probes/m/r.tsv"),
}
SHARED = {"identity", "weights"}


@pytest.mark.parametrize("name", PLACES)
def test_the_default_study_has_the_paths_of_the_design(name):
    arguments, expected = PLACES[name]
    assert getattr(Layout(), name)(*arguments) == expected


@pytest.mark.parametrize("name", PLACES)
def test_another_study_shares_checkpoints_and_nothing_else(name):
    arguments, expected = PLACES[name]
    path = getattr(Layout("mine"), name)(*arguments)
    assert (path == expected) == (name in SHARED)
    assert name in SHARED or "studies/mine/" in path


def test_wildcards_stay_as_they_are():
    assert Layout().layer("probes", "m", "{revision}", "{dataset}", "{seed}", "{layer}") == (
        "results/probes/m/{revision}/{dataset}/seed{seed}/layer{layer}.json"
    )


def test_layers_sort_by_name_as_by_number():
    names = [layer_name(layer) for layer in range(40)]
    assert names == sorted(names)
    assert layer_name(7) == "07"


def test_benchmarks_folder_holds_the_benchmarks():
    for layout in (Layout(), Layout("mine")):
        assert layout.benchmark("rule", "m").startswith(f"{layout.benchmarks}/")
