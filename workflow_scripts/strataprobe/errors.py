"""The one kind of error a user is meant to read."""

from collections.abc import Sequence


class StrataprobeError(Exception):
    """Something in the input is wrong: the message says what, where, and what would be right."""


class ConfigError(StrataprobeError):
    """The study's config has faults (all of them are in the message)."""


class DatasetError(StrataprobeError):
    """A dataset file, or the way it is asked to be split, has faults."""


class CheckpointError(StrataprobeError):
    """A checkpoint cannot be had, or is not what it is said to be."""


class ModelError(StrataprobeError):
    """A model cannot be loaded or run as asked."""


class CacheError(StrataprobeError):
    """An activation cache is missing, stale or damaged."""


class ProbeError(StrataprobeError):
    """A probe or its fragility curve cannot be computed from this input."""


def numbered(count: int, noun: str) -> str:
    """`numbered(1, "problem")` is "1 problem"; `numbered(2, "problem")` is "2 problems"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listing(title: str, faults: Sequence[str]) -> str:
    """One message for all faults: a title with their count, then one indented line a fault."""
    return "\n".join([f"{title}: {numbered(len(faults), 'problem')}", *(f"  {fault}" for fault in faults)])
