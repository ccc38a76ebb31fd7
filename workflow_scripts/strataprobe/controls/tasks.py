"""Control tasks: labels that are random a word, so that only memorised words can be right.

Source: Hewitt and Liang (2019), Designing and Interpreting Probes with Control Tasks.
"""

from collections.abc import Sequence

import numpy as np

from strataprobe.datasets.lexemes import keyed_draws
from strataprobe.errors import DatasetError

_TRIES = 64


def word_types(contrast: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """The word type of each pair's positive and negative half, letter case folded.

    Of two contrast words the first is the positive half's and the second the negative half's (in a pair
    whose halves differ in word order: the words that stand where they first differ). With another number of
    contrast words a half's type is all of them and its side.
    """
    found = []
    for words in contrast:
        folded = [word.casefold() for word in words]
        if len(folded) == 2:
            found.append((folded[0], folded[1]))
        else:
            joined = " ".join(folded)
            found.append((f"{joined} (positive)", f"{joined} (negative)"))
    return found


def item_types(types: Sequence[tuple[str, str]], labels: np.ndarray, pairs: np.ndarray) -> list[str]:
    """(items,) the word type of each item.

    Args:
        types: of each pair, see `word_types`.
        labels: (items,) of -1 or +1.
        pairs: (items,) index of each item's pair in `types`.
    """
    return [types[pair][0 if label > 0 else 1] for pair, label in zip(pairs.tolist(), labels, strict=True)]


def control_labels(types: Sequence[str], train: np.ndarray, tasks: int, seed: int) -> np.ndarray:
    """Random labels, one and the same for all items of a word type.

    A type's label in task k is a bit of a generator keyed by (seed, type): it depends neither on the other
    words nor on the number of tasks. A task in which all training items have one label has nothing to
    learn, and the next one takes its place.

    Args:
        types: (items,) word types.
        train: indices of the training items.
        tasks: how many labellings.

    Returns:
        (tasks, items) int, of -1 or +1.

    Raises:
        DatasetError: fewer than `tasks` labellings with both labels were found, since there are too few
            word types.
    """
    tries = tasks + _TRIES
    drawn = {word: keyed_draws(f"control task {word}", seed, tries) for word in set(types)}
    labels = np.where(np.stack([drawn[word] for word in types], axis=1) >> np.uint64(63), 1, -1)
    varied = np.abs(labels[:, train].sum(axis=1)) < len(train)
    if varied.sum() < tasks:
        count = len({types[item] for item in train.tolist()})
        raise DatasetError(
            f"a control task needs labels that differ by word, and the training pairs have {count} different "
            "contrast words (at least 2, better 20 or more)"
        )
    return labels[varied][:tasks]


def seen_share(types: Sequence[str], train: np.ndarray, test: np.ndarray) -> float:
    """Share of test items whose word type is one of the training items'.

    Only their control labels can be known: no probe is expected to be better than
    seen + (1 - seen) / 2 on a control task.
    """
    known = {types[item] for item in train.tolist()}
    return float(np.mean([types[item] in known for item in test.tolist()]))
