"""Tables of the three levels as a made-up study of the levels paper's eleven models would give them.

The numbers are drawn from a seeded generator around what the paper reports: nothing is measured here. The
names of measures are those of the tables (a test compares them with what the library writes).
"""

from typing import Any

import numpy as np
import pandas as pd

LANGUAGES, TYPES = ("en", "zh", "de"), ("object_control", "subject_control")
SIMPLE = ("all", *LANGUAGES, *TYPES)
SPLITS = (*SIMPLE, *(f"{language}:{kind}" for language in LANGUAGES for kind in TYPES))
MODES = ("ab", "av", "bv", "abv", "v")
TASKS = ("qa", "paraphrase")
CODINGS = ("paper", "decorrelated")
# Of each coding and scheme of folds, how much lower than the paper's.
PROBES = {"paper": 0.0, "decorrelated": 0.06, "pair_out:paper": 0.03, "pair_out:decorrelated": 0.07}
# (behaviour in QA, in paraphrase, readout, recoverability) over all items, and blocks.
MODELS = {
    "qwen3-0.6b-base": (0.54, 0.65, 0.71, 0.94, 28),
    "qwen3-0.6b-instruct": (0.42, 0.60, 0.67, 0.83, 28),
    "qwen3-1.7b-base": (0.69, 0.73, 0.77, 0.98, 28),
    "qwen3-1.7b-instruct": (0.77, 0.77, 0.79, 0.96, 28),
    "qwen3-14b-instruct": (0.81, 0.77, 0.79, 1.00, 40),
    "llama-3.2-1b-base": (0.52, 0.62, 0.69, 0.81, 16),
    "llama-3.2-1b-instruct": (0.48, 0.54, 0.58, 0.62, 16),
    "llama-3.2-3b-base": (0.69, 0.73, 0.75, 0.96, 28),
    "llama-3.2-3b-instruct": (0.71, 0.71, 0.73, 0.75, 28),
    "gemma-4-e4b-base": (0.52, 0.60, 0.60, 0.60, 42),
    "gemma-4-e4b-instruct": (0.44, 0.50, 0.58, 0.67, 42),
}
FEW = ("qwen3-0.6b-base", "qwen3-0.6b-instruct", "llama-3.2-1b-base")
PAIRS = tuple((name, f"{name.removesuffix('-base')}-instruct") for name in MODELS if name.endswith("-base"))
CHOICE = "readout default; coding pair_out:decorrelated, mean over seeds"


def size(split: str) -> int:
    return 48 if split == "all" else 8 if ":" in split else 24 if split in TYPES else 16


def _key(model: str, revision: str, step: int | None, dataset: str) -> dict[str, Any]:
    place = {"model": model, "revision": revision, "step": np.nan if step is None else step}
    return {**place, "dataset": dataset, "conventions": "default"}


def levels_frame(
    models=FEW, *, revision="main", step=None, dataset="control", scale=1.0, seed=0
) -> pd.DataFrame:
    """`levels` rows: with `scale` 0 everything is at chance, with 1 as in `MODELS`."""
    rows: list[dict] = []
    for place, model in enumerate(models):
        rng = np.random.default_rng([seed, place, 0 if step is None else step + 1])
        for split in SPLITS:
            own = {"split": split, "n": size(split), "clusters": 16}
            found = [*_behavior(split, MODELS[model], scale, rng)]
            values = {row["measure"]: row["value"] for row in found}
            found += _best(split, MODELS[model], scale, rng)
            values |= {row["measure"]: row["value"] for row in found if row["level"] == "recoverability"}
            found += _summary(split, values)
            rows += [{**_key(model, revision, step, dataset), **own, **row} for row in found]
    return pd.DataFrame(rows)


def _row(level: str, measure: str, value: float, half: float | None = None, note: str = "") -> dict:
    low, high = (np.nan, np.nan) if half is None else (value - half, value + half)
    bounded = level != "summary" and not measure.startswith(("d_prime", "criterion"))
    if half is not None and bounded:
        low, high = max(low, 0.0), min(high, 1.0)
    row = {"level": level, "measure": measure, "value": float(value), "note": note}
    return row | {"interval_low": low, "interval_high": high}


def _near(centre: float, split: str, scale: float, rng: np.random.Generator, by: float = 0.0) -> float:
    centre = 0.5 + scale * (centre - 0.5) + by + rng.normal(0, 0.02)
    return float(np.clip(round(centre * size(split)) / size(split), 0, 1))


def _behavior(split: str, given: tuple, scale: float, rng: np.random.Generator):
    tilt = {"object_control": 0.12, "subject_control": -0.17}.get(split.split(":")[-1], 0.0)
    half = 0.9 / np.sqrt(size(split))

    def near(place: int, by: float = 0.0) -> float:
        return _near(given[place], split, scale, rng, tilt + by)

    found = {"qa": near(0), "paraphrase": near(1), "statement": near(1), "contrastive": near(0)}
    found["mean_behavior"] = (found["qa"] + found["paraphrase"]) / 2
    for kind, (one, other) in {"forced_choice": (0.09, -0.08), "label_choice": (-0.03, 0.05)}.items():
        found[f"{kind}:ab"], found[f"{kind}:ba"] = near(0, one), near(0, other)
        found[kind] = (found[f"{kind}:ab"] + found[f"{kind}:ba"]) / 2
        found[f"order_gap:{kind}"] = abs(found[f"{kind}:ab"] - found[f"{kind}:ba"])
    for measure, value in found.items():
        yield _row("behavior", measure, value, half)
    if split.split(":")[-1] not in TYPES:
        for task, accuracy in zip(TASKS, given[:2], strict=True):
            d_prime = 4 * scale * (accuracy - 0.5) + rng.normal(0, 0.05)
            yield _row("behavior", f"d_prime:{task}", d_prime, 4 * half)
            yield _row("behavior", f"criterion:{task}", 0.6 - 0.2 * scale + rng.normal(0, 0.05), 2 * half)
            pairs = _row("behavior", f"both_right:{task}", max(accuracy - 0.25, 0), half, "n is pairs")
            yield pairs | {"clusters": 8}


def _best(split: str, given: tuple, scale: float, rng: np.random.Generator):
    """Readouts and probes: best of the split, and at the pick over all items; chance of the maximum."""
    half, root = 0.9 / np.sqrt(size(split)), np.sqrt(size(split))
    for definition in ("default", "code", "paper"):
        best = max(_near(given[2], split, scale, rng), 0.56)
        yield _row("readout", definition, best, 0.8 * half)
        yield _row("readout", f"at_pick:{definition}", best if split == "all" else best - 0.04, 0.8 * half)
        yield _row("readout", f"layer:{definition}", round(0.8 * given[4]), note="qa")
        yield _row("readout", f"null_high:{definition}", 0.5 + 1.35 / root)
    for coding, less in PROBES.items():
        for name in (coding, *([f"{coding}:seed1729"] if coding in CODINGS else [])):
            best = max(_near(given[3] - less, split, scale, rng), 0.58)
            yield _row("recoverability", name, best, 0.6 * half)
            yield _row(
                "recoverability", f"at_pick:{name}", best if split == "all" else best - 0.04, 0.6 * half
            )
            yield _row("recoverability", f"layer:{name}", round(0.6 * given[4]), note="ab")
        if split == "all":
            yield _row("recoverability", f"null_high:{coding}", 0.5 + 1.6 / root, note="ridge")


def _summary(split: str, values: dict[str, float]):
    half, probe = 0.9 / np.sqrt(size(split)), values["at_pick:pair_out:decorrelated"]
    for name, of in {"": "mean_behavior", ":qa": "qa", ":paraphrase": "paraphrase"}.items():
        yield _row("summary", f"surplus{name}", probe - values[of], half, CHOICE)
    broken = probe < values["mean_behavior"] - 1 / size(split)
    note = f"behaviour > probe; {CHOICE}" if broken else CHOICE
    yield _row("summary", "ordering", float(not broken), note=note)


def layers_frame(
    models=FEW, *, revision="main", step=None, dataset="control", scale=1.0, seed=0
) -> pd.DataFrame:
    """`levels_layers` rows: readouts, probes, verb-out by type, critical noise of all items."""
    rows: list[dict] = []
    for place, model in enumerate(models):
        rng = np.random.default_rng([seed, place, 7 if step is None else step + 8])
        blocks = MODELS[model][4]
        for index in range(blocks + 1):
            of = {"hidden_state": index, "layer": index - 1 if index else np.nan, "depth": index / blocks}
            of |= _key(model, revision, step, dataset)
            rows += [{**of, **row} for row in _of_layer(MODELS[model], index / blocks, scale, rng)]
    return pd.DataFrame(rows)


def _of_layer(given: tuple, depth: float, scale: float, rng: np.random.Generator) -> list[dict]:
    rise = scale / (1 + np.exp(-14 * (depth - 0.3)))
    found: list[dict] = []

    def add(measure, mode, split, value, sd=np.nan, note="", level="recoverability"):
        row = {"level": level, "measure": measure, "mode": mode, "split": split}
        found.append({**row, "value": float(value), "sd": float(sd), "note": note})

    for split in SIMPLE:
        late = 0.5 + scale * (given[2] - 0.5) * depth**2
        for definition in ("default", "code", "paper"):
            for task in TASKS if definition != "paper" else ("sentence",):
                add(definition, task, split, late + rng.normal(0, 0.025), level="readout")
    for mode, less in zip(MODES, (0.0, 0.2, 0.02, 0.06, 0.1), strict=True):
        for coding, worse in PROBES.items():
            top = max(given[3] - 0.5 - less - worse * (given[3] < 0.96), 0.02)
            probe = 0.5 + rise * top * (1 - 0.15 * max(depth - 0.7, 0))
            for split in SIMPLE:
                item_out = float(np.clip(probe + rng.normal(0, 0.015), 0, 1))
                add(coding, mode, split, item_out, abs(rng.normal(0.015, 0.01)))
                if split in TYPES and coding in CODINGS:
                    middle = np.exp(-(((depth - 0.5) / 0.22) ** 2)) * (given[3] >= 0.96)
                    held = item_out - (0.42 - 0.4 * middle) * rise + rng.normal(0, 0.02)
                    add(f"verb_out:{coding}", mode, split, held, abs(rng.normal(0.03, 0.01)))
                    add(f"gap:{coding}", mode, split, item_out - held, note=verdict(item_out, held))
                    add(f"balanced:{coding}", mode, split, (item_out + held) / 2)
            reached = probe > 0.75
            noise = (probe - 0.74) * 4 if reached else np.nan
            note = "" if reached else "0 of 3 seeds"
            add(f"critical_noise_rms:{coding}", mode, "all", noise, 0.05 * noise, note)
            raw = noise * (0.5 + 5 * depth)
            add(f"critical_noise:{coding}", mode, "all", raw, 0.05 * raw, note)
    return found


def verdict(item_out: float, verb_out: float) -> str:
    """As DEFINITIONS has it for verb-out."""
    gap = item_out - verb_out
    if gap <= -0.10:
        return "unstable"
    if gap >= 0.30:
        return "leakage-dominant"
    if gap >= 0.10:
        return "partial"
    return "clean" if item_out >= 0.75 else "learned nothing"


def changes_frame(pairs=PAIRS) -> pd.DataFrame:
    """`levels_models` rows of each pair, from the same numbers as `levels_frame` of all models."""
    levels = levels_frame(list(MODELS))
    of = {
        "mean_behavior": "mean_behavior",
        "readout": "at_pick:default",
        "recoverability": "at_pick:pair_out:decorrelated",
    }
    rows = []
    for base, tuned in pairs:
        for split in SPLITS:
            for name, measure in {**of, "surplus": "surplus"}.items():
                own = levels[(levels["split"] == split) & (levels["measure"] == measure)]
                value = own.set_index("model")["value"]
                change = value[tuned] - value[base]
                note = "" if name == "mean_behavior" else CHOICE
                row = {"quantity": f"change:{name}", "model": tuned, "other": base, "dataset": "control"}
                row |= {"split": split, "value": change, "note": note}
                rows.append(row | {"interval_low": change - 0.12, "interval_high": change + 0.12})
    return pd.DataFrame(rows)


STEPS = (0, 10, 25, 60, 120, 240, 400, 600)
EXPECTED = tuple((f"step{step:04d}", step) for step in STEPS)


def trajectory(leave_out=(), model="llama-3.2-3b-base") -> tuple[pd.DataFrame, pd.DataFrame]:
    """(levels, levels_layers) of one model over training."""
    levels, layers = [], []
    for name, step in EXPECTED:
        if step not in leave_out:
            given = {"revision": name, "step": step, "scale": float(1 / (1 + np.exp(-(step - 180) / 50)))}
            levels.append(levels_frame([model], **given))
            layers.append(layers_frame([model], **given))
    return pd.concat(levels, ignore_index=True), pd.concat(layers, ignore_index=True)
