"""What a checkpoint's files say of its weights, without loading them: sizes by block in the dtype asked."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

# As safetensors names them. Others are integers or of 8 bits, and stay what they are.
_FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_OTHER_BYTES = {"I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2}
_NUMBER = re.compile(r"(?:^|\.)(\d+)\.")


@dataclass(frozen=True)
class Size:
    """Bytes of some tensors once loaded, and how many of them are not those of the file.

    The latter take memory of the CPU. What has the file's dtype is mapped, and the system may drop it and
    read it anew.
    """

    total: int = 0
    converted: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.total + other.total, self.converted + other.converted)


@dataclass(frozen=True)
class Stored:
    """Sizes of a checkpoint's weights: those outside the blocks (`rest`), and block by block."""

    rest: Size
    blocks: tuple[Size, ...]

    @property
    def all(self) -> Size:
        return sum(self.blocks, self.rest)

    @property
    def largest(self) -> Size:
        """Of the blocks."""
        return max(self.blocks, key=lambda block: block.total, default=Size())


def read_sizes(directory: Path, dtype: torch.dtype) -> Stored | None:
    """Sizes in memory of the weights in a directory of safetensors, from their headers alone.

    Args:
        directory: as transformers loads it.
        dtype: that floating-point weights become.

    Returns:
        None where the files cannot be read: loading will say why.
    """
    try:
        tensors = list(_tensors(directory))
    except (OSError, SafetensorError, ValueError, KeyError):
        return None
    sizes = {name: _size(count, kind, dtype) for name, count, kind in tensors}
    # The blocks are the numbered parts that weigh most; experts are numbered inside a block.
    found = {name: match for name in sizes if (match := _NUMBER.search(name))}
    weights: Counter[str] = Counter()
    for name, match in found.items():
        weights[name[: match.start()]] += sizes[name].total
    if not weights:
        return Stored(sum(sizes.values(), Size()), ())
    ((prefix, _),) = weights.most_common(1)
    rest, blocks = Size(), {}
    for name, size in sizes.items():
        match = found.get(name)
        if match and name[: match.start()] == prefix:
            blocks[int(match[1])] = blocks.get(int(match[1]), Size()) + size
        else:
            rest += size
    return Stored(rest, tuple(blocks[number] for number in sorted(blocks)))


def _tensors(directory: Path) -> Iterator[tuple[str, int, str]]:
    """Name, number of values and stored dtype of each tensor; of tied ones the first alone."""
    tied = json.loads((directory / "config.json").read_text(encoding="utf-8")).get("tie_word_embeddings")
    for path in _files(directory):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118 - no mapping
                if not (tied and name == "lm_head.weight"):
                    part = file.get_slice(name)
                    yield name, math.prod(part.get_shape()), part.get_dtype()


def _files(directory: Path) -> list[Path]:
    whole, index = directory / "model.safetensors", directory / "model.safetensors.index.json"
    if whole.is_file():
        return [whole]
    names = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
    return [directory / name for name in sorted(set(names))]


def _size(count: int, kind: str, dtype: torch.dtype) -> Size:
    if kind not in _FLOATS:
        return Size(count * _OTHER_BYTES.get(kind, 1))
    total = count * dtype.itemsize
    return Size(total, 0 if _FLOATS[kind] == dtype else total)
