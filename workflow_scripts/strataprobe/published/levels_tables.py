"""The levels paper's Tables 1 to 9 from our results, the published values beside them.

Long rows, one a number, with the columns `COLUMNS`. `definition` says which of several definitions a row is
of; what is published stands only beside the one that the paper's table was made by: readout `code`, coding
`paper`, seed 1729 or the mean over seeds as the table has it. The others are rows without it.

Layers are given as the paper counts them (`hidden_state`, 0 is the embedding) and as we do (`layer`, block).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from strataprobe.datasets.control import ControlDataset
from strataprobe.published.levels_results import BEHAVIOR, PROBES, READOUT, TYPES, Results, Row, block_of
from strataprobe.published.numbers import BESIDE, Number, Numbers

COLUMNS = (
    *("model", "revision", "dataset", "quantity", "group", "definition"),
    *("hidden_state", "layer", "mode", "value", "spread", "n", "note"),
    *("published_model", *BESIDE, "published_hidden_state", "published_layer"),
)
PROMPT_COLUMNS = ("dataset", "language", "item", "control_type", "variant", "prompt", "a", "b", "gold")
"""Of Table 2, which has texts and no numbers."""
TABLES = tuple(f"levels_table{number}" for number in range(1, 10))
PROMPTS = "levels_table2"
PAPER_MODEL = "qwen3-0.6b-base"
"""The published model to stand beside ours where the paper does not have ours."""

TASKS = ("qa", "paraphrase")
LANGUAGES = {"en": "english", "zh": "chinese", "de": "german"}
SEED = 1729
"""The seed of the paper's main table."""
_VERB_MODE, _VERB_TYPE = "bv", "subject_control"


def table1(found: Results) -> list[Row]:
    """Three levels, surplus and ratio (section 3.2), and what a maximum is worth."""
    main, probe = f"paper, seed {SEED}", f"paper:seed{SEED}"
    low, high = found.value(BEHAVIOR, "mean_behavior"), found.value(PROBES, probe)
    rows = [row for task in TASKS for row in found.told("behaviour", task, BEHAVIOR, task)]
    rows += found.told("behaviour", "", BEHAVIOR, "mean_behavior")
    rows += _readout(found, "code")
    rows += found.told("probe", "", PROBES, probe, definition=main, **found.place(PROBES, probe))
    if low is not None and high is not None:
        rows.append(found.row("surplus", "", high - low, definition=main))
        rows.append(found.row("behaviour_ratio", "", low / high if high else None, definition=main))
    for definition in ("default", "paper", "tuned"):
        rows += _readout(found, definition)
    rows += found.told(
        "lm_head_by_chance", "", READOUT, "null_high:code", definition="code", note="95 %, item sign flips"
    )
    for coding in ("paper", "decorrelated", "pair_out:paper", "pair_out:decorrelated"):
        of = {"definition": f"{coding}, mean over seeds"}
        rows += found.told("probe", "", PROBES, coding, **of, **found.place(PROBES, coding))
        ridge = {"definition": f"{coding}, ridge"}
        rows += found.told("probe_nested", "", PROBES, f"nested:{coding}", **ridge)
        rows += found.told("probe_by_chance", "", PROBES, f"null_high:{coding}", note="95 %", **ridge)
    return rows


def table3(found: Results) -> list[Row]:
    """Best probe of each mode over layers, by the mean over seeds."""
    rows = []
    for mode in [mode for measure, mode, split in found.layers if (measure, split) == ("paper", "all")]:
        if (best := found.peak("paper", mode, "all")) is not None:
            place = {"mode": mode, "hidden_state": best["hidden_state"]}
            rows.append(
                found.row("probe", mode, best["value"], definition="paper", n=len(found.seeds), **place)
            )
    return rows


def table4(found: Results) -> list[Row]:
    """Each seed at the layer and mode that the mean over seeds chooses; sd over seeds with ddof 0."""
    own = {"definition": "paper", **found.place(PROBES, "paper")}
    rows = [
        found.row("probe", f"seed {seed}", found.value(PROBES, f"at_mean:paper:seed{seed}"), n=1, **own)
        for seed in found.seeds
    ]
    if (mean := found.value(PROBES, "paper")) is not None:
        spread = found.value(PROBES, "sd:paper")
        rows.append(found.row("probe", "", mean, spread=spread, n=len(found.seeds), **own))
    return rows


def table5(found: Results) -> list[Row]:
    """Levels by language, at the layers that are best over all items (seed 1729)."""
    rows, probe = [], f"at_pick:paper:seed{SEED}"
    for language in found.languages:
        group = LANGUAGES.get(language, language)
        low, high = found.value(BEHAVIOR, "mean_behavior", language), found.value(PROBES, probe, language)
        rows += found.told("behaviour", group, BEHAVIOR, "mean_behavior", language)
        rows += found.told("lm_head", group, READOUT, "at_pick:code", language, definition="code")
        rows += found.told("probe", group, PROBES, probe, language, definition="paper")
        if low is not None and high is not None:
            rows.append(found.row("surplus", group, high - low, definition="paper"))
    return rows


def table6(found: Results) -> list[Row]:
    """Options in both orders, debiased, and contrastive scoring; by type."""
    rows = []
    for name in ("forced_choice", "label_choice", "contrastive"):
        quantity = "behaviour" if name == "contrastive" else "debiased"
        rows += found.told(quantity, name, BEHAVIOR, name)
        for kind, short in TYPES.items():
            rows += found.told(quantity, f"{name}/{short}", BEHAVIOR, name, kind)
        rows += found.told("order_gap", name, BEHAVIOR, f"order_gap:{name}")
    return rows


def table7(found: Results) -> list[Row]:
    """Behaviour by task and type beside the best probe of the type, by the mean over seeds."""
    rows = []
    for task in TASKS:
        for kind, short in TYPES.items():
            group, place = f"{task}/{short}", found.place(PROBES, "paper", kind)
            low, high = found.value(BEHAVIOR, task, kind), found.value(PROBES, "paper", kind)
            rows += found.told("behaviour", group, BEHAVIOR, task, kind)
            rows += found.told("probe", group, PROBES, "paper", kind, definition="paper", **place)
            if low is not None and high is not None:
                rows.append(found.row("gap", group, high - low, definition="paper"))
    return rows


def table8(found: Results) -> list[Row]:
    """Item-out against verb-out in every mode, at the layer where mode v is best; sd with ddof 1."""
    best = found.peak("paper", "v", "all")
    if best is None:
        return []
    modes = list(dict.fromkeys(mode for measure, mode, _ in found.layers if measure == "verb_out:paper"))
    return [
        row
        for kind, short in reversed(TYPES.items())
        for mode in modes
        for row in _verb_out(found, mode, kind, short, best["hidden_state"])
    ]


def table9(found: Results) -> list[Row]:
    """Verb-out where the probe of candidate b and predicate reads subject control best."""
    best = found.peak("paper", _VERB_MODE, _VERB_TYPE)
    if best is None:
        return []
    return _verb_out(found, _VERB_MODE, _VERB_TYPE, TYPES[_VERB_TYPE], best["hidden_state"])


def beside(
    rows: Iterable[Row], numbers: Numbers, table: str, models: Iterable[Mapping[str, Any]] = ()
) -> list[Row]:
    """Rows with what the paper prints in that table for the same thing.

    Layers need not agree: a peak is where it is in each model. A row of a definition that the paper's table
    was not made by has nothing beside it. Datasets are compared by name.

    Args:
        table: of `TABLES`.
        models: `name` of ours and, where it was tuned from another of the study, `base`.
    """
    place = f"Table {table.removeprefix('levels_table')}"
    known = known_models(numbers)
    there = {number.model for number in numbers.find(paper="levels", place=place)}
    tuned = {entry["name"] for entry in models if entry.get("base")}
    placed = []
    for row in rows:
        model = published_model(row["model"], known, there, tuned=row["model"] in tuned)
        number = None
        if model is not None and row["definition"] in _PUBLISHED.get(table, ("", "code", "paper")):
            number = numbers.look_up(
                paper="levels", place=place, model=model,
                **{name: row[name] for name in ("dataset", "quantity", "group")},
            )  # fmt: skip
        placed.append({**row, **_columns(row["value"], number)})
    return placed


def known_models(numbers: Numbers) -> set[str]:
    """Every model that the paper measured; changes by tuning are under a bare name that is neither's."""
    found = numbers.find(paper="levels")
    return {number.model for number in found if number.model and "change" not in number.quantity}


def published_model(model: str, known: set[str], there: set[str], *, tuned: bool = False) -> str | None:
    """The published model to stand beside ours in a table.

    The same one by its name, with or without what the paper adds to it ("-base", "-instruct"); then no other
    stands for it in a table that lacks it. Beside a model the paper does not have stands `PAPER_MODEL`, or
    the first of the table.

    Args:
        known: all published models.
        there: those of the table.
        tuned: whether ours was tuned from a base model; a bare name can mean either.
    """
    bare = model.removesuffix("-it")
    ends = ("-instruct", "-base") if tuned or bare != model else ("-base", "-instruct")
    same = [name for name in (model, *(bare + end for end in ends)) if name in known]
    if same:
        return same[0] if same[0] in there else None
    return PAPER_MODEL if PAPER_MODEL in there else min(there, default=None)


def prompt_rows(dataset: ControlDataset, variants: Sequence[str] = ("qa", "paraphrase")) -> list[Row]:
    """Table 2: both formats of behaviour, as the first subject-control item of each language is asked."""
    rows = []
    for language in dataset.languages:
        own = [item for item in dataset.controls if item.language == language]
        item = next((one for one in own if one.subject_controls), own[0])
        for variant in variants:
            if variant in item.prompts:
                asked = item.prompts[variant]
                rows.append(
                    {
                        "dataset": dataset.name, "language": language, "item": item.id,
                        "control_type": item.control_type, "variant": variant, "prompt": asked.prompt,
                        "a": asked.a, "b": asked.b, "gold": item.gold,
                    }
                )  # fmt: skip
    return rows


def columns(table: str) -> tuple[str, ...]:
    """The columns of a table's rows."""
    return PROMPT_COLUMNS if table == PROMPTS else COLUMNS


OF_RESULTS = {
    "levels_table1": table1,
    "levels_table3": table3,
    "levels_table4": table4,
    "levels_table5": table5,
    "levels_table6": table6,
    "levels_table7": table7,
    "levels_table8": table8,
    "levels_table9": table9,
}
"""Table -> its rows from the results of a (model, dataset)."""

_PUBLISHED = {"levels_table1": ("", "code", f"paper, seed {SEED}")}
"""The definitions that a published table was made by; all others by readout `code` and coding `paper`."""


def _verb_out(found: Results, mode: str, kind: str, short: str, hidden_state: int) -> list[Row]:
    """Item-out, verb-out and their gap with its verdict, at one layer."""
    rows = []
    for quantity, measure in (
        ("item_out", "paper"), ("verb_out", "verb_out:paper"), ("verb_out_gap", "gap:paper"),
    ):  # fmt: skip
        at = found.at(measure, mode, kind, hidden_state)
        if at is not None:
            rows.append(
                found.row(
                    quantity, f"{mode}/{short}", at["value"], spread=at["sd"], n=len(found.seeds),
                    note=at["note"], definition="paper", mode=mode, hidden_state=hidden_state,
                )
            )  # fmt: skip
    return rows


def _columns(value: float | None, number: Number | None) -> Row:
    if number is None:
        blank = dict.fromkeys(("published_hidden_state", "published_layer", *BESIDE[:3]))
        return {**blank, **dict.fromkeys(("published_model", *BESIDE[3:]), "")}
    return {
        "published_model": number.model,
        "published": number.value,
        "published_spread": number.spread,
        "difference": None if value is None else value - number.value,
        "published_status": number.status,
        "published_note": number.note,
        "published_hidden_state": number.layer,
        "published_layer": block_of(number.layer),
    }


def _readout(found: Results, definition: str) -> list[Row]:
    place = found.place(READOUT, definition)
    return found.told("lm_head", "", READOUT, definition, definition=definition, **place)
