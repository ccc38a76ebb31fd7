"""What the three papers print, and the result files that their authors' code writes."""

from strataprobe.published.numbers import COLUMNS, Number, Numbers, read_numbers

__all__ = ["COLUMNS", "Number", "Numbers", "read_numbers"]
