"""A logger plugin for Snakemake that writes down every job of a dry run, one JSON object a line.

`strataprobe.workflow.dry_run` reads it. Snakemake's own output shows a rule's message in place of its name,
and neither threads nor resources with it.
"""

import json
import os
from logging import LogRecord
from pathlib import Path

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

PLACE = "STRATAPROBE_PLAN"
"""The environment variable that names the file to write to."""


class LogHandler(LogHandlerBase):
    writes_to_stream = False
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def emit(self, record: LogRecord) -> None:
        if getattr(record, "event", None) != LogEvent.JOB_INFO:
            return
        # Where a resource is known only as the job starts, a text stands in its place.
        numbers = {name: value for name, value in record.resources.items() if isinstance(value, int)}
        job = {
            "rule": record.rule_name,
            "inputs": record.input,
            "outputs": record.output,
            "threads": record.threads,
            "resources": numbers,
        }
        with Path(os.environ[PLACE]).open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(job) + "\n")
