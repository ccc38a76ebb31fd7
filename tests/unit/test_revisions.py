"""Names of revisions read and put in order, and the list of a repository's revisions that git keeps."""

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strataprobe import revisions
from strataprobe.revisions import Listed, RevisionName, Table, choose, in_order, listed, parse, read, write

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SCHEMES = {
    "stage1-step1000-tokens3B": (1, None, 1000, 3 * 10**9),
    "stage1-step74000": (1, None, 74000, None),
    "stage1-step-40000": (1, None, 40000, None),
    "step-125000": (None, None, 125000, None),
    "step143000": (None, None, 143000, None),
    "ckpt_042": (None, None, 42, None),
    "step150-tokens1B": (None, None, 150, 10**9),
    "stage2-ingredient3-step23852-tokens51B": (2, 3, 23852, 51 * 10**9),
    "global_step1000": (None, None, 1000, None),
    "checkpoint-500": (None, None, 500, None),
    "iter_0001000": (None, None, 1000, None),
    "stage2_ckpt_010": (2, None, 10, None),
    "Step-50k-tokens0.25T": (None, None, 50_000, 250 * 10**9),
    "stage2-ingredient1": (2, 1, None, None),
    "stage1/step300-tokens1.5B": (1, None, 300, 1_500_000_000),
}
ODD = (
    "step", "v1.0", "tokens3B", "step10-step20", "lc-4k-to-32k-step-20000", "step1000-", "stage1-step5-bf16",
    "", "-step1", COMMIT, "Main", "refs/pr/1", "step9999999999999999",
)  # fmt: skip

numbers = st.integers(0, 10**7)
said = st.tuples(st.none() | st.integers(1, 40), st.none() | st.integers(1, 40), numbers, st.none() | numbers)


@st.composite
def named(draw: st.DrawFn) -> tuple[tuple, str]:
    """What a name is to say, and a name in one of the public styles that says it."""
    stage, ingredient, step, tokens = draw(said)
    dash = draw(st.sampled_from(["", "-", "_"]))
    word = draw(st.sampled_from(["step", "global_step", "ckpt", "checkpoint", "iter", "iteration", "STEP"]))
    parts = [f"stage{dash}{stage}"] if stage is not None else []
    parts += [f"ingredient{dash}{ingredient}"] if ingredient is not None else []
    parts += [f"{word}{dash}{step:0{draw(st.integers(1, 9))}d}"]
    parts += [f"tokens{dash}{tokens}B"] if tokens is not None else []
    billions = None if tokens is None else tokens * 10**9
    return (stage, ingredient, step, billions), draw(st.sampled_from(["-", "_", "/"])).join(parts)


@pytest.mark.parametrize(("name", "expected"), SCHEMES.items())
def test_every_public_scheme_is_read(name, expected):
    found = parse(name)
    assert (found.stage, found.ingredient, found.step, found.tokens) == expected
    assert found.understood
    assert found.name == name


@given(named())
def test_a_name_says_what_it_was_made_to_say(made):
    expected, name = made
    assert parse(name) == RevisionName(name, *expected, understood=True)


@given(st.lists(said, unique=True), st.randoms(use_true_random=False))
def test_the_order_is_that_of_stage_ingredient_and_step_as_integers(given_numbers, shuffle):
    def name(stage, ingredient, step, tokens):
        said = {"stage": stage, "ingredient": ingredient, "step": step, "tokens": tokens}
        parts = [f"{word}{number}" for word, number in said.items() if number is not None]
        return "-".join(parts) + ("" if tokens is None else "B")

    def key(numbers):
        return [-1 if number is None else number for number in numbers]

    expected = [name(*numbers) for numbers in sorted(given_numbers, key=key)]
    shuffled = shuffle.sample([*expected, "main", "odd"], len(expected) + 2)
    assert [found.name for found in in_order(shuffled)] == [*expected, "odd", "main"]


@given(st.lists(st.text(max_size=20) | st.sampled_from([*SCHEMES, *ODD, "main"]), unique=True), st.randoms())
def test_the_order_does_not_hang_on_the_order_given(names, shuffle):
    found = in_order(names)
    assert in_order(shuffle.sample(names, len(names))) == found
    assert sorted(name.name for name in found) == sorted(names)
    assert [name.name for name in found if name.name == "main"] == ["main"] * ("main" in names)
    odd = [name.understood for name in found if name.name != "main"]
    assert odd == sorted(odd, reverse=True), "what is not understood comes after all that is"


@pytest.mark.parametrize("name", ODD)
def test_a_name_that_nobody_can_read_says_so(name):
    assert not parse(name).understood
    assert (parse(name).stage, parse(name).ingredient, parse(name).tokens) == (None, None, None)


def test_a_step_is_found_in_a_name_of_no_known_scheme():
    assert parse("lc-4k-to-32k-step-20000").step == 20000
    assert parse("stage1-step5-bf16").step == 5
    assert parse("footstep7").step is None
    assert parse("step9999999999999999").step is None


def test_names_of_no_scheme_are_ordered_by_name_with_their_numbers_as_numbers():
    names = ["lc-step-20000", "it-step-9", "lc-step-4000", "main", "step100", "lc-step-4000b", "step20"]
    assert [name.name for name in in_order(names)] == [
        "step20", "step100", "it-step-9", "lc-step-4000", "lc-step-4000b", "lc-step-20000", "main",
    ]  # fmt: skip


def test_the_end_of_a_stage_comes_after_its_steps_and_before_the_next_stage():
    names = ["stage2-step5", "stage1", "stage1-step90", "stage1-step1000"]
    assert [name.name for name in in_order(names)] == [
        "stage1-step90",
        "stage1-step1000",
        "stage1",
        "stage2-step5",
    ]


# the list


def table(*refs: str, repo: str = "lab/tiny") -> Table:
    return listed(repo, {ref: f"{number:07x}{number:033x}" for number, ref in enumerate(refs)}, {})


REFS = (
    "main", "stage1/step10-tokens1B", "stage1-step2-tokens0B", "ckpt_042", "odd", "stage2-ingredient1-step7",
)  # fmt: skip


def test_a_list_is_written_in_order_and_read_back(tmp_path):
    made = listed("lab/tiny", dict.fromkeys(REFS, COMMIT), {"ckpt_042": 1234})
    write(tmp_path / "list.tsv", made)
    assert (tmp_path / "list.tsv").read_text().splitlines() == [
        "# lab/tiny: revisions as `snakemake resolve` found them",
        "revision\tref\tcommit\tstage\tingredient\tstep\ttokens_billions\tbytes",
        f"ckpt_042\tckpt_042\t{COMMIT}\t\t\t42\t\t1234",
        f"stage1-step2-tokens0B\tstage1-step2-tokens0B\t{COMMIT}\t1\t\t2\t0\t",
        f"stage1-step10-tokens1B\tstage1/step10-tokens1B\t{COMMIT}\t1\t\t10\t1\t",
        f"stage2-ingredient1-step7\tstage2-ingredient1-step7\t{COMMIT}\t2\t1\t7\t\t",
        f"odd\todd\t{COMMIT}\t\t\t\t\t",
        f"main\tmain\t{COMMIT}\t\t\t\t\t",
    ]
    faults = []
    assert read(tmp_path / "list.tsv", "list.tsv", faults) == made
    assert faults == []


refs = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=12)


@given(st.dictionaries(refs | named().map(lambda made: made[1]), st.integers(0, 99), max_size=9))
def test_every_list_is_read_back_as_it_was_and_names_nothing_twice(tmp_path_factory, commits):
    place = tmp_path_factory.getbasetemp() / "every.tsv"
    made = listed("lab/tiny", {ref: f"{number:040x}" for ref, number in commits.items()}, {})
    write(place, made)
    faults = []
    assert (read(place, "every.tsv", faults), faults) == (made, [])


def test_refs_that_differ_in_what_cannot_stand_in_a_path_are_told_apart():
    rows = {row.ref: row.revision for row in table("a-b", "a/b", "a+b", ".a", "a..b", "_").rows}
    assert rows == {
        "a-b": "a-b", "a/b": "a-b-0000001", "a+b": "a-b-0000002", "a..b": "a-b-0000004", ".a": "a",
        "_": "revision",
    }  # fmt: skip
    same = listed("lab/tiny", dict.fromkeys(("a-b", "a/b", "a..b"), COMMIT), {})
    assert {row.ref: row.revision for row in same.rows} == {
        "a-b": "a-b", "a..b": "a-b-0123456", "a/b": "a-b-0123456-1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("# lab/tiny: revisions as", "# of lab/tiny", "list.tsv:1: does not say of which repository it is"),
        ("bytes\n", "size\n", "list.tsv:2: is not the line of its columns: revision, ref"),
        ("\t42\t", "\t43\t", "list.tsv:3: step is '43', but 'ckpt_042' says 42"),
        ("\t42\t", "\tx\t", "list.tsv:3: step 'x' is not a whole number, or empty"),
        (f"main\tmain\t{COMMIT}", "main\tmain\tabc", "list.tsv:5: commit 'abc' is not 40 hex digits"),
        ("main\tmain\t", "../main\tmain\t", "list.tsv:5: revision '../main' is not a name of letters"),
        ("main\tmain\t", "a..b\tmain\t", "list.tsv:5: revision 'a..b' is not a name of letters"),
        ("main\tmain\t", "step7\tmain\t", "list.tsv: revision 'step7' stands in it 2 times"),
        ("main\tmain\t", "main\tstep7\t", "list.tsv: ref 'step7' stands in it 2 times"),
        ("ckpt_042\tckpt_042\t", "ckpt_042\t", "list.tsv:3: has 7 columns, not 8"),
    ],
)  # fmt: skip
def test_a_damaged_list_is_refused_with_its_line_and_what_to_do(tmp_path, old, new, said):
    write(
        tmp_path / "list.tsv",
        listed("lab/tiny", dict.fromkeys(("main", "step7", "ckpt_042"), COMMIT), {}),
    )
    # `ckpt_042` comes third by its number, after `step7`; the lines are taken in the order of the file.
    lines = (tmp_path / "list.tsv").read_text().splitlines(keepends=True)
    text = "".join([*lines[:2], lines[3], lines[2], *lines[4:]])
    assert text.count(old) == 1
    (tmp_path / "list.tsv").write_text(text.replace(old, new))
    faults = []
    assert read(tmp_path / "list.tsv", "list.tsv", faults) is None
    assert any(said in fault for fault in faults), faults
    assert faults[-1] == "list.tsv: mend it, or write it anew: snakemake --cores 1 resolve"


def test_a_list_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "list.tsv").write_bytes(b"\xff\xfe\x00")
    faults = []
    assert read(tmp_path / "list.tsv", "list.tsv", faults) is None
    assert faults[0].startswith("list.tsv: cannot be read")


def test_lines_in_another_order_are_put_in_order(tmp_path):
    made = table("step1", "step2", "step10")
    write(tmp_path / "list.tsv", made)
    head, columns, *rows = (tmp_path / "list.tsv").read_text().splitlines()
    (tmp_path / "list.tsv").write_text("\n".join([head, columns, *reversed(rows)]) + "\n")
    assert read(tmp_path / "list.tsv", "list.tsv", []) == made


# what is chosen from it


def chosen(asked: dict, *of: str) -> tuple[list[str], list[str]]:
    rows, faults = choose(asked, table(*random.Random(0).sample(of, len(of))))
    return [row.ref for row in rows], faults


STAGE1 = [f"stage1-step{step}-tokens{step // 300}B" for step in range(0, 5000, 1000)]
RANGE = {"pattern": "stage1-step{step}-tokens{tokens}B", "from": 0, "to": 4000, "every": 2000}


def test_a_range_takes_both_its_ends_and_finds_the_tokens_in_the_list():
    found, faults = chosen(RANGE, *STAGE1, "main", "stage2-step2000-tokens6B", "stage1-step2000")
    assert (found, faults) == ([STAGE1[0], STAGE1[2], STAGE1[4]], [])
    assert chosen({**RANGE, "to": 3999}, *STAGE1)[0] == [STAGE1[0], STAGE1[2]]
    assert chosen({**RANGE, "from": 1000}, *STAGE1)[0] == [STAGE1[1], STAGE1[3]]


def test_a_pattern_fits_whole_names_and_its_other_signs_mean_themselves():
    asked = {"pattern": "v1.0-step{step}", "from": 1, "to": 1, "every": 1}
    found, faults = chosen(asked, "v1x0-step1", "v1.0-step1b", "av1.0-step1", "v1.0-step001", "v1.0-step11")
    assert (found, faults) == (["v1.0-step001"], [])


def test_steps_that_a_range_lacks_are_named_with_the_nearest_refs():
    found, (fault,) = chosen({**RANGE, "to": 8000}, *STAGE1)
    assert found == [STAGE1[0], STAGE1[2], STAGE1[4]]
    assert fault == (
        "lab/tiny has no ref like 'stage1-step{step}-tokens{tokens}B' of steps 6000, 8000; "
        "nearest: stage1-step4000-tokens13B"
    )
    _, (fault,) = chosen({**RANGE, "every": 500, "to": 500}, *STAGE1)
    assert fault.endswith("of step 500; nearest: stage1-step0-tokens0B, stage1-step1000-tokens3B")


def test_a_pattern_that_fits_nothing_and_one_that_fits_two_are_told():
    found, (fault,) = chosen({**RANGE, "pattern": "stage1-stp{step}"}, *STAGE1)
    assert found == []
    assert "no ref of lab/tiny is like 'stage1-stp{step}'; nearest of its 5 refs: stage1-step" in fault
    _, (fault,) = chosen(RANGE, *STAGE1, "stage1-step2000-tokens7B")
    assert fault.startswith("step 2000: stage1-step2000-tokens6B and stage1-step2000-tokens7B are like")


def test_every_kth_begins_with_the_first_and_leaves_out_what_has_no_step():
    refs = [*STAGE1, "main", "odd", "stage2-ingredient1"]
    assert chosen({"every": 2, "matching": None}, *refs) == ([STAGE1[0], STAGE1[2], STAGE1[4]], [])
    assert chosen({"every": 3, "matching": None}, *refs)[0] == [STAGE1[0], STAGE1[3]]
    assert chosen({"every": 99, "matching": None}, *refs)[0] == [STAGE1[0]]


def test_matching_chooses_among_all_names_in_their_order():
    refs = ["step10", "step9", "step100", "lc-step-20", "lc-step-3", "main", "STEP5"]
    assert chosen({"every": 2, "matching": "step*"}, *refs) == (["step9", "step100"], [])
    assert chosen({"every": 1, "matching": "lc-*"}, *refs) == (["lc-step-3", "lc-step-20"], [])
    assert chosen({"every": 1, "matching": "m*"}, *refs) == (["main"], [])
    found, (fault,) = chosen({"every": 1, "matching": "stpe*"}, *refs)
    assert (found, fault[:44]) == ([], "no ref of lab/tiny matches 'stpe*'; nearest ")


def test_where_no_ref_has_a_step_it_says_what_there_is():
    _, (fault,) = chosen({"every": 2, "matching": None}, "main", "odd")
    assert fault == "no ref of lab/tiny has a step; its 2 refs: odd, main"


@given(st.sets(st.integers(0, 300), min_size=1), st.integers(1, 9))
def test_every_kth_is_every_kth_of_the_steps_in_numerical_order(steps, every):
    rows, faults = choose({"every": every, "matching": None}, table(*(f"step{step}" for step in steps)))
    assert ([row.step for row in rows], faults) == (sorted(steps)[::every], [])


@given(
    st.sets(st.integers(0, 60), min_size=1), st.integers(0, 40), st.integers(0, 40), st.integers(1, 9)
)  # fmt: skip
def test_a_range_gives_the_steps_that_are_there_and_one_fault_for_all_others(steps, first, length, every):
    asked = {"pattern": "step{step}", "from": first, "to": first + length, "every": every}
    rows, faults = choose(asked, table(*(f"step{step}" for step in steps)))
    wanted = set(range(first, first + length + 1, every))
    assert [row.step for row in rows] == sorted(wanted & steps)
    assert len(faults) == bool(wanted - steps)


def test_the_place_of_a_list_is_the_user_s_own_folder():
    assert revisions.place("olmo2-1b") == str(Path("resources") / "revisions" / "olmo2-1b.tsv")
    assert Listed("main", parse("main"), COMMIT).bytes is None
