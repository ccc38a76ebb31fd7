"""A Snakemake executor whose jobs cost nothing: each has its outputs at once, empty, and starts no process.

What a run then takes is what Snakemake's main process takes: choosing jobs, looking at their files, keeping
its records. Making the empty files is the jobs' part; the seconds of it go to the file that SPENT names.
"""

import os
import time
from pathlib import Path

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.real import RealExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings

SPENT = "STRATAPROBE_BENCH_SPENT"

common_settings = CommonSettings(
    non_local_exec=False,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    auto_deploy_default_storage_provider=False,
)


class Executor(RealExecutor):
    def __post_init__(self):
        self.spent = 0.0

    def run_job(self, job):
        begun = time.perf_counter()
        for one in job.jobs if job.is_group() else (job,):
            for path in map(Path, (*one.output, *one.log, *([one.benchmark] if one.benchmark else []))):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        self.spent += time.perf_counter() - begun
        done = SubmittedJobInfo(job)
        self.report_job_submission(done)
        self.report_job_success(done)

    def shutdown(self):
        Path(os.environ[SPENT]).write_text(str(self.spent))

    def cancel(self):
        """Nothing runs."""

    def get_exec_mode(self):
        raise NotImplementedError("no process is started")

    def get_python_executable(self):
        raise NotImplementedError("no process is started")

    @property
    def cores(self):
        return self.workflow.resource_settings.cores
