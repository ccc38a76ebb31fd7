"""Section 4.3 of the fragility paper from its authors' own results, put through our reader and our tables."""

import json

import pytest

from strataprobe.published import read_numbers
from strataprobe.published.curation_tables import section4_3
from strataprobe.published.files import Published, read_directory
from strataprobe.published.results import GRID
from strataprobe.tables import fragility_rows, trajectory_rows
from strataprobe.tables.curation import curation_rows
from tests.unit.test_curation_paper import one
from tests.unit.test_published import FOLDER
from tests.unit.test_published_files import REFERENCE, golden, info

# Of 96 sentences right in each layer, and critical noise by layer ("-": censored): of the probing after the
# last step, and of the snapshot at the last step. Source: result files of section 4.3 in the authors' public
# repository (deepsteer/deepsteer, commit 0c78e7f, of the paper's moral set). At step 0 all are the base.
PROBED = {
    "narrative_moral": (
        "70 68 61 63 66 68 66 65 67 71 66 63 66 69 69 67",
        "10 3 10 3 3 3 3 - 10 - 10 10 3 10 - -",
        "3 10 3 3 3 10 3 10 10 10 10 10 10 10 10 10",
    ),
    "declarative_moral": (
        "72 63 67 68 63 63 65 62 67 71 64 66 64 63 66 68",
        "3 3 10 3 3 3 3 10 3 - 3 10 3 10 10 3",
        "3 10 3 3 10 - 1 10 10 10 10 3 3 - 10 10",
    ),
    "general_control": (
        "71 68 68 62 72 67 70 67 69 65 68 66 68 66 67 70",
        "3 3 3 3 3 10 3 - 3 - 10 10 10 10 10 10",
        "3 10 1 3 10 3 10 10 10 10 10 10 - 10 10 10",
    ),
}
OF_BASE = "3 3 3 3 3 10 3 - 10 - 10 10 10 3 10 10"
TOKENS = {"narrative_moral": 246978, "declarative_moral": 499958, "general_control": 419641}


def lora_file(condition: str) -> dict:
    """A result file in the authors' form."""
    right, final, snapshot = PROBED[condition]
    accuracy = [int(count) / 96 for count in right.split()]

    def layers(noise: str) -> list[float | None]:
        return [None if level == "-" else float(level) for level in noise.split()]

    def tested(place: int, critical: float | None) -> dict:
        curve = {str(level): 0.7 if critical is None or level < critical else 0.5 for level in GRID}
        named = {"accuracy_by_noise": curve, "critical_noise": critical}
        return {"layer": place, "baseline_accuracy": 0.7, **named}

    scores = [{"layer": place, "accuracy": value} for place, value in enumerate(accuracy)]
    tests = [tested(place, critical) for place, critical in enumerate(layers(final))]
    return {
        "benchmark_name": "lora_experiment", "model_info": info(16, 1000), "corpus_name": condition,
        "corpus_tokens": TOKENS[condition],
        "probe_snapshots": [
            {"step": step, "probing": {"layer_accuracies": accuracy},
             "fragility": {"layer_critical_noise": layers(noise)}}
            for step, noise in ((0, OF_BASE), (1000, snapshot))
        ],
        "final_probing": {"model_info": info(16, 1000), "layer_scores": scores},
        "final_fragility": {
            "model_info": info(16, 1000), "layer_scores": tests, "noise_levels": list(GRID),
        },
    }  # fmt: skip


def of_files(found: Published, *, final: bool) -> list[dict]:
    """The table `curation` of result files: of the probing after the last step, or of the snapshots."""
    first = [[{**each[0], "model": "base"}] for each in (found.probing, found.fragility)]
    parts, runs = [first], []
    for own in found.training:
        last = [[own["final_probing"]], [own["final_fragility"]]]
        taken = [
            [one for one in each if one["model"] == own["model"] and one["step"]]
            for each in (found.probing, found.fragility)
        ]
        parts.append(last if final else taken)
        revisions = [[one["revision"], one["step"]] for one in parts[-1][0]]
        named = {"model": own["model"], "condition": own["condition"].split("_")[0]}
        runs.append({**named, "seed": 42, "revisions": revisions})
    return curation_rows(
        {"name": "authors", "base": {"model": "base", "revision": first[0][0]["revision"]}, "runs": runs,
         "noise_levels": {"raw": GRID, "rms": GRID}},
        trajectory=[trajectory_rows(*own) for own in parts],
        fragility=[fragility_rows(own[1]) for own in parts],
        losses=[[{"step": at, "loss": loss} for at, loss in own["loss"]] for own in found.training],
        corpora=[{"tokens_used": own["corpus_tokens"], "passes": 1.0} for own in found.training],
    )  # fmt: skip


def values(rows: list[dict], quantity: str, statistic: str = "") -> dict[str, float]:
    """Condition -> value at the last step."""
    return {
        own["group"]: own["value"]
        for own in rows
        if own["quantity"] == quantity
        and own["statistic"] == statistic
        and (own["step"] or quantity != "loss")
    }


@pytest.fixture(scope="module")
def numbers():
    return read_numbers(FOLDER / "fragility.csv")


@pytest.fixture(scope="module")
def authors(tmp_path_factory) -> Published:
    folder = tmp_path_factory.mktemp("lora")
    for condition in PROBED:
        (folder / f"{condition}.json").write_text(json.dumps(lora_file(condition)))
    return read_directory(folder, dataset="moral", seed=42)


def test_what_is_printed_is_of_the_probing_after_the_last_step_with_capped_means(authors, numbers):
    """Peaks 0.740, 0.750, 0.750; means 7.375, 5.625, 6.9375; fragile layers 6, 10 and 7 of 16.

    The mean accuracy over layers is not "identical": the declarative one is two points below the general.
    """
    rows = section4_3(of_files(authors, final=True), numbers)
    printed = {
        (number.revision.removeprefix("lora-"), number.quantity): number
        for number in numbers.find(paper="fragility", place="section 4.3")
    }
    for own in rows:
        number = printed.get((own["group"], own["quantity"]))
        if number and own["group"] != "base" and own["quantity"] != "loss":
            rounding = 500 if own["quantity"] == "corpus_tokens" else number.rounding
            assert own["published"] == number.value
            assert abs(own["value"] - number.value) <= rounding + 1e-9, own
    assert values(rows, "mean_critical_noise", "grid_sampled") == {
        "base": 6.9375, "declarative": 5.625, "general": 6.9375, "narrative": 7.375,
    }  # fmt: skip
    assert values(rows, "fragile_layers", "grid_sampled") == {
        "base": 7, "declarative": 10, "general": 7, "narrative": 6,
    }  # fmt: skip
    means = {name: round(value, 3) for name, value in values(rows, "mean_accuracy").items() if name != "base"}
    assert means == {"declarative": 0.685, "general": 0.706, "narrative": 0.693}


def test_the_same_adapters_probed_at_the_last_step_have_other_fragile_layers(authors, numbers):
    """5, 6 and 4 of 16, not 6, 10 and 7: the probe and its noise drawn anew move a count by 4."""
    rows = section4_3(of_files(authors, final=False), numbers)
    assert values(rows, "fragile_layers", "grid_sampled") == {
        "base": 7, "declarative": 6, "general": 4, "narrative": 5,
    }  # fmt: skip
    assert values(rows, "mean_critical_noise", "grid_sampled") == {
        "base": 6.9375, "declarative": 7.25, "general": 8.125, "narrative": 7.8125,
    }  # fmt: skip


@golden
def test_golden_the_reference_s_runs_of_an_older_moral_set_are_read_as_their_files_say(numbers):
    """Same training, probed with an older set: no probing of these files gives a number of section 4.3.

    Narrative, declarative, general. After the last step: peaks 0.8125, 0.802, 0.802, means over layers 0.749,
    0.742, 0.758, capped means 10, 9.5625, 10, fragile layers 0, 1, 0. At the snapshot of step 1000: peaks
    0.771, 0.781, 0.792, means 0.734, 0.738, 0.746, capped means 8.25, 9.125, 9.125, fragile layers 4, 2, 2.
    The loss of the first step and the mean of the last hundred are 4.96 -> 4.07, 5.60 -> 1.02, 4.97 -> 4.54:
    the text's 4.3 at the start of the first and 4.4 at the end of the last are in none of these files. Their
    learning rate rises over 50 steps to 2e-4, then falls to 0 by a cosine (`test_curation_lora.py`).
    """
    found = read_directory(REFERENCE / "lora", dataset="moral", seed=42)
    rows = section4_3(of_files(found, final=False), numbers)
    for own in found.training:
        raw = json.loads((REFERENCE / "lora" / own["provenance"]["file"]).read_text())
        name, last = own["condition"].split("_")[0], raw["probe_snapshots"][-1]
        noise = [level or 10.0 for level in last["fragility"]["layer_critical_noise"]]
        losses = [step["loss"] for step in raw["training_steps"]]
        shown = {what: values(rows, what).get(name) for what in ("peak_accuracy", "mean_accuracy", "loss")}
        accuracy = last["probing"]["layer_accuracies"]
        assert shown["peak_accuracy"] == last["probing"]["peak_accuracy"] == max(accuracy)
        assert shown["mean_accuracy"] == pytest.approx(sum(accuracy) / 16)
        assert shown["loss"] == pytest.approx(sum(losses[-100:]) / 100)
        assert one(rows, group=name, quantity="loss", step=0)["value"] == losses[0]
        assert values(rows, "mean_critical_noise", "grid_sampled")[name] == pytest.approx(sum(noise) / 16)
        assert values(rows, "fragile_layers", "grid_sampled")[name] == sum(level < 10 for level in noise)
    assert values(rows, "fragile_layers", "grid_sampled") == {
        "base": 2, "declarative": 2, "general": 2, "narrative": 4,
    }  # fmt: skip
    rows = section4_3(of_files(found, final=True), numbers)
    assert values(rows, "mean_critical_noise", "grid_sampled") == {
        "base": 9.125, "declarative": 9.5625, "general": 10.0, "narrative": 10.0,
    }  # fmt: skip
    assert values(rows, "fragile_layers", "grid_sampled") == {
        "base": 2, "declarative": 1, "general": 0, "narrative": 0,
    }  # fmt: skip
