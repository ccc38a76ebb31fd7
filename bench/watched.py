"""A command's time and the most memory it held, exactly: a small process of its own starts it and waits.

Started from a large process, a command would be said to have held that process's memory too.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Spent:
    """What a command took: seconds of wall and of processor time, what it started included, and MiB of
    resident memory at the peak of its largest process."""

    seconds: float
    processor: float
    peak_mib: float
    output: str

    @property
    def text(self) -> str:
        return f"{self.seconds:.1f} s (of the processor {self.processor:.1f}), {self.peak_mib:.0f} MiB"


def run(command: Sequence[str], *, folder: Path, variables: Mapping[str, str]) -> Spent:
    """Run a command in a folder, with further environment variables.

    Raises:
        RuntimeError: it failed; with the end of what it said.
    """
    with tempfile.TemporaryDirectory() as name:
        said, found = Path(name) / "said", Path(name) / "found.json"
        watcher = [sys.executable, __file__, str(said), str(found), *command]
        subprocess.run(watcher, cwd=folder, env={**os.environ, **variables}, check=True)
        output = said.read_text(encoding="utf-8", errors="replace")
        result = json.loads(found.read_text(encoding="utf-8"))
    if result["code"]:
        raise RuntimeError(f"{' '.join(command)} failed:\n{output[-2000:]}")
    return Spent(result["seconds"], result["processor"], result["peak_mib"], output)


def main(said: str, found: str, *command: str) -> None:
    with open(said, "wb") as handle:
        begun = time.perf_counter()
        code = subprocess.call(command, stdout=handle, stderr=subprocess.STDOUT)
        seconds = time.perf_counter() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Linux counts memory in KiB, macOS in bytes.
    mib = used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    result = {"seconds": seconds, "processor": used.ru_utime + used.ru_stime, "peak_mib": mib, "code": code}
    Path(found).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
