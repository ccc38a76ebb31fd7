"""Noise of causal tracing: one draw of an item is the same at every block, in every design and run.

Common random numbers: two blocks then differ by what the model makes of the noise, not by the noise.
"""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strataprobe.lm import EMBED
from strataprobe.lm.edited import Kept


def draw_noise(seed: int, name: str, draw: int, tokens: int, width: int) -> np.ndarray:
    """Standard normal noise of one draw of an item (counter-based).

    It depends on seed, name and number of the draw alone, and a longer text begins with a shorter one's: so
    both sentences of a pair have the same noise, token by token.

    Returns:
        (tokens, width) float32.
    """
    digest = hashlib.sha256(struct.pack("<qq", seed, draw) + name.encode("utf-8", "surrogatepass")).digest()
    rng = np.random.Generator(np.random.Philox(key=np.frombuffer(digest[:16], "<u8")))
    return rng.standard_normal((tokens, width), dtype=np.float32)


def positions(kept: Kept) -> np.ndarray:
    """(columns,) how many tokens stand before each column's in its own text."""
    found = np.zeros(kept.length, np.int64)
    for columns in kept.columns:
        found[columns] = np.arange(len(columns))
    return found


@dataclass(frozen=True)
class Units:
    """What noise is measured by.

    Attributes:
        rms: (layers,) root mean square of a token's state over its coordinates, after each block: the median
            over all tokens of all prompts but each one's first. A mean would be that of the few tokens that
            are sinks, hundreds of times larger than the others: the first in most models, now and then one
            more.
        embedding_sd: standard deviation over all coordinates of what enters the first block at the subjects'
            tokens (Meng et al. 2022 take it of the embeddings of subjects).
    """

    rms: np.ndarray
    embedding_sd: float

    @classmethod
    def of(cls, texts: Sequence[tuple[np.ndarray, np.ndarray]]) -> "Units":
        """Units of many texts, each as `sizes` gives it."""
        squares = np.concatenate([square for square, _ in texts], axis=1)
        entering = np.concatenate([states for _, states in texts])
        return cls(np.median(np.sqrt(squares), axis=1), float(entering.std(dtype=np.float64)))


def sizes(kept: Kept, prompt: int, subject: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What `Units` needs of one text, the first in its row.

    Args:
        kept: the row.
        prompt: tokens before the answer, at least two.
        subject: (tokens,) places of the subject in the text.

    Returns:
        (layers, prompt - 1) float64 mean squares of its tokens but the first, after each block; and
        (tokens, hidden size) float32 states of the subject that enter the first block.
    """
    places = kept.columns[0][1:prompt]
    squares = [
        kept.at([layer], places)[0].double().pow(2).mean(dim=-1).cpu().numpy()
        for layer in range(kept.lm.n_layers)
    ]
    return np.stack(squares), kept.at([EMBED], kept.columns[0][subject])[0].float().cpu().numpy()
