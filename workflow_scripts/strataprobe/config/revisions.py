"""What may stand under `revisions:` of a model: a list, or for a model of the hub a choice of what it has."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationError, model_validator

from strataprobe.config.fields import Count, Positive, Section, Slug, Whole

_MOST = 10_000


def _entry(value: Any) -> Any:
    return {"name": value} if isinstance(value, str) else value


class RevisionEntry(Section):
    """One checkpoint. A bare text is short for {name: text}; `ref` is what the source calls it."""

    name: Slug
    ref: str | None = None
    step: Whole | None = None


def _pattern(value: Any) -> str:
    if not isinstance(value, str) or value.count("{step}") != 1:
        raise ValueError(f"{value!r} needs {{step}} once, where a ref has its step: 'stage1-step{{step}}'")
    other = re.sub(r"\{step\}|\{tokens\}", "", value)
    if "{" in other or "}" in other:
        raise ValueError(f"{value!r}: only {{step}} and {{tokens}} may stand in braces")
    return value


class RevisionRange(Section):
    """Every `every`-th step from one to another, both included, of the refs that a pattern fits.

    `{tokens}` in the pattern stands for any number: it follows from the step, and the list of refs has it.
    """

    pattern: Annotated[str, BeforeValidator(_pattern)]
    first: Annotated[Whole, Field(alias="from")]
    last: Annotated[Whole, Field(alias="to")]
    every: Count

    @model_validator(mode="after")
    def _rises(self) -> "RevisionRange":
        if self.last < self.first:
            raise ValueError(f"to: {self.last} is less than from: {self.first}")
        if (count := (self.last - self.first) // self.every + 1) > _MOST:
            raise ValueError(
                f"{count} steps from {self.first} to {self.last}; at most {_MOST} can be asked for"
            )
        return self


class RevisionSample(Section):
    """Every k-th revision of the repository in the order of training, the first included.

    Of all that have a step, or of those whose refs `matching` fits (`*` stands for anything).
    """

    every: Count
    matching: str | None = None


class Downloads(Section):
    """What is fetched from the hub, and what for the while of a study lies in its cache.

    `megabytes_per_second` of your line is what estimates go by. `disk_gigabytes` (10^9 bytes) is the most
    that weights fetched by this workflow may take at once; left out, what the disk has.
    """

    megabytes_per_second: Positive = 20.0
    disk_gigabytes: Positive | None = None


LISTED, RANGE, SAMPLE = "[listed]", "[range]", "[sample]"
"""Marks of the forms in the place of a fault; no message shows them."""


def _form(value: Any) -> str:
    if isinstance(value, Mapping):
        return RANGE if value.keys() & {"pattern", "from", "to"} else SAMPLE
    return {RevisionRange: RANGE, RevisionSample: SAMPLE}.get(type(value), LISTED)


Revisions = Annotated[
    Annotated[list[Annotated[RevisionEntry, BeforeValidator(_entry)]], Tag(LISTED)]
    | Annotated[RevisionRange, Tag(RANGE)]
    | Annotated[RevisionSample, Tag(SAMPLE)],
    Discriminator(_form),
]
"""A list of revisions, or a choice of those that the repository lists."""


def choice_of(value: Any) -> dict[str, Any] | None:
    """A choice among what a repository lists as the room `revisions` takes it, or None for anything else.

    Args:
        value: what stands in a config, checked or not; None also where it has faults.
    """
    if _form(value) == LISTED:
        return None
    kind = RevisionRange if _form(value) == RANGE else RevisionSample
    try:
        return kind.model_validate(value).model_dump(by_alias=True)
    except ValidationError:
        return None
