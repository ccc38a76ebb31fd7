"""Corpora as rows of tokens: separators, no padding, matched sizes, and corpora that are too small."""

import re

import numpy as np
import pytest

from strataprobe import lm
from strataprobe.curation.packing import pack, token_stream
from strataprobe.errors import DatasetError, ModelError
from tests.tiny_models import save_tiny_model

BOS, EOS = 1, 2
TEXTS = ("She told the truth.", "He kept his word about the missing money. " * 20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def llama(folder):
    return lm.load(save_tiny_model("llama", folder / "llama"), dtype="float32", device="cpu")


def test_one_bos_a_text_an_eos_between_two_and_a_text_may_be_longer_than_the_model_takes(llama):
    plain = [llama.tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    assert len(plain[1]) > llama.max_tokens
    assert token_stream(llama, TEXTS).tolist() == [BOS, *plain[0], EOS, BOS, *plain[1]]


def test_a_tokenizer_without_bos_of_its_own_gets_none(folder):
    without = lm.load(save_tiny_model("gpt2", folder / "gpt2", bos=False), dtype="float32", device="cpu")
    stream = token_stream(without, iter(TEXTS))
    assert (stream == BOS).sum() == 0
    assert (stream == EOS).sum() == 1


def test_rows_are_the_run_of_tokens_without_padding_or_loss():
    stream = np.arange(23)
    rows = pack(stream, sequence_length=5)
    assert rows.shape == (4, 5)
    np.testing.assert_array_equal(rows.ravel(), stream[:20])


def test_a_matched_size_is_cut_before_rows_are():
    assert pack(np.arange(23), sequence_length=5, tokens=14).tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


@pytest.mark.parametrize(
    ("stream", "tokens", "said"),
    [
        (7, None, "its 7 tokens do not fill one sequence of 8; a sequence_length of at most 7"),
        (30, 6, "its 30 tokens, cut to 6, do not fill one sequence of 8; a sequence_length of at most 6"),
        (30, 31, "31 tokens are asked for, but it has 30 tokens; match corpora at 30 or fewer"),
    ],
)
def test_a_corpus_too_small_says_how_many_tokens_there_are(stream, tokens, said):
    with pytest.raises(DatasetError, match=f"corpus 'fables': {re.escape(said)}"):
        pack(np.arange(stream), sequence_length=8, tokens=tokens, name="fables")


def test_an_empty_corpus_and_an_empty_text_are_refused_by_name(llama):
    with pytest.raises(DatasetError, match="corpus 'fables': holds no text"):
        token_stream(llama, [], name="fables")
    with pytest.raises(ModelError, match="fables, text 2: is empty"):
        token_stream(llama, ["A word.", " "], name="fables")
