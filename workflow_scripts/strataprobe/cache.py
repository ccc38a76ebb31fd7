"""The activation cache: one HDF5 file a (checkpoint, dataset), complete, checked, and bound to its makers.

Layout of a file: datasets `layer_00` ... (and `embed` on request) of shape (items, positions, hidden),
float32, chunked by items, Fletcher-32; `items/` with ids, labels, groups, pairs and token counts as
fixed-length arrays (checksums do not cover variable-length strings); provenance as JSON in an attribute that
has its own SHA-256 beside it. No time stamps: equal input gives equal bytes.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from strataprobe.errors import CacheError, StrataprobeError, listing
from strataprobe.files import atomic, canonical_json, sha256_text

FORMAT = 1
_CHUNK_ITEMS = 64
_TOGETHER = ("mean", "mean_rest")
# What h5py raises on a damaged byte, by where it lies: data, an object's header, an attribute's text.
_DAMAGE = (OSError, KeyError, RuntimeError, ValueError)


def layer_names(layers: int, embed: bool = False) -> list[str]:
    """Names of the stored layers: `embed` when asked for, then `layer_00` ... (block outputs)."""
    return (["embed"] if embed else []) + [f"layer_{layer:02d}" for layer in range(layers)]


class CacheWriter:
    """Takes the windows of a capture, in order, until every item is written."""

    def __init__(self, path: str | os.PathLike[str], file: h5py.File, items: int):
        self._path = path
        self._file = file
        self._items = items
        self.written = 0

    def write(self, start: int, layers: Mapping[str, np.ndarray], token_counts: np.ndarray) -> None:
        """Store items `start` to `start + n`.

        Args:
            start: index of the window's first item; windows follow one another without a gap.
            layers: name to (n, positions, hidden) float32.
            token_counts: (n,) real tokens of each item.

        Raises:
            CacheError: windows out of order, a layer missing or of another shape, or a value that is not
                finite (names the layer).
            StrataprobeError: the file cannot be written.
        """
        if start != self.written:
            raise CacheError(f"window starts at item {start}, expected {self.written}: items would be lost")
        stop = start + len(token_counts)
        stored = set(self._file) - {"items"}
        if set(layers) != stored:
            raise CacheError(f"window holds {sorted(layers)}, expected {sorted(stored)}")
        for name, values in layers.items():
            # Checked, since HDF5 would repeat one row for all items without a word.
            expected = (stop - start, *self._file[name].shape[1:])
            if values.shape != expected or stop > self._items:
                raise CacheError(f"{name} is {values.shape} for items {start} to {stop}, expected {expected}")
            if not np.isfinite(values).all():
                raise CacheError(
                    f"{name} holds a value that is not finite; capture it in float32 or bfloat16"
                )
        try:
            for name, values in layers.items():
                self._file[name][start:stop] = values
            self._file["items/token_counts"][start:stop] = token_counts
        except (OSError, RuntimeError, ValueError) as error:
            raise StrataprobeError(f"cannot write {self._path}: {_reason(error)}") from error
        self.written = stop


@contextmanager
def create(
    path: str | os.PathLike[str],
    *,
    ids: Sequence[str],
    labels: np.ndarray,
    groups: Sequence[str],
    pairs: np.ndarray,
    layers: Sequence[str],
    positions: Sequence[str],
    hidden_size: int,
    provenance: Mapping[str, Any],
) -> Iterator[CacheWriter]:
    """Write a cache; the file appears at `path` only when all items are in it.

    Args:
        ids: one name an item.
        labels: (items,) class of each item, -1 or +1.
        groups: one group name an item.
        pairs: (items,) index of the pair each item belongs to.
        layers: names of the stored layers, see `layer_names`.
        positions: names of the pooled positions, in the order of the second axis.
        hidden_size: width of the residual stream.
        provenance: settings and checksums of everything the states depend on.

    Raises:
        CacheError: items missing at the end.
        StrataprobeError: the file cannot be written.
    """
    raised_inside: Exception | None = None
    with atomic(path) as place:
        try:
            with h5py.File(place, "w", libver="latest", track_order=True) as file:
                _write_items(file, ids, labels, groups, pairs)
                shape = (len(ids), len(positions), hidden_size)
                chunks = (min(len(ids), _CHUNK_ITEMS), len(positions), hidden_size)
                for name in layers:
                    # Space is taken at once, in order: windows of any size give the same bytes, and a disk
                    # that is too small is found before the capture instead of at its end. A list a dataset:
                    # h5py adds the checksum's filter to the one it is given, once more each time.
                    early = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
                    early.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
                    file.create_dataset(
                        name,
                        shape,
                        "f4",
                        chunks=chunks,
                        fletcher32=True,
                        track_times=False,
                        fillvalue=np.nan,
                        dcpl=early,
                    )
                text = canonical_json(dict(provenance))
                file.attrs["format"] = FORMAT
                file.attrs["layers"] = json.dumps(list(layers))
                file.attrs["positions"] = json.dumps(list(positions))
                file.attrs["provenance"] = text
                file.attrs["provenance_sha256"] = sha256_text(text)
                writer = CacheWriter(path, file, len(ids))
                try:
                    yield writer
                except Exception as error:
                    raised_inside = error
                    raise
                if writer.written != len(ids):
                    raise CacheError(f"{path}: {writer.written} of {len(ids)} items were captured")
        except (OSError, RuntimeError, ValueError) as error:
            if error is raised_inside:
                raise  # the block's own, of torch for instance: not about this file
            raise StrataprobeError(f"cannot write {path}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Why HDF5 could not write: the system's own words, out of a report of its internals."""
    said = str(error)
    return said.split("error message = '")[1].split("'")[0] if "error message = '" in said else said


def _write_items(
    file: h5py.File, ids: Sequence[str], labels: np.ndarray, groups: Sequence[str], pairs: np.ndarray
) -> None:
    group = file.create_group("items", track_order=True)
    columns = {
        "ids": np.array([text.encode() for text in ids]),
        "labels": np.asarray(labels, "i1"),
        "groups": np.array([text.encode() for text in groups]),
        "pairs": np.asarray(pairs, "i4"),
        "token_counts": np.zeros(len(ids), "i4"),
    }
    for name, values in columns.items():
        group.create_dataset(name, data=values, chunks=values.shape, fletcher32=True, track_times=False)


class ActivationCache:
    """An opened cache. Reads what is asked for, checks what it reads."""

    def __init__(self, path: Path, file: h5py.File):
        self.path = path
        self._file = file
        self.layers: list[str] = json.loads(file.attrs["layers"])
        self.positions: list[str] = json.loads(file.attrs["positions"])
        self.provenance: dict[str, Any] = json.loads(file.attrs["provenance"])
        items = file["items"]
        self.ids = [raw.decode() for raw in items["ids"][:]]
        self.labels = items["labels"][:]
        self.groups = [raw.decode() for raw in items["groups"][:]]
        self.pairs = items["pairs"][:]
        self.token_counts = items["token_counts"][:]
        self._stacks: dict[str, np.ndarray] = {}

    @property
    def blocks(self) -> list[int]:
        """Numbers of the stored blocks, in the order of `stack`: all, or those that were asked for."""
        return [int(name.removeprefix("layer_")) for name in self.layers if name != "embed"]

    @property
    def n_layers(self) -> int:
        """Number of blocks stored (the embedding is not one)."""
        return sum(name != "embed" for name in self.layers)

    def stack(self, position: str) -> np.ndarray:
        """(blocks, items, hidden) float32: the residual stream after each block, pooled at `position`.

        Read once and kept until the cache is closed; not to be written to. The two means lie side by side
        in the file, so asking for one reads both.

        Raises:
            CacheError: the position is not stored, or a block's checksum does not match its bytes.
        """
        if position not in self._stacks:
            self._load(_TOGETHER if position in _TOGETHER and self._has_both_means else (position,))
        return self._stacks[position]

    @property
    def _has_both_means(self) -> bool:
        return tuple(self.positions[: len(_TOGETHER)]) == _TOGETHER

    def _load(self, positions: tuple[str, ...]) -> None:
        """Read adjacent positions of all blocks."""
        start = self._position(positions[0])
        where = slice(start, start + len(positions))
        for place, name in enumerate(name for name in self.layers if name != "embed"):
            values = self._read(name, where)
            for offset, position in enumerate(positions):
                if place == 0:
                    shape = (self.n_layers, len(values), values.shape[2])
                    self._stacks[position] = np.empty(shape, np.float32)
                self._stacks[position][place] = values[:, offset]

    def embed(self, position: str) -> np.ndarray:
        """(items, hidden) float32: the embedding layer, pooled at `position`.

        Raises:
            CacheError: the embedding was not captured.
        """
        if "embed" not in self.layers:
            raise CacheError(f"{self.path}: the embedding layer is not stored; set capture.embed: true")
        return self._read("embed", self._position(position))

    def _position(self, position: str) -> int:
        if position not in self.positions:
            raise CacheError(f"{self.path}: position {position!r} is not stored; there are {self.positions}")
        return self.positions.index(position)

    def _read(self, name: str, where: int | slice) -> np.ndarray:
        try:
            values = self._file[name][:, where]
        except _DAMAGE as error:
            raise CacheError(
                f"{self.path}: {name} is damaged ({error}); delete the file to capture it again"
            ) from error
        if not np.isfinite(values).all():
            raise CacheError(
                f"{self.path}: {name} holds values that are not finite; delete it to capture it again"
            )
        return values


@contextmanager
def open_activations(
    path: str | os.PathLike[str], expect: Mapping[str, Any] | None = None
) -> Iterator[ActivationCache]:
    """Open a cache for reading (also on a read-only folder).

    Args:
        path: the file.
        expect: facts the cache's provenance must hold (weights, dataset, dtype, ...); None checks none.

    Raises:
        CacheError: no such file, damaged, or made from something else; says what differs.
    """
    place = Path(path)
    if not place.is_file():
        raise CacheError(f"{place}: there is no such activation cache")
    try:
        file = h5py.File(place, "r", locking=False)
    except _DAMAGE as error:
        raise CacheError(f"{place} is damaged ({error}); delete it and it will be captured again") from error
    with file:
        yield _checked(place, file, expect)


def _checked(place: Path, file: h5py.File, expect: Mapping[str, Any] | None) -> ActivationCache:
    try:
        if (version := file.attrs.get("format")) != FORMAT:
            raise CacheError(f"{place}: format {version!r}, this version reads {FORMAT}")
        if sha256_text(file.attrs["provenance"]) != file.attrs["provenance_sha256"]:
            raise CacheError(
                f"{place}: its provenance was altered; delete the file and it will be captured again"
            )
        cache = ActivationCache(place, file)
    except _DAMAGE as error:
        raise CacheError(
            f"{place}: its item list is damaged ({error}); delete it to capture it again"
        ) from error
    differing = [
        f"{key}: the cache has {cache.provenance.get(key)!r}, wanted is {value!r}"
        for key, value in (expect or {}).items()
        if cache.provenance.get(key) != value
    ]
    if differing:
        raise CacheError(listing(f"{place} is stale (delete it to capture it again)", differing))
    return cache
