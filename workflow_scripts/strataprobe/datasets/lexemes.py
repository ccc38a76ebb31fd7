"""Splits by word: no contrast word of a test pair is a contrast word of a training pair.

Source: fragility paper, appendix C (leave-lexeme-out splits).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from strataprobe.errors import DatasetError, listing

_TOLERANCE = 0.25
_SHOWN_WORDS = 5
_ROUNDING = 1e-9  # a smaller gain could go round in circles
_VOWEL = re.compile(r"[aeiouy]")


def keyed_draws(name: str, seed: int, size: int) -> np.ndarray:
    """(size,) uint64 draws that depend on the seed, the name and their place alone.

    Raw output of the bit generator, since numpy keeps that stream the same across versions; the
    first draws do not depend on how many are asked for.
    """
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    words = [int.from_bytes(digest[i : i + 4], "little") for i in range(0, len(digest), 4)]
    return np.random.Philox(np.random.SeedSequence([seed, *words])).random_raw(size)


def lexeme(word: str) -> str:
    """The key under which a word and its regular English inflections meet; not itself a word.

    Letter case is folded and a possessive 's dropped. Then endings are taken off, as often as
    they occur: -s (not -ss, -us, -is; three letters must stay), -ed and -ing (a vowel must
    stay; of -eed only the d). Last, a final e goes, a doubled final consonant becomes one and a
    final y is written i, so that hop, hopped and hopping agree, and carry, carries and carried.
    Irregular forms (steal, stole), comparatives and derived words (cruel, cruelty) stay apart,
    and now and then two lexemes meet that should not (hop, hope): a split then keeps pairs
    together that it might have parted, which leaks nothing. Words with letters outside a-z meet
    in their exact form only, apart from case. Of a phrase, each word is taken by itself.
    """
    return " ".join(_stem(part) for part in word.casefold().replace("’", "'").split())


def _stem(word: str) -> str:
    word = word.removesuffix("'s")
    if not re.fullmatch(r"[a-z]+", word):
        return word
    while (shorter := _without_ending(word)) != word:
        word = shorter
    if word.endswith("e") and len(word) > 2:
        word = word[:-1]
    if len(word) > 2 and word[-1] == word[-2] and not _VOWEL.match(word[-1]):
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 1 else word


def _without_ending(word: str) -> str:
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    if word.endswith("eed"):
        return word[:-1]
    for ending in ("ed", "ing"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 1 and _VOWEL.search(stem):
            return stem
    return word


def refuse_missing_words(contrast: Sequence[Sequence[str]], ids: Sequence[str] | None = None) -> None:
    """Refuse pairs that do not say which words differ.

    Raises:
        DatasetError: pairs without contrast words; names every one of them.
    """
    names = list(ids) if ids is not None else [f"pair {index}" for index in range(len(contrast))]
    missing = [name for name, words in zip(names, contrast, strict=True) if not words]
    if not missing:
        return
    which = "no pair has any" if len(missing) == len(names) else f"none in {', '.join(missing)}"
    remedy = "field 'contrast' lists the words in which the two sentences differ"
    raise DatasetError(listing("contrast words are missing", [f"{which} ({remedy})"]))


def components(contrast: Sequence[Sequence[str]]) -> np.ndarray:
    """(pairs,) int: the number of the set each pair belongs to; sets share no lexeme.

    Two pairs are in one set if a chain of shared lexemes links them. Sets are numbered by their
    first pair.
    """
    parent = list(range(len(contrast)))

    def root(pair: int) -> int:
        while parent[pair] != pair:
            parent[pair] = parent[parent[pair]]
            pair = parent[pair]
        return pair

    first: dict[str, int] = {}
    for pair, words in enumerate(contrast):
        for key in {lexeme(word) for word in words}:
            one, other = sorted((root(first.setdefault(key, pair)), root(pair)))
            parent[other] = one
    roots = np.array([root(pair) for pair in range(len(contrast))], dtype=np.int64)
    return np.unique(roots, return_inverse=True)[1]


def split_by_lexeme(
    contrast: Sequence[Sequence[str]],
    groups: Sequence[str],
    seed: int,
    test_fraction: float,
    *,
    ids: Sequence[str] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Split pairs into train and test with no lexeme in common.

    Sets of pairs tied by shared lexemes go to one side as a whole. They are visited in the order
    of a 64-bit key drawn from (seed, the set's first lexeme by alphabet), and a set joins the test
    side or leaves it, in later rounds together with another, where that lowers

        sum over groups of (test pairs - wanted)^2 + (all test pairs - all wanted)^2

    with wanted = test_fraction of the group's pairs; rounds go on until nothing moves. So groups
    are divided about as evenly as the sets allow; a group may still be on one side only. Where
    this ends too far from the wanted number of test pairs, groups are given up and the sets are
    chosen that come nearest to it. A set larger than the test side is never tested.

    Args:
        contrast: the words in which each pair's sentences differ, see `lexeme`.
        groups: (pairs,) the group of each pair.
        seed: whole number of at least 0.
        test_fraction: share of pairs to test on, between 0 and 1, both excluded.
        ids: (pairs,) names for messages.

    Returns:
        (train pairs,) and (test pairs,) int64 pair indices, each sorted.

    Raises:
        DatasetError: pairs without contrast words (named), arguments out of range, or sets so large
            that no division comes within a quarter (or one pair) of the wanted test pairs; names
            the largest set and the words that hold it together.

    Source: fragility paper, appendix C.
    """
    _refuse_arguments(contrast, groups, seed, test_fraction)
    refuse_missing_words(contrast, ids)
    member, wanted = components(contrast), test_fraction * len(groups)
    order = _order(member, contrast, seed)
    is_test = _choose(member, groups, order, test_fraction)[member]
    if not _near(int(is_test.sum()), wanted, len(groups)):
        is_test = _nearest(member, order, wanted)[member]
    if not _near(found := int(is_test.sum()), wanted, len(groups)):
        fault = _too_large(member, contrast, found, wanted)
        raise DatasetError(listing("the pairs cannot be split by contrast word", [fault]))
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _order(member: np.ndarray, contrast: Sequence[Sequence[str]], seed: int) -> np.ndarray:
    """Sets in the order they are visited; a set's key depends on its words, not on the file's order."""
    names: dict[int, str] = {}
    for number, words in zip(member.tolist(), contrast, strict=True):
        least = min(lexeme(word) for word in words)
        names[number] = min(names.get(number, least), least)
    keys = {number: (int(keyed_draws(f"lexeme {name}", seed, 1)[0]), name) for number, name in names.items()}
    return np.array(sorted(keys, key=keys.__getitem__))


def _choose(member: np.ndarray, groups: Sequence[str], order: np.ndarray, test_fraction: float) -> np.ndarray:
    """(sets,) booleans: which sets are tested. First sets move one by one, then also two at once."""
    _, group = np.unique(np.asarray(groups), return_inverse=True)
    counts = np.zeros((len(order), int(group.max()) + 1))
    np.add.at(counts, (member, group), 1)
    changes = counts[order]  # what moving each set adds to the test pairs of each group
    excess = -test_fraction * counts.sum(axis=0)
    moves = np.zeros(len(order), int)
    for together in (False, True):
        moved = True
        while moved:
            moved = False
            for first in range(len(order)):
                partners = (
                    np.vstack([np.zeros_like(excess), changes]) if together else np.zeros((1, len(excess)))
                )
                after = _misfit(excess + changes[first] + partners)
                after[first + 1 : first + 2] = np.inf  # a set is no partner of itself
                best = int(after.argmin())
                if after[best] < _misfit(excess) - _ROUNDING:
                    chosen = [first, best - 1] if best else [first]
                    excess = excess + changes[chosen].sum(axis=0)
                    changes[chosen] *= -1
                    moves[chosen] += 1
                    moved = True
    tested = np.empty(len(order), bool)
    tested[order] = moves % 2 == 1
    return tested


def _misfit(excess: np.ndarray) -> np.ndarray:
    """Squares of what groups have too many or too few, and of what all have together."""
    return (excess**2).sum(axis=-1) + excess.sum(axis=-1) ** 2


def _near(found: int, wanted: float, pairs: int) -> bool:
    return 0 < found < pairs and abs(found - wanted) <= max(1.0, _TOLERANCE * wanted)


def _nearest(member: np.ndarray, order: np.ndarray, wanted: float) -> np.ndarray:
    """(sets,) booleans: which sets are tested where only their number of pairs counts, exactly."""
    sizes = np.bincount(member)
    reached: dict[int, list[int]] = {0: []}
    for number in order.tolist():
        for total, chosen in list(reached.items()):
            reached.setdefault(total + int(sizes[number]), [*chosen, number])
    both_sides = [total for total in reached if 0 < total < len(member)] or [0]
    tested = np.zeros(len(sizes), bool)
    tested[reached[min(both_sides, key=lambda total: (abs(total - wanted), total))]] = True
    return tested


def _too_large(member: np.ndarray, contrast: Sequence[Sequence[str]], found: int, wanted: float) -> str:
    largest = int(np.bincount(member).argmax())
    own = [words for number, words in zip(member.tolist(), contrast, strict=True) if number == largest]
    uses = Counter(key for words in own for key in {word.casefold() for word in words})
    most_used = sorted(uses, key=lambda word: (-uses[word], word))[:_SHOWN_WORDS]
    shown = ", ".join(f"'{word}'" for word in most_used)
    return (
        f"shared words tie {len(own)} of {len(contrast)} pairs into one set that cannot be parted (most "
        f"used: {shown}); the nearest division tests {found} pairs, {wanted:g} are wanted "
        "(use each contrast word in fewer pairs)"
    )


def _refuse_arguments(
    contrast: Sequence[Sequence[str]], groups: Sequence[str], seed: int, test_fraction: float
) -> None:
    faults = []
    if len(groups) == 0:
        faults.append("there are no pairs (at least 2 are needed)")
    if len(contrast) != len(groups):
        faults.append(f"contrast words are given for {len(contrast)} pairs, groups for {len(groups)}")
    if seed < 0:
        faults.append(f"seed {seed} is not a whole number of at least 0")
    if not 0 < test_fraction < 1:
        faults.append(f"test_fraction {test_fraction} is not between 0 and 1, both excluded")
    if faults:
        raise DatasetError(listing("the pairs cannot be split by contrast word", faults))
