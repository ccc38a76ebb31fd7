"""How high the best of many layers and tasks comes out when nothing is read from any of them."""

from collections.abc import Mapping

import numpy as np

from strataprobe.datasets.lexemes import keyed_draws

_ROUNDING = 1e-9


def item_flips(items: int, flips: int, seed: int) -> np.ndarray:
    """(flips, items) of -1 or +1: where gold and other change places. Flip k does not depend on how many."""
    bits = keyed_draws("readout item flips", seed, flips * items).reshape(flips, items)
    return np.where(bits >> np.uint64(63), np.float32(1), np.float32(-1))


def maximum_null(
    margins: np.ndarray, flips: np.ndarray, masks: Mapping[str, np.ndarray]
) -> dict[str, dict[str, float]]:
    """The null of the maximum accuracy over layers and tasks: a coin says, item by item, which is gold.

    An item's gold candidate changes at all layers and tasks together, so that their correlation stays as it
    is: layers that agree give fewer independent tries. A tie stays wrong, no answer stays no answer.
    With e_i = +-1 and s_ri the sign of row r's margin, the accuracy of row r is sum_i [e_i s_ri > 0] / n_r =
    (answers that are no tie + sum_i e_i s_ri) / (2 n_r): one matrix product for all flips.

    Args:
        margins: (rows, items) gold minus other for every layer and task; NaN where there is no answer.
        flips: (flips, items), from `item_flips`.
        masks: split -> (items,) booleans.

    Returns:
        split -> observed `maximum`, `mean` and `quantile_95` of the null, and `p` = (1 + flips whose maximum
        is at least the observed) / (flips + 1). A split in which no row has an answer is left out.

    Source: p as in Phipson and Smyth (2010); the maximum's own distribution, Westfall and Young (1993).
    """
    signs = np.sign(np.nan_to_num(margins, nan=0.0)).astype(np.float32)
    answered = np.isfinite(margins)
    found: dict[str, dict[str, float]] = {}
    for name, mask in masks.items():
        count = (answered & mask).sum(axis=1)
        rows = count > 0
        if not rows.any():
            continue
        own = signs[rows][:, mask]
        decided, scale = np.abs(own).sum(axis=1), 1 / (2.0 * count[rows])
        observed = float(((decided + own.sum(axis=1)) * scale).max())
        null = ((decided + flips[:, mask] @ own.T) * scale).max(axis=1)
        found[name] = {
            "maximum": observed,
            "mean": float(null.mean()),
            "quantile_95": float(np.quantile(null, 0.95)),
            "p": float((1 + (null >= observed - _ROUNDING).sum()) / (len(null) + 1)),
        }
    return found
