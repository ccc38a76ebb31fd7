"""The list of a repository's revisions, each with its commit: `resources/revisions/{model}.tsv`, kept in git.

`snakemake resolve` writes it; the DAG and the config's check read it, so neither asks the hub.
"""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strataprobe.errors import numbered
from strataprobe.files import atomic
from strataprobe.revisions.names import RevisionName, parse

COLUMNS = ("revision", "ref", "commit", "stage", "ingredient", "step", "tokens_billions", "bytes")
# First line: which repository the list is of, since a model's entry may come to name another one.
COMMAND = "snakemake --cores 1 resolve"
"""What a user runs to have the list written, as messages say it."""

_TITLE = re.compile(r"# (?P<repo>\S+/\S+): revisions as `snakemake resolve` found them")
_FORMS = {
    # A name in paths: as config.fields has it, which lies above this room.
    "revision": (r"(?![^\t]*\.\.)[A-Za-z0-9][A-Za-z0-9._-]*", "a name of letters, digits, '.', '_' and '-'"),
    "ref": (r"\S+", "a name without spaces"),
    "commit": (r"[0-9a-f]{40}", "40 hex digits"),
    **dict.fromkeys(("stage", "ingredient", "step", "bytes"), (r"[0-9]*", "a whole number, or empty")),
    "tokens_billions": (r"([0-9]+(\.[0-9]+)?)?", "a number, or empty"),
}
# The whole line at once: a list may have a thousand of them, and each job of a cluster reads it.
_LINE = re.compile("\t".join(_FORMS[column][0] for column in COLUMNS))
_FEW = 5


@dataclass(frozen=True)
class Listed:
    """One revision of a repository.

    Attributes:
        revision: its name in paths and figures.
        said: what the hub calls it (`said.name`), read.
        commit: 40 hex digits.
        bytes: size of what a study fetches of it; None where it was not asked for.
    """

    revision: str
    said: RevisionName
    commit: str
    bytes: int | None = None

    @property
    def ref(self) -> str:
        return self.said.name

    @property
    def step(self) -> int | None:
        return self.said.step


@dataclass(frozen=True)
class Table:
    """All revisions of a repository, in order."""

    repo: str
    rows: tuple[Listed, ...]

    @property
    def by_ref(self) -> dict[str, Listed]:
        return {row.ref: row for row in self.rows}


def place(model: str) -> str:
    """Where a model's list lies, relative to the working directory: it is the user's, as the config is."""
    return f"resources/revisions/{model}.tsv"


def listed(repo: str, commits: Mapping[str, str], sizes: Mapping[str, int]) -> Table:
    """The list of a repository from what the hub says.

    Args:
        repo: "owner/name".
        commits: commit by ref.
        sizes: bytes by ref, where they were asked for.

    Returns:
        The list, in order. A revision is called as its ref is, what cannot stand in a path replaced by "-",
        and the commit added where another one has that name; what a study calls it does not stand here,
        since all studies of a model share its list.
    """
    plain = {ref: re.sub(r"[^A-Za-z0-9._-]+|\.\.+", "-", ref).lstrip("-._") or "revision" for ref in commits}
    names: dict[str, str] = {}
    # A ref that needs no other name keeps its own, whatever refs are added later.
    for ref in sorted(commits, key=lambda ref: (plain[ref] != ref, ref)):
        longer = (
            f"{plain[ref]}-{commits[ref][:7]}{f'-{more}' if more else ''}" for more in itertools.count()
        )
        names[next(name for name in itertools.chain([plain[ref]], longer) if name not in names)] = ref
    rows = [Listed(name, parse(ref), commits[ref], sizes.get(ref)) for name, ref in names.items()]
    return Table(repo, tuple(sorted(rows, key=lambda row: row.said.place)))


def write(path: str | Path, table: Table) -> None:
    """Write a list as tab-separated text, atomically."""
    with atomic(path) as beside, beside.open("w", encoding="utf-8", newline="") as handle:
        handle.write(f"# {table.repo}: revisions as `snakemake resolve` found them\n")
        for values in (COLUMNS, *map(_values, table.rows)):
            handle.write("\t".join("" if value is None else str(value) for value in values) + "\n")


def read(path: str | Path, name: str, faults: list[str]) -> Table | None:
    """Read a list.

    Args:
        path: the file.
        name: how to name it in messages.
        faults: what is wrong with it is added here, each with its line.

    Returns:
        The list in order, or None where it is not there or has faults.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        faults.append(f"{name}: cannot be read ({error.strerror if isinstance(error, OSError) else error})")
        return None
    title, *lines = text.removesuffix("\n").split("\n")
    found = _TITLE.fullmatch(title)
    wrong = [] if found else [f"{name}:1: does not say of which repository it is"]
    if not lines or tuple(lines[0].split("\t")) != COLUMNS:
        wrong.append(f"{name}:2: is not the line of its columns: {', '.join(COLUMNS)}")
    if not wrong:
        rows = [_row(line, f"{name}:{number}", wrong) for number, line in enumerate(lines[1:], 3)]
        wrong += _twice([row for row in rows if row is not None], name)
    if wrong:
        faults += [*wrong[:_FEW], *([f"{name}: {len(wrong) - _FEW} more"] if len(wrong) > _FEW else [])]
        faults.append(f"{name}: mend it, or write it anew: {COMMAND}")
        return None
    return Table(found["repo"], tuple(sorted(rows, key=lambda row: row.said.place)))


def _row(line: str, place: str, faults: list[str]) -> Listed | None:
    values = line.split("\t")
    if len(values) != len(COLUMNS):
        faults.append(f"{place}: has {numbered(len(values), 'column')}, not {len(COLUMNS)}")
        return None
    given = dict(zip(COLUMNS, values, strict=True))
    if not _LINE.fullmatch(line):
        faults += [
            f"{place}: {column} {given[column]!r} is not {wording}"
            for column, (form, wording) in _FORMS.items()
            if not re.fullmatch(form, given[column])
        ]
        return None
    size = int(given["bytes"]) if given["bytes"] else None
    row = Listed(given["revision"], parse(given["ref"]), given["commit"], size)
    # Numbers of the name are written for people and other tools: here the name itself says them.
    for column, value in zip(COLUMNS, _values(row), strict=True):
        if given[column] != ("" if value is None else str(value)):
            said = "no such number" if value is None else value
            faults.append(f"{place}: {column} is {given[column]!r}, but {row.ref!r} says {said}")
    return row


def _values(row: Listed) -> tuple[str | int | None, ...]:
    """A row as its columns."""
    said = row.said
    numbers = (said.stage, said.ingredient, said.step, _billions(said.tokens), row.bytes)
    return (row.revision, row.ref, row.commit, *numbers)


def _twice(rows: Sequence[Listed], name: str) -> list[str]:
    """Names and refs that more than one row has."""
    counts = {column: Counter(getattr(row, column) for row in rows) for column in ("revision", "ref")}
    return [
        f"{name}: {column} {value!r} stands in it {count} times"
        for column, counted in counts.items()
        for value, count in counted.items()
        if count > 1
    ]


def _billions(tokens: int | None) -> str | None:
    """Tokens in billions, exactly and without trailing zeros."""
    if tokens is None:
        return None
    whole, rest = divmod(tokens, 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
