"""Is a set of minimal pairs what it claims to be? One gate a claim, a profile of thresholds a kind of set."""

import difflib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strataprobe.datasets import claims
from strataprobe.datasets.claims import Faults, Scores
from strataprobe.datasets.pairs import PairsDataset
from strataprobe.datasets.profiles import LISTS, MEASURES, PROFILES
from strataprobe.datasets.quality import Keywords, read_keywords
from strataprobe.errors import DatasetError, listing

# How many items a passed gate shows, so that its margin can be seen.
_CLOSEST = 3
# How many items of a gate a report names; it gives their number in any case.
_NAMED = 20
_SUFFIXES = ("_at_most", "_at_least")


@dataclass(frozen=True)
class Gate:
    """One claim about a dataset.

    Attributes:
        name: what is measured; names ending in `_at_most` and `_at_least` say which way it counts.
        threshold: the value that still passes.
        value: the worst value found, or the number (or share) of faults.
        passed: whether the claim holds.
        worst: what breaks the claim, worst first; for a measured claim that holds, what comes closest.
        count: how many items break the claim.
    """

    name: str
    threshold: float
    value: float
    passed: bool
    worst: list[str]
    count: int

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        shown = "; ".join(self.worst) or "none"
        return f"{self.name} {self.threshold:g}: {verdict} with {self.value:g}: {shown}"


def check(
    dataset: PairsDataset,
    *,
    profile: str,
    thresholds: Mapping[str, float] | None = None,
    keywords: str | Path | None = None,
    blocklist: str | Path | None = None,
    animate: str | Path | None = None,
) -> list[Gate]:
    """Measure every claim of a profile on a set of pairs.

    Args:
        dataset: at least one pair.
        profile: one of `PROFILES`.
        thresholds: name of a gate -> its threshold in place of the profile's; a gate of another profile
            that is named here is measured too.
        keywords: path of the words that no negative (neutral) side may hold.
        blocklist: path of the words that neither side may hold.
        animate: path of the words for people and animals, of which both halves should hold equally many.
            A list that is given is used, whatever the profile.

    Returns:
        One gate a claim, in a fixed order, passed or not.

    Raises:
        DatasetError: no pairs, an unknown profile or gate, a threshold that is no number, a list of words
            that a gate needs and that is not given (names all of them); or a list that cannot be read.

    Source: fragility paper, 3.2 and D.3 (compositional gates), 4.3 (animacy, register), C (surface cues).
    """
    if not dataset.pairs:
        raise DatasetError(f"dataset '{dataset.name}' has no pairs to check")
    paths = {"keywords": keywords, "blocklist": blocklist, "animate": animate}
    given = {name: path for name, path in paths.items() if path is not None}
    wanted = _wanted(dataset.name, profile, thresholds or {}, given)
    lists = {name: read_keywords(path) for name, path in given.items()}
    return [
        _gate(name, _measured(name, dataset, lists), float(threshold)) for name, threshold in wanted.items()
    ]


def token_gate(counts: np.ndarray, pairs: np.ndarray, ids: Sequence[str], share: float = 0.8) -> Gate:
    """Do the two halves of a pair have equally many tokens, in at least `share` of the pairs?

    Args:
        counts: (items,) real tokens of each item, as an activation cache counts them.
        pairs: (items,) the index of each item's pair; two items a pair, positive first.
        ids: (items,) "{pair id}:positive" or "{pair id}:negative".
        share: share of pairs that still passes.

    Raises:
        DatasetError: arrays of unlike length, or a pair without exactly two items.

    Source: DEFINITIONS, "Lexical floor" (length alone tells unequal pairs apart).
    """
    counts, pairs = np.asarray(counts, np.int64), np.asarray(pairs, np.int64)
    if not len(counts) == len(pairs) == len(ids) or not len(ids):
        raise DatasetError(
            f"{len(counts)} token counts, {len(pairs)} pair indices, {len(ids)} ids: all alike, not 0"
        )
    order = np.argsort(pairs, kind="stable")
    if len(order) % 2 or (np.unique(pairs, return_counts=True)[1] != 2).any():
        raise DatasetError("token counts: a pair has not exactly two items")
    first, second = order[::2], order[1::2]
    gaps = np.abs(counts[first] - counts[second])
    worst = [pair for pair in np.argsort(-gaps, kind="stable") if gaps[pair]]
    shown = [
        f"{ids[first[pair]].rpartition(':')[0]}: {counts[first[pair]]} and {counts[second[pair]]} tokens"
        for pair in worst
    ]
    value = float((gaps == 0).mean())
    return Gate("equal_token_counts_at_least", float(share), value, value >= share, shown, len(shown))


def check_paraphrases(dataset: PairsDataset, originals: PairsDataset, overlap: float = 0.5) -> list[Gate]:
    """Does each pair paraphrase one of `originals`, by its id, in words of its own?

    Args:
        dataset: the paraphrases; a pair bears the id of the pair it paraphrases.
        originals: what is paraphrased.
        overlap: content words that a half shares with the original's half, over those of both, at most.

    Source: fragility paper, appendix C (paraphrase transfer).
    """
    groups = {pair.id: pair.group for pair in originals.pairs}
    strays = [f"{p.id} ({p.group})" for p in dataset.pairs if groups.get(p.id) != p.group]
    overlaps = claims.overlaps_with_originals(dataset.pairs, originals.pairs)
    return [
        _gate("paraphrases_without_an_original_at_most", Faults(strays), 0.0),
        _gate("overlap_with_the_original_at_most", overlaps, float(overlap)),
    ]


def report(gates: Sequence[Gate], dataset: PairsDataset, *, profile: str) -> dict[str, Any]:
    """The gates as JSON holds them, with what they were measured on.

    Returns:
        dataset, path, sha256, pairs (their number), groups (name -> pairs), profile, passed (all gates),
        gates: name, threshold, value, passed, worst (the first few), count (how many there are).
    """
    return {
        "dataset": dataset.name,
        "path": dataset.path,
        "sha256": dataset.sha256,
        "pairs": len(dataset.pairs),
        "groups": dict(Counter(dataset.groups)),
        "profile": profile,
        "passed": all(gate.passed for gate in gates),
        "gates": [
            {
                "name": gate.name,
                "threshold": gate.threshold,
                "value": gate.value,
                "passed": gate.passed,
                "worst": gate.worst[:_NAMED],
                "count": gate.count,
            }
            for gate in gates
        ],
    }


def _wanted(
    dataset: str, profile: str, thresholds: Mapping[str, float], given: Mapping[str, str | Path]
) -> dict[str, float]:
    """Name of each gate to measure -> its threshold, the profile's first."""
    faults = []
    if profile not in PROFILES:
        faults.append(f"profile '{profile}' is unknown; {_nearest(profile, list(PROFILES))}")
    known = list(dict.fromkeys([*(name for gates in PROFILES.values() for name in gates), *LISTS]))
    for name, threshold in thresholds.items():
        if name not in known:
            faults.append(f"gate '{name}' is unknown; {_nearest(name, known)}")
        elif (
            isinstance(threshold, bool)
            or not isinstance(threshold, int | float)
            or not math.isfinite(threshold)
        ):
            faults.append(f"gate '{name}': {threshold!r} is not a number")
    wanted = dict(PROFILES.get(profile, {}))
    wanted |= {
        name: default
        for name, (listed, default, _) in LISTS.items()
        if listed in given and name not in wanted
    }
    wanted |= {name: threshold for name, threshold in thresholds.items() if name in known}
    faults += [
        f"gate '{name}' needs '{LISTS[name][0]}', the path of a list of words"
        for name in wanted
        if name in LISTS and LISTS[name][0] not in given
    ]
    if faults:
        raise DatasetError(listing(f"the gates of dataset '{dataset}'", faults))
    return wanted


def _nearest(name: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    return f"did you mean '{near[0]}'?" if near else f"known are {', '.join(known)}"


def _measured(name: str, dataset: PairsDataset, lists: Mapping[str, Keywords]) -> Scores | Faults:
    if name in LISTS:
        listed, _, measure = LISTS[name]
        return measure(dataset.pairs, lists[listed])
    base = next(name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix))
    return MEASURES[base](dataset.pairs)


def _gate(name: str, measured: Scores | Faults, threshold: float) -> Gate:
    if isinstance(measured, Faults):
        found = measured.found
        return Gate(name, threshold, measured.value, measured.value <= threshold, found, len(found))
    sign = -1.0 if name.endswith("_at_most") else 1.0
    order = sorted(measured, key=lambda item: (sign * measured[item], item))
    beyond = [item for item in order if sign * measured[item] < sign * threshold]
    worst = [f"{item}: {round(measured[item], 3):g}" for item in beyond or order[:_CLOSEST]]
    value = measured[order[0]] if order else 0.0
    return Gate(name, threshold, value, not beyond, worst, len(beyond))
