"""Sections, and field types whose messages say what would be right."""

import re
from collections.abc import Callable, Hashable, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

SLUG = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""A name that can stand in a path: no separator, no leading dot, so it cannot leave the results root."""

T = TypeVar("T", bound=Hashable)

Dtype = Literal["float32", "bfloat16", "float16"]
Pooling = Literal["mean", "mean_rest"]


class Section(BaseModel):
    """A mapping in which every key is known."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def _whole(minimum: int) -> Callable[[Any], int]:
    def check(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise ValueError(f"{value!r} is not a whole number of at least {minimum}")
        return value

    return check


def _number(low: float, high: float, wording: str) -> Callable[[Any], float]:
    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not low < value < high:
            raise ValueError(f"{value!r} is not {wording}")
        return float(value)

    return check


def _slug(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(SLUG, value) or ".." in value:
        raise ValueError(
            f"{value!r} cannot name a file: use letters, digits, '.', '_' and '-', beginning with a letter "
            "or digit, without '..', so that no result leaves the results folder"
        )
    return value


def _sha256(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise ValueError(f"{value!r} is not a SHA-256 checksum (64 lower-case hex digits)")
    return value


def _distinct(values: Sequence[T]) -> Sequence[T]:
    twice = sorted({repr(value) for value in values if list(values).count(value) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} given more than once; each may stand here only once")
    if not values:
        raise ValueError("the list is empty; give at least one")
    return values


Whole = Annotated[int, Field(ge=0), BeforeValidator(_whole(0))]
Count = Annotated[int, Field(ge=1), BeforeValidator(_whole(1))]
Positive = Annotated[float, Field(gt=0), BeforeValidator(_number(0, float("inf"), "a number greater than 0"))]
Fraction = Annotated[
    float, Field(gt=0, lt=1), BeforeValidator(_number(0, 1, "a number between 0 and 1, both excluded"))
]
Threshold = Annotated[
    float,
    Field(gt=0.5, lt=1),
    BeforeValidator(_number(0.5, 1, "a number between 0.5 (chance) and 1, both excluded")),
]
Slug = Annotated[str, Field(pattern=f"^{SLUG}$"), BeforeValidator(_slug)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$"), BeforeValidator(_sha256)]
Distinct = AfterValidator(_distinct)
