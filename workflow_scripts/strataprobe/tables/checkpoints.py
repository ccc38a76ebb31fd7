"""Rows of the checkpoints themselves: what each is, how it predicts a fixed text, and what is odd."""

from collections.abc import Mapping, Sequence
from typing import Any

from strataprobe.perplexity.flags import flags
from strataprobe.tables.twins import twins
from strataprobe.tabular.columns import Row

Record = Mapping[str, Any]


def checkpoint_rows(
    model: str,
    identities: Sequence[Record],
    perplexities: Sequence[Record],
    limits: Mapping[str, float],
) -> list[Row]:
    """One row a checkpoint of a model, in the order of its identities.

    A checkpoint with an identity and no perplexity (its weights could not be loaded, say) has a row that
    says so; one without an identity has none.

    Args:
        model: whose rows.
        identities: of every model of the study, so that twins under other names are found.
        perplexities: of this model; one of other weights than its checkpoint now has counts as none.
        limits: as `perplexity.flags.flags`.
    """
    beside = twins((_name(identity), identity["weights_sha256"]) for identity in identities)
    measured = {(one["revision"], one["provenance"]["weights_sha256"]): one for one in perplexities}
    rows = [
        _row(one, measured.get((one["revision"], one["weights_sha256"])), beside[_name(one)])
        for one in identities
        if one["model"] == model
    ]
    found = flags(rows, limits)
    return [_written(row, said) for row, said in zip(rows, found, strict=True)]


_OF_IDENTITY = ("model", "revision", "step", "commit", "weights_sha256", "tokenizer_sha256", "parameters")
_OF_PERPLEXITY = ("tokens", "nll", "perplexity", "bits_per_byte", "adds_bos", "vocabulary")


def _name(identity: Record) -> str:
    return f"{identity['model']}/{identity['revision']}"


def _row(identity: Record, found: Record | None, beside: Sequence[str]) -> Row:
    known: Record = found or {}
    other = known.get("other_bos") or {}
    return {
        **{name: identity[name] for name in _OF_IDENTITY},
        "status": known.get("status", "not_measured"),
        **{name: known.get(name) for name in _OF_PERPLEXITY},
        "nll_other_bos": other.get("nll"),
        "twins": list(beside),
    }


def _written(row: Row, said: Mapping[str, str]) -> Row:
    """The row as the table has it: lists as one text, yes and no, nothing of text as ""."""
    return {
        **row,
        "commit": row["commit"] or "",
        "adds_bos": {True: "yes", False: "no"}.get(row["adds_bos"], ""),
        "twins": ";".join(row["twins"]),
        "flags": ";".join(said),
        "note": "; ".join(f"{name}: {text}" for name, text in said.items()),
    }
