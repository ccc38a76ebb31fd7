"""How often Snakemake looks for jobs to start."""

from typing import Any

UNASKED = (100, 1)
"""Snakemake's own bound: starts, and in how many seconds."""


def only_when_a_job_ends(workflow: Any) -> None:
    """Have the scheduler look for jobs to start when one has ended, and not every second besides.

    As long as starts are bounded, Snakemake looks again one timespan after every look. A look that an ended
    job gave rise to thus begins a chain of its own, and late in a run hundreds of looks a second each go
    through all jobs that wait and their inputs (in the default study a fifth of all CPU time). A bound
    that was asked for (`--max-jobs-per-timespan`) stays.

    Args:
        workflow: Snakemake's, about to start.
    """
    bound = workflow.scheduling_settings.max_jobs_per_timespan
    if bound is not None and (bound.max_jobs, bound.timespan) == UNASKED:
        workflow.scheduler.job_rate_limiter = None
