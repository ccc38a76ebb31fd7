"""Minimal pairs: reading a JSONL file, checking it, and laying its sentences out as items."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from strataprobe.datasets.jsonl import Text, numbered_lines, parse_object, shown, unknown_field
from strataprobe.errors import DatasetError, listing
from strataprobe.files import sha256_json

Span = tuple[int, int]


class Pair(BaseModel):
    """Two sentences that differ in what is probed: `positive` has it, `negative` has not."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: Text = Field(description="Unique in the file.")
    positive: Text = Field(description="The sentence labelled +1.")
    negative: Text = Field(description="The sentence labelled -1.")
    group: Text = Field(description="What the split is stratified by, such as the moral foundation.")
    contrast: list[Text] = Field(
        default_factory=list, description="The words that differ, as they stand in the sentences."
    )


@dataclass(frozen=True, eq=False)
class Items:
    """The sentences of a dataset in the order every later stage keeps: pair by pair, positive first.

    Attributes:
        ids: (items,) "{pair id}:positive" or "{pair id}:negative".
        texts: (items,) the sentences.
        labels: (items,) int8, +1 or -1.
        groups: (items,) the group of the item's pair.
        pairs: (items,) int32, the index of the item's pair.
        anchors: name of a position -> (items,) character spans (start, end) in the texts, None where a
            text has no such position.
    """

    ids: list[str]
    texts: list[str]
    labels: np.ndarray
    groups: list[str]
    pairs: np.ndarray
    anchors: dict[str, list[Span | None]] = field(default_factory=dict)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of all that a capture or a probe reads of these items."""
        return sha256_json(
            {
                "ids": self.ids,
                "texts": self.texts,
                "labels": self.labels.tolist(),
                "groups": self.groups,
                "pairs": self.pairs.tolist(),
                "anchors": {
                    name: [None if span is None else list(span) for span in spans]
                    for name, spans in self.anchors.items()
                },
            }
        )


@dataclass(frozen=True)
class PairsDataset:
    """A file of pairs that passed every check; `sha256` is that of the file's bytes."""

    name: str
    path: str
    pairs: tuple[Pair, ...]
    sha256: str

    @property
    def groups(self) -> list[str]:
        """(pairs,) the group of each pair, as `splits.split_pairs` takes them."""
        return [pair.group for pair in self.pairs]

    def items(self) -> Items:
        """All sentences, two an a pair."""
        count = len(self.pairs)
        return Items(
            ids=[f"{pair.id}:{side}" for pair in self.pairs for side in ("positive", "negative")],
            texts=[text for pair in self.pairs for text in (pair.positive, pair.negative)],
            labels=np.tile(np.array([1, -1], dtype=np.int8), count),
            groups=[pair.group for pair in self.pairs for _ in range(2)],
            pairs=np.repeat(np.arange(count, dtype=np.int32), 2),
        )


def read_pairs(path: str | Path, name: str) -> PairsDataset:
    """Read and check a JSONL file of pairs, one object a line; blank lines are passed over.

    Raises:
        DatasetError: the file cannot be read, or has faults; lists every fault with its file, line
            and field, and what would be right.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise DatasetError(f"dataset '{name}': cannot read {path}: {error.strerror or error}") from error
    faults: list[str] = []
    objects: list[dict[str, Any]] = []
    pairs: list[Pair] = []
    first_line: dict[str, int] = {}
    for number, line in numbered_lines(content):
        place = f"{path}:{number}"
        parsed, problems = parse_object(line)
        if parsed is not None:
            objects.append(parsed)
            pair, problems = _check(parsed, problems)
            problems += _repeated_id(parsed.get("id"), number, first_line)
            if pair is not None:
                pairs.append(pair)
        faults += [f"{place}: {problem}" for problem in problems]
    faults = [f"{path}: {problem}" for problem in _whole_file(objects, bool(faults))] + faults
    if faults:
        raise DatasetError(listing(f"dataset '{name}'", faults))
    return PairsDataset(
        name=name, path=str(path), pairs=tuple(pairs), sha256=hashlib.sha256(content).hexdigest()
    )


def contains_word(sentence: str, word: str) -> bool:
    """Whether `word` stands in `sentence` as a word, not inside a longer one; see `word_starts`."""
    return bool(word_starts(sentence, word))


def word_starts(sentence: str, word: str) -> list[int]:
    """Where `word` stands in `sentence` as a word, not inside a longer one.

    Only letters that have case, and digits, join into words here: scripts written without spaces
    (Chinese, Japanese) have no such borders, and there any occurrence counts.
    """
    starts = []
    start = sentence.find(word) if word else -1
    while start >= 0:
        end = start + len(word)
        joined_before = start > 0 and _joins(sentence[start - 1]) and _joins(word[0])
        joined_after = end < len(sentence) and _joins(word[-1]) and _joins(sentence[end])
        if not joined_before and not joined_after:
            starts.append(start)
        start = sentence.find(word, start + 1)
    return starts


def _joins(character: str) -> bool:
    return character.isdigit() or character.lower() != character.upper()


def _check(parsed: dict[str, Any], problems: list[str]) -> tuple[Pair | None, list[str]]:
    # Unknown fields are taken out first: pydantic cannot place an error at a name with a lone surrogate.
    problems = problems + [
        unknown_field(name, list(Pair.model_fields)) for name in parsed if name not in Pair.model_fields
    ]
    try:
        pair = Pair.model_validate({name: parsed[name] for name in Pair.model_fields if name in parsed})
    except ValidationError as error:
        return None, problems + [_explain(detail) for detail in error.errors(include_url=False)]
    if pair.positive == pair.negative:
        problems = [
            *problems,
            "fields 'positive' and 'negative' are the same sentence (a probe has nothing to tell apart)",
        ]
    strangers = [
        word
        for word in pair.contrast
        if not contains_word(pair.positive, word) and not contains_word(pair.negative, word)
    ]
    problems = problems + [
        f"field 'contrast': {shown(word)} is a word of neither sentence (write it as it stands there)"
        for word in strangers
    ]
    return pair, problems


def _explain(detail: ErrorDetails) -> str:
    """A pydantic error in the words of these files."""
    location, kind = detail["loc"], detail["type"]
    name = str(location[0])
    where = f"field '{name}'" + "".join(f", entry {index + 1}," for index in location[1:])
    if kind == "missing":
        return f"{where} is missing" + _because(name)
    if kind == "empty":
        return f"{where} is empty" + _because(name)
    if kind in ("nul", "surrogate"):
        return f"{where} {detail['msg']}"
    wanted = "a list of words" if kind == "list_type" else "a text in quotation marks"
    return f"{where}: {shown(detail['input'])} is not {wanted}"


def _because(name: str) -> str:
    return {
        "positive": " (a pair needs both sides)",
        "negative": " (a pair needs both sides)",
        "id": " (results are listed by it)",
        "group": " (the split is stratified by it)",
    }.get(name, "")


def _repeated_id(pair_id: Any, number: int, first_line: dict[str, int]) -> list[str]:
    if not isinstance(pair_id, str) or not pair_id.strip():
        return []
    first = first_line.setdefault(pair_id, number)
    return [] if first == number else [f"field 'id': {shown(pair_id)} is already the id of line {first}"]


def _whole_file(objects: list[dict[str, Any]], faulty: bool) -> list[str]:
    """Faults that no single line has: nothing in the file, or one class in all of it."""
    if not objects:
        return [] if faulty else ["no pairs in the file (one JSON object a line)"]
    empty = [
        side for side in ("positive", "negative") if not any(str(o.get(side) or "").strip() for o in objects)
    ]
    same = all(o.get("positive") == o.get("negative") for o in objects)
    if len(empty) == 1:
        return [f"only one class: no pair has a '{empty[0]}' sentence (a probe needs both classes)"]
    if same and not empty:
        return ["only one class: in every pair both sentences are the same (a probe needs both classes)"]
    return []
