"""Asked-for results that nothing makes: what was probably meant."""

import difflib
from collections.abc import Callable, Iterable, Sequence

from strataprobe.errors import listing


def unknown_targets(
    wanted: Iterable[str], is_made: Callable[[str], bool], known: Callable[[], Sequence[str]]
) -> str | None:
    """A message about the wanted paths that no rule makes, each with the nearest path that one does.

    Args:
        wanted: paths or rule names asked for.
        is_made: whether a path is known or exists.
        known: all paths that may have been meant; called only when something is unknown.

    Returns:
        The message, or None where everything asked for is known.
    """
    unknown = [target for target in sorted(wanted) if not is_made(target)]
    if not unknown:
        return None
    candidates = list(known())
    faults = []
    for target in unknown:
        near = difflib.get_close_matches(target, candidates, n=1, cutoff=0.6)
        faults.append(f"{target}: nothing makes it" + (f"; did you mean {near[0]!r}?" if near else ""))
    return listing("targets", faults)
