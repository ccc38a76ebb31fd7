"""Leave-group-out transfer, decodability in distribution and within groups, and lift over a floor."""

from strataprobe.transfer.groups import measure
from strataprobe.transfer.lift import lift
from strataprobe.transfer.solver import Solution, solve

__all__ = ["Solution", "lift", "measure", "solve"]
