"""Every fault of a config in one message, each with its place and what would be right."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel, Tag, ValidationError

from strataprobe.config.between import cross_faults
from strataprobe.config.listed import lists, written_out
from strataprobe.config.models import StudyConfig
from strataprobe.config.raw import nearest
from strataprobe.config.revisions import LISTED, RANGE, SAMPLE
from strataprobe.errors import ConfigError, listing
from strataprobe.revisions import Table

# Parts of a place that are pydantic's or ours, and not the config's.
_MARKS = ("[key]", LISTED, RANGE, SAMPLE)


def check(
    raw: Mapping[str, Any], *, where: str = "config.yaml", base: Path | None = None, resolving: bool = False
) -> StudyConfig:
    """Validate a parsed config: `checked`, where the lists of revisions are not needed."""
    return checked(raw, where=where, base=base, resolving=resolving)[0]


def checked(
    raw: Mapping[str, Any], *, where: str, base: Path | None, resolving: bool
) -> tuple[StudyConfig, dict[str, Table]]:
    """Validate a parsed config and read the lists of revisions that are there, by model.

    Args:
        raw: what the YAML file holds.
        where: how to name the config in messages.
        base: folder that dataset paths are relative to; None leaves files unchecked.
        resolving: the lists of what repositories have are about to be written, so what they lack is no fault.

    Raises:
        ConfigError: lists all faults at once: `models.nano.layers: 'six' is not a whole number ...`.
    """
    faults: list[str] = []
    parsed: StudyConfig | None = None
    try:
        parsed = StudyConfig.model_validate(dict(raw))
    except ValidationError as error:
        faults.extend(dict.fromkeys(_readable(fault) for fault in error.errors(include_url=False)))
    listed: list[str] = []
    tables = {} if resolving else lists(raw, base, listed)
    faults.extend(cross_faults(written_out(raw, tables, listed), base))
    faults.extend(listed)
    if faults or parsed is None:
        raise ConfigError(listing(where, faults))
    return parsed, tables


def _readable(fault: Mapping[str, Any]) -> str:
    """One line for one of pydantic's faults."""
    place = ".".join(str(part) for part in fault["loc"] if part not in _MARKS) or "(top level)"
    kind, given = fault["type"], fault.get("input")
    if kind == "extra_forbidden":
        return f"{place}: unknown key{nearest(str(fault['loc'][-1]), _keys_at(fault['loc'][:-1]))}"
    if kind == "missing":
        return f"{place}: is missing, and has no default"
    if kind == "literal_error":
        return f"{place}: {given!r} is not one of {fault['ctx']['expected']}"
    if kind == "value_error":
        return f"{place}: {fault['ctx']['error']}"
    return f"{place}: {given!r}: {fault['msg'][0].lower()}{fault['msg'][1:]}"


def _keys_at(place: tuple[Any, ...]) -> list[str]:
    """The keys known at a place of the config, found by walking the models."""
    annotation: Any = StudyConfig
    for part in place:
        if part in _MARKS:
            annotation = _marked(annotation, part)
            continue
        section = _section(annotation)
        if section is None:
            return []
        if _holds_many(annotation):
            annotation = section  # `part` is a name the user chose, or a place in a list
        elif part in section.model_fields:
            annotation = section.model_fields[str(part)].annotation
        else:
            return []
    section = _section(annotation)
    if section is None:
        return []
    return [field.alias or name for name, field in section.model_fields.items()]


def _marked(annotation: Any, mark: Any) -> Any:
    """The one of several forms inside an annotation that bears a mark, or None."""
    if any(isinstance(said, Tag) and said.tag == mark for said in getattr(annotation, "__metadata__", ())):
        return annotation
    inner = (_marked(given, mark) for given in getattr(annotation, "__args__", ()))
    return next((found for found in inner if found is not None), None)


def _holds_many(annotation: Any) -> bool:
    """Whether the annotation is a dict or a list, also behind `| None`."""
    arguments = getattr(annotation, "__args__", ())
    return get_origin(annotation) in (dict, list) or any(
        get_origin(given) in (dict, list) for given in arguments
    )


def _section(annotation: Any) -> type[BaseModel] | None:
    """The section class inside an annotation such as dict[Slug, ModelEntry] or Source | None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if (found := _section(argument)) is not None:
            return found
    return None
