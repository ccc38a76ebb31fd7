"""Perplexity of one fixed text: a sanity row of every checkpoint, and what it gives away."""
