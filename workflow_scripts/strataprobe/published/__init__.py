"""What the three papers print, and the result files that their authors' code writes."""

from strataprobe.published.curves import read_curves
from strataprobe.published.files import Published, read_directory
from strataprobe.published.numbers import COLUMNS, Number, Numbers, read_numbers

__all__ = ["COLUMNS", "Number", "Numbers", "Published", "read_curves", "read_directory", "read_numbers"]
