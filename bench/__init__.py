"""Measured comparisons, each one command: `python -m bench NAME`."""
