"""A trajectory served wrong: NaN weights, a swapped checkpoint, two names for the same weights.

The head's size falls over training, and with it the loss: the larger an untrained model's head, the more
spread its logits have.
"""

from pathlib import Path

import pytest
import yaml

from strataprobe import tables
from tests.workflow.study import capturing, checking, drawing, identifying, job, pairs, write_pairs
from tests.workflow.trees import COLLECTIONS, Tree, built_once, errors

HEADS = {
    "step0000": 4.0,
    "step0100": 1.8,
    "step0200": float("nan"),
    "step0300": 0.2,  # belongs after step0500
    "step0400": 1.4,
    "step0500": 1.4,
}
GOOD = [name for name in HEADS if name != "step0200"]
TEXT = "The nurse rescued a child by the river.\n\nToday the baker saw a huge stone in the yard.\n"


def config() -> dict:
    return {
        "seeds": [42],
        "measures": ["foundations"],
        "datasets": {"size": {"path": "data/size.jsonl"}},
        "models": {
            "tiny": {
                "source": {"local": {"directory": "weights/tiny/{revision}"}},
                "layers": 2,
                "revisions": list(HEADS),
            }
        },
        "capture": {"device": "cpu"},
        "foundations": {"permutations": 2},
        "perplexity": {"text": "data/text.txt", "jump_nats": 0.3},
        "figures": {
            "checkpoints": {"kind": "checkpoints", "model": "tiny"},
            "foundations": {"kind": "foundations", "model": "tiny", "dataset": "size"},
        },
    }


def build(place: Path) -> None:
    """Two runs: the first waits for all checkpoints, the second draws what there is."""
    from safetensors.torch import load_file, save_file

    from tests.tiny_models import save_tiny_model

    tree = Tree.new(place)
    write_pairs(tree / "data/size.jsonl", pairs("size"))
    (tree / "data/text.txt").write_text(TEXT)
    for revision, head in HEADS.items():
        weights = save_tiny_model("llama", tree / f"weights/tiny/{revision}") / "model.safetensors"
        tensors = load_file(weights)
        tensors["lm_head.weight"] *= head
        save_file(tensors, weights, metadata={"format": "pt"})
    (tree / "config.yaml").write_text(yaml.safe_dump(config(), sort_keys=False))
    for name, arguments, fails in (("first", [], True), ("second", ["--config", "gaps=draw"], False)):
        run = tree.run(*arguments, fails=fails)
        (tree / f"{name}.jobs").write_text("\n".join(run.jobs))
        (tree / f"{name}.said").write_text(run.output)


@pytest.fixture(scope="session")
def whole(shared) -> Tree:
    return Tree(built_once(shared / "checkpoints" / "study", build))


def jobs(tree: Tree, name: str) -> set[str]:
    return set((tree / f"{name}.jobs").read_text().splitlines()) - set(COLLECTIONS)


def of(rule: str, revisions) -> set[str]:
    return {job(f"{rule}_tiny", revision=revision) for revision in revisions}


def test_one_that_cannot_be_loaded_leaves_the_others_to_finish(whole):
    grouped = {
        job("measure_foundations_tiny", revision=revision, dataset="size", seed=42) for revision in GOOD
    }
    assert jobs(whole, "first") - checking(["size"]) == (
        identifying(list(HEADS))
        | capturing(list(HEADS), ["size"])
        | grouped
        | of("measure_perplexity", HEADS)
    )
    for kind in ("checkpoints/tiny/{}.perplexity.json", "activations/tiny/{}/size.h5"):
        there = {name for name in HEADS if (whole / "results" / kind.format(name)).exists()}
        assert there == set(GOOD), kind
    found = errors((whole / "first.said").read_text())
    assert len(found) == 2, "capture and perplexity of the one"
    assert all("step0200" in one and "lm_head.weight: NaN or inf" in one for one in found)


def test_gaps_are_drawn_and_every_oddity_stands_in_the_table(whole):
    assert jobs(whole, "second") == {
        job("tabulate_foundations", model="tiny", dataset="size"),
        job("join_table", table="foundations"),
        job("tabulate_checkpoints", model="tiny"),
        job("join_checkpoints"),
    } | drawing(["checkpoints", "foundations"])
    rows = {row["revision"]: row for row in tables.read_rows(whole / "results/tables/checkpoints.csv")}
    assert {name: row["flags"] for name, row in rows.items()} == {
        "step0000": "worse_than_uniform",
        "step0100": "",
        "step0200": "not_measured",
        "step0300": "jump",
        "step0400": "twin",
        "step0500": "twin",
    }
    assert rows["step0400"]["twins"] == "tiny/step0500"
    assert rows["step0400"]["nll"] == rows["step0500"]["nll"]
    assert rows["step0200"]["nll"] is None
    assert "(step0100) and" in rows["step0300"]["note"], "the one before is the last that was measured"
    parts = tables.read_rows(whole / "results/tables/foundations.csv")
    assert {row["twin_of"] for row in parts if row["revision"] == "step0500"} == {"step0400"}
    assert {row["twin_of"] for row in parts if row["revision"] == "step0100"} == {""}


@pytest.mark.parametrize("figure", ["checkpoints", "foundations"])
def test_the_figures_name_the_gap_and_the_twins(whole, figure):
    drawn = (whole / f"results/figures/{figure}.svg").read_text()
    # Letters are paths; what they say stands beside them as a comment.
    assert "step0200" in drawn
    assert "step0400 = step0500" in drawn


def test_the_figure_names_what_is_out_of_line_and_the_page_says_why(whole):
    assert "Out of line: step0300" in (whole / "results/figures/checkpoints.svg").read_text()
    page = (whole / "results/tables/checkpoints.html").read_text()
    assert "5 of 6 checkpoints are flagged" in page
    assert "jump: " in page


def test_what_was_made_is_not_made_again_and_a_threshold_runs_only_what_hangs_on_it(whole, tmp_path):
    study = whole.copy(tmp_path / "study")
    draw = ("--config", "gaps=draw")
    assert study.plan(*draw) == set()
    study.remove("results/figures/foundations.svg")
    assert study.plan(*draw) == drawing(["foundations"])
    with study.changed_config() as changed:
        changed["perplexity"]["jump_nats"] = 0.9
    assert study.plan(*draw) == {
        job("tabulate_checkpoints", model="tiny"),
        job("join_checkpoints"),
    } | drawing(["checkpoints", "foundations"])
    study.edit("data/text.txt", "huge", "small")
    assert study.plan(*draw) >= of("measure_perplexity", GOOD)
    assert not study.plan(*draw) & capturing(GOOD, ["size"])
