"""How often Snakemake looks for jobs to start: a look goes through all jobs that wait, so it is not free."""

import re

TABLES = ("results/tables/*.csv", "results/tables/parts/*", "results/figures/*")


def looks(output: str) -> int:
    return len(re.findall(r"^Ready jobs: \d+", output, re.MULTILINE))


def test_it_looks_when_a_job_has_ended_and_not_every_second_besides(study):
    study.remove(*TABLES)
    run = study.run("--verbose", cores=1)
    assert len(run.jobs) > 15
    assert 0 < looks(run.output) <= len(run.jobs) + 1
    assert study.plan() == set()


def test_a_bound_that_was_asked_for_stays(study):
    study.remove(*TABLES)
    run = study.run("--verbose", "--max-jobs-per-timespan", "1/2s", "results/tables/fragility.csv")
    assert "Job rate limit reached" in run.output
    assert looks(run.output) > len(run.jobs)
