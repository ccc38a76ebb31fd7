"""The authors' own tracing files, and what the paper prints of them."""

from pathlib import Path

import pytest

from strataprobe.published import read_numbers
from strataprobe.published.files import read_directory

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT.parent / "shared/reference/deepsteer/olmo3-7b"
STEPS = (0, 705000, 1413814)


def written(step: int) -> dict[str, float]:
    numbers = read_numbers(ROOT / "resources/published/fragility.csv")
    own = numbers.find(paper="fragility", place="authors' files", step=step)
    return {number.quantity: number.value for number in own}


def test_the_column_of_the_paper_s_table_is_the_mean_over_blocks() -> None:
    """7.95 at the end: their file's peak is 9.60, its mean over blocks 7.95."""
    (number,) = read_numbers(ROOT / "resources/published/fragility.csv").find(
        paper="fragility", place="Table B", step=1414000, quantity="mean_indirect_effect"
    )
    assert abs(number.value - written(1413814)["mean_indirect_effect"]) <= number.rounding
    assert abs(number.value - written(1413814)["peak_mean_indirect_effect"]) > 1


@pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference's files (deepsteer) are not here")
def test_golden_the_numbers_of_the_authors_files_are_theirs() -> None:
    found = {summary["step"]: summary for summary in read_directory(REFERENCE, dataset="moral").tracing}
    assert tuple(found) == STEPS
    for step, summary in found.items():
        assert summary["prompts"] == 40
        for quantity, value in written(step).items():
            assert round(summary[quantity], 4) == value
