"""Measures of a set of pairs: what a quality gate compares with its threshold.

Each function takes pairs and returns either scores (item -> value, each of which must keep within the
threshold) or faults (their number or share must). How the items are named is how a gate shows them.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from strataprobe.datasets.pairs import Pair
from strataprobe.datasets.quality import (
    Keywords,
    alphabetic_tokens,
    content_overlap,
    content_words,
    contrast_sides,
    count_words,
    length_ratio,
    swapped,
    words_of,
)

_SIDES = ("positive", "negative")
# How many words make an opening.
_OPENING = 4

Scores = dict[str, float]


@dataclass(frozen=True)
class Faults:
    """What breaks a claim, one entry each; a share of `of`, or counted where there is no `of`."""

    found: list[str]
    of: int | None = None

    @property
    def value(self) -> float:
        return len(self.found) / self.of if self.of else float(len(self.found))


Pairs = Sequence[Pair]
Measure = Callable[[Pairs], Scores | Faults]


def length_ratios(pairs: Pairs) -> Scores:
    return {pair.id: length_ratio(pair) for pair in pairs}


def words(pairs: Pairs) -> Scores:
    return {name: float(count_words(text)) for name, text in _halves(pairs)}


def word_differences(pairs: Pairs) -> Scores:
    return {pair.id: float(abs(count_words(pair.positive) - count_words(pair.negative))) for pair in pairs}


def alphabetic_differences(pairs: Pairs) -> Scores:
    return {
        pair.id: float(abs(alphabetic_tokens(pair.positive) - alphabetic_tokens(pair.negative)))
        for pair in pairs
    }


def content_overlaps(pairs: Pairs) -> Scores:
    return {pair.id: content_overlap(pair) for pair in pairs}


def not_one_word(pairs: Pairs) -> Faults:
    return Faults([f"{p.id}: '{p.positive}' and '{p.negative}'" for p in pairs if swapped(p) is None])


def wrong_contrast(pairs: Pairs) -> Faults:
    """Pairs with one word swapped that name others; pairs that differ in more are `not_one_word`."""
    differing = ((pair, swapped(pair)) for pair in pairs)
    return Faults(
        [
            f"{pair.id}: {pair.contrast} is said, {list(both)} differ"
            for pair, both in differing
            if both is not None and tuple(pair.contrast) != both
        ]
    )


def without_contrast(pairs: Pairs) -> Faults:
    """Pairs that name no contrast words and do not show them by one swapped word either."""
    return Faults([pair.id for pair in pairs if not _contrast(pair)])


def repeated_sentences(pairs: Pairs) -> Faults:
    """Halves that are another half but for case, spaces and punctuation."""
    first: dict[str, str] = {}
    faults = []
    for name, text in _halves(pairs):
        key = _spoken(text)
        if first.setdefault(key, name) != name:
            faults.append(f"{name} is {first[key]}: '{text}'")
    return Faults(faults)


def on_both_sides(pairs: Pairs) -> Faults:
    uses: dict[str, dict[str, list[str]]] = {side: {} for side in _SIDES}
    for (_, side), used in _by_group_and_side(pairs).items():
        for pair_id, word in used:
            uses[side].setdefault(word, []).append(pair_id)
    return Faults(
        [
            f"'{word}' is positive in {', '.join(uses['positive'][word])} and negative in {', '.join(ids)}"
            for word, ids in sorted(uses["negative"].items())
            if word in uses["positive"]
        ]
    )


def balance(pairs: Pairs) -> Scores:
    """Pairs of each group over those of the largest."""
    sizes = Counter(pair.group for pair in pairs)
    most = max(sizes.values())
    return {f"{group} ({size} pairs)": size / most for group, size in sizes.items()}


def distinct_by_group(pairs: Pairs) -> Scores:
    """Different contrast words in each group, on each side."""
    return {
        f"{group} {side}": float(len({word for _, word in used}))
        for (group, side), used in _by_group_and_side(pairs).items()
    }


def distinct_by_side(pairs: Pairs) -> Scores:
    """Different contrast words on each side of the whole set."""
    found: dict[str, set[str]] = {side: set() for side in _SIDES}
    for (_, side), used in _by_group_and_side(pairs).items():
        found[side].update(word for _, word in used)
    return {side: float(len(distinct)) for side, distinct in found.items()}


def opening_uses(pairs: Pairs) -> Scores:
    """Opening -> how many pairs use it; a pair whose contrast stands in it has two openings."""
    uses: Counter[str] = Counter()
    for pair in pairs:
        openings = {" ".join(words_of(text.lower())[:_OPENING]) for text in (pair.positive, pair.negative)}
        uses.update(openings - {""})
    return {f"'{opening}'": float(count) for opening, count in uses.items()}


def contrast_uses(pairs: Pairs) -> Scores:
    """Contrast word -> how many pairs use it, on either side."""
    uses = Counter(word for pair in pairs for word in _contrast(pair))
    return {f"'{word}'": float(count) for word, count in uses.items()}


def contrast_shared(pairs: Pairs) -> Faults:
    """Contrast words that more than one group uses, as a share of all that are used."""
    groups: dict[str, list[str]] = {}
    for pair in pairs:
        for word in _contrast(pair):
            if pair.group not in groups.setdefault(word, []):
                groups[word].append(pair.group)
    shared = [f"'{word}' in {', '.join(names)}" for word, names in sorted(groups.items()) if len(names) > 1]
    return Faults(shared, of=len(groups) or None)


def contrast_length_gaps(pairs: Pairs) -> Scores:
    """How far apart the two sides' swapped words are in mean length (letters), in each group.

    A stand-in for register, which no list of words measures: bookish words are the longer ones.
    """
    lengths: dict[str, list[int]] = {}
    for pair in pairs:
        both = swapped(pair)
        if both is not None:
            lengths.setdefault(pair.group, []).append(len(both[0]) - len(both[1]))
    return {group: float(abs(np.mean(gaps))) for group, gaps in lengths.items()}


def keywords_on_the_negative_side(pairs: Pairs, keywords: Keywords) -> Faults:
    return Faults(
        [
            f"{pair.id}: '{word}' ({entry})"
            for pair in pairs
            for word in words_of(pair.negative)
            if (entry := keywords.match(word))
        ]
    )


def words_of_a_list(pairs: Pairs, listed: Keywords) -> Faults:
    """Words of either half that stand in a list."""
    return Faults(
        [
            f"{name}: '{word}' ({entry})"
            for name, text in _halves(pairs)
            for word in words_of(text)
            if (entry := listed.match(word))
        ]
    )


def animate_differ(pairs: Pairs, animate: Keywords) -> Faults:
    """Pairs of which one half speaks of more people or animals than the other, as a share of all."""
    counted = [
        (pair, *(sum(animate.match(word) is not None for word in words_of(text)) for text in halves))
        for pair in pairs
        for halves in [(pair.positive, pair.negative)]
    ]
    found = [
        f"{pair.id}: {positive} and {negative}"
        for pair, positive, negative in counted
        if positive != negative
    ]
    return Faults(found, of=len(pairs))


def overlaps_with_originals(pairs: Pairs, originals: Pairs) -> Scores:
    """Half -> content words it shares with the same half of the pair it paraphrases, over those of both.

    |P n O| / |P u O|; pairs whose id no original has are left out.
    """
    known = {pair.id: pair for pair in originals}
    found = {}
    for pair in pairs:
        for side in _SIDES if pair.id in known else ():
            here, there = (content_words(getattr(one, side)) for one in (pair, known[pair.id]))
            found[f"{pair.id}:{side}"] = len(here & there) / max(len(here | there), 1)
    return found


def _halves(pairs: Pairs) -> Iterable[tuple[str, str]]:
    return ((f"{pair.id}:{side}", getattr(pair, side)) for pair in pairs for side in _SIDES)


def _spoken(text: str) -> str:
    """A sentence without what is not said: case, spaces, punctuation. Marks, digits and symbols stay."""
    kept = "".join(c if unicodedata.category(c)[0] in "LMNS" else " " for c in text.casefold())
    return " ".join(kept.split()) or text


def _contrast(pair: Pair) -> list[str]:
    """Different contrast words of a pair, lower-case: those it names, else the one that is swapped."""
    return list(dict.fromkeys(word.lower() for word in pair.contrast or swapped(pair) or ()))


def _by_group_and_side(pairs: Pairs) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """(group, side) -> (pair id, lower-case contrast word) of each pair that has one on each side."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for pair in pairs:
        for side, word in zip(_SIDES, contrast_sides(pair) or (None, None), strict=True):
            used = found.setdefault((pair.group, side), [])
            if word is not None:
                used.append((pair.id, word.lower()))
    return found
