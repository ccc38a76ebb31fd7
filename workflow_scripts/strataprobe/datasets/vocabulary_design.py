"""Reading the design of a vocabulary study: one JSON file, checked before any stimulus is.

The words of its readouts are classes; its invented words are met in tests alone. Every word stands on one of
the two sides of one property.

Source: lucky-defaults paper, section 4; resources/datasets/README.md for the fields.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from strataprobe.datasets.jsonl import Text, shown, unknown_field
from strataprobe.datasets.vocabulary_words import Design, Scope, Word, piece_bounds
from strataprobe.errors import DatasetError, listing

_NAMES = TypeAdapter(list[Text], config=ConfigDict(strict=True))
# What a value should have been, in the words of the messages.
_WANTED = {"dict_type": "an object", "list_type": "a list", "string_type": "a text in quotation marks"}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Word(_Part):
    property: Text
    pieces: Text


class _Scope(_Part):
    classes: list[Text]
    items: list[Text]


class _File(_Part):
    property: Text
    sides: list[Text]
    classes: dict[str, Any]
    invented: dict[str, Any]
    scopes: dict[str, Any]
    anchors: dict[str, Any]
    directions: list[Any]
    controls: dict[str, Any] = Field(default_factory=dict)


def read_design(path: str | Path) -> Design:
    """Read and check the design of a vocabulary study.

    Raises:
        DatasetError: the file cannot be read, or has faults: a class without a side, a readout or a set of
            items on one side alone, words or notations that are not there, readouts that are not nested,
            unknown keys ...; lists every fault with its place in the file, and what would be right.
    """
    content, read, twice = _object(path)
    reading = _Reading(read, [f"{shown(name)} is given twice in one object" for name in twice])
    design = reading.design(hashlib.sha256(content).hexdigest())
    if reading.faults:
        raise DatasetError(listing(f"design {path}", reading.faults))
    return design


def _object(path: str | Path) -> tuple[bytes, dict[str, Any], list[str]]:
    """The file's bytes, the object in it, and names that one of its objects has twice."""
    twice: list[str] = []

    def unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in members]
        twice.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(members)

    try:
        content = Path(path).read_bytes()
        read = json.loads(content.decode("utf-8-sig"), object_pairs_hook=unique)
        # Half of a surrogate pair can be written in JSON, but neither be shown nor be anybody's word.
        json.dumps(read, ensure_ascii=False).encode("utf-8")
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise DatasetError(f"cannot read the design {path}: {reason or error}") from error
    if not isinstance(read, dict):
        raise DatasetError(f"cannot read the design {path}: {shown(read)} is not an object")
    return content, read, twice


@dataclass
class _Reading:
    """One file being read: whatever is sound is read on, so that one fault hides no other."""

    read: dict[str, Any]
    faults: list[str] = field(default_factory=list)
    sides: tuple[str, ...] = ()

    def design(self, sha256: str) -> Design:
        """The design, as far as it is sound."""
        top = self._sound("", _File, self.read)
        if "sides" in top:
            self._require(len(set(top["sides"])) == len(top["sides"]) == 2,
                      f"sides: {shown(top['sides'])} are not two different names")  # fmt: skip
            self.sides = tuple(dict.fromkeys(top["sides"]))
        classes, invented = self._words("classes", top), self._words("invented", top)
        for name in invented:
            self._require(name not in classes, f"invented.{name}: is a class too, and classes are trained on")
        anchors = self._anchors(top.get("anchors", {}))
        return Design(
            property=top.get("property", ""),
            sides=self.sides,
            classes=classes,
            invented=invented,
            scopes=self._scopes(top.get("scopes", {}), {"classes": classes, "items": invented}),
            anchors=anchors,
            directions=self._directions(top.get("directions", []), list(anchors)),
            controls=self._controls(top.get("controls", {}), anchors),
            sha256=sha256,
        )

    def _require(self, sound: bool, fault: str) -> None:
        self.faults += [] if sound else [fault]

    def _sound(self, place: str, model: type[BaseModel], value: Any) -> dict[str, Any]:
        """The fields of an object that are as they should be; the others are faults."""
        if not isinstance(value, dict):
            self.faults.append(f"{place}: {shown(value)} is not an object")
            return {}
        known, start = list(model.model_fields), f"{place}: " if place else ""
        self.faults += [f"{start}{unknown_field(name, known, 'key')}" for name in value if name not in known]
        sound = {name: value[name] for name in known if name in value}
        try:
            model.model_validate(sound)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                name, *entry = detail["loc"]
                where = f"{start}key '{name}'" + "".join(f", entry {one + 1}," for one in entry)
                self.faults.append(f"{where} {_said(detail, model)}")
                sound.pop(name, None)
        for name in sound:
            empty = isinstance(sound[name], dict | list) and not sound[name] and name != "controls"
            self._require(not empty, f"{start}key '{name}' is empty")
        return sound

    def _words(self, key: str, top: Mapping[str, Any]) -> dict[str, Word]:
        words = {}
        for name, value in top.get(key, {}).items():
            place = f"{key}.{name}"
            sound = self._sound(place, _Word, value)
            if self.sides and sound.get("property", self.sides[0]) not in self.sides:
                side = sound.pop("property")
                self.faults.append(f"{place}.property: {shown(side)} is not one of {self._both()}")
            try:
                piece_bounds(sound.get("pieces", "1"))
            except ValueError as error:
                self.faults.append(f"{place}.pieces: {error}")
            # A faulty word stays known by its name, so that nobody is told that it is unknown.
            words[name] = Word(sound.get("property", ""), sound.get("pieces", "1"))
        self._two_sided(key, [word.property for word in words.values()])
        return words

    def _two_sided(self, place: str, found: Sequence[str]) -> None:
        """Words of both sides must be there; words whose own side is a fault are not counted against it."""
        one_sided = bool(found) and "" not in found and len(set(found)) == 1
        self._require(
            not one_sided or len(self.sides) < 2,
            f"{place}: every word is {shown(found[0] if found else '')}; "
            f"words of both sides, {self._both()}, are needed",
        )

    def _both(self) -> str:
        return " and ".join(shown(side) for side in self.sides)

    def _scopes(self, read: Mapping[str, Any], words: Mapping[str, Mapping[str, Word]]) -> dict[str, Scope]:
        scopes = {}
        for name, value in read.items():
            sound = self._sound(f"scopes.{name}", _Scope, value)
            for key in sound:
                self._listed(f"scopes.{name}.{key}", sound[key], words[key])
            scopes[name] = Scope(tuple(sound.get("classes", ())), tuple(sound.get("items", ())))
        for (before, small), (name, large) in pairwise(scopes.items()):
            for key in words:
                inside = getattr(large, key)
                left_out = [word for word in getattr(small, key) if word not in inside]
                self._require(
                    not left_out or not inside,
                    f"scopes.{name}.{key}: {', '.join(left_out)} of scope {shown(before)} should be there "
                    "too (each scope contains those before it)",
                )
        return scopes

    def _listed(self, place: str, words: Sequence[str], known: Mapping[str, Word]) -> None:
        """Words of a scope: each known, each once, both sides among them."""
        for word in dict.fromkeys(words):
            self._require(word in known or not known, f"{place}: {unknown_field(word, list(known), 'word')}")
            self._require(words.count(word) == 1, f"{place}: {shown(word)} is listed twice")
        self._two_sided(place, [known[word].property if word in known else "" for word in words])

    def _anchors(self, read: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
        anchors = {notation: self._names(f"anchors.{notation}", value) for notation, value in read.items()}
        for notation, names in anchors.items():
            self._require(len(set(names)) == len(names), f"anchors.{notation}: a name is listed twice")
        return anchors

    def _directions(self, read: Sequence[Any], notations: Sequence[str]) -> tuple[tuple[str, str], ...]:
        found = []
        for number, value in enumerate(read, start=1):
            place = f"key 'directions', entry {number}"
            names = self._names(place, value)
            self._known(place, names, notations)
            self._require(names not in found, f"{place}: {shown(value)} is listed twice")
            self._require(
                not names or len(set(names)) == len(names) == 2,
                f"{place}: {shown(value)} should be the notation trained on and another one, tested in",
            )
            found += [names] if names else []
        return tuple(names for names in found if len(names) == 2)

    def _controls(self, read: Mapping[str, Any], anchors: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        for notation, value in read.items():
            place = f"controls.{notation}"
            if not isinstance(value, str):
                self.faults.append(f"{place}: {shown(value)} should be the name of a notation")
                continue
            self._known(place, [notation, value], list(anchors))
            self._require(value != notation, f"{place}: a notation is no control of itself")
            lacking = [name for name in anchors.get(notation, ()) if name not in anchors.get(value, (name,))]
            self._require(not lacking, f"{place}: {shown(value)} lacks the anchors {', '.join(lacking)}")
        return dict(read)

    def _known(self, place: str, names: Sequence[str], notations: Sequence[str]) -> None:
        for name in names:
            self._require(
                name in notations or not notations, f"{place}: {unknown_field(name, notations, 'notation')}"
            )

    def _names(self, place: str, value: Any) -> tuple[str, ...]:
        """A list of names, or none where it is anything else."""
        try:
            names = tuple(_NAMES.validate_python(value))
        except ValidationError:
            names = ()
        self._require(bool(names), f"{place}: {shown(value)} should be a list of names in quotation marks")
        return names


def _said(detail: Any, model: type[BaseModel]) -> str:
    """A pydantic error in the words of these files."""
    if detail["type"] == "missing":
        side = model is _Word and detail["loc"] == ("property",)
        return "is missing" + (" (every word needs a side)" if side else "")
    wanted = _WANTED.get(detail["type"])
    return f"is {shown(detail['input'])}, not {wanted}" if wanted else detail["msg"]
