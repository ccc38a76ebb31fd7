"""Bags of words and of characters: what a lexical floor reads of a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# A word of scikit-learn's vectorisers: at least two letters, digits or underscores.
_WORD = re.compile(r"\b\w\w+\b")


def word_forms(text: str) -> set[str]:
    """The lower-case words of a text, as a bag of words sees them."""
    return set(_WORD.findall(text.lower()))


@dataclass(frozen=True, eq=False)
class Bags:
    """How often each word, or each run of characters, stands in each item.

    Counting knows nothing of other items, so it is done once; the vocabulary and the weights are fitted to
    the training rows of each fold, as a `TfidfVectorizer` in the fold would.

    Attributes:
        counts: (items, forms) whole numbers, forms in alphabetical order.
        unit: what is counted, for messages.
    """

    counts: csr_matrix
    unit: str

    @classmethod
    def words(cls, texts: Sequence[str]) -> Bags:
        """Bags of lower-case words of two letters or more."""
        return cls._counted(texts, "word of two letters or more")

    @classmethod
    def characters(cls, texts: Sequence[str], shortest: int, longest: int) -> Bags:
        """Bags of runs of `shortest` to `longest` characters in words, with a space at each edge."""
        return cls._counted(
            texts, "run of characters", analyzer="char_wb", ngram_range=(int(shortest), int(longest))
        )

    @classmethod
    def _counted(cls, texts: Sequence[str], unit: str, **how: Any) -> Bags:
        from scipy.sparse import csr_matrix
        from sklearn.feature_extraction.text import CountVectorizer

        try:
            counts = CountVectorizer(**how).fit_transform(texts)
        except ValueError as error:
            if "empty vocabulary" not in str(error):
                raise
            counts = csr_matrix((len(texts), 0), dtype=np.int64)  # found by `fault`, with the part's name
        return cls(counts=counts, unit=unit)

    def vocabulary(self, train: np.ndarray, min_df: int) -> np.ndarray:
        """(forms kept,) column indices of the forms that stand in at least `min_df` training items."""
        frequency = np.bincount(self.counts[train].indices, minlength=self.counts.shape[1])
        return np.flatnonzero(frequency >= min_df)

    def fault(self, train: np.ndarray, min_df: int) -> str | None:
        """What forbids a fit on these rows, or None."""
        if len(self.vocabulary(train, min_df)):
            return None
        where = (
            "any sentence" if min_df == 1 else f"as many as {min_df} of the {len(train)} training sentences"
        )
        return (
            f"the vocabulary is empty: no {self.unit} stands in {where} (a language written without spaces "
            "needs spaces put between its words; more pairs that share words help too)"
        )

    def decide(
        self, train: np.ndarray, test: np.ndarray, labels: np.ndarray, *, min_df: int, max_iter: int
    ) -> tuple[np.ndarray, int]:
        """Fit TF-IDF and a logistic regression to `train` and read `test`.

        Args:
            train, test: item indices.
            labels: (all items,) of -1 or +1.
            min_df: in how many training items a form must stand.
            max_iter: most iterations of the solver.

        Returns:
            (test,) of -1 or +1, and the number of forms in the vocabulary.
        """
        from sklearn.feature_extraction.text import TfidfTransformer
        from sklearn.linear_model import LogisticRegression

        columns = self.vocabulary(train, min_df)
        weights = TfidfTransformer()
        known = weights.fit_transform(self.counts[train][:, columns])
        fitted = LogisticRegression(max_iter=max_iter).fit(known, labels[train])
        return fitted.predict(weights.transform(self.counts[test][:, columns])), len(columns)
