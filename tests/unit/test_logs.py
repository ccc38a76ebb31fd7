"""What a job says reaches both its terminal and its rule's log."""

import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "workflow_scripts"


def run(log, body):
    """Run a job in a process of its own, since the log works on file descriptors."""
    code = "import logging, os, sys\nfrom strataprobe.logs import job_log, progress\n"
    code += "from strataprobe.errors import StrataprobeError\n"
    code += f"with job_log({str(log)!r}):\n" + "\n".join(f"    {line}" for line in body.splitlines())
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_what_libraries_say_of_their_every_step_stays_out(tmp_path):
    log = tmp_path / "rule.log"
    done = run(
        log,
        "logging.getLogger('httpx').info('GET /x?signature=1')\nlogging.getLogger('lib').warning('careful')\n"
        "logging.getLogger('strataprobe').info('ours')",
    )
    for said, times in (("signature", 0), ("careful", 1), ("ours", 1)):
        assert done.stderr.count(said) == log.read_text().count(said) == times


def test_print_logging_and_c_level_output_reach_terminal_and_log(tmp_path):
    log = tmp_path / "logs" / "rule.log"
    done = run(
        log,
        "print('by print', file=sys.stderr)\nlogging.getLogger('strataprobe.x').info('by logging')\n"
        "os.write(2, b'by descriptor\\n')\n"
        "os.system('echo by a child >&2')",
    )
    assert done.returncode == 0
    for said in ("by print", "by logging", "by descriptor", "by a child"):
        assert done.stderr.count(said) == 1
        assert log.read_text().count(said) == 1


def test_an_error_for_the_user_is_its_message_alone_and_the_traceback_is_in_the_log(tmp_path):
    log = tmp_path / "rule.log"
    done = run(log, "raise StrataprobeError('models.nano.layers: wrong')")
    assert done.returncode == 1
    assert "error: models.nano.layers: wrong" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Traceback" in log.read_text()
    assert "error: models.nano.layers: wrong" in log.read_text()


def test_an_unexpected_error_keeps_its_traceback_in_both_places(tmp_path):
    log = tmp_path / "rule.log"
    done = run(log, "1 / 0")
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "ZeroDivisionError" in log.read_text()


def test_what_was_said_before_a_kill_is_in_the_log(tmp_path):
    log = tmp_path / "rule.log"
    done = run(
        log,
        "import time\nprint('half way', file=sys.stderr)\ntime.sleep(0.5)\nos.kill(os.getpid(), 9)",
    )
    assert done.returncode == -9
    assert "half way" in log.read_text()


def test_a_log_holds_one_run_only(tmp_path):
    log = tmp_path / "rule.log"
    run(log, "print('first run', file=sys.stderr)")
    run(log, "print('second run', file=sys.stderr)")
    assert "first run" not in log.read_text()
    assert "second run" in log.read_text()


def test_progress_hands_everything_through_and_shows_the_count(tmp_path):
    log = tmp_path / "rule.log"
    done = run(log, "print(list(progress(range(7), total=7, desc='checkpoints')))")
    assert done.stdout == "[0, 1, 2, 3, 4, 5, 6]\n"
    assert "checkpoints" in log.read_text()
    assert "7/7" in log.read_text()
