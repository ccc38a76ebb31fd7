"""Probe recoverability: what linear probes read of control at any layer, and what their best is worth."""

from strataprobe.recoverability.leave_out import leave_out
from strataprobe.recoverability.measure import measure, read_states

__all__ = ["leave_out", "measure", "read_states"]
