"""Why a floor can lie below chance: forms that stand as often on one side of a dataset as on the other.

A form that is evenly shared out over both sides leans, in what is left to train on, away from the side it
has in what was held out. So a classifier that reads it is wrong more often than right, and the closer the
balance, the surer. It says something about the dataset's make, and nothing about a model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from strataprobe.datasets.bags import word_forms
from strataprobe.datasets.pairs import Pair, contains_word


def contrast_balance(pairs: Sequence[Pair]) -> dict[str, Any]:
    """How the contrast words of some pairs are shared out over the two sides.

    A word counts for the side it stands on alone; one that stands in both halves of its pair (two names
    changed about) tells a bag of words nothing and is left out. Where a pair names no contrast words, the
    words that differ are taken. Case is ignored.

    Returns:
        `words`: different contrast words; `both_sides`: of these, how many stand on both sides;
        `recurring`: how many stand in more than one pair; `worst`: {word, positive, negative} with the
        number of pairs on each side, of the word that is most often on both, or None.
    """
    uses: dict[str, list[int]] = {}
    for pair in pairs:
        for word, side in _sides(pair).items():
            uses.setdefault(word, [0, 0])[side] += 1
    mirrored = {word: counts for word, counts in uses.items() if min(counts)}
    worst = min(mirrored, key=lambda word: (-min(mirrored[word]), -sum(mirrored[word]), word), default=None)
    return {
        "words": len(uses),
        "both_sides": len(mirrored),
        "recurring": sum(sum(counts) > 1 for counts in uses.values()),
        "worst": None
        if worst is None
        else {"word": worst, "positive": mirrored[worst][0], "negative": mirrored[worst][1]},
    }


def _sides(pair: Pair) -> dict[str, int]:
    """Lower-case contrast word -> 0 if it stands in the positive half alone, 1 if in the negative alone."""
    if not pair.contrast:
        positive, negative = word_forms(pair.positive), word_forms(pair.negative)
        return dict.fromkeys(sorted(positive - negative), 0) | dict.fromkeys(sorted(negative - positive), 1)
    sides = {}
    for word in pair.contrast:
        in_positive, in_negative = contains_word(pair.positive, word), contains_word(pair.negative, word)
        if in_positive != in_negative:
            sides[word.lower()] = 0 if in_positive else 1
    return sides


def words_cause(pairs: Sequence[Pair]) -> str:
    """The likely cause of a floor below chance that reads words, characters or embeddings."""
    found = contrast_balance(pairs)
    worst = found["worst"]
    if worst is not None:
        return (
            f"mirrored contrast words: {found['both_sides']} of {found['words']} stand on both sides, "
            f"'{worst['word']}' most ({worst['positive']} positive, {worst['negative']} negative)"
        )
    return (
        f"exact balance of forms: none of the {found['words']} contrast words stands on both sides "
        f"({found['recurring']} stand in more than one pair), so only words that both classes share decide"
    )


def length_cause(lengths: np.ndarray, labels: np.ndarray, pairs: np.ndarray) -> str:
    """The likely cause of a length floor below chance.

    Args:
        lengths: (items,) words or tokens.
        labels: (items,) of -1 or +1.
        pairs: (items,) the pair of each item.
    """
    _, member = np.unique(pairs, return_inverse=True)
    longer = np.bincount(member, weights=labels * lengths)
    return (
        f"exact balance of forms: the positive half is longer in {(longer > 0).sum()} pairs, "
        f"the negative half in {(longer < 0).sum()}, neither in {(longer == 0).sum()}"
    )
