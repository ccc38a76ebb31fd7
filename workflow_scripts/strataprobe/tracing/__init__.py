"""Causal tracing: what a model's answer loses with a block's states, and what one block brings back.

Source: fragility paper, appendix B; Meng et al. (2022) for the restoration design.
"""

from strataprobe.tracing.measure import measure
from strataprobe.tracing.rows import write_rows

__all__ = ["measure", "write_rows"]
