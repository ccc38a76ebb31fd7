"""The tokenizer of `nano`: byte-level BPE, trained on the same corpus as the model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from strataprobe.errors import ModelError
from strataprobe.files import write_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PAD, BOS, EOS = "<pad>", "<bos>", "<eos>"
PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
# Endings are cut off before the merges are learned, so that the forms of a word share its stem's token:
# a vocabulary this small would otherwise spend itself on walked, walking and walks.
_ENDING = r"(?<=[a-z]{3})(?:ing|ed|es|ly|s)\b"
# The three reserved tokens and one for every byte: below this no text could be written.
SMALLEST_VOCABULARY = 3 + 256


def train(documents: Sequence[str], vocab_size: int) -> "Tokenizer":
    """Train a byte-level BPE tokenizer; the same documents give the same tokenizer.

    Every text gets one `<bos>` from the post-processor, and no `<eos>`: a text to be measured goes on.

    Raises:
        ModelError: the vocabulary cannot hold the bytes, or the documents are too few to fill it.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    if vocab_size < SMALLEST_VOCABULARY:
        raise ModelError(
            f"vocab_size: {vocab_size} is too small (at least {SMALLEST_VOCABULARY}: bytes and reserved)"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_ENDING), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, BOS, EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(documents, trainer)
    if tokenizer.get_vocab_size() != vocab_size:
        raise ModelError(
            f"vocab_size: the corpus has words for {tokenizer.get_vocab_size()} tokens only, not {vocab_size}"
        )
    # ByteLevel first, so that a token's offsets leave out the space before it.
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, BOS_ID)]
            ),
        ]
    )
    return tokenizer


def save(tokenizer: "Tokenizer", directory: Path, *, max_positions: int) -> None:
    """Write the two files transformers reads; nothing in them depends on when or where."""
    (directory / "tokenizer.json").write_text(tokenizer.to_str(pretty=True) + "\n", encoding="utf-8")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "model_max_length": max_positions,
    }
    write_json(directory / "tokenizer_config.json", config)
