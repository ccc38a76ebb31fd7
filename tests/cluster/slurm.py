"""A Slurm of one node on this machine, for as long as a test lasts."""

import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PACKAGES = ("slurm-wlm", "munge")
DAEMONS = ("munged", "slurmctld", "slurmd")
# Slurm's default place: Snakemake's plugin drops SLURM_CONF and every other SLURM_ variable inside jobs.
CONFIG = Path("/etc/slurm/slurm.conf")
GPUS = CONFIG.with_name("gres.conf")
OURS = "# Written by a test, which removes it at its end.\n"
DEFAULT_PARTITION, OTHER_PARTITION = "everyone", "short"
# Nothing here looks at what the machine has and no limit is enforced: what was asked for is counted, no more.
# So there may be a GPU that is none.
TEMPLATE = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
MinJobAge=300
SchedulerParameters=batch_sched_delay=0
KillWait=2
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=16000 Gres=gpu:1
PartitionName={default} Nodes={host} Default=YES
PartitionName={other} Nodes={host}
"""


class NoSlurmError(Exception):
    """Why there can be no cluster here."""


def install() -> None:
    """Debian's packages, where they are missing.

    Raises:
        NoSlurmError: this machine is not ours to change, or does not have them.
    """
    if os.geteuid() != 0:
        raise NoSlurmError("needs root, to install Slurm and to start its daemons")
    for path in (CONFIG, GPUS):
        if path.exists() and not path.read_text().startswith(OURS):
            raise NoSlurmError(f"this machine has a Slurm of its own ({path})")
    if all(map(shutil.which, DAEMONS)):
        return
    if not shutil.which("apt-get"):
        raise NoSlurmError("needs slurm-wlm and munge, and there is no apt-get to install them")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES]):
        done = subprocess.run(
            ["apt-get", *step], env=environment, capture_output=True, text=True, timeout=300, check=False
        )
    if done.returncode != 0:
        raise NoSlurmError(f"apt-get cannot install slurm-wlm and munge here: {done.stderr.strip()[-400:]}")


@contextmanager
def cluster() -> Iterator[None]:
    """Daemons that run, on a node that takes jobs; at the end none runs, and nothing of them is left.

    One at a time on a machine: the place of Slurm's config is one.

    Raises:
        NoSlurmError: Slurm is not here and cannot be installed.
        RuntimeError: a daemon did not start; with what it said.
    """
    with (Path(tempfile.gettempdir()) / "slurm-of-a-test.lock").open("w") as lock, ExitStack() as stack:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-")))
        # munged refuses a socket in a folder that others may write to, and clients must reach it.
        folder.chmod(0o755)
        _write_config(folder)
        stack.callback(_remove_config)
        _start(stack, folder, _munged(folder), ready=(folder / "munge.socket").exists)
        _start(stack, folder, ["slurmctld", "-D"], ready=lambda: "UP" in asked("scontrol", "ping"))
        _start(stack, folder, ["slurmd", "-D"], ready=lambda: "idle" in asked("sinfo", "-h", "-o", "%T"))
        # Before the daemons stop, so that no client asks a controller that is gone.
        stack.callback(_remove_config)
        stack.callback(_end_jobs)
        yield


def _write_config(folder: Path) -> None:
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    host = socket.gethostname().split(".")[0]
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        controller, node = one.getsockname()[1], other.getsockname()[1]
    partitions = {"default": DEFAULT_PARTITION, "other": OTHER_PARTITION}
    filled = TEMPLATE.format(host=host, folder=folder, controller=controller, node=node, **partitions)
    CONFIG.parent.mkdir(parents=True, exist_ok=True)
    CONFIG.write_text(OURS + filled)
    GPUS.write_text(f"{OURS}NodeName={host} Name=gpu File=/dev/null\n")


def _remove_config() -> None:
    for path in (CONFIG, GPUS):
        path.unlink(missing_ok=True)


def _munged(folder: Path) -> list[str]:
    """A munged beside the machine's own, if that runs: with its own key and socket."""
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    places = {"key-file": key, "socket": folder / "munge.socket", "pid-file": folder / "munge.pid"}
    places |= {"log-file": folder / "munge.log", "seed-file": folder / "munge.seed"}
    return ["munged", "--foreground", "--force", *(f"--{name}={place}" for name, place in places.items())]


def _start(stack: ExitStack, folder: Path, command: list[str], ready: Callable[[], object]) -> None:
    """Start a daemon in the foreground of a session of its own; the stack ends it."""
    said = folder / f"{command[0]}.said"
    with said.open("w") as handle:
        daemon = subprocess.Popen(command, stdout=handle, stderr=handle, start_new_session=True)
    stack.callback(_stop, daemon)
    if not waited(lambda: daemon.poll() is not None or ready(), seconds=30) or daemon.poll() is not None:
        raise RuntimeError(f"{command[0]} did not start:\n{said.read_text()[-2000:]}")


def _stop(daemon: subprocess.Popen) -> None:
    daemon.terminate()
    try:
        daemon.wait(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(daemon.pid, signal.SIGKILL)
        daemon.wait()


def _end_jobs() -> None:
    """Before the daemons stop: a job that outlives them would go on by itself."""
    asked("scancel", "--user=root")
    waited(lambda: not asked("squeue", "--noheader"), seconds=30)


def asked(*command: str) -> str:
    """What a command of Slurm's prints; nothing where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else ""


def jobs() -> list[dict[str, str]]:
    """Every job since the cluster began, in order of submission, as Slurm describes it."""
    lines = asked("scontrol", "--oneliner", "show", "job").splitlines()
    found = [dict(re.findall(r"(\S+?)=(\S*)", line)) for line in lines if line.startswith("JobId=")]
    return sorted(found, key=lambda job: int(job["JobId"]))


def waited(condition: Callable[[], object], seconds: float) -> object:
    """What the condition returns once it is true; false where it is not within that time."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return found
