"""Batches: cut where the fewest tokens are computed, always full of work, the same whoever waits."""

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strataprobe import lm as lm_room
from strataprobe.errors import ModelError
from strataprobe.lm.batches import Batches, batch_ends
from strataprobe.lm.rows import Row
from tests.tiny_models import save_tiny_model


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    directory = save_tiny_model("llama", tmp_path_factory.mktemp("llama"))
    return lm_room.load(directory, dtype="float32", device="cpu")


def cost(lengths, ends, each):
    """Padded tokens, and `each` more a batch."""
    starts = [0, *ends[:-1]]
    return sum((end - start) * lengths[start] + each for start, end in zip(starts, ends, strict=True))


def allowed(lengths, ends, budget):
    starts = [0, *ends[:-1]]
    return all(
        end - start == 1 or (end - start) * lengths[start] <= budget
        for start, end in zip(starts, ends, strict=True)
    )


def every_cut(count):
    """All ways to cut so many sequences into batches, as ends."""
    for mask in range(2 ** (count - 1)):
        yield [place + 1 for place in range(count - 1) if mask >> place & 1] + [count]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.integers(1, 200))
def test_no_other_cut_within_the_budget_computes_fewer_tokens(lengths, budget):
    lengths = sorted(lengths, reverse=True)
    found, each = batch_ends(lengths, budget), max(1, budget // 16)
    assert allowed(lengths, found, budget)
    least = min(
        cost(lengths, ends, each) for ends in every_cut(len(lengths)) if allowed(lengths, ends, budget)
    )
    assert found[-1] == len(lengths)
    assert cost(lengths, found, each) == least


def test_nothing_has_no_batch_and_one_length_fills_the_budget():
    assert batch_ends([], 100) == []
    assert batch_ends([10] * 25, 100) == [10, 20, 25] or cost([10] * 25, batch_ends([10] * 25, 100), 6) == 268


def rows(lengths):
    return [Row((number,), 0, length) for number, length in enumerate(lengths)]


def batches(llama, lengths, budget, workers):
    return Batches(
        llama, [[1] * length for length in lengths], [f"text {i}" for i in lengths], budget, workers
    )


def test_a_slow_batch_keeps_no_worker_waiting(llama):
    """While the first batch runs, the other worker does the rest: none waits for its neighbour."""
    first, others = threading.Event(), []

    def forward(chosen):
        if chosen[0].length == 9:
            assert first.wait(timeout=30), "the other batches were not run meanwhile"
        else:
            others.append(chosen[0].length)
            if len(others) == 2:
                first.set()
        return chosen[0].length

    run = batches(llama, [9, 5, 3], 1, workers=2).run(rows([9, 5, 3]), forward)
    assert [result for _, result in run] == [9, 5, 3]


def test_a_reader_that_stops_early_leaves_no_batch_to_run(llama):
    done = []

    def forward(chosen):
        time.sleep(0.01)
        done.append(chosen[0].length)
        return True

    run = batches(llama, list(range(30, 0, -1)), 1, workers=2).run(rows(list(range(30, 0, -1))), forward)
    next(run)
    run.close()
    seen = len(done)
    time.sleep(0.1)
    assert len(done) == seen < 10


def test_where_memory_runs_out_what_waits_is_cut_smaller_too(llama):
    sizes = []

    def forward(chosen):
        sizes.append(len(chosen))
        if len(chosen) > 2:
            raise MemoryError
        return True

    lengths = [4] * 20
    found = [
        row for chosen, _ in batches(llama, lengths, 40, 1).run(rows(lengths), forward) for row in chosen
    ]
    assert sorted(row.members for row in found) == [(number,) for number in range(20)]
    assert sum(size for size in sizes if size > 2) <= 2 * (10 + 5)  # what was on its way, each time
    with pytest.raises(ModelError, match="memory ran out"):
        list(batches(llama, [4], 40, 1).run(rows([4]), lambda chosen: forward(chosen * 3)))
