"""The order of readout scopes, which is one thing for paths, tables and figures."""

from collections.abc import Iterable, Mapping
from typing import Any


def scopes_of(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The scopes of these rows, from the fewest classes and items to the most.

    A scope is as large as its largest cell, since cells of predictions made elsewhere need not have the same
    items. Of equal ones the first of the rows stands first.

    Args:
        rows: each with `scope`, `classes` and `items`.
    """
    sizes: dict[str, tuple[int, int]] = {}
    for row in rows:
        scope, size = str(row["scope"]), (row["classes"], row["items"])
        sizes[scope] = max(sizes.get(scope, size), size)
    return tuple(sorted(sizes, key=sizes.__getitem__))
