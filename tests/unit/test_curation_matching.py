"""Which layers and steps of two conditions match, and what a comparison says without scale: by hand."""

import numpy as np
import pytest

from strataprobe.curation import matching


def test_layers_match_up_to_the_largest_difference_itself():
    a, b = np.array([0.75, 0.75, 0.75, 0.75]), np.array([0.73, 0.729, 0.77, 0.75])
    # 0.75 - 0.73 is above 0.02 by a rounding error, which must not decide.
    assert matching.matched_layers(a, b, 0.02).tolist() == [0, 2, 3]
    assert matching.matched_layers(a, b, 0.0).tolist() == [3]


def test_the_nearest_step_is_never_the_start_and_the_latest_of_equals():
    assert matching.nearest_step(0.7, {0: 0.7, 20: 0.5, 40: 0.66, 60: 0.72}) == 60
    assert matching.nearest_step(0.7, {20: 0.7 + 0.1, 40: 0.6, 60: 0.9}) == 40
    assert matching.nearest_step(0.7, {0: 0.7}) is None


@pytest.mark.parametrize(
    ("raw", "scaled", "said", "note"),
    [
        ((0.1, 2.0), [(0.1, 1), (0.2, 1), (0.3, 1)], "survives", "apart with the same sign: p, q, r"),
        ((-2.0, -0.1), [(-1, -0.1), (-1, 1), (-1, 1)], "in part", "apart with the same sign: p"),
        ((0.1, 2.0), [(-1, -0.1), (-1, 1), (0, 1)], "undercut", "apart with the other sign: p"),
        ((0.1, 2.0), [(-1, 1), (None, None), (-1, 1)], "undercut", "without an interval: q"),
        ((0.0, 2.0), [(0.1, 1), (0.2, 1), (0.3, 1)], "no separation", ""),
        ((None, None), [(0.1, 1), (0.2, 1), (0.3, 1)], "", "raw critical noise has no interval"),
    ],
)
def test_what_is_left_of_a_difference_once_scale_is_taken_out(raw, scaled, said, note):
    assert matching.undercutting(raw, dict(zip("pqr", scaled, strict=True))) == (said, note)
