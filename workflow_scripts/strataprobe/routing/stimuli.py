"""The stimuli of a vocabulary dataset as a cache holds them: which of its rows are whose."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from strataprobe.datasets.vocabulary import VocabularyDataset
from strataprobe.errors import CacheError, DatasetError, listing


@dataclass(frozen=True)
class Chosen:
    """Some stimuli, in the order of their ids: no result may depend on the order of a file.

    Attributes:
        ids: (stimuli,) of each.
        rows: (stimuli,) its place in the cache.
        words: the words asked for.
        word: (stimuli,) which of them it is of.
    """

    ids: tuple[str, ...]
    rows: np.ndarray
    words: tuple[str, ...]
    word: np.ndarray


class Stimuli:
    """Stimuli by notation and word."""

    def __init__(self, dataset: VocabularyDataset, ids: Sequence[str]):
        """Find each stimulus in a cache.

        Args:
            dataset: the vocabulary.
            ids: of the cache's items, in its order.

        Raises:
            CacheError: stimuli that the cache does not hold.
        """
        self.name, self.design = dataset.name, dataset.design
        self._row = {name: row for row, name in enumerate(ids)}
        missing = [one.id for one in dataset.stimuli if one.id not in self._row]
        if missing:
            raise CacheError(
                f"dataset '{self.name}': the activation cache lacks {len(missing)} of "
                f"{_stimuli(len(dataset.stimuli))}, the first is '{missing[0]}' (capture the dataset again)"
            )
        self._ids: dict[tuple[str, bool, str], list[str]] = defaultdict(list)
        for one in dataset.stimuli:
            self._ids[one.notation, one.held_out, one.item].append(one.id)

    def of(self, notation: str, words: Sequence[str], *, held_out: bool = False) -> Chosen:
        """The stimuli of these words in one notation: on held-out templates, or on the others."""
        found = sorted(
            (name, number)
            for number, word in enumerate(words)
            for name in self._ids.get((notation, held_out, word), [])
        )
        return Chosen(
            ids=tuple(name for name, _ in found),
            rows=np.array([self._row[name] for name, _ in found], int),
            words=tuple(words),
            word=np.array([number for _, number in found], int),
        )

    def sides(self, words: Sequence[str]) -> np.ndarray:
        """(words,) 0 for the first side of the property, 1 for the second."""
        known = self.design.words
        return np.array([self.design.sides.index(known[word].property) for word in words])

    def check(self, folds: int) -> None:
        """Refuse classes that cannot be cross-validated; what else can be wrong, the reader has refused.

        Args:
            folds: of cross-validation.

        Raises:
            DatasetError: classes with fewer stimuli than folds in a notation that is trained on; names all.
        """
        classes = dict.fromkeys(word for scope in self.design.scopes.values() for word in scope.classes)
        faults = []
        for notation in dict.fromkeys(train for train, _ in self.design.directions):
            for word in classes:
                count = len(self._ids.get((notation, False, word), []))
                if count < folds:
                    faults.append(
                        f"class '{word}' has {_stimuli(count)} in '{notation}', fewer than the {folds} folds "
                        "of cross-validation"
                    )
        if faults:
            raise DatasetError(listing(f"dataset '{self.name}'", faults))


def _stimuli(count: int) -> str:
    return f"{count} stimulus" if count == 1 else f"{count} stimuli"
