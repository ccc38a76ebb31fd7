"""Corpora to fine-tune on: texts read from a file, or moral statements expanded from templates by a seed.

Source: fragility paper, section 4.3; the texts are this project's own (resources/corpora/curation/README.md).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from strataprobe.datasets.jsonl import numbered_lines, parse_object, shown, unknown_field
from strataprobe.errors import DatasetError, listing

SIDES = ("right", "wrong")
_FIELDS = ("id", "title", "text")


@dataclass(frozen=True)
class Text:
    """One text of a corpus."""

    id: str
    title: str
    text: str


@dataclass(frozen=True)
class Corpus:
    """Texts that passed every check; `sha256` is that of the file they come from."""

    name: str
    texts: tuple[Text, ...]
    sha256: str

    @property
    def words(self) -> int:
        return sum(len(one.text.split()) for one in self.texts)


def read_corpus(path: str | Path, name: str) -> Corpus:
    """Read texts, one JSON object a line with `id`, `title` and `text`.

    Raises:
        DatasetError: the file cannot be read, holds no text, or has faults; lists each by line and field.
    """
    content = _bytes(path, name)
    texts, faults = [], []
    lines: dict[str, int] = {}
    for number, line in numbered_lines(content):
        parsed, problems = parse_object(line)
        if parsed is not None:
            problems += _problems(parsed)
            own = parsed.get("id")
            if isinstance(own, str) and lines.setdefault(own, number) != number:
                problems.append(f"field 'id': {shown(own)} is already the id of line {lines[own]}")
        faults += [f"{path}:{number}: {problem}" for problem in problems]
        if parsed is not None and not problems:
            texts.append(Text(**parsed))
    if not texts and not faults:
        faults.append(f"{path}: no texts in the file (one JSON object a line)")
    if faults:
        raise DatasetError(listing(f"corpus '{name}'", faults))
    return Corpus(name, tuple(texts), hashlib.sha256(content).hexdigest())


def read_declarative(path: str | Path, name: str, *, texts: int, statements: int, seed: int) -> Corpus:
    """Texts of moral statements such as "{Act} is wrong.", expanded from acts and templates.

    Each statement draws its side, an act of it and a template of it; any number of texts can be made, and a
    text does not depend on how many there are.

    Args:
        path: JSON with `acts` and `templates`, each with the sides `right` and `wrong`; "{act}" in a template
            stands for the act, "{Act}" for it with a capital.
        texts: how many.
        statements: in each.
        seed: of the draws; each text has a generator of its own.

    Raises:
        DatasetError: the file cannot be read or lacks a side, or a template has no act in it; lists them all.
    """
    content = _bytes(path, name)
    given, faults = _declared(content, str(path))
    if texts < 1 or statements < 1:
        faults.append(f"{texts} texts of {statements} statements: at least one of one would be right")
    if faults:
        raise DatasetError(listing(f"corpus '{name}'", faults))
    made = tuple(_expanded(given, number, statements, seed) for number in range(texts))
    return Corpus(name, made, hashlib.sha256(content).hexdigest())


def _expanded(given: Mapping[str, Mapping[str, list[str]]], number: int, statements: int, seed: int) -> Text:
    rng = np.random.Generator(np.random.Philox(key=[seed, number]))
    said = []
    for _ in range(statements):
        side = SIDES[rng.integers(len(SIDES))]
        act, template = (
            given[kind][side][rng.integers(len(given[kind][side]))] for kind in ("acts", "templates")
        )
        said.append(template.replace("{act}", act).replace("{Act}", act[0].upper() + act[1:]))
    return Text(f"statements_{number:05d}", f"Statements {number}", " ".join(said))


def _declared(content: bytes, path: str) -> tuple[dict[str, Any], list[str]]:
    try:
        given = json.loads(content)
    except ValueError as error:
        return {}, [f"{path}: is not readable JSON ({error})"]
    faults = []
    for kind in ("acts", "templates"):
        of_kind = given.get(kind) if isinstance(given, dict) else None
        for side in SIDES:
            own = of_kind.get(side) if isinstance(of_kind, dict) else None
            if not isinstance(own, list) or not own or not all(isinstance(one, str) and one for one in own):
                faults.append(f"{path}: '{kind}.{side}' is not a list with at least one text")
            elif kind == "templates":
                faults += [
                    f"{path}: '{kind}.{side}': {shown(one)} has no {{act}} or {{Act}} in it"
                    for one in own
                    if "{act}" not in one and "{Act}" not in one
                ]
    return given, faults


def _problems(parsed: Mapping[str, Any]) -> list[str]:
    wrong = [
        f"field '{field}' is not a text with something in it"
        for field in _FIELDS
        if not isinstance(parsed.get(field), str) or not parsed[field].strip()
    ]
    strangers = [unknown_field(field, _FIELDS) for field in parsed if field not in _FIELDS]
    return wrong + strangers


def _bytes(path: str | Path, name: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DatasetError(f"corpus '{name}': cannot read {path}: {error.strerror or error}") from error
