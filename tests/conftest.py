"""One finished tiny study a session; each test gets a copy of its own."""

import os
from pathlib import Path

import pytest
import yaml

from tests.workflow.study import DATASETS, REVISIONS, pairs, study_config, write_pairs
from tests.workflow.trees import Tree, built_once


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """A folder that all workers of this session share."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def finished(shared) -> Tree:
    """The finished study: nobody changes it."""
    return Tree(built_once(shared / "finished" / "study", _finish))


def _finish(place: Path) -> None:
    from tests.tiny_models import save_tiny_model

    tree = Tree.new(place)
    for dataset in DATASETS:
        write_pairs(tree / f"data/{dataset}.jsonl", pairs(dataset))
    for seed, revision in enumerate(REVISIONS):
        save_tiny_model("llama", tree / f"weights/tiny/{revision}", seed=seed, max_positions=64)
    (tree / "config.yaml").write_text(yaml.safe_dump(study_config(), sort_keys=False))
    tree.run()


@pytest.fixture
def study(finished, tmp_path) -> Tree:
    """A copy of the finished study, to do anything with."""
    return finished.copy(tmp_path / "study")
