"""The tuned lens: the logit lens at first, nearer to the last distribution once trained, bound to a model."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from strataprobe import behavior, readout
from strataprobe import lm as lm_room
from strataprobe.errors import ModelError, StrataprobeError
from strataprobe.lm import OutputMap
from strataprobe.readout import TunedLens, divergences, load_tuned, train_tuned
from strataprobe.readout.lens import Lens
from strataprobe.readout.training import _batches
from strataprobe.readout.tuned import unembedding_sha256
from tests import control_cases as cases
from tests.tiny_models import save_tiny_model

CORPUS = [
    "The nurse comforted the frightened child in the long white corridor.",
    "The clerk counted the printed forms in the small grey office.",
    "She told the truth about the missing money, and he kept his word.",
    "They walked along the river until the evening bells rang in town.",
]
TRAINING = {"optimizer": "adam", "learning_rate": 0.01, "steps": 30, "batch_tokens": 48, "seed": 7}


def load(directory, family="llama", **settings):
    directory = save_tiny_model(family, directory, layers=3, **{"max_positions": 256, **settings})
    return lm_room.load(directory, dtype="float32", device="cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return load(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def trained(llama):
    return train_tuned(llama, CORPUS, settings=TRAINING, facts={"model": "tiny"})


def readouts(lm, tmp_path, definitions, tuned):
    texts = behavior.prepare(lm, cases.dataset(tmp_path), chat=False)
    lens = Lens(OutputMap.of(lm), texts, definitions, tuned)
    scores, parts = behavior.score(lens.output, texts, layers=lens.layers, also=lens.read, batch_tokens=512)
    return lens.collected(parts), scores


def plain_divergences(lm, texts, weight=None, bias=None):
    """(L+1,) KL in nats a token by transformers' hidden_states and float64, text by text."""
    sums, count = np.zeros(lm.n_layers + 1), 0
    for text in texts:
        tokens = torch.tensor(lm.encode([text]))
        with torch.inference_mode():
            out = lm.model(tokens, output_hidden_states=True)
            last = out.logits[0].double().log_softmax(dim=-1)
            for index, states in enumerate(out.hidden_states[:-1]):
                moved = states[0]
                if weight is not None:
                    moved = moved + moved @ weight[index].T + bias[index]
                own = lm.head(lm.final_norm(moved)).double().log_softmax(dim=-1)
                sums[index] += float((last.exp() * (last - own)).sum())
        count += tokens.shape[1]
    return sums / count


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2"])
def test_before_training_the_tuned_lens_is_the_logit_lens(family, tmp_path):
    lm = load(tmp_path / "model", family)
    found, _ = readouts(lm, tmp_path, ["default", "tuned"], TunedLens.identity(lm, {}))
    np.testing.assert_array_equal(found["tuned"], found["default"])


@pytest.mark.parametrize("optimizer", [("adam", 0.01), ("sgd", 0.5)])
def test_training_brings_every_layer_nearer_to_the_last_distribution(optimizer, llama):
    name, rate = optimizer
    before = divergences(llama, TunedLens.identity(llama, {}), CORPUS, batch_tokens=48)
    np.testing.assert_allclose(before, plain_divergences(llama, CORPUS), atol=1e-4)
    steps = []
    settings = {**TRAINING, "optimizer": name, "learning_rate": rate}
    lens = train_tuned(llama, CORPUS, settings=settings, progress=lambda step, kl: steps.append((step, kl)))
    after = divergences(llama, lens, CORPUS, batch_tokens=48)
    assert (after[:-1] < 0.7 * before[:-1]).all()
    assert after[-1] == before[-1] == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(after, plain_divergences(llama, CORPUS, lens.weight, lens.bias), atol=1e-4)
    assert [step for step, _ in steps] == list(range(1, 31))
    # The first step's loss is the logit lens's, averaged over layers.
    assert steps[0][1] == pytest.approx(before[:-1].mean(), rel=0.2)


def test_the_rate_goes_linearly_to_zero(llama, monkeypatch):
    rates = []

    class Watched(torch.optim.Adam):
        def step(self, closure=None):
            rates.append([group["lr"] for group in self.param_groups])
            return super().step(closure)

    monkeypatch.setattr(torch.optim, "Adam", Watched)
    train_tuned(llama, CORPUS, settings={**TRAINING, "steps": 5})
    np.testing.assert_allclose(rates, 0.01 * np.array([[1.0], [0.8], [0.6], [0.4], [0.2]]))


def test_the_readout_goes_through_the_maps_and_the_last_block_stays_behaviour(llama, trained, tmp_path):
    found, scores = readouts(llama, tmp_path, ["default", "tuned"], trained)
    read = np.isfinite(found["default"][0])
    assert np.abs(found["tuned"][:-1] - found["default"][:-1])[:, read].min(axis=1).max() > 1e-3
    np.testing.assert_allclose(found["tuned"][-1][read], scores[read], atol=1e-4)
    settings = {
        "chat": False,
        "capture": {"batch_tokens": 512, "threads": 1},
        "readout": {"definitions": ["tuned"], "flips": 50, "seed": 0},
    }
    data = cases.dataset(tmp_path)
    _, _, summary = readout.measure_levels(llama, data, settings, tuned=trained)
    assert set(summary["definitions"]) == {"tuned"}


def test_training_leaves_the_model_as_it_is_and_gives_equal_bits_again(llama, trained, tmp_path):
    weights = {name: value.clone() for name, value in llama.model.state_dict().items()}
    again = train_tuned(llama, CORPUS, settings=TRAINING, facts={"model": "tiny"})
    torch.testing.assert_close(again.weight, trained.weight, rtol=0, atol=0)
    assert all(torch.equal(value, weights[name]) for name, value in llama.model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in llama.model.parameters())
    for name in ("one", "two"):
        again.save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_saved_lens_is_read_back_with_what_it_belongs_to(llama, trained, tmp_path):
    path = tmp_path / "deep/lens.safetensors"
    trained.save(path)
    found = load_tuned(path, llama)
    assert torch.equal(found.weight, trained.weight)
    assert torch.equal(found.bias, trained.bias)
    assert found.facts == trained.facts
    assert found.facts["model"] == "tiny"
    assert found.facts["training"] == TRAINING
    assert found.facts["unembedding_sha256"] == unembedding_sha256(llama)


def test_a_lens_of_another_model_is_refused(trained, tmp_path):
    path = tmp_path / "lens.safetensors"
    trained.save(path)
    other = load(tmp_path / "other", seed=1)
    with pytest.raises(ModelError, match="was not trained for") as error:
        load_tuned(path, other)
    assert "unembedding_sha256 is" in str(error.value)
    assert other.name in str(error.value)
    with pytest.raises(ModelError, match="hidden_size is 32 there, the model's is 16"):
        load_tuned(path, load(tmp_path / "small", hidden=16))


def test_one_changed_weight_of_the_unembedding_is_another_unembedding(tmp_path):
    lm = load(tmp_path / "model", tie_word_embeddings=False)
    before = unembedding_sha256(lm)
    lm.head.weight.data[-1, -1] += 1e-3
    assert unembedding_sha256(lm) != before


def test_what_is_no_lens_is_refused(llama, tmp_path):
    path = tmp_path / "it.safetensors"
    with pytest.raises(StrataprobeError, match="cannot read the tuned lens"):
        load_tuned(path, llama)
    path.write_bytes(b"no safetensors")
    with pytest.raises(StrataprobeError, match="cannot read the tuned lens"):
        load_tuned(path, llama)
    save_file({"weight": torch.zeros(2)}, path)
    with pytest.raises(StrataprobeError, match="is no tuned lens"):
        load_tuned(path, llama)


def test_batches_hold_every_text_before_any_comes_again():
    tokens = [[0] * size for size in (5, 9, 2, 7, 12, 3)]
    settings = {"steps": 12, "batch_tokens": 14, "seed": 3}
    batches = list(_batches(tokens, settings))
    assert len(batches) == 12
    assert all(sum(len(tokens[i]) for i in batch) <= 14 for batch in batches)
    order = [i for batch in batches for i in batch]
    assert [sorted(order[start : start + 6]) for start in (0, 6, 12)] == [list(range(6))] * 3
    assert order[:6] != order[6:12]
    assert list(_batches(tokens, {**settings, "steps": 4})) == batches[:4]
    assert list(_batches(tokens, {**settings, "seed": 4})) != batches


@pytest.mark.parametrize(
    ("change", "said"),
    [({"optimizer": "lion"}, "'lion'; one of adam, sgd"), ({"steps": 0}, "steps is 0"),
     ({"learning_rate": 3e38, "optimizer": "sgd"}, "try a lower rate")],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(change, said, llama):
    with pytest.raises(ModelError, match=said):
        train_tuned(llama, CORPUS, settings={**TRAINING, **change})
