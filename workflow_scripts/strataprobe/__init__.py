"""Strataprobe: what a language model encodes, reads out and deploys, layer by layer, over training."""
