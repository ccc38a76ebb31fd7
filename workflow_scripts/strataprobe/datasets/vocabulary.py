"""A vocabulary: words, each in many texts, in several notations; read and checked against its design.

The words of a readout are classes that probes are trained on; invented words are put to the probes. Every
word needs several texts in a notation, since what is measured is how its predictions spread over them.

Source: lucky-defaults paper, sections 3 and 4; resources/datasets/README.md for the fields.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strataprobe.datasets.jsonl import numbered_lines, parse_object, shown
from strataprobe.datasets.pairs import Items
from strataprobe.datasets.vocabulary_design import read_design
from strataprobe.datasets.vocabulary_rows import Stimulus, against_design, sound_fields, stimulus
from strataprobe.datasets.vocabulary_words import Design, Scope, Word
from strataprobe.errors import DatasetError, listing

__all__ = ["Design", "Scope", "Stimulus", "VocabularyDataset", "Word", "read_design", "read_vocabulary"]

Rows = Mapping[int, Mapping[str, Any]]
"""Line -> the sound fields of the row there."""

Faults = Iterator[tuple[int, str]]
"""Lines, and what is wrong with each; fields that have faults of their own are passed over."""

HELD_OUT = ":held_out"
"""What the group of a stimulus ends with where its template is held out."""


@dataclass(frozen=True)
class VocabularyDataset:
    """A file of stimuli that passed every check; `sha256` is that of its bytes and its design's."""

    name: str
    design: Design
    stimuli: tuple[Stimulus, ...]
    path: str
    sha256: str

    def items(self) -> Items:
        """The texts for capture, a stimulus each: groups are notations, pairs are words.

        Labels are +1 on the second side. An anchor that a stimulus' notation has not is None. Scopes and
        directions are no part of it: a cache serves all of them.
        """
        numbers = {word: number for number, word in enumerate(self.design.words)}
        names = dict.fromkeys(name for anchors in self.design.anchors.values() for name in anchors)
        second = self.design.sides[1]
        return Items(
            ids=[one.id for one in self.stimuli],
            texts=[one.text for one in self.stimuli],
            labels=np.array([1 if one.property == second else -1 for one in self.stimuli], dtype=np.int8),
            groups=[one.notation + HELD_OUT * one.held_out for one in self.stimuli],
            pairs=np.array([numbers[one.item] for one in self.stimuli], dtype=np.int32),
            anchors={name: [one.anchors.get(name) for one in self.stimuli] for name in names},
        )


def read_vocabulary(path: str | Path, name: str, *, design: str | Path) -> VocabularyDataset:
    """Read and check a JSONL file of stimuli, one object a line; blank lines are passed over.

    Args:
        design: the JSON file that says which words there are; see `read_design`.

    Raises:
        DatasetError: a file cannot be read, or has faults: rows that contradict the design, anchors outside
            their text, a word with a single text, a class that is never trained on ...; lists every fault
            with its file, line and field, and what would be right.
    """
    planned = read_design(design)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DatasetError(f"dataset '{name}': cannot read {path}: {error.strerror or error}") from error
    faults: list[str] = []
    rows: dict[int, dict[str, Any]] = {}
    stimuli: list[Stimulus] = []
    for number, line in numbered_lines(content):
        parsed, problems = parse_object(line)
        if parsed is not None:
            rows[number], wrong = sound_fields(parsed)
            problems += wrong + against_design(rows[number], planned)
            stimuli += [] if problems else [stimulus(rows[number])]
        faults += [f"{path}:{number}: {problem}" for problem in problems]
    if not rows and not faults:
        faults.append(f"{path}: no stimuli in the file (one JSON object a line)")
    between = [*_repeated(rows), *_half_held_out(rows, planned), *_alone(rows)]
    faults += [f"{path}:{number}: {problem}" for number, problem in between]
    if rows:
        faults += [f"{path}: {problem}" for problem in _never_shown(rows, planned)]
    if faults:
        raise DatasetError(listing(f"dataset '{name}'", faults))
    digest = hashlib.sha256(content + planned.sha256.encode("ascii")).hexdigest()
    return VocabularyDataset(name, planned, tuple(stimuli), str(path), digest)


def _repeated(rows: Rows) -> Faults:
    """A stimulus or a text that stands in the file twice would count twice among its word's predictions."""
    stimuli: dict[Any, int] = {}
    texts: dict[str, int] = {}
    for number, row in rows.items():
        same = [row.get(name) for name in ("notation", "template", "item")]
        if None not in same and (first := stimuli.setdefault(":".join(same), number)) != number:
            yield number, f"stimulus {shown(':'.join(same))} is that of line {first} already"
        elif "text" in row and (first := texts.setdefault(row["text"], number)) != number:
            yield number, f"field 'text' is that of line {first} (a text counts once)"


def _half_held_out(rows: Rows, design: Design) -> Faults:
    """A template is held out for all words, and in a control as in what it controls; or it would leak."""
    controlled = {control: notation for notation, control in design.controls.items()}
    first: dict[Any, int] = {}
    for number, row in rows.items():
        if not {"notation", "template", "held_out"} <= row.keys():
            continue
        key = (controlled.get(row["notation"], row["notation"]), row["template"])
        before = first.setdefault(key, number)
        if rows[before]["held_out"] != row["held_out"]:
            yield (
                number,
                f"field 'held_out': template {shown(row['template'])} is "
                f"{'held out' if row['held_out'] else 'trained on'} here, but not in line {before}",
            )


def _alone(rows: Rows) -> Faults:
    """Words with a single stimulus in a notation."""
    counts = Counter(_trained_as(row) for row in rows.values())
    for number, row in rows.items():
        word = _trained_as(row)
        if word is not None and counts[word] == 1:
            yield (
                number,
                f"item {shown(word[0])} has this stimulus alone in notation {shown(word[1])} (the share of "
                "its top class would be 1 whatever the probe does; at least two are needed)",
            )


def _trained_as(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """(item, notation) of a row on a template that is not held out."""
    if row.get("held_out") or "item" not in row or "notation" not in row:
        return None
    return row["item"], row["notation"]


def _never_shown(rows: Rows, design: Design) -> list[str]:
    """Words that a direction needs in a notation, and that have no stimuli there."""
    found = {_trained_as(row) for row in rows.values()}
    trained = dict.fromkeys(train for train, _ in design.directions)
    tested = dict.fromkeys(test for _, test in design.directions)
    tested |= dict.fromkeys(design.controls[test] for test in tested if test in design.controls)
    faults = [
        f"class {shown(word)} has no stimuli in notation {shown(notation)} to train on; "
        "a probe would never have seen it"
        for notation in trained
        for word in design.classes
        if (word, notation) not in found
    ]
    return faults + [
        f"word {shown(word)} has no stimuli in notation {shown(notation)} to be tested in"
        for notation in tested
        for word in design.words
        if (word, notation) not in found and not (word in design.classes and notation in trained)
    ]
