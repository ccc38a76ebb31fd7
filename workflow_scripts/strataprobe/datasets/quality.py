"""Is a set of morally loaded and neutral minimal pairs what it claims to be? One gate a claim."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strataprobe.datasets.pairs import Pair, PairsDataset
from strataprobe.errors import DatasetError, listing

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_EDGES = ".,;:!?\"'’‘“”()[]"
# How many items a passed gate shows, so that its margin can be seen.
_CLOSEST = 3

_STOPWORDS = """
a about above after again against all along also although always am among an and another any are
around as at away back be because been before behind being below beneath beside between beyond both
but by can cannot could did do does doing done down during each either else enough even ever every
few for from had has have having he her here hers herself him himself his how i if in inside into is
it its itself just like many may me might mine more most much must my myself near neither never no
nobody none nor not nothing now of off often on once one only onto or other our ours out outside
over own past per quite rather same she should since so some such than that the their theirs them
themselves then there these they this those through till to too toward towards under until up upon
us very was we were what when where whether which while who whom whose why will with within without
would yet you your yours
"""
# Words that say nothing of the content; the overlap of two halves is counted without them.
STOPWORDS = frozenset(_STOPWORDS.split())


@dataclass(frozen=True)
class MoralGates:
    """Thresholds of `check_moral_pairs`; the defaults are those of the shipped set."""

    length_ratio: float = 1.5  # characters of the longer half over those of the shorter
    fewest_words: int = 6  # in either half
    most_words: int = 16
    content_overlap: float = 0.6  # shared content words over those of the half that has more
    distinct_words: int = 25  # different contrast words in each group, on each side
    balance: float = 1.0  # pairs in the smallest group over pairs in the largest
    opening_words: int = 4
    opening_uses: int = 2  # how many pairs may begin with the same `opening_words` words


DEFAULT_GATES = MoralGates()


@dataclass(frozen=True)
class Gate:
    """One claim about a dataset.

    Attributes:
        name: what is measured; names ending in `_at_most` and `_at_least` say which way it counts.
        threshold: the value that still passes.
        value: the worst value found.
        passed: whether the claim holds.
        worst: what breaks the claim, worst first; for a measured claim that holds, what comes closest.
    """

    name: str
    threshold: float
    value: float
    passed: bool
    worst: list[str]

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "failed"
        shown = "; ".join(self.worst) or "none"
        return f"{self.name} {self.threshold:g}: {verdict} with {self.value:g}: {shown}"


@dataclass(frozen=True)
class Keywords:
    """Words that are moral wherever they stand: whole words, and stems that begin them."""

    words: frozenset[str]
    stems: tuple[str, ...]

    def match(self, word: str) -> str | None:
        """The entry that `word` falls under, as the file writes it, or None."""
        lowered = word.lower().replace("’", "'").removesuffix("'s")
        if lowered in self.words:
            return lowered
        return next((f"{stem}*" for stem in self.stems if lowered.startswith(stem)), None)


def read_keywords(path: str | Path) -> Keywords:
    """Read a list of keywords: one a line, `stem*` for every word that begins so, `#` for remarks.

    Raises:
        DatasetError: the file cannot be read, is empty, or has lines that are not one lower-case
            word or are repeated; lists all of them.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"cannot read the keywords of {path}: {error}") from error
    faults: list[str] = []
    first_line: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        entry = line.partition("#")[0].strip()
        if not entry:
            continue
        if not _WORD.fullmatch(entry.removesuffix("*")) or entry != entry.lower():
            faults.append(f"{path}:{number}: '{entry}' is not one lower-case word, or a stem and '*'")
        elif first_line.setdefault(entry, number) != number:
            faults.append(f"{path}:{number}: '{entry}' already stands in line {first_line[entry]}")
    if not first_line and not faults:
        faults.append(f"{path}: no keywords in the file (one a line)")
    if faults:
        raise DatasetError(listing("the list of keywords", faults))
    return Keywords(
        words=frozenset(entry for entry in first_line if not entry.endswith("*")),
        stems=tuple(sorted(entry[:-1] for entry in first_line if entry.endswith("*"))),
    )


def check_moral_pairs(
    dataset: PairsDataset, keywords: str | Path, gates: MoralGates = DEFAULT_GATES
) -> list[Gate]:
    """Measure every claim the moral set makes about itself.

    Args:
        dataset: at least one pair; `positive` is the loaded side, `negative` the neutral one.
        keywords: path of the list of words that no neutral side may hold.
        gates: the thresholds.

    Returns:
        One gate a claim, in a fixed order, passed or not.

    Raises:
        DatasetError: the dataset has no pairs, or the keywords cannot be read.

    Source: fragility paper, section 3.2 and appendix D.3 (gates, content-word overlap).
    """
    pairs = dataset.pairs
    if not pairs:
        raise DatasetError(f"dataset '{dataset.name}' has no pairs to check")
    halves = [
        (f"{p.id}:{side}", text)
        for p in pairs
        for side, text in (("positive", p.positive), ("negative", p.negative))
    ]
    words = {name: float(count_words(text)) for name, text in halves}
    openings = _openings(pairs, gates.opening_words)
    return [
        _at_most("length_ratio", {p.id: length_ratio(p) for p in pairs}, gates.length_ratio),
        _at_least("words", words, gates.fewest_words),
        _at_most("words", words, gates.most_words),
        _at_least("content_overlap", {p.id: content_overlap(p) for p in pairs}, gates.content_overlap),
        _none("pairs_not_differing_in_one_word", _not_one_word(pairs)),
        _none("contrast_not_the_words_that_differ", _wrong_contrast(pairs)),
        _none("moral_keywords_on_the_neutral_side", _keywords_found(pairs, read_keywords(keywords))),
        _none("repeated_sentences", _repeated(halves)),
        _none("contrast_words_on_both_sides", _on_both_sides(pairs)),
        _at_least("group_balance", _balance(pairs), gates.balance),
        _at_least("distinct_contrast_words", _distinct(pairs), gates.distinct_words),
        _at_most("opening_uses", openings, gates.opening_uses),
    ]


def count_words(sentence: str) -> int:
    """Words between spaces, marks that stand alone not counted."""
    return sum(any(c.isalnum() for c in token) for token in sentence.split())


def length_ratio(pair: Pair) -> float:
    """Characters of the longer half over those of the shorter, at least 1."""
    short, long = sorted((len(pair.positive), len(pair.negative)))
    return long / short


def content_overlap(pair: Pair) -> float:
    """Shared content words over those of the half with more of them (0 if neither has any).

    |P n N| / max(|P|, |N|), with P and N the sets of lower-case words that are not stopwords.
    """
    loaded, neutral = _content(pair.positive), _content(pair.negative)
    most = max(len(loaded), len(neutral))
    return len(loaded & neutral) / most if most else 0.0


def swapped(pair: Pair) -> tuple[str, str] | None:
    """The one word that differs, as (loaded, neutral), or None if that is not all that differs."""
    loaded, neutral = re.split(r"(\s+)", pair.positive), re.split(r"(\s+)", pair.negative)
    differing = [(a, b) for a, b in zip(loaded, neutral, strict=False) if a != b]
    if len(loaded) != len(neutral) or len(differing) != 1:
        return None
    # What stands around the word (a comma, the full stop) must be the same on both sides.
    (a, b) = differing[0]
    a_word, b_word = a.strip(_EDGES), b.strip(_EDGES)
    same_edges = a_word and b_word and a.replace(a_word, "\0", 1) == b.replace(b_word, "\0", 1)
    return (a_word, b_word) if same_edges else None


def _content(sentence: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(sentence)} - STOPWORDS


def _not_one_word(pairs: Sequence[Pair]) -> list[str]:
    return [f"{p.id}: '{p.positive}' and '{p.negative}'" for p in pairs if swapped(p) is None]


def _wrong_contrast(pairs: Sequence[Pair]) -> list[str]:
    found = ((p, swapped(p)) for p in pairs)
    return [
        f"{p.id}: {p.contrast} is said, {list(words)} differ"
        for p, words in found
        if words is not None and tuple(p.contrast) != words
    ]


def _keywords_found(pairs: Sequence[Pair], keywords: Keywords) -> list[str]:
    return [
        f"{p.id}: '{word}' ({entry})"
        for p in pairs
        for word in _WORD.findall(p.negative)
        if (entry := keywords.match(word))
    ]


def _repeated(halves: Sequence[tuple[str, str]]) -> list[str]:
    first: dict[str, str] = {}
    faults = []
    for name, text in halves:
        key = " ".join(_WORD.findall(text.casefold()))
        if first.setdefault(key, name) != name:
            faults.append(f"{name} is {first[key]}: '{text}'")
    return faults


def _sides(pairs: Iterable[Pair]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """(group, side) -> (pair id, lower-case contrast word) of each pair with one word swapped."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for pair in pairs:
        for side, word in zip(("positive", "negative"), swapped(pair) or (None, None), strict=True):
            used = found.setdefault((pair.group, side), [])
            if word is not None:
                used.append((pair.id, word.lower()))
    return found


def _on_both_sides(pairs: Sequence[Pair]) -> list[str]:
    uses: dict[str, dict[str, list[str]]] = {"positive": {}, "negative": {}}
    for (_, side), used in _sides(pairs).items():
        for pair_id, word in used:
            uses[side].setdefault(word, []).append(pair_id)
    return [
        f"'{word}' is loaded in {', '.join(uses['positive'][word])} and neutral in {', '.join(ids)}"
        for word, ids in sorted(uses["negative"].items())
        if word in uses["positive"]
    ]


def _balance(pairs: Sequence[Pair]) -> dict[str, float]:
    sizes = Counter(pair.group for pair in pairs)
    most = max(sizes.values())
    return {f"{group} ({size} pairs)": size / most for group, size in sizes.items()}


def _distinct(pairs: Sequence[Pair]) -> dict[str, float]:
    return {
        f"{group} {side}": float(len({word for _, word in used}))
        for (group, side), used in _sides(pairs).items()
    }


def _openings(pairs: Sequence[Pair], length: int) -> dict[str, float]:
    """Opening -> how many pairs use it; a pair whose contrast stands in it has two openings."""
    uses: Counter[str] = Counter()
    for pair in pairs:
        openings = {" ".join(_WORD.findall(text.lower())[:length]) for text in (pair.positive, pair.negative)}
        uses.update(openings)
    return {f"'{opening}'": float(count) for opening, count in uses.items()}


def _at_most(name: str, scores: Mapping[str, float], threshold: float) -> Gate:
    order = sorted(scores, key=lambda item: (-scores[item], item))
    beyond = [item for item in order if scores[item] > threshold]
    return _measured(f"{name}_at_most", threshold, scores, order, beyond)


def _at_least(name: str, scores: Mapping[str, float], threshold: float) -> Gate:
    order = sorted(scores, key=lambda item: (scores[item], item))
    beyond = [item for item in order if scores[item] < threshold]
    return _measured(f"{name}_at_least", threshold, scores, order, beyond)


def _measured(
    name: str, threshold: float, scores: Mapping[str, float], order: Sequence[str], beyond: Sequence[str]
) -> Gate:
    shown = beyond or order[:_CLOSEST]
    worst = [f"{item}: {round(scores[item], 3):g}" for item in shown]
    return Gate(name, float(threshold), scores[order[0]], not beyond, worst)


def _none(name: str, faults: list[str]) -> Gate:
    return Gate(f"{name}_at_most", 0.0, float(len(faults)), not faults, faults)
