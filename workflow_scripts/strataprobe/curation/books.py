"""A book as a corpus: a plain-text file without what stands before and behind the text itself."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from heapq import nlargest
from pathlib import Path

from strataprobe.curation.corpora import Corpus, Text
from strataprobe.datasets.jsonl import shown
from strataprobe.errors import DatasetError, listing

# Project Gutenberg's own lines around a text, as in "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***".
_START = re.compile(r"\s*\*{3}\s*START OF\b.*\bPROJECT GUTENBERG\b", re.IGNORECASE)
_END = re.compile(r"\s*\*{3}\s*END OF\b.*\bPROJECT GUTENBERG\b", re.IGNORECASE)
# How many lines are compared in full with a marker that is not found.
_LIKELY = 500


@dataclass(frozen=True)
class _Span:
    """The lines from index `start` up to index `stop`, of all `lines` of a file."""

    lines: Sequence[str]
    start: int
    stop: int

    def first(self, marker: str) -> int | None:
        """Index of the first line of the span that contains the marker."""
        return next((n for n in range(self.start, self.stop) if marker in self.lines[n]), None)

    def __str__(self) -> str:
        return f"lines {self.start + 1} to {self.stop}"


def read_book(path: str | Path, name: str, *, after: str | None = None, before: str | None = None) -> Corpus:
    """Read a plain-text book (UTF-8) as one text of paragraphs, its front and back matter cut.

    Project Gutenberg's lines "*** START OF ..." and "*** END OF ..." are cut first, with all outside them,
    where the file has them; `after` and `before` cut inside what is left. What Gutenberg puts inside its
    lines (who produced the file, "End of the Project Gutenberg EBook") needs `after` and `before`.

    Args:
        name: becomes the corpus's name, and the id and title of its one text.
        after: the text begins behind the first line that contains this (capitals matter).
        before: it ends before the first later line that contains this.

    Returns:
        One text: its paragraphs with a blank line between, each on one line, runs of blanks as one.

    Raises:
        DatasetError: the file cannot be read or is not UTF-8, a marker is on no line (names the nearest
            line), or nothing is left between them.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DatasetError(f"corpus '{name}': cannot read {path}: {error.strerror or error}") from error
    span = _without_gutenberg(_lines(content, path, name))
    faults: list[str] = []
    span = _cut(span, after, before, str(path), faults)
    text = _paragraphs(span.lines[span.start : span.stop])
    if not text and not faults:
        left = f"no line is left of its {len(span.lines)}"
        faults.append(f"{path}: {left if span.start >= span.stop else f'{span} hold no text'}")
    if faults:
        raise DatasetError(listing(f"corpus '{name}'", faults))
    return Corpus(name, (Text(name, name, text),), hashlib.sha256(content).hexdigest())


def _lines(content: bytes, path: str | Path, name: str) -> list[str]:
    """Lines as an editor numbers them, whichever of the three line ends they have."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = len(re.findall(rb"\r\n|\r|\n", error.object[: error.start])) + 1
        raise DatasetError(
            f"corpus '{name}': {path}:{line}: not UTF-8 (byte {error.object[error.start]:#04x}); "
            "convert the file first"
        ) from error
    return re.split(r"\r\n|\r|\n", text)


def _without_gutenberg(lines: Sequence[str]) -> _Span:
    start = 0
    for number, line in enumerate(lines):
        if _START.match(line):
            start = number + 1
            # A long title runs on over the next lines, up to its closing asterisks.
            rest = lines[number : number + 5]
            ends = [n for n, part in enumerate(rest) if part.rstrip().endswith("***")]
            if ends and all(part.strip() for part in rest[: ends[0]]):
                start += ends[0]
            break
    stop = next((n for n in range(start, len(lines)) if _END.match(lines[n])), len(lines))
    return _Span(lines, start, stop)


def _cut(span: _Span, after: str | None, before: str | None, path: str, faults: list[str]) -> _Span:
    """What of a span stands behind the line with `after` and before the next one with `before`."""
    start, stop = span.start, span.stop
    if after is not None:
        found = span.first(after) if after.strip() else None
        if found is None:
            faults.append(f"{path}: field 'after': {_missing(span, after)}")
        else:
            start = found + 1
    if before is not None:
        rest = _Span(span.lines, start, span.stop)
        found = rest.first(before) if before.strip() else None
        if found is None:
            faults.append(f"{path}: field 'before': {_missing(rest, before)}")
        else:
            stop = found
    return _Span(span.lines, start, stop)


def _missing(span: _Span, marker: str) -> str:
    """That no line of a span contains a marker, which is nearest, and whether one elsewhere does."""
    if not marker.strip():
        return "is blank; part of a line would be right, or leave it out"
    elsewhere = _Span(span.lines, 0, len(span.lines)).first(marker)
    hint = f" (line {elsewhere + 1} does, but is not among them)" if elsewhere is not None else ""
    nearest = _nearest(span, marker)
    if nearest is None:
        return f"no lines are left to look for {shown(marker)} in{hint}"
    near = f"the nearest is line {nearest + 1}, {shown(span.lines[nearest].strip())}"
    return f"none of {span} contains {shown(marker)}{hint}; {near}"


def _nearest(span: _Span, marker: str) -> int | None:
    """Index of the line of a span most like a marker, capitals aside; None for a span without lines."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(marker.lower())

    def likeness(number: int, measure: str) -> float:
        matcher.set_seq1(span.lines[number].strip().lower())
        return getattr(matcher, measure)()

    # By the letters first, whatever their order, since a book has many lines and a full comparison is slow.
    likely = nlargest(_LIKELY, range(span.start, span.stop), key=lambda n: likeness(n, "quick_ratio"))
    return max(sorted(likely), key=lambda n: likeness(n, "ratio"), default=None)


def _paragraphs(lines: Sequence[str]) -> str:
    """Text with each paragraph (lines up to a blank one) on one line, and one blank line between two."""
    joined = "\n".join(line.strip() for line in lines)
    whole = (" ".join(part.split()) for part in re.split(r"\n{2,}", joined))
    return "\n\n".join(part for part in whole if part)
