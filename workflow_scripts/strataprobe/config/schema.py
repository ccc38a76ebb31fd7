"""Writes the JSON Schema of the config, for editors: `python -m strataprobe.config.schema PATH`."""

import sys

from strataprobe.config.models import StudyConfig
from strataprobe.files import write_json


def schema() -> dict:
    """JSON Schema of a study's config file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Strataprobe study",
        **StudyConfig.model_json_schema(),
    }


if __name__ == "__main__":
    write_json(sys.argv[1], schema())
