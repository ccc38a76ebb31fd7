"""What the rules need to know: which files a script runs, where time went, what a mistyped target meant."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from strataprobe.workflow import imports, targets, timing

SCRIPTS = Path(__file__).parents[2] / "workflow_scripts"
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.py"))


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("strataprobe", cache_dir=None)


def module_file(module):
    place = SCRIPTS.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def with_packages(modules):
    """The modules and every package on the way to them, since Python runs their `__init__` first."""
    return {".".join(m.split(".")[:depth]) for m in modules for depth in range(1, m.count(".") + 2)}


def by_import_graph(graph, script):
    """Modules a script runs: those it names, and all that grimp finds below them."""
    named = set()
    for line in re.findall(r"^(?:from|import) strataprobe.*", script.read_text(), re.MULTILINE):
        package, _, names = line.removeprefix("from ").removeprefix("import ").partition(" import ")
        named |= {package, *(f"{package}.{name}" for name in re.findall(r"\w+", names))} & graph.modules
    waiting, found = list(with_packages(named)), set()
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting.extend(with_packages(graph.find_modules_directly_imported_by(module)))
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_script_s_files_are_those_of_the_import_graph(graph, name):
    script = SCRIPTS / f"{name}.py"
    found = imports.script_files(script)
    expected = {module_file(module) for module in by_import_graph(graph, script)}
    assert found[0] == script
    assert set(found[1:]) == expected
    assert found[1:] == sorted(found[1:])


def test_every_listed_file_is_there_and_listed_once():
    for name in NAMES:
        found = imports.script_files(SCRIPTS / f"{name}.py")
        assert len(set(found)) == len(found)
        assert all(path.is_file() for path in found)


@pytest.mark.parametrize("name", ["train_probes", "measure_fragility"])
def test_probes_and_curves_watch_no_module_of_capture_or_figures(name):
    rooms = {
        path.relative_to(SCRIPTS / "strataprobe").parts[0]
        for path in imports.script_files(SCRIPTS / f"{name}.py")[1:]
    }
    assert not rooms & {"capture", "lm", "figures", "pretraining", "config"}


@pytest.mark.parametrize("name", ["train_probes", "measure_fragility"])
def test_probes_and_curves_import_nothing_slow_and_nothing_unlisted(name):
    lines = [line for line in (SCRIPTS / f"{name}.py").read_text().splitlines() if line.startswith("from ")]
    code = "import sys\n" + "\n".join(lines) + "\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    ours = {module_file(module) for module in loaded if module.split(".")[0] == "strataprobe"}
    assert ours <= set(imports.script_files(SCRIPTS / f"{name}.py"))
    slow = {"torch", "transformers", "sklearn", "scipy.stats", "seaborn", "pandas", "pydantic", "matplotlib"}
    assert not slow & loaded


def test_imports_inside_functions_and_of_names_and_packages_count(tmp_path):
    package = tmp_path / "strataprobe"
    (package / "room").mkdir(parents=True)
    sources = {
        "__init__.py": "",
        "plain.py": "import json, strataprobe.deep as d",
        "deep.py": "",
        "unused.py": "",
        "room/__init__.py": "from strataprobe.room.inner import f",
        "room/inner.py": "def f():\n    from strataprobe import late",
        "late.py": "",
    }
    for name, text in sources.items():
        (package / name).write_text(text)
    script = tmp_path / "script.py"
    script.write_text("from strataprobe import plain\nfrom strataprobe.room import f\nimport os")
    found = [str(path.relative_to(tmp_path)) for path in imports.script_files(script)]
    assert found == ["script.py", *sorted(f"strataprobe/{name}" for name in sources if name != "unused.py")]


def parsed_whole(path):
    """Names of the library that a file imports, by walking through all of its tree."""
    nodes = list(ast.walk(ast.parse(path.read_bytes())))
    plain = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    named = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    within = [f"{node.module}.{alias.name}" for node in named for alias in node.names]
    found = {*plain, *(node.module for node in named), *within}
    return {name for name in found if name.split(".")[0] == "strataprobe"}


def test_reading_only_import_statements_finds_what_parsing_whole_files_does():
    files = [path for place in (SCRIPTS, Path(__file__).parents[1]) for path in place.rglob("*.py")]
    assert len(files) > 300
    assert {path: set(imports._imported(path)) for path in files} == {
        path: parsed_whole(path) for path in files
    }


@pytest.mark.parametrize(
    "source",
    [
        "from strataprobe import (  # as (b) says\n    plain,\n)\n",
        "from strataprobe import \\\n    plain\n",
        '"""What comes\nfrom strataprobe import of old\n"""\nfrom strataprobe import plain\n',
        "import os, strataprobe.plain\n",
        "import json; import strataprobe.plain\n",
        "try:\n\tfrom strataprobe import(plain)\nfinally:\n\tpass\n",
    ],
)
def test_import_statements_of_every_form_are_read(tmp_path, source):
    (tmp_path / "strataprobe").mkdir()
    (tmp_path / "strataprobe" / "plain.py").write_text("")
    script = tmp_path / "script.py"
    script.write_text(source)
    compile(source, "script", "exec")
    assert imports.script_files(script)[1:] == [tmp_path / "strataprobe" / "plain.py"]


def benchmark(path, *seconds):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("s\th:m:s\tmax_rss\n" + "".join(f"{value}\t0:00:01\t-\n" for value in seconds))


def test_time_is_added_up_by_rule_slowest_first(tmp_path):
    benchmark(tmp_path / "capture" / "nano" / "core.tsv", 12.5)
    benchmark(tmp_path / "train" / "nano" / "a" / "1.tsv", 1.0)
    benchmark(tmp_path / "train" / "nano" / "a" / "2.tsv", 2.0)
    benchmark(tmp_path / "join.tsv", 0.25)
    rows = timing.time_per_rule(tmp_path)
    assert rows == [("capture", 1, 12.5), ("train", 2, 3.0), ("join", 1, 0.25)]
    lines = timing.report(rows, 20).splitlines()
    assert lines[1].split() == ["capture", "1", "12.5", "12.50"]
    assert lines[2].split() == ["train", "2", "3.0", "1.50"]
    assert lines[-2].split() == ["all", "jobs", "4", "15.8"]
    assert lines[-1].split() == ["the", "run", "20.0"]


def test_an_earlier_run_s_jobs_are_not_counted_and_no_jobs_say_nothing(tmp_path):
    benchmark(tmp_path / "old" / "a.tsv", 5.0)
    benchmark(tmp_path / "new" / "a.tsv", 1.0)
    os.utime(tmp_path / "old" / "a.tsv", (1000, 1000))
    assert timing.time_per_rule(tmp_path, since=2000) == [("new", 1, 1.0)]
    assert timing.time_per_rule(tmp_path / "missing") == []
    assert timing.report([], 3.0) == ""


def test_a_mistyped_target_gets_the_nearest_one():
    known = ["results/figures/saturation.svg", "results/figures/depth.svg", "fragility"]
    message = targets.unknown_targets(
        ["results/figures/saturatoin.svg", "fragility", "zzz"], known.__contains__, lambda: known
    )
    assert message.splitlines() == [
        "targets: 2 problems",
        "  results/figures/saturatoin.svg: nothing makes it; did you mean 'results/figures/saturation.svg'?",
        "  zzz: nothing makes it",
    ]


def test_known_targets_cost_no_list_of_all_paths():
    def expensive():
        raise AssertionError("the list of all paths was built")

    assert targets.unknown_targets(["a", "b"], lambda target: True, expensive) is None
