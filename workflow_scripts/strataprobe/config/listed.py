"""Revisions that a hub model's own list has: what is wrong with it, and the config with a choice written out.

Both read the config as it was written, so that their faults show beside all others.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from strataprobe.config.fields import SLUG
from strataprobe.config.raw import mapping
from strataprobe.config.revisions import choice_of
from strataprobe.revisions import COMMAND, Table, choose, place, read

_COMMAND = f"{COMMAND} (with the same --configfile)"


def lists(raw: Mapping[str, Any], base: Path | None, faults: list[str]) -> dict[str, Table]:
    """The lists of revisions that are there, by model.

    Args:
        raw: the config as it was written.
        base: folder that paths are relative to; None finds none.
        faults: what is wrong with a list is added here, also that one is missing from which to choose.
    """
    found: dict[str, Table] = {}
    for name, entry in mapping(raw.get("models")).items():
        hub = mapping(mapping(mapping(entry).get("source")).get("hub"))
        named = isinstance(name, str) and re.fullmatch(SLUG, name)
        if base is None or not named or not isinstance(hub.get("repo"), str):
            continue
        path, where = place(name), f"models.{name}.revisions"
        if not (base / path).is_file():
            if choice_of(mapping(entry).get("revisions")) is not None:
                faults.append(
                    f"{where}: {path} is missing, the list of {hub['repo']} that they are chosen from; "
                    f"it is made once by: {_COMMAND}"
                )
            continue
        wrong: list[str] = []
        table = read(base / path, path, wrong)
        faults += [f"{where}: {fault}" for fault in wrong]
        if table is not None and table.repo != hub["repo"]:
            faults.append(
                f"{where}: {path} is the list of {table.repo}, not of {hub['repo']}; "
                f"it is made anew by: {_COMMAND}"
            )
        elif table is not None:
            found[name] = table
    return found


def written_out(raw: Mapping[str, Any], tables: Mapping[str, Table], faults: list[str]) -> Mapping[str, Any]:
    """The config as it was written, with the revisions that a choice stands for in its place.

    Args:
        tables: as `lists` found them; a choice without a list stays as it is.
        faults: revisions that a list does not have are added here.
    """
    models = dict(mapping(raw.get("models")))
    for name, table in tables.items():
        choice = choice_of(mapping(models[name]).get("revisions"))
        if choice is None:
            continue
        rows, wrong = choose(choice, table)
        faults += [f"models.{name}.revisions: {fault}" for fault in wrong]
        models[name] = {**models[name], "revisions": [{"name": row.revision, "ref": row.ref} for row in rows]}
    return {**raw, "models": models} if tables else raw
