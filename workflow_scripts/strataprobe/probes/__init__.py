"""Linear probes: one a layer, all layers solved at once, without torch."""

from strataprobe.probes.results import framed
from strataprobe.probes.scores import measure, metadata, score
from strataprobe.probes.store import Problem, Trained, load, save
from strataprobe.probes.training import train

__all__ = ["Problem", "Trained", "framed", "load", "measure", "metadata", "save", "score", "train"]
