"""The table of tracing: what stands in it, the probe's peak beside it, and what the paper prints."""

import pytest

from strataprobe import tables
from strataprobe.errors import StrataprobeError
from strataprobe.published import read_numbers
from tests.tracing_cases import probe_summary, summary


@pytest.fixture(scope="module")
def numbers():
    return read_numbers("resources/published")


def find(rows, **equal):
    return [row for row in rows if all(row[name] == value for name, value in equal.items())]


def only(rows, **equal):
    (row,) = find(rows, **equal)
    return row


def test_every_result_has_its_rows_and_the_table_s_columns(tmp_path):
    made = summary()
    rows = tables.tracing_rows([made], [probe_summary([0.5, 0.9, 0.9, 0.7])])
    for row in rows:
        assert set(row) == set(tables.COLUMNS["tracing"])
    # Clean: three sides, two scores. A result: four blocks, mean, peak, its effect, agreement, gap.
    assert len(rows) == 6 + 1 + 18 * 9 + 6
    tables.write_csv(tmp_path / "t.csv", rows, tables.COLUMNS["tracing"])
    read = tables.read_rows(tmp_path / "t.csv")
    assert [row["design"] for row in read] == [row["design"] for row in rows]
    for own, written in zip(rows, read, strict=True):
        assert written["value"] == pytest.approx(own["value"], rel=1e-5)
        assert (written["draws"], written["n"], written["layer"]) == (own["draws"], own["n"], own["layer"])


def test_rows_are_those_of_the_summary():
    made = summary()
    rows = tables.tracing_rows([made])
    for found in made["results"]:
        named = {name: found[name] for name in ("design", "side", "score")}
        effects = find(rows, **named, measure="indirect_effect")
        assert [row["value"] for row in effects] == [
            one["mean_indirect_effect"] for one in found["layer_scores"]
        ]
        peak = only(rows, **named, measure="peak_layer")
        assert (peak["value"], peak["layer"]) == (found["peak_layer"]["value"],) * 2
        assert [peak["interval_low"], peak["interval_high"]] == found["peak_layer"]["interval"]
        assert peak["depth"] == found["peak_layer"]["value"] / 4
        best = only(rows, **named, measure="peak_effect")
        assert best["value"] == max(row["value"] for row in effects)
        assert bool(find(rows, **named, measure="total_effect")) == (found["design"] == "restoration")
    assert not find(rows, measure="gap")
    assert not find(rows, design="probe")


def test_the_probe_peaks_where_its_mean_over_seeds_does_and_the_gap_counts_from_there():
    probes = [probe_summary([0.5, 0.8, 0.7, 0.5], seed=42), probe_summary([0.5, 0.6, 0.9, 0.5], seed=43)]
    elsewhere = probe_summary([1.0, 0.5, 0.5, 0.5], revision="step0200", step=200)
    rows = tables.tracing_rows([summary()], [*probes, elsewhere])
    probe = only(rows, design="probe")
    assert (probe["value"], probe["layer"], probe["depth"]) == (2, 2, 0.5)
    assert (probe["interval_low"], probe["interval_high"], probe["n"]) == (1, 2, 2)
    for gap in find(rows, measure="gap"):
        named = {name: gap[name] for name in ("design", "side", "score")}
        peak = only(rows, **named, measure="peak_layer")
        for name in ("value", "interval_low", "interval_high"):
            assert gap[name] == peak[name] - 2


def test_probes_that_are_equally_good_in_several_blocks_say_so():
    rows = tables.tracing_rows([summary()], [probe_summary([0.5, 1.0, 1.0, 1.0])])
    probe = only(rows, design="probe")
    assert (probe["value"], probe["note"]) == (1, "the first of 3 blocks with the same accuracy")


def test_what_the_paper_prints_stands_beside_the_same_quantity_at_the_same_step(numbers):
    made = [
        summary(revision=f"step{step}", step=step, seed=seed)
        for seed, step in enumerate((0, 705000, 1413814, 9000))
    ]
    probes = [probe_summary([0.5] * 4, revision="step705000", step=705000)]
    rows = tables.tracing_rows(made, probes, numbers)
    printed = {
        (row["step"], row["design"], row["side"], row["score"], row["measure"]): row["published"]
        for row in rows
        if row["published"] is not None
    }
    published = ("published", "positive", "expected")
    assert printed == {
        (0, *published, "peak_layer"): 5, (0, *published, "mean_effect"): 0.01,
        (705000, *published, "peak_layer"): 5, (705000, *published, "mean_effect"): 7.84,
        (1413814, *published, "peak_layer"): 0, (1413814, *published, "mean_effect"): 7.95,
        (705000, "probe", "", "accuracy", "peak_layer"): 19,
    }  # fmt: skip
    for row in rows:
        if row["published"] is not None:
            assert row["published_model"] == "olmo3-7b"
            assert row["difference"] == pytest.approx(row["value"] - row["published"])
            assert row["published_status"] == (
                "ok" if row["step"] == 1413814 or row["design"] == "probe" else "contradicted"
            )


def test_a_checkpoint_that_is_there_twice_is_refused():
    with pytest.raises(StrataprobeError, match="there twice: nano, step0100, moral"):
        tables.tracing_rows([summary(), summary()])
