"""Lets a test stop a capture in its middle, without another content of any file that Snakemake watches.

Python imports this module at its start. Where the environment names a part of a cache's path, the capture of
that cache sleeps once its first states are written.
"""

import importlib.abc
import importlib.machinery
import os
import sys
import time
from types import ModuleType

STUCK = os.environ.get("STRATAPROBE_TEST_STUCK", "")


class _Loader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        write = module.CacheWriter.write

        def write_and_sleep(writer, *window) -> None:
            write(writer, *window)
            if STUCK in writer._file.filename:
                writer._file.flush()
                time.sleep(3600)

        module.CacheWriter.write = write_and_sleep


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "strataprobe.cache":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = _Loader(name, spec.origin)
        return spec


if STUCK:
    sys.meta_path.insert(0, _Finder())
