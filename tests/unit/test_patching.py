"""Patched runs are what whole models with hooks give; targets, donors and layers are as asked for."""

import csv
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from strataprobe import behavior, lm
from strataprobe.datasets.answers import margins
from strataprobe.datasets.frames import Variant
from strataprobe.errors import DatasetError, ModelError, StrataprobeError
from strataprobe.patching import donors as choosing
from strataprobe.patching.grid import windows
from strataprobe.patching.measure import chosen_items, measure, prepared
from strataprobe.patching.observed import observations
from strataprobe.patching.rows import COLUMNS, write_rows
from strataprobe.recoverability.peak import probe_peak
from tests import patching_cases as cases
from tests.control_cases import plain_score
from tests.tiny_models import FAMILIES, save_tiny_model

LAYERS = 3


@pytest.fixture(scope="module", params=FAMILIES)
def model(request, tmp_path_factory):
    folder = save_tiny_model(
        request.param, tmp_path_factory.mktemp(request.param), layers=LAYERS, max_positions=128
    )
    return lm.load(folder, dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = save_tiny_model("llama", tmp_path_factory.mktemp("llama"), layers=LAYERS, max_positions=128)
    return lm.load(folder, dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    return cases.dataset(tmp_path_factory.mktemp("items"))


def measured(model, items, **asked):
    summary, rows = measure(model, items, cases.probed(), cases.settings(**asked))
    return summary, list(rows)


def prompt_of(item, task):
    return item.prompts[task].prompt


def donor_states(model, item, task, states):
    """hidden_states of a donor at its three roles, by plain transformers."""
    if states == "bare":
        text, tokens = item.sentence, model.tokenizer(item.sentence, add_special_tokens=False)["input_ids"]
        own = [place - 1 for place in cases.places(model, text, 0, item)] if model.adds_bos else None
        columns = own or cases.places(model, text, 0, item)
    else:
        text = prompt_of(item, task) + item.prompts[task].a
        tokens = model.tokenizer(text)["input_ids"]
        columns = cases.places(model, text, prompt_of(item, task).index(item.sentence), item)
    return [layer[columns] for layer in cases.states_of(model, tokens)]


@pytest.mark.parametrize("states", ["own_prompt", "bare"])
def test_a_patched_run_is_what_a_hook_in_the_whole_model_gives(model, items, states):
    """Every seventh run, of both tasks, in windows of one and two layers."""
    asked = {"states": [states], "first_layer": 1, "windows": [1, 2], "norm_matched": 0, "donors": 1}
    _, rows = measured(model, items, **asked)
    by_id = {item.id: item for item in items.controls}
    assert {row["kind"] for row in rows} >= {"random"}
    for row in rows[::7]:
        target, donor = by_id[row["target"]], by_id[row["donor"]]
        given = donor_states(model, donor, row["task"], states)
        put = {index: given[index] for index in range(row["layer"], row["layer"] + row["window"])}
        context = prompt_of(target, row["task"])
        columns = cases.places(model, context, context.index(target.sentence), target)
        each = [
            cases.hooked_score(model, context, getattr(target.prompts[row["task"]], candidate), columns, put)
            for candidate in "ab"
        ]
        expected = float(margins(np.array([each]), [target.gold])[0])
        assert row["patched_margin"] == pytest.approx(expected, abs=2e-4)
        assert row["block"] == row["layer"] - 1


def test_the_embedding_can_be_patched(llama, items):
    """hidden_states[0]: with all three roles given, a target reads as if these tokens were the donor's."""
    _, rows = measured(llama, items, tasks=["qa"], norm_matched=0)
    by_id = {item.id: item for item in items.controls}
    seen = 0
    for row in rows:
        target, donor = by_id[row["target"]], by_id[row["donor"]]
        if row["layer"] != 0 or target.control_type != donor.control_type or target.language != "en":
            continue
        embedding = llama.embedding
        context = prompt_of(target, "qa")
        columns = cases.places(llama, context, context.index(target.sentence), target)
        own = prompt_of(donor, "qa")
        tokens = llama.tokenizer(own)["input_ids"]
        theirs = [tokens[place] for place in cases.places(llama, own, own.index(donor.sentence), donor)]

        def change(_module, _args, output, theirs=theirs, columns=columns, embedding=embedding):
            new = output.clone()
            new[0, columns] = embedding.weight[theirs]
            return new

        with lm.attached([embedding.register_forward_hook(change)]):
            each = [plain_score(llama, context, getattr(target.prompts["qa"], one)) for one in "ab"]
        expected = float(margins(np.array([each]), [target.gold])[0])
        assert row["patched_margin"] == pytest.approx(expected, abs=2e-4)
        assert row["block"] is None
        seen += 1
    assert seen


def test_unpatched_answers_are_those_of_the_levels(model, items):
    summary, rows = measured(model, items, donors=1, first_layer=LAYERS)
    level, _ = behavior.measure(model, items, cases.settings())
    assert summary["items"] == level["items"]
    for run in summary["runs"]:
        assert run["correct"] == level["variants"][run["task"]]["correct"]
    context = prompt_of(items.controls[0], "qa")
    each = [plain_score(model, context, getattr(items.controls[0].prompts["qa"], one)) for one in "ab"]
    clean = {row["target"]: row["clean_margin"] for row in rows if row["task"] == "qa"}
    expected = float(margins(np.array([each]), [items.controls[0].gold])[0])
    assert clean[items.controls[0].id] == pytest.approx(expected, abs=1e-4)


def runner_of(model, items, **asked):
    settings = cases.settings(**asked)
    return prepared(model, chosen_items(items, settings["patching"]), settings, 0)


def test_an_item_s_own_states_give_its_clean_scores_exactly(model, items):
    """In any order, beside conditions that do change it."""
    runner = runner_of(model, items, tasks=["qa"])
    clean = runner.unchanged()
    grid = [(1, layer) for layer in range(LAYERS + 1)] + [(2, 0), (LAYERS, 1)]
    jobs = list(runner.roles)

    def donors(job):
        other = next(item for item, task in jobs if task == job[1] and item != job[0])
        own = [("own_prompt", "correct", job[0]), ("own_prompt", "correct", other)]
        return own if job[0] % 2 else own[::-1]

    changed = 0
    for job, found in runner.patched(jobs, donors, grid):
        own, other = found if job[0] % 2 else found[::-1]
        assert own.tolist() == [clean[job]] * len(grid)
        changed += int((other != clean[job]).any())
    assert changed == len(jobs)


def test_the_last_block_changes_nothing_that_is_read(model, items):
    """Nothing attends to it afterwards, and the answer is read at later tokens."""
    _, rows = measured(model, items, tasks=["qa"], first_layer=1, donors=1)
    last = [row for row in rows if row["layer"] == LAYERS]
    assert last
    assert all(row["patched_margin"] == row["clean_margin"] for row in last)
    assert any(row["patched_margin"] != row["clean_margin"] for row in rows)


def test_lift_at_the_last_block_is_exactly_0(llama, items):
    summary, _ = measured(llama, items, first_layer=LAYERS)
    found = [
        one.estimate
        for one in observations(summary, cases.settings()["patching"])
        if one.layer == LAYERS and one.measure in ("lift", "lift_pooled")
    ]
    known = [one for one in found if one.value is not None]
    assert known
    assert all(one.value == 0 and one.low in (0, None) for one in known)


def test_batches_move_last_bits_and_threads_none(llama, items):
    asked = {"states": ["own_prompt", "bare"], "donors": 1, "tasks": ["qa"]}
    summary, rows = measured(llama, items, **asked)
    for tokens, threads in ((1, 1), (100_000, 1), (512, 3)):
        settings = cases.settings(**asked)
        settings["capture"] = {"batch_tokens": tokens, "threads": threads}
        again, others = measure(llama, items, cases.probed(), settings)
        assert again == summary
        others = list(others)
        exactly = threads > 1
        for one, other in zip(rows, others, strict=True):
            near = one["patched_margin"] if exactly else pytest.approx(one["patched_margin"], abs=1e-4)
            assert other["patched_margin"] == near
            assert {**other, "patched_margin": 0} == {**one, "patched_margin": 0}


def test_the_order_of_items_changes_no_run(llama, items):
    turned = replace(items, controls=items.controls[::-1])
    keys = ("task", "states", "window", "layer", "kind", "target", "donor")
    found = []
    for dataset in (items, turned):
        _, rows = measured(llama, dataset, donors=1, norm_matched=2, random_donors=2)
        found.append({tuple(row[key] for key in keys): row["patched_margin"] for row in rows})
    first, second = found
    assert first.keys() == second.keys()
    assert all(second[key] == pytest.approx(value, abs=1e-4) for key, value in first.items())


def test_no_hook_is_left_where_a_run_fails(llama, items):
    def refuse(_count, _total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(llama, items, cases.probed(), cases.settings(), progress=refuse)
    for block in llama.blocks:
        assert not block._forward_hooks
        assert not block._forward_pre_hooks


def test_progress_counts_every_run(llama, items):
    seen = []
    _, rows = measure(llama, items, cases.probed(), cases.settings(), progress=lambda *one: seen.append(one))
    assert sum(count for count, _ in seen) == len(list(rows)) == seen[0][1]


def test_donors_are_of_the_target_s_language_and_type_and_never_itself(items):
    right = np.array([1.0, 0, 1, 0, 0, 1, 1, 0])
    found = choosing.choose(items.controls, right, cases.settings(random_donors=9)["patching"])
    assert all(target != donor for pairs in found.values() for target, donor in pairs)
    for target, donor in (*found["correct"], *found["wrong"]):
        one, other = items.controls[target], items.controls[donor]
        assert (one.language, one.control_type) == (other.language, other.control_type)
    assert {right[donor] for _, donor in found["correct"]} == {1}
    assert {right[donor] for _, donor in found["wrong"]} == {0}
    # All there are: of three English items of a type every other one gives.
    assert Counter(target for target, _ in found["correct"] + found["wrong"])[0] == 2
    for target, donor in found["random"]:
        assert items.controls[target].language == items.controls[donor].language
    assert Counter(target for target, _ in found["random"])[0] == 5
    assert {(6, 7), (7, 6)} == {pair for pair in found["random"] if pair[0] > 5}


def test_an_item_without_an_answer_neither_gives_nor_takes(items):
    right = np.array([1.0, np.nan, 1, 0, 0, 1, 1, 0])
    found = choosing.choose(items.controls, right, cases.settings()["patching"])
    assert all(1 not in pair for pairs in found.values() for pair in pairs)


def test_chosen_donors_depend_on_names_and_seed_alone(tmp_path):
    items = cases.dataset(tmp_path, 6).controls
    right = np.arange(len(items)) % 3 == 0
    asked = cases.settings(donors=2, random_donors=2)["patching"]

    def named(controls, values, own=asked):
        found = choosing.choose(controls, values.astype(float), own)
        return {
            kind: sorted((controls[target].id, controls[donor].id) for target, donor in pairs)
            for kind, pairs in found.items()
        }

    whole = named(items, right)
    assert named(items[::-1], right[::-1]) == whole
    assert named(items, right, asked | {"seed": 6}) != whole
    without = [place for place, item in enumerate(items) if item.id != "en_sub_5"]
    fewer = named([items[place] for place in without], right[without])
    for kind in ("correct", "wrong", "random"):
        kept = [pair for pair in whole[kind] if "en_sub_5" not in pair]
        assert set(kept) <= set(fewer[kind])


def test_random_directions_are_as_long_as_the_way_to_the_donor(llama, items):
    runner = runner_of(llama, items)
    runner.unchanged()
    # Without the embedding, where the same word is the same state.
    states = {item: runner.prompted[item, "qa"][0][1:] for item in (0, 2)}
    moved = runner._norm_matched(0, 2, states[0], states[2])
    wanted = (states[2] - states[0]).norm(dim=-1)
    assert torch.allclose((moved - states[0]).norm(dim=-1), wanted, rtol=1e-4)
    assert (wanted > 0).all()
    steps = (moved - states[0]) / wanted[..., None]
    # One direction a role, the same at every layer, and none like another role's.
    assert torch.allclose(steps[0], steps[-1], atol=1e-3)
    assert abs(float(steps[0, 0] @ steps[0, 1])) < 0.9
    again = runner._norm_matched(0, 2, states[0], states[2])
    assert torch.equal(moved, again)
    assert not torch.allclose(moved, runner._norm_matched(2, 0, states[0], states[2]))


def test_directions_are_uniform():
    drawn = np.array([choosing.direction(1, "one", str(number), "a", 3) for number in range(4000)])
    assert np.allclose(np.linalg.norm(drawn, axis=1), 1)
    assert np.allclose(drawn.mean(axis=0), 0, atol=0.04)
    assert np.allclose(np.cov(drawn.T), np.eye(3) / 3, atol=0.02)


def test_unequal_spans_and_orders_are_listed_and_counted(llama, tmp_path):
    rows = cases.rows(2)[:4]
    # A name of more tokens, and a sentence in which b comes first.
    rows[0] |= {
        "candidate_a": "zymurgist",
        "sentence": "The zymurgist promised the nurse to count the bells.",
    }
    rows[2] |= {"sentence": "To the truth the nurse promised to count the bells.", "candidate_b": "truth"}
    items = cases.control_cases.dataset(tmp_path, rows)
    summary, found = measured(llama, items, tasks=["qa"], random_donors=9, norm_matched=0)
    listed = {(row["target"], row["donor"]): row["unequal"] for row in found}
    assert listed["en_sub_0", "en_sub_1"].split()[-1] == "order"
    assert "a" in listed["en_sub_0", "en_obj_0"].split()
    assert "order" not in listed["en_sub_0", "en_obj_0"].split()
    for kind, own in summary["runs"][0]["kinds"].items():
        pairs = {(row["target"], row["donor"]): row["unequal"] for row in found if row["kind"] == kind}
        assert own["unequal"] == sum(map(bool, pairs.values()))
        assert own["unequal_in"] == dict(Counter(" ".join(pairs.values()).split()))
    assert summary["runs"][0]["kinds"]["random"]["unequal"] > 0


def test_a_token_that_two_roles_share_is_written_once(llama, items):
    runner = runner_of(llama, items)
    states = torch.arange(2 * 3 * 4.0).reshape(2, 3, 4)
    (edit,) = runner._edits(states, np.array([7, 2, 7]), (1, 1))
    assert edit.columns.tolist() == [2, 7]
    assert torch.equal(edit.states, states[1, [1, 2]])


def test_languages_and_tasks_are_those_asked_for(llama, items):
    summary, rows = measured(llama, items, languages=["zh"], tasks=["paraphrase"])
    assert summary["items"]["languages"] == ["zh", "zh"]
    assert [run["task"] for run in summary["runs"]] == ["paraphrase"]
    assert {row["kind"] for row in rows} == {"random"}  # no other item of the type
    with pytest.raises(DatasetError, match=r"no item in fr with a prompt of qa; it has the languages en, zh"):
        measured(llama, items, languages=["fr"], tasks=["qa"])


def test_in_a_chat_template_the_roles_stand_in_the_prompt_within_it(items, tmp_path):
    folder = save_tiny_model("llama", tmp_path, layers=LAYERS, max_positions=128)
    chatty = lm.load(folder, dtype="float32", device="cpu")
    chatty.tokenizer.chat_template = "Hello you. {{ messages[0].content }} Well then:"
    settings = cases.settings(tasks=["qa"], first_layer=1, donors=1, norm_matched=0) | {"chat": True}
    _, rows = measure(chatty, items, cases.probed(), settings)
    by_id = {item.id: item for item in items.controls}
    text = {name: f"Hello you. {prompt_of(item, 'qa')} Well then:" for name, item in by_id.items()}
    for row in list(rows)[::9]:
        target, donor = by_id[row["target"]], by_id[row["donor"]]
        columns = {
            item.id: cases.places(chatty, text[item.id], text[item.id].index(item.sentence), item)
            for item in (target, donor)
        }
        tokens = chatty.tokenizer(text[donor.id])["input_ids"]
        put = {row["layer"]: cases.states_of(chatty, tokens)[row["layer"]][columns[donor.id]]}
        each = [
            cases.hooked_score(
                chatty, text[target.id], getattr(target.prompts["qa"], one).lstrip(), columns[target.id], put
            )
            for one in "ab"
        ]
        expected = float(margins(np.array([each]), [target.gold])[0])
        assert row["patched_margin"] == pytest.approx(expected, abs=2e-4)


def test_a_model_whose_blocks_are_not_at_hand_is_refused(llama, items):
    with pytest.raises(ModelError, match=r"needs them all at hand; placement.weights: whole or spread"):
        measured(replace(llama, blockwise=object()), items)


def test_scores_that_are_not_finite_are_no_answers(items, tmp_path):
    folder = save_tiny_model("llama", tmp_path, layers=LAYERS, max_positions=128)
    broken = lm.load(folder, dtype="float32", device="cpu")
    runner = runner_of(broken, items)
    runner.unchanged()
    job = next(iter(runner.roles))
    runner.prompted[2, "qa"] = [states * float("nan") for states in runner.prompted[2, "qa"]]
    with pytest.raises(
        ModelError, match=r"dtype float32\): en_sub_0 qa, patched: its log-probability is not"
    ):
        list(runner.patched([job], lambda _job: [("own_prompt", "correct", 2)], [(1, 1)]))
    with torch.no_grad():
        broken.model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match=r"en_sub_0 qa, unpatched: its log-probability is not a finite"):
        runner.unchanged()


def test_a_prompt_without_its_sentence_is_refused_by_name(llama, items):
    broken = [
        replace(item, prompts={"qa": Variant("Who will count?", " a", " b")}) for item in items.controls[:2]
    ]
    with pytest.raises(ModelError, match=r"2 problems\n  en_sub_0 qa: its prompt does not hold its sentence"):
        measured(llama, replace(items, controls=tuple(broken)))


def test_windows_go_from_the_first_layer_to_the_last():
    asked = {"first_layer": "peak", "every": 2, "windows": [1]}
    assert windows(asked, 3, 8) == [(1, 3), (1, 5), (1, 7), (1, 8)]
    assert windows(asked | {"first_layer": 0, "every": 4}, 3, 8) == [(1, 0), (1, 4), (1, 8)]
    assert windows(asked | {"windows": [2, 3]}, 5, 8) == [(2, 5), (2, 7), (3, 5), (3, 6)]
    assert windows(asked | {"windows": [1, 3]}, 8, 8) == [(1, 8)]
    with pytest.raises(ModelError, match=r"first_layer: 9 is not one of the hidden states 0 .* to 8"):
        windows(asked | {"first_layer": 9}, 3, 8)


def test_the_probe_peak_is_that_of_the_conventions():
    summary = cases.probed()
    assert probe_peak(summary, "default")["scheme"] == "pair_out"
    assert probe_peak(summary, "default")["coding"] == "decorrelated"
    published = probe_peak(summary, "published")
    assert (published["coding"], published["scheme"], published["seed"]) == ("paper", "item_out", 1729)
    assert published["layer"] == 2
    refused = summary["codings"] | {
        "decorrelated": {"pair_out": {"refused": "no pairs"}, **summary["codings"]["paper"]}
    }
    assert probe_peak({"codings": refused}, "default")["scheme"] == "item_out"
    with pytest.raises(StrataprobeError, match="no best layer"):
        probe_peak({"codings": {}}, "default")


def test_runs_as_a_file_are_the_rows(llama, items, tmp_path):
    _, rows = measured(llama, items, tasks=["qa"])
    write_rows(tmp_path / "runs.csv", rows)
    with (tmp_path / "runs.csv").open(encoding="utf-8", newline="") as handle:
        read = list(csv.DictReader(handle))
    assert tuple(read[0]) == COLUMNS
    assert [float(row["patched_margin"]) for row in read] == [row["patched_margin"] for row in rows]
    assert {row["block"] for row in read if row["layer"] == "0"} == {""}
