"""What the comparisons measure: the default study's settings, its real model, its moral pairs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from strataprobe.config import Study
from strataprobe.layout import Layout

ROOT = Path(__file__).resolve().parent.parent
MODEL, REVISION = "smollm2-135m-instruct", "main"
SEEDS = (42, 43, 44, 45)


@dataclass(frozen=True)
class Setup:
    """One call's choices. `stages` are the default study's settings by stage, threads as chosen."""

    checkpoint: Path
    dataset: Path
    threads: int
    stages: dict[str, dict[str, Any]]

    @property
    def missing(self) -> str:
        """Why the model cannot be measured; empty where it can."""
        if (self.checkpoint / "config.json").is_file():
            return ""
        weights = Layout().weights(MODEL, REVISION)
        return f"no model there: `snakemake --cores 2 {weights}` makes it, or give another with --checkpoint"


def setup(checkpoint: str | None, dataset: str | None, threads: int) -> Setup:
    """Defaults filled in: the default study's real model and its moral pairs."""
    with (ROOT / "config.yaml").open(encoding="utf-8") as handle:
        study = Study.load(yaml.safe_load(handle), base=ROOT)
    stages = {stage: study.settings(stage) for stage in ("capture", "probe", "fragility")}
    stages["capture"] |= {"device": "cpu", "dtype": "float32", "threads": threads}
    return Setup(
        checkpoint=Path(checkpoint) if checkpoint else ROOT / Layout().checkpoint(MODEL, REVISION),
        dataset=Path(dataset) if dataset else ROOT / "resources/datasets/moral.jsonl",
        threads=threads,
        stages=stages,
    )
