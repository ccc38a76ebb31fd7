"""JSONL files of a dataset: their lines as objects, and what is wrong with each, in words."""

import difflib
import json
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError


def _usable(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("empty", "is empty")
    if "\0" in text:
        raise PydanticCustomError(
            "nul", f"holds a NUL byte at character {text.index(chr(0)) + 1} (remove it)"
        )
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise PydanticCustomError("surrogate", "holds half of a surrogate pair (write the whole character)")
    return text


Text = Annotated[str, AfterValidator(_usable)]


def numbered_lines(content: bytes) -> Iterable[tuple[int, bytes]]:
    """Numbered lines that are not blank; only line feeds end a line, as in JSONL."""
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            yield number, line


def parse_object(line: bytes) -> tuple[dict[str, Any] | None, list[str]]:
    """The object of one line, and what is wrong with the line."""
    twice: list[str] = []

    def unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in members]
        twice.extend(name for name in dict.fromkeys(names) if names.count(name) > 1)
        return dict(members)

    try:
        parsed = json.loads(line.decode("utf-8"), object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        return None, [f"byte {error.start + 1} of the line is not UTF-8"]
    except json.JSONDecodeError as error:
        return None, [f"not readable as JSON at column {error.colno}: {error.msg} (one object a line)"]
    except (ValueError, RecursionError):
        return None, ["not readable as JSON: a number or a nesting without end (one object a line)"]
    if not isinstance(parsed, dict):
        return None, [f"{shown(parsed)} is not an object (one a line, in braces)"]
    return parsed, [f"field {shown(name)} is given twice" for name in twice]


def unknown_field(name: str, known: Sequence[str], noun: str = "field") -> str:
    """That a name is unknown, and which known one is nearest, or all of them where none is near."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    hint = f"did you mean '{near[0]}'?" if near else f"the {noun}s are {', '.join(known)}"
    return f"{noun} {shown(name)} is unknown; {hint}"


def shown(value: Any) -> str:
    """A value as a message can show it: one short line that any terminal can print."""
    text = f"'{value}'" if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= 60 else f"{text[:56]} ..."
