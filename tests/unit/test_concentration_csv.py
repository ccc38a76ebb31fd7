"""Predictions made elsewhere: what a csv of them must hold, and every fault of one in one message."""

import csv
import itertools

import numpy as np
import pytest

from strataprobe import concentration
from strataprobe.concentration import CELL_COLUMNS, Partition, Thresholds
from strataprobe.errors import StrataprobeError

OF = {"and": "binary", "or": "binary", "not": "unary", "necessarily": "unary"}
PARTITION = Partition.checked(("binary", "unary"), OF)
HEADER = "item,property,stimulus,predicted"
GOOD = (
    "bliq,binary,s1,and\n"
    "bliq,binary,s2,and\n"
    "bliq,binary,s3,or\n"
    "bliq,binary,s4,not\n"
    "vusp,unary,s1,not\n"
    "vusp,unary,s2,necessarily\n"
    "vusp,unary,s3,and\n"
    "vusp,unary,s4,and\n"
)  # fmt: skip


@pytest.fixture
def put(tmp_path):
    def write(text: str, header: str = HEADER):
        path = tmp_path / "mine.csv"
        path.write_text(f"{header}\n{text}", encoding="utf-8")
        return path

    return write


def faults(path, **changes) -> list[str]:
    """The lines of the one message, the path left out."""
    with pytest.raises(StrataprobeError) as caught:
        concentration.read_predictions(path, changes.pop("partition", PARTITION), **changes)
    first, *others = str(caught.value).splitlines()
    assert first == f"predictions: {len(others)} problem{'s' if len(others) > 1 else ''}"
    return [said.strip().removeprefix(str(path)) for said in others]


# What is read


def test_a_csv_gives_the_values_that_counting_by_hand_gives(put) -> None:
    read = concentration.read_predictions(put(GOOD), PARTITION)
    (cells,) = read.cells
    assert (read.classes, read.class_sides.tolist(), read.cell_columns) == (tuple(OF), [0, 0, 1, 1], ())
    assert (cells.places, cells.items, cells.item_sides.tolist()) == (({},), ("bliq", "vusp"), [0, 1])
    assert cells.counts.tolist() == [[[2, 1, 1, 0], [2, 0, 1, 1]]]
    (row,) = concentration.described(
        cells.counts, read.classes, read.class_sides, cells.item_sides,
        thresholds=Thresholds(), property_accuracy=None, replicates=100, seed=0,
    )  # fmt: skip
    # 3 + 2 of 8 agree; and has 4 of 8, or 1, not 2, necessarily 1; both items have 2 of 4 in one class.
    assert {name: row[name] for name in ("coarse_accuracy", "p_top_min", "p_top_max", "p_top_mean")} == {
        "coarse_accuracy": 0.625, "p_top_min": 0.5, "p_top_max": 0.5, "p_top_mean": 0.5,
    }  # fmt: skip
    assert (row["max_share"], row["top_class"], row["side_mass"]) == (0.5, "and", 0.375)
    assert row["hhi"] == (16 + 1 + 4 + 1) / 64
    assert row["verdict"] == "fail"
    # The other labelling gives 1 + 2 of 8.
    assert (row["relabelling_mean"], row["relabelling_p"]) == (0.5, 0.5)


def test_cells_that_share_their_items_stand_together_in_the_order_of_the_file(put) -> None:
    rows = []
    for layer, items in ((4, 2), (11, 3), (8, 2)):
        rows += [  # layers are written as 4 and as 04
            f"5x{items},mention->call,{layer:0{stimulus}},{item},{side},{stimulus},{predicted}"
            for item, side in [("zorf", "unary"), ("bliq", "binary"), ("dren", "binary")][:items]
            for stimulus, predicted in ((1, "and"), (2, "not"), (3, "or"))
        ]
    path = put("\n".join(rows) + "\n", f"scope,direction,layer,{HEADER}")
    read = concentration.read_predictions(path, PARTITION)
    assert read.cell_columns == ("scope", "direction", "layer")
    assert [(cells.items, [place["layer"] for place in cells.places]) for cells in read.cells] == [
        (("bliq", "zorf"), [4, 8]),
        (("bliq", "dren", "zorf"), [11]),
    ]
    assert read.cells[0].places[0] == {"scope": "5x2", "direction": "mention->call", "layer": 4}
    assert read.cells[0].counts.shape == (2, 2, 4)
    assert read.cells[1].item_sides.tolist() == [0, 0, 1]
    assert all(cells.counts.sum(axis=-1).tolist() == [[3] * len(cells.items)] * len(cells.places)
               for cells in read.cells)  # fmt: skip


def test_the_order_of_rows_and_columns_changes_nothing(put, tmp_path) -> None:
    rng = np.random.default_rng(0)
    names = ["layer", *HEADER.split(",")]
    rows = [
        [str(layer), item, side, f"s{stimulus}", str(rng.choice(list(OF)))]
        for layer, (item, side), stimulus in itertools.product(
            (3, 7), (("bliq", "binary"), ("vusp", "unary"), ("kelm", "unary")), range(5)
        )
    ]
    found = []
    for order, columns in ((range(len(rows)), range(5)), (rng.permutation(len(rows)), (4, 2, 0, 3, 1))):
        path = tmp_path / "shuffled.csv"
        with path.open("w", newline="") as handle:
            written = csv.writer(handle)
            written.writerow(names[column] for column in columns)
            written.writerows([rows[row][column] for column in columns] for row in order)
        (cells,) = concentration.read_predictions(path, PARTITION).cells
        places = [place["layer"] for place in cells.places]
        found.append((cells.items, cells.counts[np.argsort(places)].tolist()))
    assert found[0] == found[1]


def test_text_stays_text_and_spreadsheet_habits_are_read(tmp_path) -> None:
    """An item called NA is an item, also with a byte order mark, carriage returns, quotes and blank lines."""
    path = tmp_path / "sheet.csv"
    lines = [
        HEADER,
        'NA,binary,1,"and"',
        "NA,binary,01,or",
        "",
        '"nu,ll",unary,1,not',
        '"nu,ll",unary,NaN,not',
        "",
    ]
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())
    (cells,) = concentration.read_predictions(path, PARTITION).cells
    assert cells.items == ("NA", "nu,ll")
    assert cells.counts.tolist() == [[[1, 1, 0, 0], [0, 0, 2, 0]]]


def test_cells_can_be_told_apart_by_columns_of_another_name(put) -> None:
    rows = GOOD.splitlines()
    path = put("\n".join(f"{row},{fold}" for fold in "ab" for row in rows), f"{HEADER},fold")
    assert faults(path) == [
        ":1: column 'fold' is unknown; known are "
        + ", ".join(f"'{name}'" for name in (*HEADER.split(","), *CELL_COLUMNS))
    ]
    read = concentration.read_predictions(path, PARTITION, cell_columns=["fold"])
    assert read.cells[0].places == ({"fold": "a"}, {"fold": "b"})
    assert faults(path, cell_columns=["fold", "language"]) == [":1: column 'language' is missing"]


# What is refused


def test_every_fault_of_the_rows_is_in_one_message(put) -> None:
    text = (
        "4,bliq,binary,s1,adn\n"  # 2: no such class
        "4,bliq,binary,s2,and\n"
        "4,bliq,binary,s1,and\n"  # 4: a second time
        "4,dren,binary,s1,and\n"  # 5: a single stimulus
        "4,vusp,unary,s1,not\n"
        "4,vusp,binary,s2,not\n"  # 7: of two properties
        "4,vusp,unary,,not\n"  # 8: no stimulus
        "4,vusp,unary,s4,adn\n"  # 9: no such class, again
        "4,kelm,unray,s1,not\n"  # 10: no such side
        "4,kelm,unray,s2,not\n"
        "four,kelm,unray,s3, \n"  # 12: no layer, no class; and alone in its cell
        "4,kelm,unray\n"  # 13: too short
        "4,kelm,unray,s4,not,x\n"  # 14: too long
    )
    assert faults(put(text, f"layer,{HEADER}")) == [
        ":2: class 'adn' is not of the partition; did you mean 'and'? (also on line 9)",
        ":4: item 'bliq' has stimuli again in the same cell (cells differ in 'layer'): 's1' (line 2)",
        ":5: item 'dren' has a single stimulus in its cell: its top-class share is 1 whatever the probe "
        "does; give 2 stimuli or more",
        ":7: item 'vusp' is 'binary' here, but 'unary' on line 6",
        ":8: field 'stimulus' is empty",
        ":10: property 'unray' is not of the partition; did you mean 'unary'? (also on lines 11, 12)",
        ":12: layer 'four' is not a whole number",
        ":12: field 'predicted' is empty",
        ":12: item 'kelm' has a single stimulus in its cell: its top-class share is 1 whatever the probe "
        "does; give 2 stimuli or more",
        ":13: 3 fields, but the header has 5",
        ":14: 6 fields, but the header has 5",
    ]


def test_a_forgotten_cell_column_shows_as_stimuli_again_and_says_what_tells_cells_apart(put) -> None:
    (said, other) = faults(put(GOOD + GOOD + GOOD))
    assert said == (
        ":10: item 'bliq' has stimuli again in the same cell (cells differ in nothing): 's1' (line 2), "
        "'s2' (line 3), 's3' (line 4), 's4' (line 5), 's1' (line 2) and 3 more"
    )
    assert other.startswith(":14: item 'vusp' has stimuli again")


def test_many_lines_of_one_fault_are_one_entry(put) -> None:
    text = "".join(f"bliq,binary,s{number},nand\n" for number in range(12))
    assert faults(put(text)) == [
        ":2: class 'nand' is not of the partition; did you mean 'and'? "
        "(also on lines 3, 4, 5, 6, 7, 8, 9, 10 and 3 more)"
    ]


def test_faults_of_the_header_are_all_named_with_the_nearest_column(put) -> None:
    assert faults(put(GOOD, "item,propertie,stimulus,stimulus")) == [
        ":1: column 'property' is missing",
        ":1: column 'predicted' is missing",
        ":1: column 'propertie' is unknown; did you mean 'property'?",
        ":1: column 'stimulus' is there 2 times",
    ]


def test_faults_of_the_partition_stand_beside_those_of_the_file(put) -> None:
    one_side = Partition(("binary", "unary"), {"and": "binary", "or": "binary", "not": "binary"})
    assert faults(put(GOOD), partition=one_side) == [
        "partition: no class is on the side 'unary' (coarse accuracy needs some on both)",
        ":7: class 'necessarily' is not of the partition; known are 'and', 'or', 'not'",
    ]


def test_lines_are_those_of_the_file_also_after_quoted_line_ends_and_blank_lines(put) -> None:
    text = 'bliq,binary,"one\ntwo",and\n\n\nbliq,binary,s2,"nand"\n'
    assert [said.split(": ")[0] for said in faults(put(text))] == [":6"]


def test_files_without_rows_and_without_anything_are_told_apart(put, tmp_path) -> None:
    assert faults(put("")) == [":1: there is no row below the header; there should be one a stimulus"]
    empty = tmp_path / "empty.csv"
    for content in (b"", b"\n\n"):
        empty.write_bytes(content)
        assert faults(empty) == [
            ":1: the file is empty; its first line names the columns "
            "'item', 'property', 'stimulus', 'predicted'"
        ]
    empty.write_bytes(f"{HEADER}\nbliq,binary,s1,and\nbl\xefq,binary,s1,and\n".encode("latin-1"))
    assert faults(empty) == [":3: not UTF-8 (save the file as UTF-8)"]
    with pytest.raises(StrataprobeError, match=r"cannot read .*none.csv: No such file"):
        concentration.read_predictions(tmp_path / "none.csv", PARTITION)


def test_a_quote_that_never_ends_is_refused_and_not_read_as_one_field(put) -> None:
    said = faults(put('bliq,binary,"s1,and\n' + GOOD * 2000))
    assert any("not readable as csv" in one for one in said)
