"""Every level's accuracy of one checkpoint, of the sample and of all bootstrap replicates at once.

All arrays that are returned have the sample in row 0 and replicates after it (`draws`). A maximum over layers
is taken anew in each row: an interval that kept the sample's own best layer would leave its choice out.

Source: levels paper, sections 3.2 and 4.1, appendix A.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from strataprobe.bootstrap import Draws
from strataprobe.datasets.answers import ALL
from strataprobe.levels.reading import TASKS, Checkpoint

ORDERED = ("forced_choice", "label_choice")
ORDERS = ("ab", "ba")

Stack = tuple[str, str, int | None]
"""Readouts of a definition, or probes of a coding and a seed (None: the mean over seeds), of every layer."""


@dataclass(frozen=True)
class Choice:
    """Which readout and which probe stand for their levels where the three are compared.

    Attributes:
        coding: or scheme of held-out items and coding ("pair_out:decorrelated").
        seed: of the probe; None for the mean over its seeds.
    """

    readout: str
    coding: str
    seed: int | None

    def __str__(self) -> str:
        seed = "mean over seeds" if self.seed is None else f"seed {self.seed}"
        return f"readout {self.readout}; coding {self.coding}, {seed}"


CONVENTIONS = {
    "published": Choice("code", "paper", 1729),
    "default": Choice("default", "pair_out:decorrelated", None),
}
"""As the paper's Table 1 compares, and as we do.

Leave-one-out trains on the held-out item's twin, whose label is the other one: on minimal pairs its chance
level lies far below one half (the null says where), and nothing can be compared with behaviour. So ours
leaves pairs out together.
"""


class Measured:
    """The accuracies of one checkpoint, each computed when it is first asked for.

    Args:
        settings: `bootstrap` (replicates), `seed` (of the draws) and `conventions`.
    """

    def __init__(self, checkpoint: Checkpoint, settings: Mapping[str, Any]) -> None:
        self.checkpoint, self.settings = checkpoint, settings
        self.splits = checkpoint.items.splits
        self.draws = Draws.of(checkpoint.items.item_groups, settings["bootstrap"], settings["seed"])
        self.choice = chosen(checkpoint, settings["conventions"])
        self._accuracies: dict[tuple[str, str], np.ndarray] = {}
        self._picks: dict[tuple[Stack, str], np.ndarray] = {}

    @property
    def comparable(self) -> bool:
        """Whether there is mean behaviour, a readout and a probe to compare."""
        tasks = all(task in self.checkpoint.behavior for task in TASKS)
        return tasks and self.choice.readout in self.checkpoint.readout

    # behaviour

    def accuracy(self, variant: str, split: str) -> np.ndarray:
        """(rows,) accuracy of one prompt variant."""
        key = (variant, split)
        if key not in self._accuracies:
            self._accuracies[key] = self.draws.mean(self.checkpoint.behavior[variant], self.splits[split])
        return self._accuracies[key]

    def mean_behavior(self, split: str) -> np.ndarray:
        """(rows,) mean of the accuracies of question answering and paraphrase."""
        return np.mean([self.accuracy(task, split) for task in TASKS], axis=0)

    def debiased(self, name: str, split: str) -> np.ndarray:
        """(rows,) mean of the accuracies under both orders of the options."""
        return np.mean([self.accuracy(f"{name}:{order}", split) for order in ORDERS], axis=0)

    def order_gap(self, name: str, split: str) -> np.ndarray:
        """(rows,) absolute difference of those two accuracies."""
        first, second = (self.accuracy(f"{name}:{order}", split) for order in ORDERS)
        return np.abs(first - second)

    # readout and probes

    def readout(self, split: str, definition: str | None = None) -> np.ndarray:
        """(rows,) the best readout over layers and tasks of what a split holds."""
        stack = self._readouts(definition)
        return self._at(stack, split, self._best(stack, split))

    def readout_at_pick(self, split: str, definition: str | None = None) -> np.ndarray:
        """(rows,) the readout that is best over all items, on what a split holds of them."""
        stack = self._readouts(definition)
        return self._at(stack, split, self._best(stack, ALL))

    def probe(self, split: str, coding: str | None = None, seed: int | None = None) -> np.ndarray:
        """(rows,) the best probe over layers and modes of what a split holds.

        Args:
            coding, seed: whose probes; those that stand for their level without them. Without a seed, the
                mean over seeds.
        """
        stack = self._probes(coding, seed)
        return self._at(stack, split, self._best(stack, split))

    def probe_at_pick(self, split: str, coding: str | None = None, seed: int | None = None) -> np.ndarray:
        """(rows,) the probe that is best over all items, on what a split holds of them."""
        stack = self._probes(coding, seed)
        return self._at(stack, split, self._best(stack, ALL))

    def probe_at_mean_pick(self, split: str, coding: str, seed: int) -> np.ndarray:
        """(rows,) one seed's probe where the mean over seeds is best over all items (Table 4)."""
        return self._at(("probe", coding, seed), split, self._best(("probe", coding, None), ALL))

    def at_last_block(self, split: str, coding: str | None = None, seed: int | None = None) -> np.ndarray:
        """(rows,) the best probe over modes of the last block's states."""
        values, parts = self._values(self._probes(coding, seed))
        last, mask = values[-len(self.checkpoint.modes) :], self.splits[split]
        return self.draws.mean_at(last, mask, self.draws.best(last, mask)) / parts

    def place_of_readout(self, definition: str, split: str) -> tuple[int, str]:
        """Hidden state and task of the best readout, the lowest layer and first task of equals."""
        tasks = self.checkpoint.tasks[definition]
        layer, task = divmod(int(self._best(("readout", definition, None), split)[0]), len(tasks))
        return layer, tasks[task]

    def place_of_probe(self, coding: str, split: str, seed: int | None = None) -> tuple[int, str]:
        """Hidden state and mode of the best probe, the lowest layer and first mode of equals."""
        best = int(self._best(("probe", coding, seed), split)[0])
        layer, mode = divmod(best, len(self.checkpoint.modes))
        return layer + self.checkpoint.first, self.checkpoint.modes[mode]

    # the rest

    def size(self, split: str) -> tuple[int, int]:
        """Items of a split, and the translation groups they belong to."""
        mask = self.splits[split]
        return int(mask.sum()), self.draws.clusters(mask)

    def _readouts(self, definition: str | None) -> Stack:
        return "readout", definition or self.choice.readout, None

    def _probes(self, coding: str | None, seed: int | None) -> Stack:
        """The probes that are meant: the named ones, or those that stand for their level."""
        if coding is None:
            return "probe", self.choice.coding, self.choice.seed
        return "probe", coding, seed

    def _best(self, stack: Stack, split: str) -> np.ndarray:
        """(rows,) the best cell of a stack on a split, layer by layer and then task or mode."""
        key = (stack, split)
        if key not in self._picks:
            self._picks[key] = self.draws.best(self._values(stack)[0], self.splits[split])
        return self._picks[key]

    def _at(self, stack: Stack, split: str, cells: np.ndarray) -> np.ndarray:
        values, parts = self._values(stack)
        return self.draws.mean_at(values, self.splits[split], cells) / parts

    def _values(self, stack: Stack) -> tuple[np.ndarray, int]:
        """(cells, items) right answers, and how many of an item are added up in them."""
        kind, name, seed = stack
        held, parts = self.checkpoint, 1
        if kind == "readout":
            values = held.readout[name]
        elif seed is not None:
            values = held.recoverability[name][held.seeds.index(seed)]
        else:
            # Whole numbers as long as they are added: equal means over seeds stay equal to the last bit.
            values, parts = held.recoverability[name].sum(axis=0), len(held.seeds)
        return values.reshape(-1, values.shape[-1]), parts


def chosen(checkpoint: Checkpoint, conventions: str) -> Choice:
    """The readout and probe of these conventions, or the first ones there are where they were not made."""
    wanted = CONVENTIONS[conventions]
    readouts = checkpoint.readout
    readout = wanted.readout if wanted.readout in readouts else next(iter(readouts), wanted.readout)
    # A study may leave a coding out, and items without pairs cannot be left out by pairs.
    scheme, colon, bare = wanted.coding.rpartition(":")
    likely = (wanted.coding, *(f"{scheme}{colon}{name}" for name in checkpoint.codings), bare)
    there = checkpoint.recoverability
    coding = next((name for name in likely if name in there), next(iter(there)))
    seed = wanted.seed
    if seed is not None and seed not in checkpoint.seeds:
        seed = checkpoint.seeds[0]
    return Choice(readout, coding, seed)
