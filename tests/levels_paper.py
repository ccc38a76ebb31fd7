"""Checkpoints with exactly as many right answers as the levels paper's Tables 1, 4 and 5 print.

A printed accuracy is a number of items; which items are right, the paper does not say, and its tables do not
ask.
"""

from strataprobe.published import Numbers

LANGUAGES = {"en": "english", "zh": "chinese", "de": "german"}
MODELS = (
    *("qwen3-0.6b-base", "qwen3-0.6b-instruct", "qwen3-14b-instruct", "llama-3.2-1b-base"),
    *("llama-3.2-1b-instruct", "gemma-4-e4b-base", "gemma-4-e4b-instruct"),
)
FAMILIES = {name: name.split("-")[0] for name in MODELS}
BASES = {name: name.replace("instruct", "base") for name in MODELS if name.endswith("instruct")}
MODES, SEEDS = ("ab", "av", "bv", "abv", "v"), (1729, 2718, 3141)
SETTINGS = {"bootstrap": 0, "conventions": "published", "seed": 1729}


def items() -> dict[str, list]:
    """48 items: 16 translation groups, half of them of object control, in three languages."""
    rows = [
        (f"{language}{group:02d}", language, kind, f"{group:02d}{kind[0]}", f"{group:02d}")
        for language in LANGUAGES
        for kind in ("object_control", "subject_control")
        for group in range(8)
    ]
    ids, languages, types, groups, pairs = map(list, zip(*rows, strict=True))
    return {
        "ids": ids, "languages": languages, "control_types": types, "item_groups": groups, "pairs": pairs,
        "verbs": ids, "gold": ["a" if kind[0] == "s" else "b" for kind in types],
    }  # fmt: skip


def right(counts: dict[str, int]) -> str:
    """As many right answers in each language, in the items' order."""
    return "".join("1" * counts[language] + "0" * (16 - counts[language]) for language in LANGUAGES)


def first(count: int) -> str:
    """The first of 48 items right."""
    return "1" * count + "0" * (48 - count)


def summaries(numbers: Numbers, model: str) -> tuple[dict, dict, dict]:
    """Behaviour, readout and recoverability as the levels' jobs would have written them."""

    def printed(place: str, quantity: str, group: str = "", items: int = 48) -> int:
        found = numbers.look_up(
            paper="levels", place=place, model=model, quantity=quantity, group=group, dataset="control"
        )
        count = round(found.value * items)
        assert f"{count / items:.3f}" == found.printed, "a number of items"
        return count

    by_language = {
        quantity: {own: printed("Table 5", quantity, name, of) for own, name in LANGUAGES.items()}
        for quantity, of in (("behaviour", 32), ("lm_head", 16), ("probe", 16))
    }
    of_tasks = [printed("Table 1", "behaviour", task) for task in ("qa", "paraphrase")]
    qa, paraphrase = map(right, _shared_out(by_language["behaviour"], *of_tasks))
    assert sum(by_language["lm_head"].values()) == printed("Table 1", "lm_head")
    assert sum(by_language["probe"].values()) == printed("Table 1", "probe")
    own = {"model": model, "revision": "main", "step": None, "dataset": "control", "items": items()}
    chance = [first(12)] * 2
    readout = {
        "qa": {"correct": [first(12), right(by_language["lm_head"])]},
        "paraphrase": {"correct": chance},
        "null": {}, "collisions": 0,
    }  # fmt: skip
    at_mean = [printed("Table 4", "probe", f"seed {seed}") for seed in SEEDS]
    modes = {mode: {"correct": {str(seed): list(chance) for seed in SEEDS}} for mode in MODES}
    for seed, count in zip(SEEDS, at_mean, strict=True):
        modes["ab"]["correct"][str(seed)][1] = first(count)
    # The seed's own best is elsewhere where Table 1 and Table 4 differ; other seeds are at chance there.
    own_best = "ab" if at_mean[0] == sum(by_language["probe"].values()) else "bv"
    modes[own_best]["correct"]["1729"][1] = right(by_language["probe"])
    coding = {"modes": modes, "nested": {}, "null": {}, "ridge": {}, "verb_out": {}, "critical_noise": {}}
    layers = [{"layer": layer, "block": layer - 1 if layer else None, "depth": layer} for layer in (0, 1)]
    return (
        own | {"variants": {"qa": {"correct": qa}, "paraphrase": {"correct": paraphrase}}, "measures": {}},
        own | {"definitions": {"code": readout}},
        own | {"layers": layers, "modes": list(MODES), "seeds": list(SEEDS), "codings": {"paper": coding}},
    )


def _shared_out(both: dict[str, int], qa: int, paraphrase: int) -> tuple[dict[str, int], dict[str, int]]:
    """Right answers of either task by language, which add up to the tasks' and to the languages' sums."""
    assert sum(both.values()) == qa + paraphrase
    of_qa = {language: max(count - 16, 0) for language, count in both.items()}
    for language, count in both.items():
        more = min(min(count, 16) - of_qa[language], qa - sum(of_qa.values()))
        of_qa[language] += more
    assert sum(of_qa.values()) == qa
    return of_qa, {language: count - of_qa[language] for language, count in both.items()}
