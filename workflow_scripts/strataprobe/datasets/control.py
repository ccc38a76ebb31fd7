"""Control items: two candidates for the understood subject of an embedded predicate, read and checked.

The same items serve behaviour, LM-head readout and probes. Their prompts stand in data: spelled out in each
item, as the authors' public files have them, or made from one file of frames by language (`frames`).

Source: levels paper, section 3.1 and appendix B; docs/adding.md for the fields.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from strataprobe.datasets.control_fields import ANCHORS, UNUSED, Fields, spelled_out, strangers, validated
from strataprobe.datasets.frames import Frames, Variant, read_frames, written_out
from strataprobe.datasets.jsonl import numbered_lines, parse_object, shown
from strataprobe.datasets.pairs import Items, Span
from strataprobe.errors import DatasetError, listing

# How the public benchmark numbers its items: en_subj_01 and en_obj_01 differ in the matrix verb alone.
_NUMBERED = re.compile(r"(?:.+_)?(?:subj|obj)_([^_]+)")


@dataclass(frozen=True)
class ControlItem:
    """One sentence with its candidates and every prompt it is asked with.

    Attributes:
        item_group: the sentence and its translations: what a bootstrap draws.
        pair: its minimal pair, within a language; None where it has none.
        spans: "a", "b", "v" -> characters [start, end) of both candidates and the predicate in the sentence.
        prompts: variant -> context and the continuation of each candidate; see `frames.VARIANTS`.
    """

    id: str
    item_group: str
    pair: str | None
    language: str
    control_type: str
    verb: str
    predicate: str
    sentence: str
    a: str
    b: str
    gold: str
    spans: Mapping[str, Span]
    prompts: Mapping[str, Variant]

    @property
    def subject_controls(self) -> bool:
        return self.control_type == "subject_control"


@dataclass(frozen=True)
class ControlDataset:
    """A file of control items that passed every check; `sha256` is that of all files they were read from."""

    name: str
    path: str
    controls: tuple[ControlItem, ...]
    sha256: str

    @cached_property
    def languages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item.language for item in self.controls))

    def items(self) -> Items:
        """The sentences for capture: label +1 where candidate a is gold, clusters are translation groups."""
        named = dict.fromkeys(item.item_group for item in self.controls)
        numbers = {group: number for number, group in enumerate(named)}
        return Items(
            ids=[item.id for item in self.controls],
            texts=[item.sentence for item in self.controls],
            labels=np.array([1 if item.gold == "a" else -1 for item in self.controls], dtype=np.int8),
            groups=[f"{item.language}:{item.control_type}" for item in self.controls],
            pairs=np.array([numbers[item.item_group] for item in self.controls], dtype=np.int32),
            anchors={name: [item.spans[name] for item in self.controls] for name in ANCHORS},
        )


def read_control(
    path: str | Path, name: str, *, frames: str | Path | None = None, fields: str | Path | None = None
) -> ControlDataset:
    """Read and check control items, one object a line.

    Args:
        path: the JSONL file; our fields, or those of the paper's public benchmark.
        frames: prompts by language (JSON); not needed where every item spells its prompts out.
        fields: a second JSONL file with further fields of the same items, by id: the public benchmark keeps
            what probes need apart from what prompts need.

    Raises:
        DatasetError: a file cannot be read, or has faults: a candidate or predicate that is not in its
            sentence, a language without prompts, contradicting gold fields ...; lists every fault with its
            file, line and field.
    """
    known = read_frames(frames) if frames is not None else Frames({}, "")
    content = _bytes(path, name)
    rows, faults = _objects(content, str(path))
    further = b""
    if fields is not None:
        further = _bytes(fields, name)
        faults += _add_fields(rows, further, str(fields))
    controls: dict[str, ControlItem] = {}
    for place, row in rows.items():
        item, problems = _item(row, known)
        faults += [f"{place}: {problem}" for problem in problems]
        if item is not None:
            controls[place] = item
    faults += _crowded(controls)
    if not rows and not faults:
        faults.append(f"{path}: no items in the file (one JSON object a line)")
    if faults:
        raise DatasetError(listing(f"dataset '{name}'", faults))
    return ControlDataset(
        name, str(path), _paired(list(controls.values())), _sha256(content, further, known.source)
    )


def _bytes(path: str | Path, name: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise DatasetError(f"dataset '{name}': cannot read {path}: {error.strerror or error}") from error


def _sha256(content: bytes, further: bytes, frames: str) -> str:
    """That of the items' file, or where others were read too, of all their checksums in a row."""
    digests = [hashlib.sha256(part) for part in (content, further, frames.encode("utf-8"))]
    if not further and not frames:
        return digests[0].hexdigest()
    return hashlib.sha256(b"".join(digest.digest() for digest in digests)).hexdigest()


def _objects(content: bytes, path: str) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """The object of each line by its place, "file:line", and what is wrong with the lines."""
    rows, faults = {}, []
    first: dict[str, int] = {}
    for number, line in numbered_lines(content):
        parsed, problems = parse_object(line)
        if parsed is not None:
            rows[f"{path}:{number}"] = parsed
            problems += strangers(parsed)
            own = parsed.get("id")
            if isinstance(own, str) and first.setdefault(own, number) != number:
                problems.append(f"field 'id': {shown(own)} is already the id of line {first[own]}")
        faults += [f"{path}:{number}: {problem}" for problem in problems]
    return rows, faults


def _add_fields(rows: dict[str, dict[str, Any]], content: bytes, path: str) -> list[str]:
    """Add the fields that a second file has of the same items."""
    more, faults = _objects(content, path)
    by_id = {row["id"]: (place, row) for place, row in more.items() if isinstance(row.get("id"), str)}
    for place, row in rows.items():
        own = row.get("id")
        if not isinstance(own, str):
            continue  # said where the item is checked
        if own not in by_id:
            faults.append(f"{place}: item {shown(own)} is not in {path}")
            continue
        other, added = by_id[own]
        faults += [
            f"{place}: field '{name}' is {shown(row[name])} here and {shown(added[name])} at {other}"
            for name in row
            if name in added and added[name] != row[name] and name not in UNUSED
        ]
        row.update({name: value for name, value in added.items() if name not in row})
    return faults


def _item(row: Mapping[str, Any], frames: Frames) -> tuple[ControlItem | None, list[str]]:
    fields, spans, problems = validated(row)
    if fields is None:
        return None, problems
    prompts, lacking = written_out(fields, frames, spelled_out(fields))
    problems += lacking
    return (None if problems else _made(fields, spans, prompts)), problems


def _made(fields: Fields, spans: Mapping[str, Span], prompts: Mapping[str, Variant]) -> ControlItem:
    return ControlItem(
        id=fields.id,
        # The public benchmark numbers translations alike: en_subj_01, zh_subj_01.
        item_group=fields.item_group or fields.id.removeprefix(f"{fields.language}_"),
        pair=fields.pair,
        language=fields.language,
        control_type=fields.control_type,
        verb=fields.verb,
        predicate=fields.predicate,
        sentence=fields.sentence,
        a=fields.candidate_a,
        b=fields.candidate_b,
        gold=fields.gold,
        spans=spans,
        prompts=prompts,
    )


def _crowded(controls: Mapping[str, ControlItem]) -> list[str]:
    """Pairs named by the file that hold two items of one type: "both right" would mean nothing there."""
    members = Counter(
        (item.language, item.pair, item.control_type) for item in controls.values() if item.pair is not None
    )
    return [
        f"{place}: pair {shown(item.pair)} has {count} {item.control_type} items in language "
        f"{shown(item.language)} (a minimal pair is one of each type)"
        for place, item in controls.items()
        if (count := members[item.language, item.pair, item.control_type]) > 1
    ]


def _paired(controls: Sequence[ControlItem]) -> tuple[ControlItem, ...]:
    """Minimal pairs where the file names none, from numbers as the public benchmark has them.

    Two items are one if they have the same language, number and candidates, and one is of each type.
    """
    if any(item.pair is not None for item in controls):
        return tuple(controls)
    types: dict[Any, list[str]] = {}
    for item in controls:
        types.setdefault(_key(item), []).append(item.control_type)
    whole = {key for key, found in types.items() if sorted(found) == ["object_control", "subject_control"]}
    return tuple(replace(item, pair=_key(item)[1]) if _key(item) in whole else item for item in controls)


def _key(item: ControlItem) -> tuple[str, str | None, str, str]:
    number = _NUMBERED.fullmatch(item.id)
    return item.language, number[1] if number else None, item.a, item.b
