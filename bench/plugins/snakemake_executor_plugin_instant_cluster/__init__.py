"""The plugin `instant` as a cluster: jobs are submitted, in groups, up to `--jobs` at a time."""

from dataclasses import replace

from snakemake_executor_plugin_instant import Executor, common_settings

__all__ = ["Executor", "common_settings"]

common_settings = replace(common_settings, non_local_exec=True)
