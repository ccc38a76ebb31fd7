"""Train and test pairs: split by pair, stratified by group, the same for the same seed."""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from strataprobe.errors import DatasetError, listing


def split_pairs(groups: Sequence[str], seed: int, test_fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """Split pairs into train and test, so that each group is divided in the same proportion.

    Both halves of a pair share its index, so they never part. The test set has
    `round(test_fraction * pairs)` pairs, shared out over the groups by largest remainder. Within
    a group each pair draws a 64-bit key from a Philox generator of (seed, sha256 of the group's
    name), and the pairs with the smallest keys are the test pairs. So a group's split does not
    depend on the other groups, on where its pairs stand among theirs, or on pairs appended later,
    beyond the number of its test pairs.

    Args:
        groups: (pairs,) the group of each pair.
        seed: whole number of at least 0.
        test_fraction: share of pairs to test on, between 0 and 1, both excluded.

    Returns:
        (train pairs,) and (test pairs,) int64 pair indices, each sorted; every group is in both.

    Raises:
        DatasetError: no pairs, a fraction or seed out of range, or a group with so few pairs that
            one side would have none of it; names every such group with its counts.

    Source: fragility paper, section 3.3 (80/20 split, stratified); by pair: TRAPS 16.
    """
    _refuse_arguments(groups, seed, test_fraction)
    sizes = Counter(groups)
    draws = {group: _draw(group, seed, size) for group, size in sizes.items()}
    order = sorted(sizes, key=lambda group: (draws[group][1], group))
    total = round(test_fraction * len(groups))
    counts = dict(zip(order, _share_out([sizes[group] for group in order], total), strict=True))
    _refuse_small_groups(sizes, counts, test_fraction)

    is_test = np.zeros(len(groups), dtype=bool)
    members = _members(groups)
    for group, (keys, _) in draws.items():
        is_test[members[group][np.argsort(keys, kind="stable")[: counts[group]]]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _draw(group: str, seed: int, size: int) -> tuple[np.ndarray, int]:
    """A key for each pair of the group, and one number that settles ties between groups.

    Raw output of the bit generator is used, since numpy keeps that stream the same across
    versions and promises no such thing for `Generator.permutation`. The first number goes to
    the group, so that the keys of the first pairs do not depend on how many there are.
    """
    digest = hashlib.sha256(group.encode("utf-8", "surrogatepass")).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, len(digest), 4)]
    raw = np.random.Philox(np.random.SeedSequence([seed, *words])).random_raw(size + 1)
    return raw[1:], int(raw[0])


def _share_out(sizes: Sequence[int], total: int) -> list[int]:
    """`total` seats over groups by largest remainder, in whole numbers, so no rounding decides.

    Among equal remainders the earlier group wins.
    """
    pairs = sum(sizes)
    quotas = [divmod(total * size, pairs) for size in sizes]
    seats = [whole for whole, _ in quotas]
    by_remainder = sorted(range(len(sizes)), key=lambda i: -quotas[i][1])
    for i in by_remainder[: total - sum(seats)]:
        seats[i] += 1
    return seats


def _members(groups: Sequence[str]) -> dict[str, np.ndarray]:
    found: dict[str, list[int]] = {}
    for index, group in enumerate(groups):
        found.setdefault(group, []).append(index)
    return {group: np.asarray(indices, dtype=np.int64) for group, indices in found.items()}


def _refuse_arguments(groups: Sequence[str], seed: int, test_fraction: float) -> None:
    faults = []
    if len(groups) == 0:
        faults.append("there are no pairs (at least 2 are needed)")
    if seed < 0:
        faults.append(f"seed {seed} is not a whole number of at least 0")
    if not 0 < test_fraction < 1:
        faults.append(f"test_fraction {test_fraction} is not between 0 and 1, both excluded")
    if faults:
        raise DatasetError(listing("the pairs cannot be split", faults))


def _refuse_small_groups(sizes: Counter[str], counts: dict[str, int], test_fraction: float) -> None:
    small = [group for group in sorted(sizes) if not 0 < counts[group] < sizes[group]]
    if not small:
        return
    # A little is taken off first, since 1 / (1 - 0.8) is a hair above 5.
    enough = math.ceil(1 / min(test_fraction, 1 - test_fraction) - 1e-9)
    remedy = f"each side needs at least 1; {enough} pairs a group are enough at {test_fraction:g}"
    faults = [
        f"group '{group}' has too few pairs: {sizes[group]}, of which {sizes[group] - counts[group]} "
        f"would be train and {counts[group]} test ({remedy})"
        for group in small
    ]
    raise DatasetError(listing("the pairs cannot be split", faults))
