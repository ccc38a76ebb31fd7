"""One stimulus of a vocabulary: its fields, its anchors, and what is wrong with either."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from strataprobe.datasets.jsonl import Text, shown, unknown_field
from strataprobe.datasets.pairs import Span
from strataprobe.datasets.vocabulary_words import Design


@dataclass(frozen=True)
class Stimulus:
    """One text in which a word stands.

    Attributes:
        id: "{notation}:{template}:{item}".
        item: the word.
        canonical: whether it is a class of the readout; else it is an invented word.
        property: the side that the design puts the word on, whatever the text shows.
        held_out: whether its template is met in the leakage check alone.
        anchors: position -> characters [start, end) in the text.
    """

    id: str
    item: str
    canonical: bool
    property: str
    notation: str
    template: str
    held_out: bool
    text: str
    anchors: Mapping[str, Span]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    item: Text
    class_: Text | None = Field(alias="class")
    property: Text
    notation: Text
    template: Text
    held_out: bool
    text: Text
    anchors: dict


FIELDS = tuple(field.alias or name for name, field in _Row.model_fields.items())
_WANTED = {
    "class": "a text in quotation marks or null",
    "held_out": "true or false",
    "anchors": 'an object such as {"operator-after": [9, 12]}',
}


def sound_fields(row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The fields of a row that are of the right type, and a line for each that is not."""
    faults = [unknown_field(name, FIELDS) for name in row if name not in FIELDS]
    sound = {name: row[name] for name in FIELDS if name in row}
    try:
        _Row.model_validate(sound)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            name, kind = str(detail["loc"][0]), detail["type"]
            if kind == "missing":
                said = " is missing" + (" (null for an invented word)" if name == "class" else "")
            elif kind in ("empty", "nul", "surrogate"):
                said = f" {detail['msg']}"
            else:
                wanted = _WANTED.get(name, "a text in quotation marks")
                said = f": {shown(detail['input'])} is not {wanted}"
            faults.append(f"field '{name}'{said}")
            sound.pop(name, None)
    return sound, faults


def against_design(sound: Mapping[str, Any], design: Design) -> list[str]:
    """Where the fields of a row contradict the design; fields that are not there are passed over."""
    return [*_word_faults(sound, design), *_anchor_faults(sound, design)]


def stimulus(sound: Mapping[str, Any]) -> Stimulus:
    """The stimulus of a row that has no fault."""
    return Stimulus(
        id=f"{sound['notation']}:{sound['template']}:{sound['item']}",
        item=sound["item"],
        canonical=sound["class"] is not None,
        property=sound["property"],
        notation=sound["notation"],
        template=sound["template"],
        held_out=sound["held_out"],
        text=sound["text"],
        anchors={name: (start, end) for name, (start, end) in sound["anchors"].items()},
    )


def _word_faults(sound: Mapping[str, Any], design: Design) -> list[str]:
    faults = []
    item, named = sound.get("item"), sound.get("class")
    if item is not None and item not in design.words:
        faults.append(f"field 'item': {unknown_field(item, list(design.words), 'word')}")
    if named is not None and named not in design.classes:
        faults.append(
            f"field 'class': {shown(named)} is no class of the design; "
            f"the classes are {', '.join(design.classes)}"
        )
    elif named is not None and item is not None and named != item:
        faults.append(
            f"field 'class': {shown(named)} contradicts item {shown(item)} (a word is its own class)"
        )
    if "class" in sound and named is None and item in design.classes:
        faults.append(f"field 'class' is null, but item {shown(item)} is a class of the design")
    side = sound.get("property")
    if side is not None and item in design.words and side != design.words[item].property:
        faults.append(
            f"field 'property': {shown(side)} contradicts the design, "
            f"where {shown(item)} is {shown(design.words[item].property)}"
        )
    if sound.get("held_out") and item in design.invented:
        faults.append(
            f"field 'held_out' is true, but {shown(item)} is invented; held-out rows are of classes"
        )
    return faults


def _anchor_faults(sound: Mapping[str, Any], design: Design) -> list[str]:
    notation = sound.get("notation")
    if notation is not None and notation not in design.anchors:
        return [f"field 'notation': {unknown_field(notation, list(design.anchors), 'notation')}"]
    if notation is None or "anchors" not in sound:
        return []
    wanted, given = design.anchors[notation], sound["anchors"]
    faults = [unknown_field(name, wanted, "anchor") for name in given if name not in wanted]
    faults += [
        f"anchor {shown(name)} of notation {shown(notation)} is missing"
        for name in wanted
        if name not in given
    ]
    for name in wanted:
        if name in given:
            faults += _span_faults(name, given[name], sound.get("text"), sound.get("item"))
    return [f"field 'anchors': {fault}" for fault in faults]


def _span_faults(name: str, span: Any, text: str | None, item: str | None) -> list[str]:
    """What is wrong with one anchor: as a span, in its text, or by what it covers."""
    whole = isinstance(span, list) and len(span) == 2 and all(type(place) is int for place in span)
    if not whole or span[0] >= span[1]:
        return [f"{shown(name)}: {shown(span)} is not [start, end) in characters, start before end"]
    start, end = span
    if text is None:
        return []
    if start < 0 or end > len(text):
        return [f"{shown(name)}: [{start}, {end}) leaves the text of {len(text)} characters"]
    covered = text[start:end]
    if name == "operator-after" and item is not None and covered != item:
        return [f"{shown(name)} covers {shown(covered)}; it should cover the item {shown(item)}"]
    if name == "close-paren" and covered != ")":
        return [f"{shown(name)} covers {shown(covered)}; it should cover the closing parenthesis"]
    if name == "sentence-final" and end != len(text):
        return [f"{shown(name)} covers {shown(covered)}; it should end where the text of {len(text)} does"]
    return []
