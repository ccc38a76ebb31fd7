"""Perplexity of a fixed text against the model's own loss; which oddities its flags find."""

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from torch.nn.functional import cross_entropy

import measure_perplexity
from strataprobe import checkpoints, files, lm
from strataprobe.perplexity.flags import FLAGS, flags
from strataprobe.perplexity.measure import cut, measure, passages
from strataprobe.pretraining import corpus
from tests.tiny_models import save_tiny_model, tiny_tokenizer

ROOT = Path(__file__).parents[2]
TEXTS = ROOT / "resources/texts"
TEXT = """The nurse told the truth about the missing money, and he kept his word.

Über die Brücke fährt der müde Händler nach Köln, bis die Glocken läuten.
They walked along the river.
"""
LIMITS = {"uniform_nats": 2.5, "bos_nats": 0.5, "jump_nats": 0.5}


def load(directory, **settings):
    return lm.load(directory, **{"dtype": "float32", "device": "cpu", **settings})


@pytest.fixture(scope="module")
def with_bos(tmp_path_factory):
    return load(save_tiny_model("llama", tmp_path_factory.mktemp("bos") / "m", max_positions=256))


@pytest.fixture(scope="module")
def without_bos(tmp_path_factory):
    place = tmp_path_factory.mktemp("plain") / "m"
    return load(save_tiny_model("gpt2", place, bos=False, pad="e", max_positions=256, seed=3))


def by_hand(loaded, text: str, bos: bool) -> tuple[float, int]:
    """Mean cross-entropy and tokens by the model's own logits, a passage a pass; no code of ours."""
    tokenizer, losses = loaded.tokenizer, []
    for passage in text.split("\n\n"):
        ids = tokenizer(" ".join(passage.split()), add_special_tokens=False)["input_ids"]
        row = torch.tensor([[tokenizer.bos_token_id] * bos + ids])
        with torch.no_grad():
            logits = loaded.model(input_ids=row, attention_mask=torch.ones_like(row)).logits[0].double()
        # What follows the passage's own first token.
        first = bos + 1
        losses.append(cross_entropy(logits[first - 1 : -1], row[0, first:], reduction="none"))
    together = torch.cat(losses)
    return float(together.mean()), len(together)


@pytest.mark.parametrize("kind", ["with_bos", "without_bos"])
def test_it_is_the_cross_entropy_of_the_models_own_logits_either_way(kind, request):
    loaded = request.getfixturevalue(kind)
    found = measure(loaded, TEXT)
    own, tokens = by_hand(loaded, TEXT, bos=loaded.adds_bos)
    other, same = by_hand(loaded, TEXT, bos=not loaded.adds_bos)
    assert loaded.adds_bos is (kind == "with_bos") is found["adds_bos"]
    assert found["status"] == "measured"
    assert (found["nll"], found["tokens"]) == (pytest.approx(own, rel=1e-6), tokens)
    assert found["other_bos"]["nll"] == pytest.approx(other, rel=1e-6)
    assert tokens == same
    assert abs(own - other) > 1e-4, "a BOS must matter here, else this shows nothing"
    assert found["perplexity"] == pytest.approx(math.exp(own), rel=1e-6)


def test_bits_are_of_the_bytes_that_the_counted_tokens_stand_for(with_bos):
    found = measure(with_bos, TEXT)
    texts = passages(TEXT)
    assert len(texts) == 2
    assert "\n" not in "".join(texts)
    # Of a byte-level tokenizer, the first token's own text is what is left out.
    first = [
        with_bos.tokenizer.decode(with_bos.tokenizer(text, add_special_tokens=False)["input_ids"][:1])
        for text in texts
    ]
    size = sum(len(text.encode()) for text in texts) - sum(len(text.encode()) for text in first)
    assert found["bytes"] == size < len(TEXT.encode())
    assert found["bits_per_byte"] == pytest.approx(
        found["nll"] * found["tokens"] / math.log(2) / size, rel=1e-9
    )


def test_a_passage_has_its_own_tokens_and_value_and_all_of_them_make_the_whole(with_bos):
    found = measure(with_bos, TEXT)
    each = found["passages"]
    assert sum(one["tokens"] for one in each) == found["tokens"]
    assert sum(one["tokens"] * one["nll"] for one in each) == pytest.approx(found["nll"] * found["tokens"])
    alone = measure(with_bos, TEXT.split("\n\n")[1])
    assert (alone["nll"], alone["tokens"]) == (each[1]["nll"], each[1]["tokens"]), "depends on its neighbours"


def test_threads_and_what_else_is_measured_move_no_bit(with_bos):
    assert measure(with_bos, TEXT, threads=2) == measure(with_bos, TEXT)


def test_a_passage_that_is_too_long_is_cut_and_no_window_is_longer_than_the_model_takes(tmp_path):
    loaded = load(save_tiny_model("llama", tmp_path / "m", max_positions=24))
    text = "The clerk counted the printed forms in the small grey office. " * 3
    (whole,) = replace(loaded, max_tokens=None).encode([text.strip()])
    windows = cut(loaded, passages(text))
    assert len(windows) == -(-(len(whole) - 1) // 23) > 2
    together = [token for window in windows for token in window.tokens]
    assert together == whole[1:], "tokens were lost or met twice"
    assert max(len(window.tokens) for window in windows) == 23, "room is needed for a BOS"
    found = measure(loaded, text)
    assert found["tokens"] == len(whole) - 1 - len(windows)
    losses = []
    for window in windows:
        row = torch.tensor([[loaded.tokenizer.bos_token_id, *window.tokens]])
        with torch.no_grad():
            logits = loaded.model(input_ids=row).logits[0].double()
        losses.append(cross_entropy(logits[1:-1], row[0, 2:], reduction="none"))
    assert found["nll"] == pytest.approx(float(torch.cat(losses).mean()), rel=1e-6)


def test_a_tokenizer_without_bos_has_one_way_only(without_bos):
    tokenizer = tiny_tokenizer(bos=False, pad="e")
    tokenizer.bos_token = None
    found = measure(replace(without_bos, tokenizer=tokenizer), TEXT)
    assert (found["bos"], found["other_bos"]) == (False, None)
    assert found["nll"] == measure(without_bos, TEXT)["nll"]


def test_what_is_not_finite_is_a_finding_that_can_be_written(tmp_path):
    loaded = load(save_tiny_model("llama", tmp_path / "m", max_positions=256))
    with torch.no_grad():
        loaded.model.model.norm.weight.fill_(float("inf"))
    found = measure(loaded, TEXT)
    assert found["status"] == "not_finite"
    assert [found[name] for name in ("nll", "perplexity", "bits_per_byte")] == [None] * 3
    assert found["tokens"] > 0
    files.write_json(tmp_path / "found.json", found)


def test_a_perplexity_beyond_all_numbers_leaves_the_rest(tmp_path):
    loaded = load(save_tiny_model("llama", tmp_path / "m", max_positions=256))
    with torch.no_grad():
        loaded.head.weight.mul_(1e4)
    found = measure(loaded, TEXT)
    assert found["status"] == "measured"
    assert found["nll"] > 710
    assert found["perplexity"] is None


def test_the_script_writes_whose_it_is_and_what_it_was_made_from(tmp_path):
    directory = save_tiny_model("llama", tmp_path / "m", max_positions=256)
    identity = checkpoints.identify_directory(
        directory, model="tiny", revision="step10", step=10, source="local", layers=2
    )
    files.write_json(tmp_path / "identity.json", identity)
    (tmp_path / "text.txt").write_text(TEXT)
    settings = {"device": "cpu", "dtype": "float32", "layers": 2, "threads": 1}
    given = [tmp_path / "identity.json"], [], str(tmp_path / "text.txt")
    for name in ("one.json", "two.json"):
        measure_perplexity.main(*given, [tmp_path / name], settings=settings)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    found = files.read_json(tmp_path / "one.json")
    assert [found[name] for name in ("model", "revision", "step")] == ["tiny", "step10", 10]
    assert found["nll"] == measure(load(directory), TEXT)["nll"]
    made = found["provenance"]
    assert made["weights_sha256"] == identity["weights_sha256"]
    assert made["text_sha256"] == files.sha256_file(tmp_path / "text.txt")
    assert made["settings"] == {"device": "cpu", "dtype": "float32", "threads": 1}
    docs = (ROOT / "docs/outputs.md").read_text(encoding="utf-8")
    explained = docs.split("\n## Perplexity\n")[1].split("\n## ")[0]
    assert [key for key in (*found, *found["other_bos"], *made) if f"`{key}`" not in explained] == []


# flags


def row(step=0, nll=3.0, **given):
    return {
        "revision": f"step{step}", "step": step, "nll": nll, "nll_other_bos": None, "adds_bos": True,
        "vocabulary": 1000, "twins": [], "status": "measured", **given,
    }  # fmt: skip


def flagged(rows, **limits) -> list[list[str]]:
    return [list(said) for said in flags(rows, LIMITS | limits)]


def trajectory(*values):
    return [row(100 * place, nll) for place, nll in enumerate(values)]


def test_nothing_is_odd_about_a_model_that_learns_fast_or_has_not_begun():
    untrained = math.log(1000) + 0.9
    assert flagged(trajectory(untrained, 5.0, 3.0, 2.9, 2.95, 2.8)) == [[]] * 6


def test_two_checkpoints_that_changed_places_both_stand_out():
    assert flagged(trajectory(9.0, 7.0, 4.0, 5.5, 3.0, 2.8)) == [[], [], ["jump"], ["jump"], [], []]
    (said,) = [said for said in flags(trajectory(5.0, 2.0, 4.5), LIMITS) if said]
    assert said == {"jump": "2.00 nats a token, between 5.00 (step0) and 4.50 (step200)"}


def test_a_jump_is_judged_by_step_whatever_the_order_and_not_at_the_ends():
    rows = trajectory(3.0, 9.0, 2.9, 2.8, 8.0)
    assert flagged(rows[::-1]) == [[], [], [], ["jump"], []], "the last one is no jump: it has one neighbour"
    assert flagged(rows, jump_nats=7.0) == [[]] * 5


def test_a_neighbour_without_a_value_is_passed_over():
    rows = trajectory(3.0, None, 9.0, 2.9)
    rows[1]["status"] = "not_measured"
    assert flagged(rows) == [[], ["not_measured"], ["jump"], []]
    assert flagged([row(None, nll) for nll in (3.0, 9.0, 2.9)]) == [[]] * 3, "no step, no neighbour"


def test_worse_than_uniform_is_beyond_the_margin():
    uniform = math.log(1000)
    assert flagged([row(nll=uniform + 2.49), row(nll=uniform + 2.51)]) == [[], ["worse_than_uniform"]]


@pytest.mark.parametrize("adds", [True, False])
def test_a_wrong_bos_shows_where_the_other_way_is_better(adds):
    rows = [row(nll=4.0, nll_other_bos=other, adds_bos=adds) for other in (3.6, 3.4, 9.0)]
    assert flagged(rows) == [[], ["bos"], []]
    text = flags(rows, LIMITS)[1]["bos"]
    assert ("without" if adds else "with a BOS") in text
    only = row(nll=None, nll_other_bos=3.4, adds_bos=adds, status="not_finite")
    assert flagged([only]) == [["not_finite", "bos"]]


def test_twins_are_named_and_flags_keep_their_order():
    (said,) = flags([row(nll=20.0, nll_other_bos=3.0, twins=["a/x", "b/y"])], LIMITS)
    assert list(said) == ["worse_than_uniform", "bos", "twin"]
    assert said["twin"] == "the same weights as a/x, b/y"
    everything = [row(), row(nll=None, status="not_finite"), row(nll=None, status="not_measured")]
    everything += [row(200, 1.0), row(300, 20.0, nll_other_bos=3.0, twins=["a/x"]), row(400, 1.0)]
    order = [[*FLAGS].index(name) for name in flagged(everything)[4]]
    assert order == sorted(order)
    assert {name for found in flagged(everything) for name in found} == set(FLAGS)


# the texts that ship


def words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


def grams(text: str, length: int) -> set[tuple[str, ...]]:
    found = words(text)
    return {tuple(found[start : start + length]) for start in range(len(found) - length + 1)}


def test_the_card_is_of_the_texts_that_ship():
    card = (TEXTS / "README.md").read_text(encoding="utf-8")
    line = r"^\| `(\S+\.txt)` \|[^|]+\| (\d+) \| (\d+) \| `([0-9a-f]{64})` \|$"
    listed = re.findall(line, card, re.MULTILINE)
    shipped = {path.name: path.read_text(encoding="utf-8") for path in TEXTS.glob("*.txt")}
    assert {
        name: (str(len(text.split())), str(len(passages(text))), files.sha256_text(text))
        for name, text in shipped.items()
    } == {name: tuple(rest) for name, *rest in listed}
    assert set(shipped) == {"plain.txt", "nano.txt"}


def test_nanos_text_is_of_words_of_its_corpus_and_copies_none_of_it():
    settings = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    made = corpus.generate(
        ROOT / "resources/corpora/nano", **settings["models"]["nano"]["source"]["pretrain"]["corpus"]
    )
    text = (TEXTS / "nano.txt").read_text(encoding="utf-8")
    known = {word for document in made for word in words(document)}
    assert set(words(text)) - known == set()
    own = grams(text, 10)
    assert len(own) > 200
    assert [gram for document in made for gram in grams(document, 10) & own] == []
