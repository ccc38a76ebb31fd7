"""Where both candidates and the predicate stand, in an item's prompts and in its bare sentence, as tokens."""

from dataclasses import dataclass

import numpy as np

from strataprobe.behavior.continuations import Continuations, templated
from strataprobe.datasets.control import ANCHORS, ControlDataset, ControlItem
from strataprobe.errors import ModelError, listing
from strataprobe.lm import LoadedLM, overlapping


@dataclass(frozen=True)
class Roles:
    """The tokens of an item's three roles (`ANCHORS`) in one sequence.

    Attributes:
        places: (3,) the last token that overlaps each span, as where states are captured for probes.
        sizes: (3,) tokens that overlap each.
    """

    places: np.ndarray
    sizes: np.ndarray

    @property
    def order(self) -> tuple[str, ...]:
        """The roles as they follow each other."""
        return tuple(ANCHORS[role] for role in np.argsort(self.places, kind="stable"))


def differing(donor: Roles, target: Roles) -> list[str]:
    """In what a donor's roles and a target's are unequal: roles of another length in tokens, and "order"."""
    unequal = [
        role for role, *sizes in zip(ANCHORS, donor.sizes, target.sizes, strict=True) if len({*sizes}) > 1
    ]
    return unequal if donor.order == target.order else [*unequal, "order"]


def in_prompts(
    lm: LoadedLM, dataset: ControlDataset, continuations: Continuations, *, chat: bool
) -> dict[tuple[int, str], Roles]:
    """(item, task) -> its roles in the prompt, whose first sentence is the item's.

    Args:
        chat: whether the prompt is in the tokenizer's chat template, as `behavior.prepare` puts it.

    Raises:
        ModelError: a prompt without the item's sentence, or a span without tokens; names them all.
    """
    faults: list[str] = []
    found: dict[tuple[int, str], Roles] = {}
    for (index, task, candidate), number in continuations.numbers.items():
        if candidate != "a":  # the prompt is the same before either
            continue
        item, name = dataset.controls[index], f"{dataset.controls[index].id} {task}"
        context = _context(lm, item, task, chat)
        start = context.find(item.sentence)
        if start < 0:
            faults.append(f"{name}: its prompt does not hold its sentence, so nothing in it can be patched")
            continue
        _, (offsets,), problems = lm.tokenize([context + continuations.texts[number]], [name], offsets=True)
        roles = _roles(item, offsets, start, name, problems)
        faults += problems
        if roles is not None:
            found[index, task] = roles
    if faults:
        raise ModelError(listing(f"prompts for {lm.name}", faults))
    return found


def in_sentences(lm: LoadedLM, dataset: ControlDataset) -> list[tuple[list[int], Roles]]:
    """Tokens and roles of each bare sentence, without a BOS, as the published donors are.

    Raises:
        ModelError: a sentence that cannot be tokenised, or a span without tokens; names them all.
    """
    names = [item.id for item in dataset.controls]
    tokens, offsets, faults = lm.tokenize([item.sentence for item in dataset.controls], names, offsets=True)
    found = []
    for item, sequence, own in zip(dataset.controls, tokens, offsets, strict=True):
        bos = bool(sequence) and lm.adds_bos and sequence[0] == lm.tokenizer.bos_token_id
        roles = _roles(item, own[bos:], 0, item.id, faults) if sequence else None
        if roles is not None:
            found.append((sequence[bos:], roles))
    if faults:
        raise ModelError(listing(f"sentences for {lm.name}", faults))
    return found


def _roles(
    item: ControlItem, offsets: list[tuple[int, int]], start: int, name: str, faults: list[str]
) -> Roles | None:
    """The roles of a sentence that begins at a character; what is wrong is added to the faults."""
    tokens = {}
    for role in ANCHORS:
        first, end = item.spans[role]
        tokens[role] = overlapping(offsets, first + start, end + start)
        if not tokens[role]:
            faults.append(f"{name}: span {role!r} [{first}, {end}) overlaps no token")
    if not all(tokens.values()):
        return None
    return Roles(
        np.array([own[-1] for own in tokens.values()]), np.array([len(own) for own in tokens.values()])
    )


def _context(lm: LoadedLM, item: ControlItem, task: str, chat: bool) -> str:
    """What stands before the continuation (`behavior.prepare` has found that the template works)."""
    prompt = item.prompts[task].prompt
    return templated(lm, prompt) if chat else prompt
