"""The benchmarks measure what they say: both ways come to the same results, and the code runs."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import closed_form, forward, ours, outcome, setup, size, solver, study, watched, whole
from tests.tiny_models import save_tiny_model

WORDS = ("harmed", "robbed", "cheated", "betrayed", "saw", "met", "passed", "heard")
PEOPLE = ("nurse", "clerk", "child", "baker", "pilot", "judge", "monk", "smith", "guard", "queen")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> setup.Setup:
    """A tiny model, and 40 pairs that differ in one word."""
    folder = tmp_path_factory.mktemp("bench")
    rows = [
        {
            "id": f"{person}{i}",
            "positive": f"The {person} {WORDS[i]} the old man in the town.",
            "negative": f"The {person} {WORDS[i + 4]} the old man in the town.",
            "group": "even" if i % 2 == 0 else "odd",
        }
        for person in PEOPLE
        for i in range(4)
    ]
    dataset = folder / "pairs.jsonl"
    dataset.write_text("".join(json.dumps(row) + "\n" for row in rows))
    checkpoint = save_tiny_model("llama", folder / "model", layers=3, hidden=32)
    return setup.setup(str(checkpoint), str(dataset), threads=1)


def test_plain_way_and_ours_agree_on_probe_accuracies(tiny, tmp_path):
    """States and split are the same; only the probes' random starts differ: by an item or two at most."""
    # The plain way pools over all tokens.
    tiny = replace(tiny, stages={**tiny.stages, "probe": {**tiny.stages["probe"], "pooling": "mean"}})
    seconds = [whole.seconds_of(way, tiny, [7], tmp_path / way) for way in ("baseline", "ours")]
    assert min(seconds) > 0
    plain = json.loads((tmp_path / "baseline/seed7/probing.json").read_text())["accuracy"]
    summary = json.loads((tmp_path / "ours/seed7/probes/summary.json").read_text())
    measured = [layer["accuracy"] for layer in summary["layer_scores"]]
    test_items = 2 * summary["metadata"]["test_pairs"]
    assert len(plain) == len(measured) == 3
    assert np.abs(np.array(plain) - measured).max() <= 2.5 / test_items


def test_plain_way_writes_a_noise_curve_a_layer_and_ours_every_result_file(tiny, tmp_path):
    for way in ("baseline", "ours"):
        whole.seconds_of(way, tiny, [1, 2], tmp_path / way)
    curves = json.loads((tmp_path / "baseline/seed2/fragility.json").read_text())["layers"]
    assert [len(curve["accuracy_by_noise"]) for curve in curves] == [5, 5, 5]
    written = {path.name for path in (tmp_path / "ours/seed2").rglob("*.*")}
    assert written == {"layer00.json", "layer01.json", "layer02.json", "summary.json", "weights.h5"}


def test_a_failing_process_is_an_error_with_its_message(tiny, tmp_path):
    broken = setup.Setup(tiny.checkpoint, Path("nowhere.jsonl"), 1, tiny.stages)
    with pytest.raises(RuntimeError, match=r"nowhere\.jsonl"):
        whole.seconds_of("ours", broken, [1], tmp_path / "broken")


def test_absent_model_skips_with_the_command_that_makes_it(tmp_path):
    absent = setup.setup(str(tmp_path), None, threads=1)
    for found in (whole.measure(absent), forward.measure(absent)):
        assert found.passed is None
        assert "model.safetensors" in found.note


def test_bare_pass_runs_the_batches_capture_runs(tiny, monkeypatch):
    """Otherwise their ratio compares different work."""
    from strataprobe import lm
    from strataprobe.capture import Settings, capture

    run: list[str] = []
    plain = lm.LoadedLM.run_decoder

    def noted(self, batch, **extra):
        run.append(str({name: part.tolist() for name, part in batch.items()}))
        return plain(self, batch, **extra)

    loaded = lm.load(tiny.checkpoint, dtype="float32", device="cpu")
    pairs = [json.loads(line) for line in tiny.dataset.read_text().splitlines()]
    texts = [text for pair in pairs for text in (pair["positive"], pair["negative"])]
    monkeypatch.setattr(lm.LoadedLM, "run_decoder", noted)
    settings = Settings(**{**tiny.stages["capture"], "batch_tokens": 100})
    list(capture(loaded, texts, ids=texts, settings=settings))
    bare = forward.sorted_batches(loaded, texts, 100)
    assert [str({name: part.tolist() for name, part in batch.items()}) for batch in bare] == run
    assert len(run) > 1
    assert any("attention_mask': [[[[" in batch for batch in run)  # some rows are shared


def test_capture_comparison_runs_on_a_tiny_model(tiny):
    found = forward.measure(tiny, repeats=1)
    assert found.passed is not None
    assert "bare forward pass" in found.numbers


def test_batched_probes_equal_a_torch_loop():
    assert solver.measure(1, shape=(3, 40, 16), repeats=1).passed


def test_closed_form_equals_a_simulation():
    assert closed_form.measure(draws=4000, items=12, hidden=8).passed


def test_closed_form_comparison_notices_a_wrong_formula(monkeypatch):
    monkeypatch.setattr(
        closed_form, "exact_accuracy", lambda margins, levels: np.full((1, len(levels)), 0.55)
    )
    assert not closed_form.measure(draws=4000, items=12, hidden=8).passed


def test_synthetic_study_is_a_valid_config_of_the_size_it_claims(tmp_path):
    import yaml

    from strataprobe.config import Study

    study.write_study(tmp_path, checkpoints=5, seeds=2, layers=3)
    checked = Study.load(yaml.safe_load((tmp_path / "study.yaml").read_text()), base=tmp_path)
    model = checked.models["trajectory"]
    assert (len(model.revisions), len(model.seeds), len(model.datasets), model.layers) == (5, 2, 4, 3)


def test_page_names_no_place_of_this_machine():
    facts = outcome.machine_facts(2)
    page = outcome.as_markdown([outcome.Outcome("a", "what", "needed", True, {"time": "1 s"})], facts)
    assert "| a | needed | yes |" in page
    assert str(setup.ROOT) not in page


def test_contestants_take_turns_in_both_orders():
    order: list[str] = []
    outcome.best_of(2, {"a": lambda: order.append("a"), "b": lambda: order.append("b")})
    assert order == ["a", "b", "b", "a"]


def test_seeds_are_measured_alike_alone_and_with_others(tiny, tmp_path):
    """The ratio at four seeds would be worthless if sharing a capture changed a result."""
    for name, seeds in (("alone", [2]), ("both", [1, 2])):
        job = {
            "checkpoint": str(tiny.checkpoint),
            "dataset": str(tiny.dataset),
            "stages": tiny.stages,
            "seeds": seeds,
            "threads": 2,
            "out": str(tmp_path / name),
        }
        ours.run(job)
    files = [tmp_path / name / "seed2/fragility/summary.json" for name in ("alone", "both")]
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("count", [37, 154])
def test_study_at_size_is_valid_and_as_large_as_it_says(tmp_path, count):
    import yaml

    from strataprobe.config import Study

    size.write_study(tmp_path, size.CHOICES[count])
    checked = Study.load(yaml.safe_load((tmp_path / "study.yaml").read_text()), base=tmp_path)
    model = checked.models[size.MODEL]
    assert (len(model.revisions), len(model.seeds), len(model.datasets), model.layers) == (count, 4, 6, 16)
    assert all(len(revision.commit) == 40 for revision in model.revisions)


def test_jobs_that_cost_nothing_leave_every_output_and_nothing_to_do(tmp_path, monkeypatch):
    """Otherwise the run was not worked through, and its time says nothing."""
    small = {"pattern": "step{step}", "from": 1000, "to": 2000, "every": 1000}
    monkeypatch.setattr(size, "CHOICES", {2: small})
    ways = {name: size.WAYS[name] for name in ("2 cores, scheduler greedy", "cluster, scheduler greedy")}
    found = size.measure({2: ways})
    assert found.passed
    jobs = int(found.numbers["2 revisions: jobs"])
    # Of each revision: its identity, its activations, and probes and curves of 6 datasets and 4 seeds.
    assert jobs > 2 * (2 + 2 * 6 * 4)
    assert [line for line in found.numbers if "cluster" in line]


def test_a_commands_time_and_memory_are_its_own(tmp_path):
    """Not those of the process that measures, which holds more."""
    held = bytearray(400 * 2**20)
    program = "import time; held = bytearray(100 * 2**20); end = time.process_time() + 0.3\n"
    program += "while time.process_time() < end: pass"
    spent = watched.run([sys.executable, "-c", program], folder=tmp_path, variables={})
    assert 100 < spent.peak_mib < 200 < len(held) / 2**20
    assert 0.3 <= spent.processor <= spent.seconds + 0.1
    failing = [sys.executable, "-c", "raise SystemExit('no such thing')"]
    with pytest.raises(RuntimeError, match=r"failed:\n.*no such thing"):
        watched.run(failing, folder=tmp_path, variables={})


def test_the_study_of_154_revisions_that_the_docs_show_is_valid(tmp_path):
    import re

    import yaml

    from strataprobe import revisions
    from strataprobe.config import Study

    size.write_study(tmp_path, size.CHOICES[154])
    (block,) = re.findall(r"```yaml\n(.*?)```", (setup.ROOT / "docs/at_size.md").read_text(), re.DOTALL)
    shown = yaml.safe_load(block)
    (name,) = shown["models"]
    (tmp_path / revisions.place(size.MODEL)).rename(tmp_path / revisions.place(name))
    (tmp_path / "resources/datasets").symlink_to(setup.ROOT / "resources/datasets")
    (model,) = Study.load(shown, base=tmp_path).models.values()
    assert [revision.step for revision in model.revisions] == list(size.STEPS)
