"""Datasets: reading and checking them, and splitting them by pair."""
