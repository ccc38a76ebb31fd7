"""How much of the label is given away by what has no meaning: length, place of a word, function words."""

from collections.abc import Sequence

import numpy as np

from strataprobe.datasets.claims import Faults, Scores
from strataprobe.datasets.pairs import Pair
from strataprobe.datasets.quality import EDGES, STOPWORDS, contrast_sides, count_words, function_words

CUES = ("words", "characters", "position", "function_words")
FOLDS = 5
# A logit this close to 0 is rounding: it says nothing, and counts one half.
_TIE = 1e-6
_STOPWORDS = sorted(STOPWORDS)


def cue_distances(pairs: Sequence[Pair], cue: str) -> Scores:
    """How far from one half a logistic regression gets on one cue alone, in each group.

    The pair at place n of its group is in fold n mod 5: in file order, so that a file can be laid out
    with every fold balanced in itself. Where a cue is balanced exactly over a group, folds drawn at
    random leave a training set that leans one way and a test set that leans the other, and accuracy
    falls below one half for that reason alone.

    Args:
        pairs: all pairs; of the cue `position`, those that do not name a word of each half are left out.
        cue: "words" or "characters" (length of the sentence), "position" (place of the contrast word,
            from 0 for the first word to 1 for the last) or "function_words" (how often each stands there).

    Returns:
        "group (accuracy ...)" -> |accuracy - 0.5|. A group of fewer than 2 usable pairs can show
        nothing, and counts 0.5.

    Source: fragility paper, appendix C (adversarial lexical swap).
    """
    found: Scores = {}
    for group in dict.fromkeys(pair.group for pair in pairs):
        members = [pair for pair in pairs if pair.group == group]
        usable = [pair for pair in members if cue != "position" or _places(pair) is not None]
        if len(usable) < 2:
            found[f"{group} ({len(usable)} usable pairs, too few to tell)"] = 0.5
            continue
        accuracy = _accuracy(_features(usable, cue), scale=cue != "function_words")
        found[f"{group} (accuracy {accuracy:.3f})"] = abs(accuracy - 0.5)
    return found


def contrast_not_in_its_half(pairs: Sequence[Pair]) -> Faults:
    """Pairs that do not name one word of each half, so that its place can be told."""
    return Faults([f"{pair.id}: {pair.contrast}" for pair in pairs if _places(pair) is None])


def _places(pair: Pair) -> tuple[float, float] | None:
    """Where the contrast word stands in each half, from 0 for the first word to 1 for the last."""
    both = contrast_sides(pair)
    if both is None:
        return None
    positive = _place(pair.positive, both[0])
    negative = _place(pair.negative, both[1])
    return None if positive is None or negative is None else (positive, negative)


def _place(sentence: str, word: str) -> float | None:
    tokens = [token for token in sentence.split() if any(c.isalnum() for c in token)]
    bare = [token.strip(EDGES) for token in tokens]
    return bare.index(word) / max(len(bare) - 1, 1) if word in bare else None


def _features(pairs: Sequence[Pair], cue: str) -> np.ndarray:
    """(2 pairs, features) float64, pair by pair, positive first."""
    halves = [text for pair in pairs for text in (pair.positive, pair.negative)]
    if cue == "words":
        rows = [[count_words(text)] for text in halves]
    elif cue == "characters":
        rows = [[len(text)] for text in halves]
    elif cue == "position":
        rows = [[place] for pair in pairs for place in _places(pair) or ()]
    else:
        counts = [function_words(text) for text in halves]
        rows = [[count[word] for word in _STOPWORDS] for count in counts]
    return np.array(rows, np.float64)


def _accuracy(features: np.ndarray, *, scale: bool) -> float:
    """Share of halves that a regression fitted on the other folds labels rightly.

    Args:
        features: (2 pairs, features), at least 2 pairs.
        scale: whether each feature gets the spread 1, by the training folds.
    """
    from sklearn.linear_model import LogisticRegression

    pairs = len(features) // 2
    folds = np.repeat(np.arange(pairs) % min(FOLDS, pairs), 2)
    labels = np.tile([1, -1], pairs)
    right = np.zeros(len(labels))
    for fold in range(folds.max() + 1):
        test = folds == fold
        train = features[~test]
        spread = train.std(axis=0) if scale else np.ones(train.shape[1])
        scaled = (features - train.mean(axis=0) * scale) / np.where(spread > 0, spread, 1.0)
        model = LogisticRegression(max_iter=2000).fit(scaled[~test], labels[~test])
        margins = model.decision_function(scaled[test]) * labels[test]
        right[test] = np.where(np.abs(margins) < _TIE, 0.5, margins > 0)
    return float(right.mean())
