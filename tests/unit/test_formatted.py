"""A page has every number of its table once, ours and published side by side, and can be read."""

from html.parser import HTMLParser

import pytest

from strataprobe.published import Numbers, formatted, paper_tables, read_numbers
from tests.unit.test_paper_tables import NUMBERS

CURVES = {
    42: [(0, 0.5), (1000, 0.6), (2000, 0.75)],
    43: [(0, 0.5), (1000, 0.72), (2000, 0.85)],
}


def row(**given) -> dict:
    """A row of a paper's table, with nothing published beside it."""
    empty = dict.fromkeys(paper_tables.COLUMNS, "")
    return empty | dict.fromkeys(("step", "value", "spread", "n", "published", "published_spread")) | given


def noise(step: int, value: float, **given) -> dict:
    """A row as `table2` and `table3` have it."""
    shared = {"model": "mine", "dataset": "moral", "quantity": "mean_critical_noise", "control": "raw"}
    return row(**{**shared, "step": step, "value": value, "means": "dropped", **given})


@pytest.fixture
def table1(tmp_path) -> list[dict]:
    (tmp_path / "numbers.csv").write_text(NUMBERS)
    published = read_numbers(tmp_path / "numbers.csv")
    return paper_tables.table1({"moral": CURVES}, published, model="mine")


class Page(HTMLParser):
    """The cells of a page's table, row by row, and its other paragraphs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows, self.paragraphs, self.titles, self.open = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], "tags that are not closed"

    def handle_starttag(self, tag, attrs):
        if tag == "meta":
            return
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append(["", {name: value for name, value in attrs if name != "class"}])
        for name, found in (("p", self.paragraphs), ("h1", self.titles), ("title", self.titles)):
            if tag == name:
                found.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        if inside in ("th", "td"):
            self.rows[-1][-1][0] += data
        elif inside == "p":
            self.paragraphs[-1] += data
        elif inside in ("h1", "title"):
            self.titles[-1] += data

    @property
    def body(self) -> list[list[str]]:
        return [[text for text, _ in cells] for cells in self.rows[2:]]


def page(tmp_path, table: str, rows: list[dict]) -> Page:
    formatted.write_page(tmp_path / "page.html", table, rows)
    return Page((tmp_path / "page.html").read_text(encoding="utf-8"))


# Spread out


def test_each_quantity_is_a_column_of_ours_and_one_of_the_published_where_there_is_one(table1):
    frame = formatted.wide("table1", table1)
    assert frame.index.to_list() == [("mine", "moral")]
    assert list(frame.index.names) == ["model", "dataset"]
    assert frame.columns.to_list() == [
        ("onset step", "ours"), ("onset step", "published"), ("onset accuracy", "ours"),
        ("plateau accuracy", "ours"), ("plateau accuracy", "published"), ("sustained step", "ours"),
        ("transition steps", "ours"), ("onset step, seed 42", "ours"), ("onset step, seed 43", "ours"),
    ]  # fmt: skip
    own = frame.loc[("mine", "moral")]
    # Mean curve 0.5, 0.66, 0.8; the seeds' own onsets are 2000 and 1000.
    assert own["onset step", "ours"] == "2000 ± 707.1"
    assert own["onset step", "published"] == "1000"
    assert own["plateau accuracy", "ours"] == "0.800 ± 0.071"
    assert own["plateau accuracy", "published"] == "0.96†"
    assert own["transition steps", "ours"] == "0 (sharp)"
    assert own["onset step, seed 43", "ours"] == "1000"


def test_nothing_of_a_table_is_lost_or_shared_by_two_rows(table1):
    frame = formatted.wide("table1", table1)
    filled = (frame != "").to_numpy().sum()
    assert filled == len(table1) + sum(row["published"] is not None for row in table1)


def test_rows_are_checkpoints_and_bands_and_controls_are_columns_of_their_own():
    rows = [
        noise(step, step / 1000, group=group, control=control, means=means)
        for step in (0, 1000)
        for group in ("", "late")
        for control in ("raw", "rms_after")
        for means in ("capped", "dropped")
    ]
    frame = formatted.wide("table2", rows)
    assert frame.index.to_list() == [("mine", "moral", 0), ("mine", "moral", 1000)]
    headings = [heading for heading, _ in frame.columns]
    assert len(set(headings)) == len(headings) == 8
    assert headings[0] == "mean critical noise, capped"
    assert headings[-1] == "mean critical noise, late, in units of RMS, dropped"
    assert frame.loc[("mine", "moral", 1000)].unique().tolist() == ["1.000"]


def test_a_number_that_one_checkpoint_lacks_leaves_its_place_empty():
    accuracy = noise(1000, 0.7, quantity="mean_accuracy", means="")
    rows = [noise(0, 1.5, published=2.0), noise(1000, 2.5), accuracy]
    frame = formatted.wide("table2", rows)
    assert frame["mean critical noise, dropped", "published"].tolist() == ["2", ""]
    assert frame["mean accuracy", "ours"].tolist() == ["", "0.700"]


def test_groups_of_appendix_a_are_columns_and_the_first_step_at_100_a_row():
    curves = {"care": {42: [(0, 0.5), (10, 1.0)], 43: [(0, 0.7), (10, 0.9)]}}
    rows = paper_tables.table_a(curves, Numbers([]), model="mine")
    frame = formatted.wide("tableA", rows)
    assert [place[-1] for place in frame.index] == [0, 10, "first at 100 %"]
    assert frame.columns.to_list() == [("care", "ours")]
    assert frame["care", "ours"].tolist() == ["0.600 ± 0.141", "0.950 ± 0.071", "10 (1 seeds never)"]


def test_floors_are_by_dataset_and_group_and_the_whole_set_is_all():
    rows = paper_tables.table_d2({"": 0.63, "care": 0.6}, Numbers([]), dataset="moral")
    frame = formatted.wide("tableD2", rows)
    assert frame.index.to_list() == [("moral", "all"), ("moral", "care")]
    assert frame["lexical floor", "ours"].tolist() == ["0.630", "0.600"]


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        ({"value": 0.5}, "0.500"),
        ({"value": 0.5, "spread": 0.0123}, "0.500 ± 0.012"),
        ({"value": None}, "-"),
        ({"value": None, "note": "2 seeds never"}, "- (2 seeds never)"),
        ({"value": 143000, "quantity": "onset_step"}, "143000"),
        ({"value": 392.0, "spread": 32.7, "quantity": "onset_step"}, "392 ± 32.7"),
        ({"value": 0, "note": "sharp", "quantity": "transition_steps"}, "0 (sharp)"),
    ],
)
def test_ours_is_to_three_digits_and_steps_are_whole(given, ours):
    assert formatted.wide("table3", [noise(0, **{"value": 1.0, **given})]).iloc[0, 0] == ours


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"published": 0.96, "published_status": "ok"}, "0.96"),
        ({"published": 0.709, "published_spread": 0.02, "published_status": "ok"}, "0.709 ± 0.02"),
        ({"published": 143000.0, "published_status": "ok"}, "143000"),
        ({"published": 0.96, "published_status": "contradicted"}, "0.96†"),
        ({"published": 3.0, "published_spread": 0.5, "published_status": "withdrawn"}, "3 ± 0.5‡"),
    ],
)
def test_the_published_number_has_no_digit_that_is_not_printed_and_a_mark_of_its_status(given, said):
    frame = formatted.wide("table3", [noise(0, 1.0, **given)])
    assert frame.columns.to_list()[1] == ("mean critical noise, dropped", "published")
    assert frame.iloc[0, 1] == said


@pytest.mark.parametrize("table", list(formatted.TITLES))
def test_an_empty_table_is_a_frame_without_rows_and_a_page_that_says_so(table, tmp_path):
    frame = formatted.wide(table, [])
    assert (len(frame), len(frame.columns)) == (0, 0)
    found = page(tmp_path, table, [])
    assert found.rows == []
    assert "No row." in found.paragraphs


# The page


def test_a_page_has_the_frame_s_cells_under_two_rows_of_headings(table1, tmp_path):
    found, frame = page(tmp_path, "table1", table1), formatted.wide("table1", table1)
    assert found.titles == [formatted.TITLES["table1"]] * 2
    upper, lower = found.rows[:2]
    assert upper[:4] == [
        ["model", {"rowspan": "2"}],
        ["dataset", {"rowspan": "2"}],
        ["onset step", {"colspan": "2"}],
        ["onset accuracy", {"colspan": "1"}],
    ]
    assert [text for text, _ in lower] == [side for _, side in frame.columns]
    spans = [int(look.get("colspan", 1)) for _, look in upper]
    assert sum(spans) == len(found.body[0]) == 2 + len(lower), "every number stands under its heading"
    assert found.body == [["mine", "moral", *frame.iloc[0]]]


def test_what_a_row_shares_with_the_one_above_is_said_once(tmp_path):
    rows = [
        noise(step, 1.0, model=model, dataset=dataset)
        for model, dataset in (("mine", "moral"), ("mine", "syntax"), ("other", "syntax"))
        for step in (0, 1000)
    ]
    named = [cells[:3] for cells in page(tmp_path, "table3", rows).body]
    assert named == [
        ["mine", "moral", "0"], ["", "", "1000"], ["", "syntax", "0"], ["", "", "1000"],
        ["other", "syntax", "0"], ["", "", "1000"],
    ]  # fmt: skip


def test_marks_are_explained_and_marked_numbers_have_their_note_once(tmp_path):
    contradicted = {"published": 1.0, "published_status": "contradicted", "published_note": "Table 9 has 2"}
    withdrawn = {"published": 1.5, "published_status": "withdrawn", "published_note": "one draw"}
    fine = {"published": 1.5, "published_status": "ok", "published_note": "not to be shown"}
    rows = [noise(0, 1.0, **contradicted), noise(0, 1.0, model="other", **contradicted)]
    rows += [*(noise(step, 1.0, **withdrawn) for step in (1000, 2000)), noise(3000, 1.0, **fine)]
    said = page(tmp_path, "table3", rows).paragraphs[1:]
    assert said == [
        "† contradicted by another number of the same paper or of its authors' files.",
        "‡ withdrawn by its authors.",
        "† mean critical noise, dropped (moral 0): Table 9 has 2.",
        "‡ mean critical noise, dropped (moral 1000, moral 2000): one draw.",
    ]
    assert len(page(tmp_path, "table3", [noise(0, 1.0, **fine)]).paragraphs) == 1


def test_names_and_notes_cannot_become_markup(tmp_path):
    hostile = "<script>alert('&')</script>"
    noted = {"published": 1.0, "published_status": "withdrawn", "published_note": hostile}
    rows = [noise(0, 1.0, model=hostile, dataset=hostile, group=hostile, note=hostile, **noted)]
    formatted.write_page(tmp_path / "page.html", "table2", rows)
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in text
    found = Page(text)
    assert found.body[0][:2] == [hostile, hostile]
    assert found.rows[0][3][0] == f"mean critical noise, {hostile}, dropped"
    assert hostile in found.paragraphs[-1]


def test_a_page_of_floors_speaks_of_sets_and_of_no_model(tmp_path):
    rows = paper_tables.table_d2({"": 0.63}, Numbers([]), dataset="moral")
    (said,) = page(tmp_path, "tableD2", rows).paragraphs
    assert "OLMo" not in said
    assert "sets" in said


def test_the_same_rows_give_the_same_bytes(table1, tmp_path):
    for name in ("one", "two"):
        formatted.write_page(tmp_path / name, "table1", table1)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
