"""The words of a vocabulary study, its nested readouts, notations and directions.

Source: lucky-defaults paper, section 4.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_PIECES = re.compile(r"([1-9]\d*)(\+|-([1-9]\d*))?")


@dataclass(frozen=True)
class Word:
    """A word of the design.

    Attributes:
        property: the side it stands on.
        pieces: how many tokens it is meant to have: "1", "2-3" or "2+".
    """

    property: str
    pieces: str

    def fits(self, count: int) -> bool:
        """Whether that many tokens are what the word is meant to have."""
        least, most = piece_bounds(self.pieces)
        return least <= count and (most is None or count <= most)


@dataclass(frozen=True)
class Scope:
    """One readout: its classes, and the invented words that are put to it."""

    classes: tuple[str, ...]
    items: tuple[str, ...]


@dataclass(frozen=True)
class Design:
    """A design that passed every check; see `vocabulary_design.read_design`.

    Attributes:
        property: what the sides are values of.
        sides: both sides; the second is labelled +1.
        classes, invented: name -> word. Together they are the items of the study.
        scopes: name -> readout, each within the next.
        anchors: notation -> the positions at which its states are taken.
        directions: (notation trained on, notation tested in).
        controls: notation -> the notation that controls it.
        sha256: of the file's bytes.
    """

    property: str
    sides: tuple[str, str]
    classes: Mapping[str, Word]
    invented: Mapping[str, Word]
    scopes: Mapping[str, Scope]
    anchors: Mapping[str, tuple[str, ...]]
    directions: tuple[tuple[str, str], ...]
    controls: Mapping[str, str]
    sha256: str

    @property
    def words(self) -> dict[str, Word]:
        """All words, classes first, in the file's order: the numbering of the items."""
        return {**self.classes, **self.invented}


def piece_bounds(pieces: str) -> tuple[int, int | None]:
    """Least and most tokens that a text such as "1", "2-3" or "2+" asks for; most is None for no limit.

    Raises:
        ValueError: the text is none of these, or its range does not rise.
    """
    found = _PIECES.fullmatch(pieces)
    if found is None:
        raise ValueError(f"{pieces!r} is not like '1', '2-3' or '2+'")
    least = int(found[1])
    if found[2] == "+":
        return least, None
    if found[3] and int(found[3]) <= least:
        raise ValueError(f"{pieces!r} is a range that does not rise")
    return least, int(found[3] or least)
