"""What the three levels say together: surplus, ratio, deficit, their order, and whether late layers forget.

Source: levels paper, sections 3.2, 4.1 and 4.3, appendix A.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from strataprobe.datasets.answers import ALL, OBJECT, SUBJECT
from strataprobe.levels.measured import Measured

ERASURE_DROP = 0.10
"""How much accuracy late layers must have lost for information to count as erased."""

_ROUNDING = 1e-9


def surplus(measured: Measured, split: str, task: str | None = None) -> np.ndarray:
    """(rows,) best probe less mean behaviour, or less the behaviour in one task.

    Within a split both belong to what is best over all items (as in Table 5): a layer chosen on the split's
    own few items would add its chance to the surplus.

    Source: levels paper, equation 1; per (model, task): section 4.1.
    """
    behavior = measured.mean_behavior(split) if task is None else measured.accuracy(task, split)
    return measured.probe_at_pick(split) - behavior


def ratio(measured: Measured, split: str) -> np.ndarray:
    """(rows,) mean behaviour as a share of the best probe, NaN where that is 0 (levels paper, equation 2)."""
    probe = measured.probe_at_pick(split)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(probe > 0, measured.mean_behavior(split) / probe, np.nan)


def deficit(measured: Measured, split: str) -> np.ndarray | None:
    """(rows,) mean behaviour on object control less that on subject control; None without either.

    Positive: weaker where the nearest noun is the wrong answer.

    Args:
        split: "all" or a language.

    Source: levels paper, equation 3.
    """
    parts = [kind if split == ALL else f"{split}:{kind}" for kind in (OBJECT, SUBJECT)]
    if any(part not in measured.splits for part in parts):
        return None
    of_object, of_subject = map(measured.mean_behavior, parts)
    return of_object - of_subject


@dataclass(frozen=True)
class Ordering:
    """Whether behaviour <= readout <= recoverability holds in a cell.

    Attributes:
        inverted: the neighbours in the wrong order, in words.
        broken: those of them that are more than one item apart.
    """

    inverted: tuple[str, ...]
    broken: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Up to one item: finer differences than that the cell cannot show."""
        return not self.broken

    @property
    def note(self) -> str:
        within = [said for said in self.inverted if said not in self.broken]
        return "; ".join([*self.broken, *(f"{said} (within one item)" for said in within)])


def ordering(behavior: float, readout: float, probe: float, items: int) -> Ordering:
    """Are the levels of a cell in order, as finely as its items can tell?

    Args:
        items: of the cell; one of them moves an accuracy by 1/items.

    Source: levels paper, section 4.1 and appendix E.
    """
    levels = (("behaviour", behavior), ("readout", readout), ("probe", probe))
    inverted, broken = [], []
    for (lower, low), (upper, high) in pairwise(levels):
        if low - high > _ROUNDING:
            said = f"{lower} {low:.3f} > {upper} {high:.3f}"
            inverted.append(said)
            if low - high > 1 / items + _ROUNDING:
                broken.append(said)
    return Ordering(tuple(inverted), tuple(broken))


def ordering_of(measured: Measured, split: str) -> Ordering | None:
    """The order of a split's levels, readout and probe as they are best over all items (Table 5).

    None where a level has no answer at all.
    """
    levels = (measured.mean_behavior(split), measured.readout_at_pick(split), measured.probe_at_pick(split))
    values = [float(rows[0]) for rows in levels]
    if not np.isfinite(values).all():
        return None
    return ordering(*values, items=measured.size(split)[0])


def erasure(measured: Measured, split: str) -> np.ndarray:
    """(rows,) accuracy of the best probe of any layer less that of the last block's best probe.

    Never negative, and above 0 by chance alone, since it is a maximum less one of the numbers it is over:
    hence `erasure_verdict` asks for more than an interval above 0.

    Source: levels paper, section 4.3; our criterion, docs/methods.md.
    """
    return measured.probe(split) - measured.at_last_block(split)


def erasure_verdict(low: float | None, high: float | None, drop: float = ERASURE_DROP) -> str:
    """`erased` where the whole interval of the loss lies above `drop`, `kept` where it lies at or below it.

    Else `undecided`; without an interval, nothing.
    """
    if low is None or high is None:
        return ""
    return "erased" if low > drop else "kept" if high <= drop else "undecided"
