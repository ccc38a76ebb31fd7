"""Noise of tracing: the same at every block, of the right size, and independent of everything else."""

import numpy as np
import pytest
import torch
from scipy import stats

from strataprobe import lm
from strataprobe.lm.edited import keep, keeping
from strataprobe.tracing.noise import Units, draw_noise, positions, sizes
from strataprobe.tracing.prompts import prepare
from tests.tiny_models import save_tiny_model
from tests.tracing_cases import QUESTION, pairs


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return lm.load(
        save_tiny_model("llama", tmp_path_factory.mktemp("m"), layers=3), dtype="float32", device="cpu"
    )


def test_noise_is_standard_normal_and_its_draws_are_independent():
    drawn = np.stack([draw_noise(1, "item", draw, 40, 64) for draw in range(8)])
    assert stats.kstest(drawn.ravel(), "norm").pvalue > 1e-3
    correlations = np.corrcoef(drawn.reshape(8, -1))[np.triu_indices(8, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(40 * 64)
    other = draw_noise(1, "other", 0, 40, 64)
    assert abs(np.corrcoef(drawn[0].ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(40 * 64)
    assert not np.array_equal(draw_noise(2, "item", 0, 40, 64), drawn[0])


def test_a_longer_text_begins_with_the_noise_of_a_shorter_one():
    """So that both sentences of a pair share it, token by token."""
    short, long = (draw_noise(3, "item", 1, tokens, 16) for tokens in (5, 9))
    assert np.array_equal(long[:5], short)


def test_a_column_s_place_is_that_in_its_own_text(model):
    asked = prepare(model, pairs(), QUESTION, chat=False)
    (row,) = asked.rows(model, 0, "positive")
    with keeping(model):
        kept = keep(model, asked.continuations.read, row)
    for columns in kept.columns:
        assert positions(kept)[columns].tolist() == list(range(len(columns)))


def test_units_are_those_of_the_whole_model_s_own_states(model):
    asked = prepare(model, pairs(), QUESTION, chat=False)
    rms, entering = [[] for _ in range(model.n_layers)], []
    parts = []
    with keeping(model):
        for place, side in asked.sentences:
            number = asked.numbers(place, side)[0]
            prompt = asked.prompt_tokens(place, side)
            tokens = asked.continuations.tokens[number][:prompt]
            kept = keep(model, asked.continuations.read, asked.rows(model, place, side)[0])
            parts.append(sizes(kept, prompt, asked.subjects[place, side]))
            with torch.inference_mode():
                # The last of these has been through the final norm, so it is left out.
                hidden = model.model(torch.tensor([tokens]), output_hidden_states=True).hidden_states
            for layer in range(model.n_layers - 1):
                rms[layer] += [float(token.square().mean().sqrt()) for token in hidden[layer + 1][0, 1:]]
            entering.append(hidden[0][0, asked.subjects[place, side]])
    units = Units.of(parts)
    for layer in range(model.n_layers - 1):
        assert units.rms[layer] == pytest.approx(np.median(rms[layer]), rel=1e-5)
    assert units.embedding_sd == pytest.approx(float(torch.cat(entering).std(correction=0)), rel=1e-5)


def test_one_sink_among_many_tokens_does_not_set_the_unit(model):
    asked = prepare(model, pairs(), QUESTION, chat=False)
    with keeping(model):
        kept = keep(model, asked.continuations.read, asked.rows(model, 0, "positive")[0])
    prompt = asked.prompt_tokens(0, "positive")
    plain = Units.of([sizes(kept, prompt, np.array([1]))])
    with torch.inference_mode():
        for place in (0, 4):  # the first, as in most models, and one more
            kept.after(1)[kept.columns[0][place]] *= 1000
    sunk = Units.of([sizes(kept, prompt, np.array([1]))])
    assert sunk.rms[1] == pytest.approx(plain.rms[1], rel=0.15)
    assert sunk.rms[0] == plain.rms[0]
