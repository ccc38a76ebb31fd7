"""A small vocabulary and its design, sound throughout: tests spoil what they look at."""

import json

# A study of another property than the shipped one: nothing here is bound to operators.
DESIGN = {
    "property": "tense",
    "sides": ["past", "future"],
    "classes": {
        "was": {"property": "past", "pieces": "1"},
        "will": {"property": "future", "pieces": "1"},
        "had": {"property": "past", "pieces": "1-2"},
    },
    "invented": {
        "zim": {"property": "future", "pieces": "2+"},
        "gop": {"property": "past", "pieces": "2+"},
    },
    "scopes": {
        "2x2": {"classes": ["was", "will"], "items": ["zim", "gop"]},
        "3x2": {"classes": ["had", "will", "was"], "items": ["zim", "gop"]},
    },
    "anchors": {
        "plain": ["operator-after", "sentence-final"],
        "call": ["operator-after", "close-paren", "sentence-final"],
        "turned": ["sentence-final", "close-paren", "operator-after"],
    },
    "directions": [["plain", "call"], ["call", "plain"]],
    "controls": {"call": "turned"},
}
TEXTS = {
    "plain": ("On it stood {} here.", "They saw {} there?"),
    "call": ("On it stood {}(n) here.", "They saw {}(m) there."),
    "turned": ("On it stood {}(n, o) here.", "They saw {}(m, o) there."),
}
HELD_OUT = "Held out is {} now."


def row(word: str, notation: str, template: str, text: str, *, held_out: bool = False) -> dict:
    start = text.index("{}")
    whole = text.format(word)
    spans = {
        "operator-after": [start, start + len(word)],
        "close-paren": [whole.find(")"), whole.find(")") + 1],
        "sentence-final": [len(whole) - 1, len(whole)],
    }
    side = {**DESIGN["classes"], **DESIGN["invented"]}[word]["property"]
    return {
        "item": word,
        "class": word if word in DESIGN["classes"] else None,
        "property": side,
        "notation": notation,
        "template": template,
        "held_out": held_out,
        "text": whole,
        "anchors": {name: spans[name] for name in DESIGN["anchors"][notation]},
    }


def sound_rows() -> list[dict]:
    """Two stimuli of each word in each notation (lines 1 to 30), then a held-out one of each class."""
    words = [*DESIGN["classes"], *DESIGN["invented"]]
    return [
        row(word, notation, f"t{number}", text)
        for notation, texts in TEXTS.items()
        for number, text in enumerate(texts, start=1)
        for word in words
    ] + [row(word, "plain", "h1", HELD_OUT, held_out=True) for word in DESIGN["classes"]]


def write_files(folder, rows: list[dict] | None = None, design: dict | None = None) -> dict[str, str]:
    """A dataset's files in a folder; returns what a study's entry says of it."""
    lines = "".join(json.dumps(one) + "\n" for one in rows or sound_rows())
    (folder / "words.jsonl").write_text(lines, encoding="utf-8")
    (folder / "design.json").write_text(json.dumps(design or DESIGN), encoding="utf-8")
    return {"path": str(folder / "words.jsonl"), "design": str(folder / "design.json"), "kind": "vocabulary"}
