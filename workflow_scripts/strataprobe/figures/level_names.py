"""What the levels, tasks and splits of the tables are called, and which readout and probe a figure shows.

Source: levels paper, section 3.2; the measures are those of the tables `levels` and `levels_layers`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from strataprobe.errors import StrataprobeError, listing

ALL = "all"
BEHAVIOR, READOUT, RECOVERABILITY, SUMMARY = "behavior", "readout", "recoverability", "summary"
LEVELS = (BEHAVIOR, READOUT, RECOVERABILITY)
LEVEL_NAME = {BEHAVIOR: "behaviour", READOUT: "LM-head readout", RECOVERABILITY: "probe recoverability"}
TASKS = {"mean": "mean_behavior", "qa": "qa", "paraphrase": "paraphrase"}
TASK_NAME = {"mean": "mean of QA and paraphrase", "qa": "QA", "paraphrase": "paraphrase"}
# Of each conventions, the readout and the probe that stand for their levels; a test compares them with the
# library of levels, which these small jobs do not load.
STANDING = {"default": ("default", "pair_out:decorrelated"), "published": ("code", "paper:seed1729")}
PICKS = (ALL, "split")
CODINGS = ("paper", "decorrelated")
_FOLDS = {"pair_out": "leave-pair-out", "group_out": "leave-group-out"}
_SPLIT_NAME = {
    ALL: "all items",
    "object_control": "object control",
    "subject_control": "subject control",
    "en": "English",
    "zh": "Chinese",
    "de": "German",
}


@dataclass(frozen=True)
class Chosen:
    """Which readout and which probe stand for their levels, and by what their layer is chosen.

    Attributes:
        definition: of the readout: "default", "code", "paper" or "tuned".
        coding: of the probe: "paper" or "decorrelated"; with other folds than leave-one-out
            "pair_out:decorrelated", and of one seed "paper:seed1729".
        pick: "all": at the layer and mode that are best over all items; "split": best within each split, as
            the paper's Table 7 has it, which adds the chance of the choice to a split of few items.
    """

    definition: str
    coding: str
    pick: str = ALL

    @classmethod
    def of(cls, table: pd.DataFrame, definition: str | None, coding: str | None, pick: str = ALL) -> "Chosen":
        """What is asked for, else what stands for its level by the table's conventions, if it is there.

        Raises:
            StrataprobeError: an unknown pick.
        """
        refuse_unknown(pick=([pick], PICKS))
        standing = STANDING.get(str(table["conventions"].iloc[0]), STANDING["default"])
        return cls(
            definition or _there(table, READOUT, standing[0]),
            coding or _there(table, RECOVERABILITY, standing[1]),
            pick,
        )

    @property
    def base(self) -> str:
        """The folds and coding, whatever the seed."""
        return self.coding.partition(":seed")[0]

    @property
    def bare(self) -> str:
        """The coding alone, as leave-one-out and verb-out are called by it."""
        return self.base.rpartition(":")[2]

    @property
    def seed(self) -> str:
        """The one seed, or "" for the mean over seeds."""
        return self.coding.partition(":seed")[2]

    def measures(self, task: str) -> dict[str, str]:
        """Level -> its measure in the table."""
        at = "at_pick:" if self.pick == ALL else ""
        return {
            BEHAVIOR: TASKS[task],
            READOUT: f"{at}{self.definition}",
            RECOVERABILITY: f"{at}{self.coding}",
        }

    def null(self, level: str) -> str:
        """The measure that holds the 95 % quantile of the maximum by chance; of behaviour there is none."""
        return f"null_high:{self.definition if level == READOUT else self.base}"

    def judged(self, split: str) -> bool:
        """Whether the value of a split is the maximum that the null is of."""
        return split == ALL or self.pick != ALL

    def stands_for(self, note: str) -> bool:
        """Whether a summary row is of this probe and readout (the note names what it is of)."""
        probe = f"coding {self.base}, {f'seed {self.seed}' if self.seed else 'mean over seeds'}"
        return self.pick == ALL and note.endswith(f"readout {self.definition}; {probe}")

    def said(self, splits: Sequence[str]) -> str:
        """For the small print: of what the readout and the probe drawn are the best."""
        where = self._where(splits)
        return (
            f"Readout ({self.definition}): the best over layers and prompts{where}. "
            f"{self.said_of_probe(splits)}"
        )

    def said_of_probe(self, splits: Sequence[str]) -> str:
        """The same for the probe alone."""
        return f"Recoverability ({self.probe}): the best over layers and modes{self._where(splits)}."

    @property
    def probe(self) -> str:
        """Coding, folds and seeds in words."""
        folds = _FOLDS.get(self.base.rpartition(":")[0], "leave-one-out")
        return f"coding {self.bare}, {folds}, {f'seed {self.seed}' if self.seed else 'mean of seeds'}"

    def _where(self, splits: Sequence[str]) -> str:
        if list(splits) == [ALL]:
            return ""
        return ", chosen on all items" if self.pick == ALL else ", chosen on the split's own items"


def split_name(split: str) -> str:
    """`en:object_control` as "English, object control"."""
    return ", ".join(_SPLIT_NAME.get(part, part.replace("_", " ")) for part in split.split(":"))


def refuse_unknown(**asked: tuple[Iterable[str], Iterable[str]]) -> None:
    """
    Args:
        asked: an option's name -> (what was asked for, what there is).

    Raises:
        StrataprobeError: something asked for does not exist; all are named.
    """
    faults = [
        f"{option} '{name}' is unknown; there are: {', '.join(known)}"
        for option, (given, known) in asked.items()
        for name in given
        if name not in list(known)
    ]
    if faults:
        raise StrataprobeError(listing("figure options", faults))


def refuse_more(given: Sequence[str], most: int, what: str) -> None:
    """
    Raises:
        StrataprobeError: more are given than can be told apart, or one twice.
    """
    if len(given) > most:
        raise StrataprobeError(f"at most {most} {what} can be told apart; {len(given)} were given")
    if twice := sorted({name for name in given if list(given).count(name) > 1}):
        raise StrataprobeError(f"{what} are drawn once; given more often: {', '.join(twice)}")


def _there(table: pd.DataFrame, level: str, wanted: str) -> str:
    """A measure of this level that the table has, as near as can be to the one wanted."""
    found = [str(name) for name in table.loc[table["level"] == level, "measure"].unique()]
    if level == READOUT:
        return next((name for name in (wanted, *found) if name in found and ":" not in name), wanted)
    base, of_seed, _ = wanted.partition(":seed")
    folds, colon, bare = base.rpartition(":")
    for name in (base, *(f"{folds}{colon}{coding}" for coding in CODINGS), bare, *CODINGS):
        seeds = [one for one in found if one.startswith(f"{name}:seed")] if of_seed else []
        near = next((one for one in (wanted if name == base else "", *seeds, name) if one in found), None)
        if near is not None:
            return near
    return wanted
