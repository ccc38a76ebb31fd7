"""The table of checkpoints and its page; twins as every table over training names them."""

import copy
import re

import pytest

import join_checkpoints
import tabulate_checkpoints
from strataprobe import checkpoints, files, tables
from strataprobe.tables.twins import twin_column, twins
from tests import structure_cases as cases

LIMITS = {"uniform_nats": 2.0, "bos_nats": 0.5, "jump_nats": 0.5}


def identity(revision, weights, model="tiny", step=None, commit=None):
    return {
        "model": model, "revision": revision, "step": step, "commit": commit, "weights_sha256": weights * 64,
        "tokenizer_sha256": "7" * 64, "parameters": 1234567, "source": "local",
    }  # fmt: skip


def perplexity(revision, nll, weights, step=None, model="tiny", other=None):
    status = "not_finite" if nll is None else "measured"
    return {
        "model": model, "revision": revision, "step": step, "status": status, "nll": nll, "adds_bos": True,
        "perplexity": None if nll is None else 2.5 * nll, "bits_per_byte": None if nll is None else nll / 3,
        "tokens": 400, "vocabulary": 1000, "other_bos": other and {"nll": other},
        "provenance": {"weights_sha256": weights * 64},
    }  # fmt: skip


IDENTITIES = [
    identity("step0", "a", step=0, commit="c" * 40),
    identity("step10", "b", step=10),
    identity("step20", "d", step=20),
    identity("step30", "d", step=30),
    identity("step40", "e", step=40),
    identity("main", "d", model="other"),
    identity("end", "f", model="other"),
]
PERPLEXITIES = [
    perplexity("step0", 7.0, "a", 0, other=6.9),
    perplexity("step20", 3.0, "d", 20, other=2.0),
    perplexity("step30", None, "d", 30),
    perplexity("step40", 2.5, "9", 40),
]


def _six_digits(value):
    return float(f"{value:.6g}") if isinstance(value, float) else value


@pytest.fixture
def rows():
    return tables.checkpoint_rows("tiny", IDENTITIES, PERPLEXITIES, LIMITS)


def test_every_identified_checkpoint_has_a_row_that_says_what_is_odd(rows):
    found = {row["revision"]: row for row in rows}
    assert list(found) == ["step0", "step10", "step20", "step30", "step40"]
    assert {name: row["status"] for name, row in found.items()} == {
        "step0": "measured", "step10": "not_measured", "step20": "measured", "step30": "not_finite",
        "step40": "not_measured",
    }, "of other weights than the checkpoint now has is not measured"  # fmt: skip
    assert {name: row["flags"] for name, row in found.items()} == {
        "step0": "", "step10": "not_measured", "step20": "bos;twin", "step30": "not_finite;twin",
        "step40": "not_measured",
    }  # fmt: skip
    assert found["step20"]["twins"] == "tiny/step30;other/main"
    assert (found["step0"]["commit"], found["step10"]["commit"]) == ("c" * 40, "")
    assert (found["step20"]["nll"], found["step20"]["nll_other_bos"]) == (3.0, 2.0)
    assert "2.00 nats a token without the tokenizer's BOS; 3.00 as it is" in found["step20"]["note"]


def test_rows_are_written_and_read_back_the_same(rows, tmp_path):
    path = tmp_path / "t.csv"
    tables.write_csv(path, rows, tables.COLUMNS["checkpoints"])
    short = [{name: _six_digits(value) for name, value in row.items()} for row in rows]
    assert tables.read_rows(path) == short


def test_the_scripts_make_parts_a_table_and_a_page_that_names_every_flag(tmp_path):
    for kind, records in (("identity", IDENTITIES), ("perplexity", PERPLEXITIES)):
        for place, record in enumerate(records):
            files.write_json(tmp_path / f"{kind}{place}.json", record)
    identities = sorted(tmp_path.glob("identity*.json"))
    parts = [tmp_path / f"{model}.csv" for model in ("tiny", "other")]
    tabulate_checkpoints.main(
        identities, sorted(tmp_path.glob("perplexity*.json")), parts[0], model="tiny", limits=LIMITS
    )
    tabulate_checkpoints.main(identities, [], parts[1], model="other", limits=LIMITS)
    join_checkpoints.main(parts, tmp_path / "all.csv", tmp_path / "all.html")
    together = tables.read_rows(tmp_path / "all.csv")
    assert [row["revision"] for row in together] == [one["revision"] for one in IDENTITIES]
    page = (tmp_path / "all.html").read_text()
    assert page.count("<tr") == 1 + len(IDENTITIES)
    assert "6 of 7 checkpoints are flagged" in page
    assert "tiny/step30, other/main" in page, "a long text was cut"
    assert re.search(r"<dt>not_finite</dt>", page)
    assert "d" * 13 not in page, "checksums are shortened"


def test_a_model_without_any_identity_has_a_table_without_rows(tmp_path):
    """With gaps: draw, and nothing there yet."""
    tabulate_checkpoints.main([], [], tmp_path / "part.csv", model="tiny", limits=LIMITS)
    assert tables.read_rows(tmp_path / "part.csv") == []


# twins


def test_twins_are_those_that_the_room_of_checkpoints_finds():
    names = {f"{one['model']}/{one['revision']}": one["weights_sha256"] for one in IDENTITIES}
    ours = twins(names.items())
    groups = {frozenset([name, *others]) for name, others in ours.items() if others}
    assert groups == {frozenset(group) for group in checkpoints.twins(IDENTITIES)}
    assert len(groups) == 1


def summaries(same):
    """Foundations of every step; those of `same` have one checksum, the others their own."""
    made = [cases.foundations_summary(step, 42) for step in cases.STEPS]
    for step, summary in zip(cases.STEPS, made, strict=True):
        weights = "s" if step in same else f"w{step}"
        summary["model_info"] = {"extra": {"revision": summary["revision"], "weights_sha256": weights}}
    return made


def test_a_table_over_training_names_the_twins_of_a_revision():
    same = cases.STEPS[1:3]
    made = summaries(same)
    found = {row["step"]: row["twin_of"] for row in tables.foundations_rows(made)}
    names = {summary["step"]: summary["revision"] for summary in made}
    expected = dict.fromkeys(cases.STEPS, "") | {same[0]: names[same[1]], same[1]: names[same[0]]}
    assert found == expected


def test_seeds_of_one_revision_are_no_twins_and_neither_is_what_has_no_checksum():
    made = summaries(cases.STEPS[1:3])
    assert twin_column([made[0], {**made[0], "seed": 43}]) == ["", ""]
    assert twin_column([{**one, "model_info": None} for one in made]) == [""] * len(made)
    other = copy.deepcopy(made[1]) | {"model": "another"}
    assert twin_column([made[2], other]) == ["", ""], "another model's weights are not in this table"
