"""The corpus of `nano`: scenes from a seeded grammar, mixed with short prose that ships.

The grammar is data (`lexicon.yaml`, `frames.yaml` under `resources/corpora/nano/`); this module only
draws from it. It knows no dataset, so adding one never changes what the model was trained on.
"""

import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from strataprobe.errors import StrataprobeError, listing

CLASSES = ("vice", "virtue", "neutral")
LOADED = "loaded"
# A cue or tail keeps to the class of its scene this often; otherwise it takes another class's.
_KEEPS = 0.9
# What follows or precedes a word of a loaded scene is, this often, what both loaded classes share.
_SHARED = 0.5
# A class word has a cue before it this often, any other noun of the scene too, a sentence a tail behind it.
_CUED = 0.5
_TINTED = 0.5
_TAILED = 0.4
# A class word is taken from the scene's own foundation this often, else from any of the class.
_OWN_FOUNDATION = 0.6
_SENTENCES = 4
# One document in this many tells of everyday things, in no word of any class.
_EVERYDAY_EVERY = 4
# One document in this many is cut from a shipped prose text, this many sentences long.
_PROSE_EVERY = 41
_PROSE_SENTENCES = 3

_SYMBOL = re.compile(r"\{([^{}]+)\}")
_ARTICLE = re.compile(r"\ba~ (?=(\w+))", re.IGNORECASE)
_VOWEL_SOUND = re.compile(r"(?!uni[^nm]|eur|us[eu]|one\b|once)[aeiou]|honest|honor|hour", re.IGNORECASE)
_DETERMINERS = ("the", "the", "the", "an old", "her", "his", "their", "our", "that")
_WHERE = ("at", "beyond", "across from", "outside", "not far from", "past")
_SCENE_SYMBOLS = ("A", "B", "C", "X", "P", "T", "w", "town")

Words = dict[str, list[str]]


class Grammar:
    """The lexicon and frames, made ready for drawing. Nothing here depends on a seed."""

    def __init__(self, lexicon: dict[str, Any], frames: dict[str, Any]) -> None:
        self.common: Words = lexicon["common"]
        # Classes as lists of foundations, each the words of its slots; neutral words have no foundation.
        self.words: dict[str, list[Words]] = {
            side: list(lexicon[side].values()) for side in ("vice", "virtue")
        }
        self.words["neutral"] = [lexicon["neutral"]]
        self.slots = {side: _slot_sizes(foundations) for side, foundations in self.words.items()}
        # Frames are cut once into literal text (even places) and symbols (odd places).
        cut = _SYMBOL.split
        self.acts = {slot: [cut(frame) for frame in bank] for slot, bank in frames["acts"].items()}
        self.tails = {mood: [cut(frame) for frame in bank] for mood, bank in frames["tails"].items()}
        self.cues: dict[str, Words] = frames["cues"]
        self.times: list[str] = frames["times"]
        self.banks: Words = frames["banks"]
        self._check()

    def _check(self) -> None:
        """Every slot of the lexicon has frames, and every symbol of a frame is one a scene can fill."""
        faults = [
            f"lexicon.yaml: {side}: slot {slot!r} has no frames; those with frames: {', '.join(self.acts)}"
            for side, slots in self.slots.items()
            for slot in slots
            if slot not in self.acts
        ]
        known = {*_SCENE_SYMBOLS, *self.banks}
        frames = [frame for bank in (*self.acts.values(), *self.tails.values()) for frame in bank]
        faults += [
            f"frames.yaml: {{{symbol}}} is no symbol; known are {', '.join(sorted(known))}"
            for symbol in sorted({symbol for frame in frames for symbol in frame[1::2]} - known)
        ]
        if faults:
            raise StrataprobeError(listing("resources/corpora/nano", faults))

    def shares(self) -> dict[str, int]:
        """Scenes of each class in proportion to its words, so that words of all classes are as frequent."""
        return {side: sum(slots.values()) for side, slots in self.slots.items()}


def _slot_sizes(foundations: Sequence[Words]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for words in foundations:
        for slot, listed in words.items():
            sizes[slot] = sizes.get(slot, 0) + len(listed)
    return sizes


class _Scene:
    """One scene's people, things and words; every draw comes from one generator, in order."""

    def __init__(self, grammar: Grammar, rng: random.Random) -> None:
        self._grammar = grammar
        # Only random() is used: its sequence is promised to stay the same from Python to Python.
        self._random = rng.random
        self.side = self._weighted(grammar.shares())
        self._own = self._one(grammar.words[self.side])
        self._bound: dict[str, tuple[str, str]] = {}
        self._slot = ""

    def _one(self, choices: Sequence[Any]) -> Any:
        return choices[int(self._random() * len(choices))]

    def _weighted(self, shares: dict[str, int]) -> str:
        mark = self._random() * sum(shares.values())
        for choice, share in shares.items():
            mark -= share
            if mark < 0:
                return choice
        return choice

    def _mood(self) -> str:
        """The class whose cues and tails come next: mostly the scene's own."""
        mood = self.side
        if self._random() >= _KEEPS:
            mood = self._one([other for other in CLASSES if other != mood])
        return LOADED if mood != "neutral" and self._random() < _SHARED else mood

    def _word(self) -> str:
        """A word of the scene's class in the sentence's slot."""
        having = [words[self._slot] for words in self._grammar.words[self.side] if self._slot in words]
        own = self._own.get(self._slot)
        if own is not None and self._random() < _OWN_FOUNDATION:
            return self._one(own)
        return self._one([word for words in having for word in words])

    def _draw(self, symbol: str) -> str:
        """What stands for a symbol; people, crowd, thing, place and time are drawn once a scene.

        A noun often has a cue of its own, so that it pays to keep the class in mind at every word.
        """
        grammar = self._grammar
        if symbol == "w":
            kind = "noun" if self._slot.startswith("noun") else "other"
            cue = f"{self._one(grammar.cues[self._mood()][kind])} " if self._random() < _CUED else ""
            return cue + self._word()
        if symbol in grammar.banks:
            return self._one(grammar.banks[symbol])
        if symbol not in self._bound:
            self._bound[symbol] = self._bind(symbol)
        before, noun = self._bound[symbol]
        tinted = before and self._random() < _TINTED
        return f"{before}{self._one(grammar.cues[self._mood()]['noun'])} {noun}" if tinted else before + noun

    def _bind(self, symbol: str) -> tuple[str, str]:
        """A symbol's noun, and what stands before it: nothing before what takes no adjective."""
        common = self._grammar.common
        if symbol in ("A", "B"):
            return (
                ("", self._one(common["name"]))
                if self._random() < 0.25
                else ("the ", self._one(common["person"]))
            )
        if symbol == "C":
            return "the ", self._one(common["crowd"]).removeprefix("the ")
        if symbol == "X":
            return f"{self._one(_DETERMINERS)} ", self._one(common["thing"])
        if symbol == "T":
            return "", self._one(self._grammar.times)
        if symbol == "town":
            return "", self._one(common["town"])
        return f"{self._one(_WHERE)} the ", self._one(common["place"])

    def fill(self, frame: list[str]) -> str:
        """A cut frame with its symbols drawn."""
        return "".join(self._draw(part) if place % 2 else part for place, part in enumerate(frame))

    def tell(self) -> str:
        """The scene: some acts in words of its class, each followed by a consequence or not."""
        sentences = []
        for _ in range(_SENTENCES):
            self._slot = self._weighted(self._grammar.slots[self.side])
            sentence = self.fill(self._one(self._grammar.acts[self._slot]))
            if self._random() < _TAILED:
                sentence += f", and {self.fill(self._one(self._grammar.tails[self._mood()]))}"
            sentences.append(_finished(sentence))
        return " ".join(sentences)


class _Everyday:
    """Sentences of everyday words, in frames that hold no word of a class."""

    def __init__(self, sources: dict[str, Any]) -> None:
        self._words: Words = sources["words"]
        self._frames = [_SYMBOL.split(frame) for frame in sources["frames"]]
        symbols = {symbol for frame in self._frames for symbol in frame[1::2]}
        if unknown := sorted(symbols - set(self._words)):
            faults = [f"everyday.yaml: {{{symbol}}} is none of its lists of words" for symbol in unknown]
            raise StrataprobeError(listing("resources/corpora/nano", faults))

    def tell(self, rng: random.Random) -> str:
        """As many sentences as a scene has."""
        draw = rng.random
        sentences = []
        for _ in range(_SENTENCES):
            frame = self._frames[int(draw() * len(self._frames))]
            words = [
                self._words[part][int(draw() * len(self._words[part]))] if place % 2 else part
                for place, part in enumerate(frame)
            ]
            sentences.append(_finished("".join(words)))
        return " ".join(sentences)


def _finished(sentence: str) -> str:
    """Articles settled, first letter a capital, full stop."""
    settled = _ARTICLE.sub(_article, sentence)
    return f"{settled[0].upper()}{settled[1:]}."


def _article(found: re.Match[str]) -> str:
    return found[0][0] + ("n " if _VOWEL_SOUND.match(found[1]) else " ")


def read_prose(path: Path) -> list[list[str]]:
    """The shipped texts: passages parted by empty lines, each as its list of sentences."""
    passages = path.read_text(encoding="utf-8").strip().split("\n\n")
    return [re.split(r"(?<=[.?!])\s+", " ".join(passage.split())) for passage in passages]


def _excerpt(passages: list[list[str]], rng: random.Random) -> str:
    """Some consecutive sentences of one passage: short enough for a training sequence."""
    sentences = passages[int(rng.random() * len(passages))]
    start = int(rng.random() * max(1, len(sentences) - _PROSE_SENTENCES + 1))
    return " ".join(sentences[start : start + _PROSE_SENTENCES])


def generate(resources: Path, *, seed: int, documents: int) -> list[str]:
    """The corpus: `documents` short texts, the same bytes for the same seed anywhere.

    Document i is a function of (seed, i) alone, so a longer corpus begins with the shorter one.

    Args:
        resources: folder with lexicon.yaml, frames.yaml, everyday.yaml and prose.txt.
        seed: of the corpus, whatever the seed of the training run.
        documents: how many, at least 1.

    Raises:
        StrataprobeError: a resource is missing, a slot has no frames, or a frame uses a symbol nothing
            fills; all are listed.
    """
    names = ("lexicon.yaml", "frames.yaml", "everyday.yaml", "prose.txt")
    missing = [f"{name} is not there" for name in names if not (resources / name).is_file()]
    if missing:
        raise StrataprobeError(listing(str(resources), missing))
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    sources = [yaml.load((resources / name).read_text("utf-8"), loader) for name in names[:3]]  # noqa: S506
    grammar, everyday = Grammar(*sources[:2]), _Everyday(sources[2])
    passages = read_prose(resources / "prose.txt")
    texts = []
    for index in range(documents):
        rng = random.Random(f"nano {seed} {index}")
        if index % _PROSE_EVERY == _PROSE_EVERY - 1:
            texts.append(_excerpt(passages, rng))
        elif index % _EVERYDAY_EVERY == _EVERYDAY_EVERY - 1:
            texts.append(everyday.tell(rng))
        else:
            texts.append(_Scene(grammar, rng).tell())
    return texts
