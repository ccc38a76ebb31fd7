"""Activation patching: one item's residual stream put into another one's pass, layer by layer.

Nothing is imported here: tables read what `effects`, `observed` and `over_models` make of a summary, and need
no model.
"""
