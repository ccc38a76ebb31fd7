"""What is odd about a checkpoint, by its perplexity row and those beside it. Nothing here needs torch."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

FLAGS: dict[str, str] = {
    "not_measured": "it is identified, but has no perplexity: it could not be loaded, or has not been yet",
    "not_finite": "a log-probability of the text is NaN or infinite",
    "worse_than_uniform": "the text is predicted worse than by a uniform choice among all tokens",
    "bos": "the text is predicted better the other way: a BOS is missing, or is one too many",
    "jump": "out of line with the checkpoints before and after it: another checkpoint's weights?",
    "twin": "its weights are byte for byte those of another checkpoint",
}
"""What each flag says; a checkpoint has them in this order."""

Row = Mapping[str, Any]
"""A checkpoint: `revision`, `step`, `status` ("measured", "not_finite" or "not_measured"), `nll`,
`nll_other_bos`, `adds_bos`, `vocabulary`, and `twins`, a list of names."""


def flags(rows: Sequence[Row], limits: Mapping[str, float]) -> list[dict[str, str]]:
    """The flags of every checkpoint of a model, each with what it rests on.

    Args:
        rows: the model's checkpoints, in any order.
        limits: `uniform_nats` (an untrained model's logits have some spread, so it is worse than uniform by
            that much at most), `bos_nats`, `jump_nats`; all in nats a token.

    Returns:
        For each, flag -> text, in the order of `FLAGS`.
    """
    jumps = _jumps(rows, limits["jump_nats"])
    found = []
    for place, row in enumerate(rows):
        said = {
            "not_measured": FLAGS["not_measured"] if row["status"] == "not_measured" else None,
            "not_finite": FLAGS["not_finite"] if row["status"] == "not_finite" else None,
            "worse_than_uniform": _uniform(row, limits["uniform_nats"]),
            "bos": _bos(row, limits["bos_nats"]),
            "jump": jumps.get(place),
            "twin": f"the same weights as {', '.join(row['twins'])}" if row["twins"] else None,
        }
        found.append({name: text for name, text in said.items() if text is not None})
    return found


def _uniform(row: Row, margin: float) -> str | None:
    if row["nll"] is None:
        return None
    uniform = math.log(row["vocabulary"])
    if row["nll"] <= uniform + margin:
        return None
    return f"{row['nll']:.2f} nats a token, where {row['vocabulary']} tokens by chance are {uniform:.2f}"


def _bos(row: Row, margin: float) -> str | None:
    """The other way may also be the only one that is finite."""
    own, other = row["nll"], row["nll_other_bos"]
    if other is None or (own is not None and own - other <= margin):
        return None
    way = "without the tokenizer's BOS" if row["adds_bos"] else "with a BOS, which the tokenizer does not put"
    return f"{other:.2f} nats a token {way}; {'not finite' if own is None else format(own, '.2f')} as it is"


def _jumps(rows: Sequence[Row], margin: float) -> dict[int, str]:
    """Place -> text, of checkpoints far from the median of themselves and both neighbours.

    A neighbour is the nearest checkpoint that has a step and a finite value. In a run of rising or falling
    values that median is the middle one, so fast training is no jump; the first and the last have no two
    neighbours.
    """
    there = [place for place, row in enumerate(rows) if row["step"] is not None and row["nll"] is not None]
    order = sorted(there, key=lambda place: rows[place]["step"])
    found = {}
    for before, here, after in zip(order, order[1:], order[2:], strict=False):
        values = [rows[place]["nll"] for place in (before, here, after)]
        median = statistics.median(values)
        if abs(values[1] - median) > margin:
            found[here] = (
                f"{values[1]:.2f} nats a token, between {values[0]:.2f} ({rows[before]['revision']}) and "
                f"{values[2]:.2f} ({rows[after]['revision']})"
            )
    return found
