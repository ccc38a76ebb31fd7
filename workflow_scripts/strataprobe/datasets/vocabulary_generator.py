"""The stimuli of a vocabulary of operators, from its design and a file of sentence templates.

Every template shows every word once, with the same names as arguments, so that the texts of a template differ
in the word alone (and, in calls, in how many arguments are printed). A template's arguments are a function of
the seed and its own place, so a longer list of templates begins with the stimuli of the shorter one.

    python -m strataprobe.datasets.vocabulary_generator DESIGN TEMPLATES OUT

with `operators_design.json` and `operators_templates.json` writes the shipped set anew.

Source: lucky-defaults paper, section 4, for this project's own sentences.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from strataprobe.datasets.control_generator import write
from strataprobe.datasets.jsonl import Text, shown
from strataprobe.datasets.lexemes import keyed_draws
from strataprobe.datasets.vocabulary_design import read_design
from strataprobe.datasets.vocabulary_words import Design
from strataprobe.errors import DatasetError, listing
from strataprobe.files import read_json

SEED = 1729
SWAPPED = 20
"""How many call templates, from the first on, the argument-count control shows again."""

ARGUMENTS = {"binary": 2, "unary": 1}
"""How many arguments a call of a word on that side prints."""

# Of each list of templates: the letters its names begin with, and the place for the word.
_PLACES = {
    "mention": ("m", "{op}"),
    "mention_held_out": ("mh", "{op}"),
    "call": ("c", "{call}"),
    "call_held_out": ("ch", "{call}"),
}
_MENTIONED = ("operator-after", "sentence-final")
_CALLED = (*_MENTIONED, "first-arg", "close-paren")
# The anchors that a text of each notation has.
_ANCHORS = {"mention": _MENTIONED, "call": _CALLED, "call_swapped": _CALLED}


class Templates(BaseModel):
    """Sentences with a place for the word ({op}) or its call ({call}), and pairs of argument names."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    mention: list[Text]
    mention_held_out: list[Text]
    call: list[Text]
    call_held_out: list[Text]
    arguments: list[list[Text]]


def stimuli(design: Design, templates: Mapping[str, Any], seed: int) -> list[dict[str, Any]]:
    """Rows in the form that `vocabulary.read_vocabulary` reads.

    Args:
        design: of words on the sides "binary" and "unary", with the notations `mention`, `call` and
            `call_swapped`.
        templates: a `Templates` as it stands in JSON.
        seed: whole number of at least 0.

    Returns:
        template by template, all words of one together: `mention` and `call` of every word, `call_swapped`
        of every word on the first 20 call templates, then the held-out templates of both, classes alone.

    Raises:
        DatasetError: the design is of another kind, or the templates have faults; lists all.
    """
    try:
        known = Templates.model_validate(templates)
    except ValidationError as error:
        faults = [
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors(include_url=False)
        ]
        raise DatasetError(listing("templates of a vocabulary", faults)) from error
    if faults := _faults(design, known):
        raise DatasetError(listing("templates of a vocabulary", faults))
    parts = (
        ("mention", "mention", None),
        ("call", "call", None),
        ("call", "call_swapped", SWAPPED),
        ("mention_held_out", "mention", None),
        ("call_held_out", "call", None),
    )
    return [
        row
        for listed, notation, most in parts
        for number, sentence in enumerate(getattr(known, listed)[:most])
        for row in _shown(design, notation, listed, number, sentence, _arguments(known, listed, number, seed))
    ]


def _shown(
    design: Design, notation: str, listed: str, number: int, sentence: str, arguments: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """A template with each word in it; held-out templates with each class."""
    letters, place = _PLACES[listed]
    held_out = listed.endswith("held_out")
    swapped = dict(zip(design.sides, reversed(design.sides), strict=True))
    start = sentence.index(place)
    for word, own in (design.classes if held_out else design.words).items():
        printed = swapped[own.property] if notation == "call_swapped" else own.property
        call = f"{word}({', '.join(arguments[: ARGUMENTS[printed]])})"
        text = sentence.replace(place, word if place == "{op}" else call)
        spans = {
            "operator-after": (start, start + len(word)),
            "first-arg": (start + len(word) + 1, start + len(word) + 1 + len(arguments[0])),
            "close-paren": (start + len(call) - 1, start + len(call)),
            "sentence-final": (len(text) - 1, len(text)),
        }
        yield {
            "item": word,
            "class": word if word in design.classes else None,
            "property": own.property,
            "notation": notation,
            "template": f"{letters}{number + 1:02d}",
            "held_out": held_out,
            "text": text,
            "anchors": {name: list(spans[name]) for name in design.anchors[notation]},
        }


def _arguments(templates: Templates, listed: str, number: int, seed: int) -> Sequence[str]:
    """The argument names of a template: every pair comes once, in a drawn order, before any comes again."""
    block, place = divmod(number, len(templates.arguments))
    keys = keyed_draws(f"vocabulary: {listed}, block {block}", seed, len(templates.arguments))
    return templates.arguments[int(np.argsort(keys, kind="stable")[place])]


def _faults(design: Design, templates: Templates) -> list[str]:
    """A design that these notations are not made for, and templates that would give unusable stimuli."""
    faults = []
    if sorted(design.sides) != sorted(ARGUMENTS):
        faults.append(f"sides of the design: {', '.join(design.sides)}; {', '.join(ARGUMENTS)} are needed")
    for notation, anchors in _ANCHORS.items():
        strange = [name for name in design.anchors.get(notation, ()) if name not in anchors]
        faults += [f"notation {notation} of the design: there is no {name} in it" for name in strange]
        faults += [] if notation in design.anchors else [f"notation {notation} is missing in the design"]
    for listed, (_, place) in _PLACES.items():
        for number, sentence in enumerate(getattr(templates, listed), start=1):
            faults += [f"{listed}, {number}: {fault}" for fault in _sentence_faults(sentence, place)]
    uses = Counter(sentence for listed in _PLACES for sentence in getattr(templates, listed))
    faults += [f"{shown(sentence)} is listed {count} times" for sentence, count in uses.items() if count > 1]
    faults += [
        f"arguments, {number}: {shown(pair)} are not two different names"
        for number, pair in enumerate(templates.arguments, start=1)
        if len(pair) != 2 or len(set(pair)) != 2
    ]
    return faults + ([] if templates.arguments else ["arguments: none are listed"])


def _sentence_faults(sentence: str, place: str) -> list[str]:
    """Where the place stands, and what surrounds it: these decide which tokens a tokenizer can make."""
    if re.findall(r"\{[^}]*\}", sentence) != [place]:
        return [f"{place} must stand in it once, and no other place"]
    faults = []
    before, after = sentence.split(place)
    if not before.strip() or not before.endswith(" "):
        faults.append(f"{place} must follow a word and a space (at the start of a text its tokens differ)")
    # Many tokenizers have a piece for a parenthesis and the mark after it: its state would be another's.
    marks = (" ", ",") if place == "{op}" else (" ",)
    if not after.startswith(marks) or not re.search(r"\w", after):
        faults.append(f"{place} must be followed by {' or '.join(map(shown, marks))}, then by further words")
    if not sentence.endswith((".", "?")):
        faults.append("the last character must be a full stop or a question mark")
    return faults


if __name__ == "__main__":
    options = argparse.ArgumentParser(description="Write the stimuli of a vocabulary of operators.")
    for name in ("design", "templates", "out"):
        options.add_argument(name, type=Path)
    options.add_argument("--seed", type=int, default=SEED)
    given = options.parse_args()
    write(stimuli(read_design(given.design), read_json(given.templates), given.seed), given.out)
