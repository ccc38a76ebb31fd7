"""A study that reads states by a tuned lens too: what is trained, what it reads, and what it changes."""

import csv
import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.workflow import test_levels as levels
from tests.workflow.study import NOTHING, job, joining
from tests.workflow.trees import Tree, built_once, differing, errors, half_files

STEPS = levels.STEPS
CORPUS = (
    "At noon the baker carried two loaves to the gate and rang the bell.\n"
    "Nobody had painted the wall since the flood, so the boys began with the door.\n"
    "The letter said that the boat would leave before the rain came.\n"
    "\n"
    "A guard opened the small window and asked who was there.\n"
)
TRAINING = {"optimizer": "adam", "learning_rate": 0.01, "steps": 20, "batch_tokens": 64, "threads": 1}
LENSES = levels.at("train_tuned_lens_tiny")
AFTER = levels.TOGETHER | joining(levels.TABLES)


def build_plain(place: Path) -> None:
    """The study of the three levels, without figures."""
    from tests.tiny_models import save_tiny_model

    tree = Tree.new(place)
    levels.write(tree)
    for seed, step in enumerate(STEPS):
        save_tiny_model("llama", tree / f"weights/tiny/{step}", seed=seed, max_positions=256)
    config = {**levels.config(), "figures": {}}
    (tree / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    tree.run()


def build(place: Path) -> None:
    """The same, with one more definition of readout."""
    tree = Tree(built_once(place.parents[1] / "plain" / "study", build_plain)).copy(place)
    (tree / "data/texts.txt").write_text(CORPUS)
    with tree.changed_config() as changed:
        changed["readout"]["definitions"] = ["default", "code", "paper", "tuned"]
        changed["tuned_lens"] = {"corpus": "data/texts.txt", **TRAINING}
    (place.parent / "done.json").write_text(json.dumps(sorted(tree.run().done)))


@pytest.fixture(scope="session")
def tuned(shared) -> Tree:
    """The finished study with a tuned lens: nobody changes it."""
    return Tree(built_once(shared / "tuned" / "study", build))


@pytest.fixture(scope="session")
def plain(shared) -> Tree:
    """The same study without it."""
    return Tree(built_once(shared / "plain" / "study", build_plain))


@pytest.fixture
def mine(tuned, tmp_path) -> Tree:
    return tuned.copy(tmp_path / "study")


def summary(tree: Tree, level: str, step: str) -> dict:
    return json.loads((tree / f"results/{level}/tiny/{step}/who/summary.json").read_text())


def lines(path: Path) -> list[tuple[str, dict[str, str]]]:
    """Each line of a table as it stands there, and as a row."""
    text = path.read_text(encoding="utf-8").splitlines()
    return list(zip(text[1:], csv.DictReader(text), strict=True))


def test_a_lens_is_trained_once_a_revision_and_only_levels_are_read_again(tuned):
    """Sentences are captured, and probes trained, without the model's output map."""
    done = set(json.loads((tuned.path.parent / "done.json").read_text()))
    assert done == LENSES | levels.LEVELS | AFTER
    assert half_files(tuned) == []
    assert tuned.run("--dry-run").done == NOTHING
    lenses = [tuned / f"results/lenses/tiny/{step}.safetensors" for step in STEPS]
    assert sorted((tuned / "results/lenses").rglob("*.*")) == lenses
    for step in STEPS:
        facts = summary(tuned, "readout", step)["provenance"]["activations"]["tuned_lens"]
        assert (facts["model"], facts["revision"], facts["texts"]) == ("tiny", step, 4)
        assert (
            facts["weights_sha256"]
            == summary(tuned, "readout", step)["provenance"]["activations"]["weights_sha256"]
        )


def test_the_tuned_readout_ends_at_behaviour_and_differs_before(tuned):
    before = []
    for step in STEPS:
        found = summary(tuned, "readout", step)["definitions"]
        deployed = summary(tuned, "behavior", step)["variants"]
        for task in ("qa", "paraphrase"):
            own, logit = found["tuned"][task]["correct"], found["default"][task]["correct"]
            assert own[-1] == logit[-1] == deployed[task]["correct"]
            assert len(own) == 3
            assert set("".join(own)) == {"0", "1"}, "every item has an answer at every layer"
            before.append((own[:-1], logit[:-1]))
    assert any(own != logit for own, logit in before)


def test_the_tables_have_the_tuned_readout_beside_the_others(tuned):
    rows = [row for _, row in lines(tuned / "results/tables/levels.csv") if row["measure"] == "tuned"]
    assert {(row["revision"], row["split"]) for row in rows} >= {(step, "all") for step in STEPS}
    for row in rows:
        best = summary(tuned, "readout", row["revision"])["definitions"]["tuned"]["best"][row["split"]]
        assert float(row["value"]) == pytest.approx(best["accuracy"], abs=1e-5)
    rows = [row for _, row in lines(tuned / "results/tables/levels_layers.csv") if row["measure"] == "tuned"]
    places = {(row["revision"], row["hidden_state"], row["mode"]) for row in rows if row["split"] == "all"}
    assert places == {
        (step, str(k), task) for step in STEPS for k in range(3) for task in ("qa", "paraphrase")
    }
    paper = [row for _, row in lines(tuned / "results/tables/paper/levels_table1.csv")]
    assert [row["published"] for row in paper if row["definition"] == "tuned"] == [""]


def test_the_other_definitions_stay_what_they_are_without_it(tuned, plain):
    for step in STEPS:
        for level in ("behavior", "readout"):
            own, other = (summary(tree, level, step) for tree in (tuned, plain))
            if level == "readout":
                del own["definitions"]["tuned"]
            for one in (own, other):  # what was asked for is not what was found
                for name in ("metadata", "provenance"):
                    one.pop(name)
            assert json.dumps(own) == json.dumps(other)
    for name in ("levels", "levels_layers"):
        own, other = (lines(tree / f"results/tables/{name}.csv") for tree in (tuned, plain))
        left = [line for line, row in own if "tuned" not in row["measure"].split(":")]
        assert len(left) < len(own)
        assert left == [line for line, _ in other]


def test_what_knows_of_no_readout_definition_is_the_same_to_the_byte(tuned, plain):
    told = (
        "lenses/", "behavior/tiny/step0000/who/summary", "behavior/tiny/step0100/who/summary", "readout/",
        "tables/levels.csv", "tables/levels_layers.csv", "tables/parts/", "tables/paper/levels_table1.",
    )  # fmt: skip
    changed = differing(tuned.results(), plain.results())
    assert [name for name in changed if not name.startswith(told)] == []
    assert not any(name.endswith("items.csv") for name in changed)


def test_another_corpus_trains_lenses_and_reads_out_again_but_trains_no_probe(mine):
    (mine / "data/texts.txt").write_text(CORPUS + "The singer counted the steps to the river.\n")
    assert mine.plan() == LENSES | levels.LEVELS | AFTER


def test_a_lens_of_another_revision_is_refused_in_one_message(mine):
    lenses = mine / "results/lenses/tiny"
    shutil.copy(lenses / "step0100.safetensors", lenses / "step0000.safetensors")
    wanted = "results/readout/tiny/step0000/who/summary.json"
    run = mine.run(wanted, fails=True)
    assert run.done == {job("measure_levels_tiny", revision="step0000")}
    (said,) = set(errors(run.output))
    assert "the tuned lens results/lenses/tiny/step0000.safetensors was not trained for" in said
    assert "unembedding_sha256" in said
    assert half_files(mine) == []


def test_at_the_last_block_the_loss_is_the_model_s_own_and_before_it_training_helped(tuned):
    """Against transformers: its loss, its hidden states, and what its last block gives before the norm."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from strataprobe import lm
    from strataprobe.readout import load_tuned

    directory = tuned / "weights/tiny/step0100"
    lens = load_tuned(
        tuned / "results/lenses/tiny/step0100.safetensors", lm.load(directory, dtype="float32", device="cpu")
    )
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    last = []
    model.model.layers[-1].register_forward_hook(
        lambda _module, _given, out: last.append(out[0] if isinstance(out, tuple) else out)
    )
    tokens = torch.tensor([AutoTokenizer.from_pretrained(directory)(CORPUS.splitlines()[0])["input_ids"]])
    with torch.inference_mode():
        out = model(tokens, labels=tokens, output_hidden_states=True)
        states = torch.cat([*out.hidden_states[:-1], last[0].reshape_as(out.hidden_states[0])])
        target = out.logits[0].log_softmax(dim=-1)

        def read(own):
            return model.lm_head(model.model.norm(own)).log_softmax(dim=-1)

        mapped = [read(own) for own in lens.mapped(states)]
        loss = [-own[:-1].gather(1, tokens[0, 1:, None]).mean() for own in mapped]
        assert float(loss[-1]) == pytest.approx(float(out.loss), abs=1e-5)
        for own, logit in zip(mapped[:-1], map(read, states[:-1]), strict=True):
            divergence, before = ((target.exp() * (target - one)).sum(dim=-1).mean() for one in (own, logit))
            assert float(divergence) < 0.9 * float(before)
