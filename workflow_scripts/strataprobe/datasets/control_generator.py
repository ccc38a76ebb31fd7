"""More control items, from a lexicon of names, matrix verbs and embedded actions by language.

Item k is a function of the lexicon, the seed and k alone, so a longer set begins with the shorter one. Within
a pair the two sentences are alike but for the matrix verb, and sentences of one number say the same in every
language. Verbs go round in a cycle that the lexicon lists, in which both types of control have equally many
verbs, equally often; names, actions and times are drawn in turns, each once before any comes again.

    python -m strataprobe.datasets.control_generator

writes the shipped set anew.

Source: levels paper, section 3.1 (minimal pairs over control types), for this project's own sentences.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from string import Formatter
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from strataprobe.datasets.jsonl import Text
from strataprobe.datasets.lexemes import keyed_draws
from strataprobe.errors import DatasetError, listing
from strataprobe.files import atomic, read_json

SEED = 1729
PAIRS = 50
SHIPPED = Path(__file__).parents[3] / "resources/datasets"

Kind = Literal["subject", "object"]
TYPES: dict[Kind, tuple[str, str]] = {"subject": ("subj", "a"), "object": ("obj", "b")}
"""Who controls -> how ids call it, and the gold candidate: candidate a is the matrix subject."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Verbs(_Part):
    """A matrix verb of each type, and the frame both stand in."""

    frame: Text
    subject: Text
    object: Text


class Turn(_Part):
    """One step of the cycle: the verbs of each language, and which times suit them."""

    when: Text
    verbs: dict[str, Verbs]


class Action(_Part):
    """What is to be done: as an item's fields have it, and as the clause of the sentence, with {time}."""

    predicate: Text
    action: Text
    past: Text
    clause: Text


class Language(_Part):
    """Two lists of names, of which a sentence takes one each; times and frames by name; actions by key."""

    names: list[list[Text]]
    times: dict[str, Text]
    frames: dict[str, Text]
    actions: dict[str, Action]


class Lexicon(_Part):
    """Times by what they suit, the cycle of verbs, and the words of each language."""

    when: dict[str, list[Text]]
    cycle: list[Turn]
    languages: dict[str, Language]


def generate(lexicon: dict[str, Any], count: int, seed: int) -> list[dict[str, str]]:
    """Control items in the form that `control.read_control` reads.

    Args:
        lexicon: a `Lexicon` as it stands in JSON; docs/adding.md tells of each part.
        count: minimal pairs in each language, at least 0.
        seed: whole number of at least 0.

    Returns:
        2 x count x languages rows: by number, then language, subject control first.

    Raises:
        DatasetError: the lexicon lacks something, or its verbs are not matched between the types; lists all.
    """
    try:
        words = Lexicon.model_validate(lexicon)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)
        ]
        raise DatasetError(listing("lexicon of control items", faults)) from error
    if faults := _faults(words):
        raise DatasetError(listing("lexicon of control items", faults))
    return [
        row
        for number in range(count)
        for language in words.languages
        for row in _pair(words, language, number, seed)
    ]


def _pair(words: Lexicon, language: str, number: int, seed: int) -> list[dict[str, str]]:
    own = words.languages[language]
    turn = words.cycle[number % len(words.cycle)]
    # What is said is drawn for all languages at once, so that they translate each other.
    action = own.actions[_drawn(list(own.actions), number, seed, "actions")]
    time = own.times[_drawn(words.when[turn.when], number, seed, f"times {turn.when}")]
    a, b = (_drawn(names, number, seed, f"{language} names {place}") for place, names in enumerate(own.names))
    # Each list of names gives the subject in half of every block.
    if _place(number, len(own.names[0]), seed, f"{language} order") % 2:
        a, b = b, a
    verbs = turn.verbs[language]
    clause = action.clause.format(time=time)
    return [
        {
            "id": f"gen_{language}_{short}_{number + 1:04d}",
            "item_group": f"gen_{number + 1:04d}{short[0]}",
            "pair": f"gen_{number + 1:04d}",
            "language": language,
            "control_type": f"{kind}_control",
            "verb": getattr(verbs, kind),
            "predicate": action.predicate,
            "sentence": own.frames[verbs.frame].format(a=a, verb=getattr(verbs, kind), b=b, clause=clause),
            "candidate_a": a,
            "candidate_b": b,
            "gold": gold,
            "action": action.action,
            "past": action.past,
        }
        for kind, (short, gold) in TYPES.items()
    ]


def _drawn(choices: Sequence[str], number: int, seed: int, name: str) -> str:
    """The choice of this number: all come once, in an order of the block's own, before any comes again."""
    return choices[_place(number, len(choices), seed, name)]


def _place(number: int, size: int, seed: int, name: str) -> int:
    block, place = divmod(number, size)
    keys = keyed_draws(f"control items: {name}, block {block}", seed, size)
    return int(np.argsort(keys, kind="stable")[place])


def _faults(words: Lexicon) -> list[str]:
    """What a lexicon lacks, and verbs that are not matched between the types of control."""
    faults = [f"{part} is empty" for part in ("when", "cycle", "languages") if not getattr(words, part)] + [
        f"when.{name} is empty" for name, times in words.when.items() if not times
    ]
    faults += [
        f"cycle.{place}.when: {turn.when!r} is none of {', '.join(words.when)}"
        for place, turn in enumerate(words.cycle)
        if turn.when not in words.when
    ]
    for language, own in words.languages.items():
        faults += [f"languages.{language}.{fault}" for fault in _language_faults(words, language, own)]
    return faults


def _language_faults(words: Lexicon, language: str, own: Language) -> list[str]:
    faults = []
    if list(own.actions) != list(next(iter(words.languages.values())).actions) or not own.actions:
        faults.append("actions: these must be those of the other languages, in their order, and at least one")
    if len(own.names) != 2 or len(own.names[0]) != len(own.names[-1]) or not own.names[0]:
        faults.append("names: two lists of equally many names are needed")
    twice = [
        name for name, count in Counter(name for names in own.names for name in names).items() if count > 1
    ]
    faults += [f"names: {name!r} is listed twice" for name in twice]
    times = dict.fromkeys(time for listed in words.when.values() for time in listed)
    faults += [f"times: {time!r} is missing" for time in times if time not in own.times]
    faults += _place_faults({f"frames.{name}": text for name, text in own.frames.items()}, "a verb b clause")
    faults += _place_faults({f"actions.{key}.clause": one.clause for key, one in own.actions.items()}, "time")
    turns = [turn.verbs[language] for turn in words.cycle if language in turn.verbs]
    if len(turns) < len(words.cycle):
        faults.append("the cycle has turns without verbs of this language")
    missing = dict.fromkeys(turn.frame for turn in turns if turn.frame not in own.frames)
    faults += [f"frames: {frame!r} is missing" for frame in missing]
    return faults + _unmatched(turns)


def _place_faults(texts: dict[str, str], places: str) -> list[str]:
    """Texts that do not have each place once."""
    faults = []
    for name, text in texts.items():
        try:
            found = sorted(hole for _, hole, _, _ in Formatter().parse(text) if hole is not None)
        except ValueError:
            found = []
        if found != sorted(places.split()):
            wanted = ", ".join(f"{{{place}}}" for place in places.split())
            faults.append(f"{name}: {wanted} must stand in it, once each, and no other place")
    return faults


def _unmatched(turns: Sequence[Verbs]) -> list[str]:
    """With fewer verbs of one type, holding out a verb would mean another thing for each type."""
    uses = {kind: Counter(getattr(turn, kind) for turn in turns) for kind in TYPES}
    both = sorted(uses["subject"].keys() & uses["object"].keys())
    faults = [f"the cycle has {verb!r} for both types of control" for verb in both]
    counts = {kind: sorted(found.values(), reverse=True) for kind, found in uses.items()}
    if counts["subject"] != counts["object"]:
        faults.append(
            f"the cycle has verbs of subject control {counts['subject']} times, of object control "
            f"{counts['object']} times; these must be alike"
        )
    return faults


def write(rows: Sequence[dict[str, str]], path: Path) -> None:
    """Write items, one object a line."""
    with atomic(path) as place:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        place.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    made = generate(read_json(SHIPPED / "control_lexicon.json"), PAIRS, SEED)
    write(made, SHIPPED / "control_generated.jsonl")
