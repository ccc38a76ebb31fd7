"""What fine-tuning from a hub model would fetch and write: the base once, adapters of unknown size."""

from pathlib import Path

import pytest

from strataprobe.workflow.space import Size, space
from tests.unit.test_planning import LAYERS, hub_model, job, project, study_of, table, write_identity

__all__ = ["project"]  # the fixture
TUNED = {
    "source": {
        "lora": {
            "base": "big", "revision": "step2", "conditions": {"fables": ["fables"]}, "seeds": [1],
            "training": {"steps": 4, "save_every": 2, "warmup_steps": 1},
        }
    },
    "layers": LAYERS,
    "datasets": ["pairs"],
}  # fmt: skip
MODEL = "big-lora-fables-s1"


@pytest.fixture
def study(project):
    (project / "fables.jsonl").write_text("")
    models = {"big": hub_model(datasets=["pairs"]), "tuned": TUNED}
    return study_of(project, models, corpora={"fables": {"texts": "fables.jsonl"}})


@pytest.mark.parametrize("reads", ["base", "tuned"])
def test_whoever_opens_a_fine_tuned_checkpoint_fetches_its_base(study, project, reads) -> None:
    layout = study.layout
    read = layout.identity("big", "step2") if reads == "base" else layout.identity(MODEL, "step0002")
    jobs = [job(reads, [read], downloads=1), job("probes", [layout.identity(MODEL, "step0004")])]
    found = space(study, jobs, {"big": table(step1=5000, step2=7000)}, project)
    assert (found.fetched, found.largest) == (Size(1, 7000), 7000)


def test_a_job_that_opens_no_weights_fetches_none(study, project) -> None:
    jobs = [job("probes", [study.layout.identity(MODEL, "step0004")])]
    assert space(study, jobs, {"big": table(step2=7000)}, project).fetched == Size()


def test_adapters_are_of_a_size_that_nobody_knows_until_they_are_there(study, project) -> None:
    adapters = [study.layout.adapter(MODEL, name) for name in ("step0002", "step0004")]
    found = space(study, [job("train", outputs=adapters)], {}, project).weights
    assert (found.things, found.bytes, list(found.unknown.values())) == (2, 0, [2])
    place = project / adapters[0]
    Path(place).parent.mkdir(parents=True)
    place.write_bytes(b"12345")
    assert space(study, [job("train", outputs=adapters)], {}, project).weights.things == 1


def test_caches_are_as_wide_as_the_base_is(study, project) -> None:
    path = study.layout.activations(MODEL, "step0002", "pairs")
    assert space(study, [job("capture", outputs=[path])], {}, project).caches.unknown
    write_identity(project, "big", "step2", hidden_size=8)
    positions, items = 2, 20
    assert space(study, [job("capture", outputs=[path])], {}, project).caches == Size(
        1, LAYERS * items * positions * 8 * 4
    )
