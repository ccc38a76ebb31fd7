"""Which of this project's files a script runs: what a rule must watch besides the script itself."""

import ast
import re
from functools import cache
from pathlib import Path

from strataprobe.files import sha256_file, sha256_json

PACKAGE = "strataprobe"

_STATEMENT = re.compile(
    rf"^[ \t]*(?:from[ \t]+{PACKAGE}\b[\w.]*[ \t]+import\b[ \t]*(?:\([^)]*\)|[^\n(]*)"
    rf"|import[ \t][^\n]*\b{PACKAGE}\b[^\n]*)",
    re.MULTILINE,
)


def script_files(script: Path) -> list[Path]:
    """The script and every module of the library that it imports, directly or through others.

    Imports inside functions count too, and so do the packages' `__init__` files on the way, since Python
    runs them. Nothing is imported to find out: the sources are read.

    Args:
        script: a file in the folder that holds the library's package.

    Returns:
        Sorted paths, the script first.
    """
    root = script.parent
    found: set[Path] = set()
    waiting = [script]
    while waiting:
        new = _run_by(root, waiting.pop()) - found
        found |= new
        waiting.extend(new)
    return [script, *sorted(found)]


def checksum(script: Path) -> str:
    """One SHA-256 over `script_files`: over each file's place beside the script, and its bytes."""
    return sha256_json(
        {path.relative_to(script.parent).as_posix(): _sha256(path) for path in script_files(script)}
    )


@cache
def _sha256(path: Path) -> str:
    return sha256_file(path)


@cache
def _run_by(root: Path, path: Path) -> frozenset[Path]:
    """Files that Python runs for the imports of one file."""
    return frozenset(found for module in _imported(path) for found in _files_of(root, module))


@cache
def _imported(path: Path) -> tuple[str, ...]:
    """Dotted names that a file may import from the library (a name in a module is listed too, harmlessly).

    Only its import statements are parsed: whole files of all the library took half a second of every start.
    """
    names: list[str] = []
    for node in _import_statements(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
        elif node.module and node.level == 0:
            names.append(node.module)
            names.extend(f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(name for name in names if name.split(".")[0] == PACKAGE)


def _import_statements(source: str) -> list[ast.Import | ast.ImportFrom]:
    """Those that name the library, wherever in the file; all there are where one is not read by itself."""
    try:
        nodes = [node for found in _STATEMENT.findall(source) for node in ast.parse(found.strip()).body]
    except SyntaxError:  # a line of prose, or a statement that goes on after a comment's bracket
        nodes = list(ast.walk(ast.parse(source)))
    return [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]


@cache
def _files_of(root: Path, module: str) -> list[Path]:
    """Files Python runs to import a dotted name: each package's `__init__`, and the module itself."""
    parts = module.split(".")
    files = [root.joinpath(*parts[:depth], "__init__.py") for depth in range(1, len(parts) + 1)]
    files.append(root.joinpath(*parts).with_suffix(".py"))
    return [path for path in files if path.is_file()]
