"""Steering: is the direction that a probe reads also one that the model answers by?"""

from strataprobe.steering.measure import measure
from strataprobe.steering.rows import write_rows

__all__ = ["measure", "write_rows"]
