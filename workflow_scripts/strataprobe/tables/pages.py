"""The table of checkpoints as a page to read, for the report."""

import html
import os
from collections.abc import Sequence

from strataprobe.files import atomic
from strataprobe.perplexity.flags import FLAGS
from strataprobe.tabular.columns import Row

_TITLE = "Checkpoints: perplexity of a fixed text, and what is odd"
_SHOWN = {
    "model": "model",
    "revision": "revision",
    "step": "step",
    "nll": "nats a token",
    "nll_other_bos": "nats, BOS the other way",
    "perplexity": "perplexity",
    "bits_per_byte": "bits a byte",
    "tokens": "tokens",
    "flags": "flags",
    "note": "why",
    "weights_sha256": "weights",
    "tokenizer_sha256": "tokenizer",
    "commit": "commit",
}
_STYLE = (
    "body{font:14px sans-serif;margin:1.5em}table{border-collapse:collapse}"
    "th,td{border-bottom:1px solid #ddd;padding:.25em .6em;text-align:left;vertical-align:top}"
)


def write_checkpoints_page(path: str | os.PathLike[str], rows: Sequence[Row]) -> None:
    """Write the rows of the table as a page of its own, complete or not at all; checksums are shortened."""
    import pandas as pd

    shown = [{heading: _text(name, row[name]) for name, heading in _SHOWN.items()} for row in rows]
    frame = pd.DataFrame(shown, columns=list(_SHOWN.values()))
    with pd.option_context("display.max_colwidth", None):  # else long texts are cut
        table = frame.to_html(index=False, border=0)
    odd = sum(bool(row["flags"]) for row in rows)
    meanings = "".join(f"<dt>{name}</dt><dd>{html.escape(said)}</dd>" for name, said in FLAGS.items())
    page = "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f"<title>{_TITLE}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{_TITLE}</h1>",
            f"<p>{odd} of {len(rows)} checkpoints are flagged.</p>",
            f"<div>\n{table}\n</div>\n<dl>{meanings}</dl>\n</body>\n</html>\n",
        ]
    )
    with atomic(path) as place:
        place.write_text(page, encoding="utf-8")


def _text(name: str, value: object) -> str:
    if value is None:
        return ""
    if name in ("weights_sha256", "tokenizer_sha256", "commit"):
        return str(value)[:12]
    return f"{value:.4g}" if isinstance(value, float) else str(value)
