"""A logger plugin for Snakemake that writes down every job it starts: rule and wildcards, one JSON a line.

Snakemake's own output shows a rule's message instead of its name, so it cannot say which jobs ran.
"""

import json
import os
from logging import LogRecord
from pathlib import Path

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

PLACE = "STRATAPROBE_TEST_JOBS"


class LogHandler(LogHandlerBase):
    writes_to_stream = False
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def emit(self, record: LogRecord) -> None:
        if getattr(record, "event", None) == LogEvent.JOB_INFO:
            line = json.dumps({"rule": record.rule_name, "wildcards": dict(record.wildcards)})
            with Path(os.environ[PLACE]).open("a") as handle:
                handle.write(line + "\n")
