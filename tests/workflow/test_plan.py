"""`python -m strataprobe.workflow.planning`, as `make plan` calls it, on the finished tiny study."""

import csv
import os
import re
import statistics
import subprocess
import sys
from collections import Counter

import h5py

from tests.workflow.trees import Tree

PROBE = "results/probes/tiny/step0100/care/seed42"


def planning(study: Tree, *arguments: str, code: int = 0) -> subprocess.CompletedProcess:
    """Plan a study and see what Python imported to do so; nothing under results/ may change."""
    before = study.results()
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "strataprobe.workflow.planning", *arguments],
        cwd=study.path,
        env={**os.environ, "PYTHONPATH": "workflow_scripts"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr[-3000:]
    assert study.results() == before
    imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines() if "import time:" in line}
    assert "strataprobe.config" in imported
    assert not imported & {"torch", "transformers", "snakemake"}
    return done


def table(text: str) -> dict[str, tuple[int, str, str, int]]:
    """Jobs, time a job, time in all and number of past jobs, by rule."""
    rows = re.findall(r"^(\S+)  +(\d+)  +(\S.*?)  +(\S.*?)  +(\d+)$", text, re.MULTILINE)
    return {rule: (int(jobs), each, total, int(past)) for rule, jobs, each, total, past in rows}


def benchmarks(study: Tree, rule: str) -> list[float]:
    """Seconds of all past jobs of a rule, read from Snakemake's files."""
    base = study / "results/benchmarks"
    paths = [*(base / rule).rglob("*.tsv"), *base.glob(f"{rule}.tsv")]
    return [float(row["s"]) for path in paths for row in csv.DictReader(path.open(), delimiter="\t")]


def expected(study: Tree, *wanted: str) -> Counter[str]:
    """Jobs by rule that a run would start, as the other tests see it."""
    return Counter(name.split()[0] for name in study.plan(*wanted))


def test_on_a_finished_study_there_is_nothing_to_do(study) -> None:
    done = planning(study, "config.yaml", "--cores", "2")
    assert done.stdout == "config.yaml: nothing to do, everything it asks for is there\n"


def test_a_figure_and_a_probe_that_are_gone_are_the_jobs_that_are_planned(study) -> None:
    # Asked for again, since nothing finished waits for a probe any more.
    study.remove("results/figures/depth.*", PROBE, "results/tables/parts/*/tiny/care.csv")
    # One past job of this rule did not take what the others did: the median does not mind.
    odd = study / "results/benchmarks/train_probes_tiny/step0000/care/seed42.tsv"
    odd.write_text("s\th:m:s\n9000.0\t2:30:00\n")
    study.remove("results/benchmarks/draw_depth.tsv")
    jobs = expected(study)
    assert jobs.keys() >= {"draw_depth", "train_probes_tiny", "measure_fragility_tiny"}
    done = planning(study, "config.yaml", "--cores", "2")
    found = table(done.stdout)
    assert {rule: row[0] for rule, row in found.items()} == dict(jobs)
    for rule, (count, each, total, past) in found.items():
        seconds = benchmarks(study, rule)
        assert past == len(seconds)
        if rule == "draw_depth":
            assert (each, total) == ("not known", "not known")
            continue
        median = statistics.median(seconds)
        assert each == f"{median:.1f} s"
        assert total == f"{count * median:.1f} s"
    assert found["train_probes_tiny"][3] == 18
    assert f"{sum(jobs.values())} jobs to run" in done.stdout
    assert "not known, and in none of these: 1 job of 1 rule never run here" in done.stdout
    assert "to fetch  nothing" in done.stdout
    assert "on disk   0 bytes more at its peak" in done.stdout


def test_caches_that_are_gone_are_counted_by_what_they_held(study) -> None:
    held = 0
    for path in (study / "results/activations/tiny").glob("*/size.h5"):
        with h5py.File(path) as file:
            held += sum(entry.nbytes for name, entry in file.items() if name != "items")
        path.unlink()
    study.remove("results/*/tiny/*/size", "results/tables/parts/*/tiny/size.csv", "results/figures/scale.*")
    done = planning(study, "config.yaml", "--cores=1")
    assert table(done.stdout)["capture_tiny_size"][0] == 3
    assert f"activation caches: {held / 1000:.1f} kB (3 files)" in done.stdout
    study.remove("results/checkpoints/tiny/*.json")
    done = planning(study, "config.yaml", "--cores=1")
    assert table(done.stdout)["identify_local_tiny"][0] == 3
    assert re.search(r"activation caches: not known: \d files of tiny", done.stdout)


def errors(done: subprocess.CompletedProcess) -> str:
    return "\n".join(line for line in done.stderr.splitlines() if "import time:" not in line)


def test_a_study_that_is_not_there_or_has_faults_is_one_clear_error(study) -> None:
    absent = planning(study, "config.yml", code=1)
    said = "error: config.yml: cannot be read (No such file or directory); did you mean 'config.yaml'?"
    assert (errors(absent), absent.stdout) == (said, "")
    with study.changed_config() as config:
        config["sedes"] = [1]
    study.remove("data/size.jsonl")
    faulty = planning(study, "config.yaml", code=1)
    assert errors(faulty).startswith("error: config.yaml: 2 problems\n")
    assert "sedes: unknown key; did you mean 'seeds'?" in errors(faulty)
    assert "data/size.jsonl" in errors(faulty)
    assert faulty.stdout == ""


def test_what_snakemake_refuses_is_said_in_its_own_words(study) -> None:
    study.edit("rules/probes.smk", "def probe_memory(", "def other_memory(")
    done = planning(study, "config.yaml", code=1)
    assert errors(done).startswith("error: config.yaml: Snakemake cannot plan it:\n  NameError")
    assert "probes.smk" in errors(done)
    assert "Traceback" not in errors(done)
    assert done.stdout == ""
