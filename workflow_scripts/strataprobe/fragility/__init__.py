"""Fragility: how much activation noise a trained probe stands, exactly and as published."""

from strataprobe.fragility.critical import Critical, continuous_critical_noise, grid_critical_noise
from strataprobe.fragility.measure import measure
from strataprobe.fragility.noise import exact_accuracy, sampled_accuracy

__all__ = [
    "Critical",
    "continuous_critical_noise",
    "exact_accuracy",
    "grid_critical_noise",
    "measure",
    "sampled_accuracy",
]
