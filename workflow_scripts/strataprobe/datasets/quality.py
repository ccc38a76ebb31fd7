"""What can be asked of one pair, and lists of words to hold it against."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from strataprobe.datasets.pairs import Pair
from strataprobe.errors import DatasetError, listing

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_LETTERS = re.compile(r"[^\W\d_]+")
# Marks that can stand around a word.
EDGES = ".,;:!?\"'’‘“”()[]"

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
class Keywords:
    """Words that count wherever they stand: whole words, and stems that begin them."""

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


def count_words(sentence: str) -> int:
    """Words between spaces, marks that stand alone not counted."""
    return sum(any(c.isalnum() for c in token) for token in sentence.split())


def words_of(sentence: str) -> list[str]:
    """The words of a sentence as they stand there: letters, with apostrophes inside, without digits."""
    return _WORD.findall(sentence)


def alphabetic_tokens(sentence: str) -> int:
    """Runs of letters, so that `brother's` counts as two."""
    return len(_LETTERS.findall(sentence))


def length_ratio(pair: Pair) -> float:
    """Characters of the longer half over those of the shorter, at least 1."""
    short, long = sorted((len(pair.positive), len(pair.negative)))
    return long / short


def content_overlap(pair: Pair) -> float:
    """Shared content words over those of the half with more of them (0 if neither has any).

    |P n N| / max(|P|, |N|), with P and N the sets of lower-case words that are not stopwords.
    """
    positive, negative = content_words(pair.positive), content_words(pair.negative)
    most = max(len(positive), len(negative))
    return len(positive & negative) / most if most else 0.0


def swapped(pair: Pair) -> tuple[str, str] | None:
    """The one word that differs, as (positive, negative), or None if that is not all that differs."""
    positive, negative = re.split(r"(\s+)", pair.positive), re.split(r"(\s+)", pair.negative)
    differing = [(a, b) for a, b in zip(positive, negative, strict=False) if a != b]
    if len(positive) != len(negative) or len(differing) != 1:
        return None
    # What stands around the word (a comma, the full stop) must be the same on both sides.
    (a, b) = differing[0]
    a_word, b_word = a.strip(EDGES), b.strip(EDGES)
    same_edges = a_word and b_word and a.replace(a_word, "\0", 1) == b.replace(b_word, "\0", 1)
    return (a_word, b_word) if same_edges else None


def contrast_sides(pair: Pair) -> tuple[str, str] | None:
    """The contrast words as (positive, negative): the one that is swapped, else the two that are named."""
    named = (pair.contrast[0], pair.contrast[1]) if len(pair.contrast) == 2 else None
    return swapped(pair) or named


def content_words(sentence: str) -> set[str]:
    """Lower-case words that are not stopwords."""
    return {word.lower() for word in words_of(sentence)} - STOPWORDS


def function_words(sentence: str) -> Counter[str]:
    """How often each stopword stands in a sentence."""
    return Counter(word for word in map(str.lower, words_of(sentence)) if word in STOPWORDS)
