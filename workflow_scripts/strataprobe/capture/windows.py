"""One forward pass over texts, of which only pooled vectors remain.

Texts that begin alike share a row, batches are formed by a budget of padded tokens over rows sorted by
length, states are pooled inside the forward hook over each text's own tokens, and results come in windows of
bounded size, in the texts' order.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
import torch

from strataprobe.capture.items import Items, Spans, prepare
from strataprobe.capture.pooling import MEAN, MEAN_REST, Pooling, pooling_weights
from strataprobe.errors import ModelError, listing
from strataprobe.lm import EMBED as EMBED_LAYER
from strataprobe.lm import Batches, LoadedLM, Row, batch_rows, plan_rows, resolve_device, run_layers

EMBED = "embed"
_SHOWN = 10


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to capture: what of it can change a number stands in the result's provenance.

    Args:
        dtype: of weights and states; pooled vectors are float32 always.
        device: "auto", "cuda", "mps" or "cpu".
        batch_tokens: padded tokens in a batch, at most (one text alone may have more).
        embed: also what enters the first block.
        threads: batches run at a time on a CPU, each by one thread, so that their number changes no bit.
        window_mb: MiB of pooled vectors held at a time.
    """

    dtype: str
    device: str
    batch_tokens: int
    embed: bool
    threads: int
    window_mb: int

    def texts_a_window(self, vectors: int, hidden_size: int) -> int:
        """How many texts' pooled states a window holds, each of so many float32 vectors: at least one."""
        return max(1, (self.window_mb << 20) // (vectors * hidden_size * 4))


@dataclass(frozen=True)
class Window:
    """Pooled states of the texts start..stop-1 (n of them).

    `layers` maps "embed" (if asked for), "layer_00", ... to (n, positions, hidden size) float32;
    `token_counts` is (n,) int32, the tokenizer's BOS included.
    """

    start: int
    stop: int
    layers: dict[str, np.ndarray]
    token_counts: np.ndarray


def capture(
    lm: LoadedLM,
    texts: Sequence[str],
    *,
    ids: Sequence[str],
    positions: Sequence[str] = (MEAN, MEAN_REST),
    anchors: Spans | None = None,
    settings: Settings,
    progress: Callable[[int], object] | None = None,
) -> Iterator[Window]:
    """Pool the states after every block, at each position, for each text.

    `mean` is over all tokens, the tokenizer's BOS (or the first token) included, as in the reference
    implementation; `mean_rest` leaves the first token out, since in many models it is a sink; `last` is the
    last token; any other name is an anchor: the last token that overlaps its characters.

    Args:
        lm: the loaded model.
        texts: n texts.
        ids: their n names, for errors.
        positions: the names of the positions, in the order of the result.
        anchors: for each name, a span [start, end) in characters for every text.
        settings: how.
        progress: called with the number of texts just done.

    Returns:
        Windows that cover 0..n in order. Nothing has run before the first one is asked for.

    Raises:
        ModelError: at once for texts or spans that cannot be captured (all are named), a position nobody
            knows, or settings that are not the loaded model's; while running, for states that are not
            finite (layer, texts, dtype and remedy) or a text that does not fit into memory alone.
    """
    check_settings(lm, settings)
    items = prepare(lm, texts, ids, tuple(positions), anchors or {})
    return _windows(lm, items, settings, progress or (lambda _count: None))


def check_settings(lm: LoadedLM, settings: Settings) -> None:
    """Refuse settings that are not the loaded model's.

    Raises:
        ModelError: names all that differ.
    """
    faults = []
    if settings.dtype != lm.dtype:
        faults.append(f"dtype is {settings.dtype}, but the model was loaded as {lm.dtype}")
    if resolve_device(settings.device) != lm.device:
        faults.append(f"device is {settings.device}, but the model was loaded onto {lm.device}")
    sizes = {name: getattr(settings, name) for name in ("batch_tokens", "threads", "window_mb")}
    faults += [f"{name} is {size}; at least 1 would be right" for name, size in sizes.items() if size < 1]
    if faults:
        raise ModelError(listing("capture settings", faults))


def _windows(
    lm: LoadedLM, items: Items, settings: Settings, progress: Callable[[int], object]
) -> Iterator[Window]:
    run = _Run(lm, items, settings, progress)
    spans = run.spans()
    if lm.blockwise is not None:  # a pass loads the weights, so one is for all windows
        with closing(run.passed(spans)) as passed:
            for span in spans:
                yield run.window(*span, passed)
        return
    for span in spans:
        with closing(run.passed([span])) as passed:
            window = run.window(*span, passed)
        yield window


@dataclass
class _Run:
    """One pass over the items."""

    lm: LoadedLM
    items: Items
    settings: Settings
    progress: Callable[[int], object]
    layers: dict[str, int] = field(init=False)
    batches: Batches = field(init=False)

    def __post_init__(self) -> None:
        self.batches = Batches(
            self.lm,
            self.items.tokens,
            self.items.ids,
            self.settings.batch_tokens,
            self.settings.threads,
        )
        blocks = {f"layer_{i:02d}": i for i in range(self.lm.n_layers)}
        self.layers = ({EMBED: EMBED_LAYER} if self.settings.embed else {}) | blocks

    def spans(self) -> list[tuple[int, int]]:
        """First and end of the texts of each window."""
        count = len(self.items.tokens)
        vectors = len(self.layers) * len(self.items.positions)
        size = self.settings.texts_a_window(vectors, self.lm.hidden_size)
        return [(start, min(start + size, count)) for start in range(0, count, size)]

    def passed(self, spans: Sequence[tuple[int, int]]) -> Iterator[tuple[list[Row], np.ndarray]]:
        """The batches of some windows, in the windows' order, with what was pooled of each."""
        groups = [plan_rows(self.items.tokens, range(*span), self.lm.sharing_limit) for span in spans]
        return run_layers(self.batches, groups, list(self.layers.values()), self._begin)

    def window(self, start: int, stop: int, passed: Iterator[tuple[list[Row], np.ndarray]]) -> Window:
        """The items start..stop-1, all of whose batches come first of those that pass."""
        shape = (len(self.layers), stop - start, len(self.items.positions), self.lm.hidden_size)
        pooled = np.empty(shape, dtype=np.float32)
        missing = stop - start
        while missing:
            chosen, result = next(passed)
            texts = [member for row in chosen for member in row.members]
            self._check_finite(result, texts)
            pooled[:, np.array(texts) - start] = result
            missing -= len(texts)
            self.progress(len(texts))
        counts = np.array([len(self.items.tokens[i]) for i in range(start, stop)], dtype=np.int32)
        return Window(start, stop, dict(zip(self.layers, pooled, strict=True)), counts)

    def _begin(self, chosen: list[Row]) -> Pooling:
        lm, items = self.lm, self.items
        batch, columns = batch_rows(lm, items.tokens, chosen)
        places = items.places[[member for row in chosen for member in row.members]]
        width = batch["input_ids"].shape[1]
        weights = torch.from_numpy(pooling_weights(columns, width, items.positions, places)).to(lm.device)
        padded = len({row.length for row in chosen}) > 1
        padding = (weights == 0).all(dim=1)[..., None] if padded else None
        counts = np.array([[len(row.members)] for row in chosen])
        return Pooling(batch, weights, padding, np.arange(counts.max()) < counts)

    def _check_finite(self, pooled: np.ndarray, chosen: list[int]) -> None:
        # NaN and inf survive any sum, and float64 holds the sum of any finite float32.
        if np.isfinite(pooled.sum(dtype=np.float64)):
            return
        bad = ~np.isfinite(pooled).all(axis=(2, 3))
        layers = [name for name, row in zip(self.layers, bad, strict=True) if row.any()]
        texts = [self.items.ids[i] for i, wrong in zip(chosen, bad.any(axis=0), strict=True) if wrong]
        listed = ", ".join(texts[:_SHOWN]) + (
            f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        )
        later = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
        remedy = (
            "float16 holds nothing beyond 65504: set dtype to bfloat16 or float32"
            if self.lm.dtype == "float16"
            else "this dtype holds what such a model needs, so the weights themselves are to be doubted"
        )
        raise ModelError(
            f"{self.lm.name}: states are not finite from {layers[0]}{later} on, for {listed} "
            f"(dtype {self.lm.dtype}); {remedy}"
        )
