"""Pooled hidden states of texts, layer by layer."""

from strataprobe.capture.pooling import LAST, MEAN, MEAN_REST
from strataprobe.capture.windows import EMBED, Settings, Window, capture

__all__ = ["EMBED", "LAST", "MEAN", "MEAN_REST", "Settings", "Window", "capture"]
