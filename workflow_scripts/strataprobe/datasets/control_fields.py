"""Fields of a control item: ours, the public benchmark's names for them, and what is wrong with a row.

Source: levels paper, section 3.1, appendix B; docs/adding.md for what each field means.
"""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from strataprobe.datasets.frames import Variant
from strataprobe.datasets.jsonl import Text, shown, unknown_field
from strataprobe.datasets.pairs import Span, word_starts

ANCHORS = ("a", "b", "v")
"""Positions at which a control item's states are taken: both candidates and the embedded predicate."""

# The public benchmark's names of our fields, its fields that repeat one of ours, and those no measure needs.
PUBLIC = {
    "gold_label": "gold",
    "matrix_predicate": "verb",
    "lower_predicate": "predicate",
    "action_phrase": "action",
}
_REPEATED = ("gold_host", "controller_label")
UNUSED = (
    "phenomenon",
    "source",
    "question",
    "note",
    "split",
    "action_phrase_hint",
    "bare_prompt_labelled",
)
# A prompt that an item spells out, and its two continuations.
_SPELLED = {
    "qa": ("qa_prompt", "qa_answer_a", "qa_answer_b"),
    "paraphrase": ("paraphrase_prompt", "paraphrase_a", "paraphrase_b"),
    "statement": ("bare_prompt", "bare_a", "bare_b"),
}


class Fields(BaseModel):
    """What an item must say, and what it may say."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: Text
    language: Text
    control_type: Literal["subject_control", "object_control"]
    sentence: Text
    candidate_a: Text
    candidate_b: Text
    gold: Literal["a", "b"]
    verb: Text
    predicate: Text
    item_group: Text | None = None
    pair: Text | None = None
    action: Text | None = None
    past: Text | None = None
    qa_prompt: Text | None = None
    qa_answer_a: Text | None = None
    qa_answer_b: Text | None = None
    paraphrase_prompt: Text | None = None
    paraphrase_a: Text | None = None
    paraphrase_b: Text | None = None
    bare_prompt: Text | None = None
    bare_a: Text | None = None
    bare_b: Text | None = None


KNOWN = tuple(sorted({*Fields.model_fields, *PUBLIC, *_REPEATED, *UNUSED}))


def strangers(row: Mapping[str, Any]) -> list[str]:
    """A line for each field that nobody reads."""
    return [unknown_field(name, KNOWN) for name in row if name not in KNOWN]


def validated(row: Mapping[str, Any]) -> tuple[Fields | None, dict[str, Span], list[str]]:
    """The fields of a row, where its anchors stand, and what is wrong with it.

    Every check that the sound fields allow is made, so that one faulty field hides no other. Fields that
    nobody knows are left to `strangers`.

    Returns:
        the fields, or None where one is faulty; anchor -> characters [start, end) in the sentence; a line for
        each fault.
    """
    ours, faults = _renamed(row)
    fields = None
    try:
        fields = Fields.model_validate(ours)
    except ValidationError as error:
        details = error.errors(include_url=False)
        faults += [_explained(detail) for detail in details]
        faulty = {detail["loc"][0] for detail in details}
        ours = {name: value for name, value in ours.items() if name not in faulty}
    spans, missing = _spans(ours)
    faults += [*_contradictions(ours, row), *missing, *_halves(ours)]
    return fields, spans, faults


def spelled_out(fields: Fields) -> dict[str, Variant]:
    """The prompts that an item spells out itself, as those of the public benchmark do."""
    given = {variant: [getattr(fields, name) for name in names] for variant, names in _SPELLED.items()}
    return {variant: Variant(*texts) for variant, texts in given.items() if None not in texts}


def _renamed(row: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The row under our names; a field given under both names must say the same."""
    ours: dict[str, Any] = {}
    faults = []
    for name, value in row.items():
        own = PUBLIC.get(name, name)
        if own not in Fields.model_fields:
            continue
        if own in ours and ours[own] != value:
            other = next(o for o in row if o != name and PUBLIC.get(o, o) == own)
            faults.append(
                f"fields '{other}' and '{name}' contradict each other: {shown(ours[own])} and {shown(value)}"
            )
        ours.setdefault(own, value)
    return ours, faults


def _contradictions(ours: Mapping[str, Any], row: Mapping[str, Any]) -> list[str]:
    """Fields that say the same thing twice must agree, and the candidates must not."""
    faults = []
    gold = ours.get("gold")
    candidates = [ours.get("candidate_a"), ours.get("candidate_b")]
    if None not in candidates and candidates[0] == candidates[1]:
        faults.append(f"both candidates are {shown(candidates[0])}; they must differ")
    host = ours.get(f"candidate_{gold}")
    if host is not None and row.get("gold_host", host) != host:
        faults.append(f"field 'gold_host': {shown(row['gold_host'])} is not the gold candidate {shown(host)}")
    if "controller_label" in row:
        label = row["controller_label"]
        if isinstance(label, bool) or label not in (0, 1):
            faults.append(f"field 'controller_label': {shown(label)} is not 1 (gold is a) or 0 (gold is b)")
        elif gold is not None and (label == 1) != (gold == "a"):
            faults.append(f"field 'controller_label': {label} contradicts gold {shown(gold)} (1 means a)")
    return faults


def _spans(ours: Mapping[str, Any]) -> tuple[dict[str, Span], list[str]]:
    """Where candidates and predicate stand; each must stand there once, or its state would be anybody's."""
    spans, faults = {}, []
    sentence = ours.get("sentence")
    for anchor, field in zip(ANCHORS, ("candidate_a", "candidate_b", "predicate"), strict=True):
        text = ours.get(field)
        if sentence is None or text is None:
            continue
        starts = word_starts(sentence, text)
        if not starts and anchor == "v" and text in sentence:
            # German writes "anzurufen": a predicate may be part of a longer word, a name may not.
            starts = [start for start in range(len(sentence)) if sentence.startswith(text, start)]
        if len(starts) == 1:
            spans[anchor] = (starts[0], starts[0] + len(text))
        elif starts:
            faults.append(
                f"field '{field}': {shown(text)} stands {len(starts)} times in the sentence; "
                "which one is meant cannot be told"
            )
        else:
            faults.append(f"field '{field}': {shown(text)} does not stand in the sentence {shown(sentence)}")
    return spans, faults


def _halves(ours: Mapping[str, Any]) -> list[str]:
    """Prompts that an item begins to spell out and does not finish, or whose continuations are one."""
    faults = []
    for names in _SPELLED.values():
        given = [name for name in names if ours.get(name) is not None]
        if given and len(given) < len(names):
            lacking = ", ".join(f"'{name}'" for name in names if name not in given)
            faults.append(f"field '{given[0]}' is of no use without {lacking}")
        elif given and ours[names[1]] == ours[names[2]]:
            faults.append(f"fields '{names[1]}' and '{names[2]}' are the same; they must differ")
    return faults


def _explained(detail: Any) -> str:
    """A pydantic error in the words of these files."""
    name = str(detail["loc"][0])
    public = next((other for other, own in PUBLIC.items() if own == name), None)
    if detail["type"] == "missing":
        return f"field '{name}' is missing" + (f" ('{public}' in the public benchmark)" if public else "")
    if detail["type"] in ("empty", "nul", "surrogate"):
        return f"field '{name}' {detail['msg']}"
    if detail["type"] == "literal_error":
        return f"field '{name}': {shown(detail['input'])} is not {detail['ctx']['expected']}"
    return f"field '{name}': {shown(detail['input'])} is not a text in quotation marks"
