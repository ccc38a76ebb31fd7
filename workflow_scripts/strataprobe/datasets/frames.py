"""Prompts of control items: frames by language, and what an item's frames come to, written out.

A frame is a text with places in braces: {sentence}, {c} (the candidate that is scored), {first} and {second}
(both candidates in the order shown), {action} (bare phrase), {past} (finite phrase), {label}.

Source: levels paper, section 3.2, appendices B and F; worded for this project.
"""

import json
import string
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from strataprobe.datasets.jsonl import shown, unknown_field
from strataprobe.errors import DatasetError, listing

TASKS = ("qa", "paraphrase", "statement")
"""Prompts scored by their continuations: a question, an interpretation, and no task at all."""
ORDERED = ("forced_choice", "label_choice")
"""Prompts that list both options, asked in both orders: `{name}:ab` shows candidate a first."""
LABELLED = "label_choice"
CONTRASTIVE = "contrastive"
UNCONDITIONAL = "unconditional"

VARIANTS = (
    *TASKS,
    *(f"{name}:{order}" for name in ORDERED for order in ("ab", "ba")),
    CONTRASTIVE,
    *(f"{name}:{UNCONDITIONAL}" for name in TASKS),
)

PARTS = ("prompt", "continuation")
_PLACES = {
    "prompt": ("sentence", "first", "second", "action", "past"),
    "continuation": ("c", "action", "past", "label"),
}
_OPTIONAL = ("action", "past")
"""Places filled by fields that an item may lack."""


class Variant(NamedTuple):
    """A context, and what continues it for each candidate."""

    prompt: str
    a: str
    b: str


@dataclass(frozen=True)
class Frames:
    """Frames by language and name; `source` is the file's own text."""

    by_language: Mapping[str, Mapping[str, Any]]
    source: str


def read_frames(path: str | Path) -> Frames:
    """Read a file of frames: {language: {name: {"prompt": ..., "continuation": ...}}}.

    Names are those of `TASKS` and `ORDERED` and "contrastive"; "unconditional" holds frames for the tasks
    once more, without the sentence. "label_choice" has two "labels" besides.

    Raises:
        DatasetError: the file cannot be read; a name, part or place is unknown or missing; or a frame would
            score both candidates alike. Lists all.
    """
    twice: list[str] = []

    def unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in members]
        twice.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(members)

    try:
        source = Path(path).read_text(encoding="utf-8")
        read = json.loads(source, object_pairs_hook=unique)
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError(f"cannot read the prompts {path}: {error}") from error
    if not isinstance(read, dict):
        raise DatasetError(f"{path}: prompts are an object by language, this is {shown(read)}")
    faults = [f"{shown(name)} is given twice in one object" for name in twice]
    faults += [fault for language, own in read.items() for fault in _faults(language, own)]
    if not read:
        faults.append("no language has prompts")
    if faults:
        raise DatasetError(listing(f"prompts {path}", faults))
    return Frames(read, source)


def _faults(language: str, own: Any) -> list[str]:
    if not isinstance(own, dict):
        return [f"{language}: {shown(own)} is not an object of frames"]
    faults = _language_faults(language, own, (*TASKS, *ORDERED, CONTRASTIVE, UNCONDITIONAL))
    without = own.get(UNCONDITIONAL, {})
    if not isinstance(without, dict):
        return [*faults, f"{language}.{UNCONDITIONAL}: {shown(without)} is not an object of frames"]
    faults += _language_faults(f"{language}.{UNCONDITIONAL}", without, TASKS)
    for name, frame in own.items():
        if name in (*TASKS, *ORDERED, CONTRASTIVE):
            faults += _frame_faults(f"{language}.{name}", frame, name, conditional=True)
    for name, frame in without.items():
        if name in TASKS:
            faults += _frame_faults(f"{language}.{UNCONDITIONAL}.{name}", frame, name, conditional=False)
    return faults


def _language_faults(place: str, own: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    return [f"{place}: {unknown_field(name, names, 'prompt')}" for name in own if name not in names]


def _frame_faults(place: str, frame: Any, name: str, *, conditional: bool) -> list[str]:
    """What is wrong with the parts of one frame."""
    if not isinstance(frame, dict):
        return [f"{place}: {shown(frame)} is not an object with a prompt and a continuation"]
    parts = (*PARTS, "labels") if name == LABELLED else PARTS
    faults = [f"{place}: {unknown_field(part, parts)}" for part in frame if part not in parts]
    for part in PARTS:
        text = frame.get(part)
        if not isinstance(text, str) or not text.strip():
            faults.append(f"{place}.{part} is missing, empty, or not a text")
            continue
        try:
            holes = list(_holes(text))
        except ValueError as error:
            faults.append(f"{place}.{part}: {error} (write {{{{ or }}}} for a brace that is no place)")
            continue
        faults += _place_faults(f"{place}.{part}", holes, _PLACES[part], _needed(part, name, conditional))
        if part == "prompt" and not conditional and "sentence" in holes:
            faults.append(f"{place}.{part}: {{sentence}} has no place where its effect is to be taken off")
        if part == "continuation" and name != LABELLED and "label" in holes:
            faults.append(f"{place}.{part}: {{label}} is of {LABELLED} alone")
    return faults + (_label_faults(place, frame) if name == LABELLED else [])


def _needed(part: str, name: str, conditional: bool) -> tuple[str, ...]:
    """The places without which a part would not ask what it is for."""
    if part == "continuation":
        return ("label",) if name == LABELLED else ("c",)
    return (*(("sentence",) if conditional else ()), *(("first", "second") if name in ORDERED else ()))


def _place_faults(
    place: str, holes: list[str], allowed: tuple[str, ...], needed: tuple[str, ...]
) -> list[str]:
    known = ", ".join(allowed)
    strange = [hole for hole in dict.fromkeys(holes) if hole not in allowed]
    return [
        *(f"{place}: there is nothing to put at {{{hole}}}; known are {known}" for hole in strange),
        *(f"{place}: {{{hole}}} is missing" for hole in needed if hole not in holes),
    ]


def _label_faults(place: str, frame: Mapping[str, Any]) -> list[str]:
    labels = frame.get("labels")
    sound = (
        isinstance(labels, list) and len(labels) == 2 and all(isinstance(one, str) and one for one in labels)
    )
    if sound and labels[0] != labels[1]:
        return []
    return [f"{place}.labels: two different texts are needed, this is {shown(labels)}"]


def _holes(text: str) -> Iterator[str]:
    """The names in braces, with whatever else stands in them: a place is a name and no more."""
    for _, hole, spec, conversion in string.Formatter().parse(text):
        if hole is not None:
            yield hole + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")


def written_out(
    fields: Any, frames: Frames, spelled: Mapping[str, Variant]
) -> tuple[dict[str, Variant], list[str]]:
    """Every variant an item can be asked with: spelled out in itself, else from its language's frames.

    Args:
        fields: the item's `control_fields.Fields`.
        spelled: the prompts that the item spells out.

    Returns:
        variant -> texts; and a line for each fault: no prompts for its language, or a frame that asks for
        what the item does not say.
    """
    own = frames.by_language.get(fields.language, {})
    if not own and not spelled:
        known = ", ".join(frames.by_language) or "none"
        return {}, [
            f"there are no prompts for language {shown(fields.language)} (prompts are given for: {known})"
        ]
    found = dict(spelled)
    lacking: dict[str, list[str]] = {}
    for variant in VARIANTS:
        name, _, extra = variant.partition(":")
        frame = own.get(UNCONDITIONAL, {}).get(name) if extra == UNCONDITIONAL else own.get(name)
        if variant in found or frame is None:
            continue
        # Where the item spells a task out, its unconditional score is that of the same continuations.
        given = spelled.get(name) if extra == UNCONDITIONAL else None
        missing = _missing(fields, frame, PARTS[:1] if given else PARTS)
        for hole in missing:
            lacking.setdefault(hole, []).append(variant)
        if not missing:
            found[variant] = _variant(frame, fields, extra, given)
    # An item of the public benchmark has no {past}: it spells the prompt that needs it out.
    faults = [
        f"field '{hole}' is missing; the prompts {', '.join(names)} ask for it"
        for hole, names in lacking.items()
        if not spelled
    ]
    return {name: found[name] for name in VARIANTS if name in found}, faults


def _missing(fields: Any, frame: Mapping[str, Any], parts: tuple[str, ...]) -> list[str]:
    """Places of a frame that the item says nothing for."""
    asked = {hole for part in parts for hole in _holes(frame[part])}
    return [hole for hole in _OPTIONAL if hole in asked and getattr(fields, hole) is None]


def _variant(frame: Mapping[str, Any], fields: Any, extra: str, given: Variant | None) -> Variant:
    """A frame filled for an item; `extra` is the order in which the candidates are shown, if it matters."""
    order = "ba" if extra == "ba" else "ab"
    candidates = {"a": fields.candidate_a, "b": fields.candidate_b}
    shared = {"action": fields.action, "past": fields.past}
    prompt = frame["prompt"].format(
        sentence=fields.sentence, first=candidates[order[0]], second=candidates[order[1]], **shared
    )
    if given is not None:
        return Variant(prompt, given.a, given.b)
    labels = dict(zip(order, frame.get("labels", ("", "")), strict=True))
    a, b = (frame["continuation"].format(c=candidates[one], label=labels[one], **shared) for one in "ab")
    return Variant(prompt, a, b)
