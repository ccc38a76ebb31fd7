"""What jobs may fetch at the same time must fit into what the study allows, before any of them begins."""

from dataclasses import replace
from pathlib import Path

import pytest

from strataprobe.config import Study
from strataprobe.config.revisions import Downloads
from strataprobe.errors import ConfigError
from strataprobe.workflow.downloads import refuse_more_than_fit
from strataprobe.workflow.planning import downloads_at_once

SIZES = {"step0": 4_000_000_000, "step1": 6_000_000_000, "step2": None, "step3": 5_000_000_000}


def study(gigabytes: float | None) -> Study:
    """A model of the hub whose list has the sizes of all revisions but one."""
    loaded = Study.load(
        {
            "seeds": [42],
            "datasets": {"moral": {"path": "resources/datasets/moral.jsonl"}},
            "models": {
                "big": {"source": {"hub": {"repo": "lab/big"}}, "layers": 2, "revisions": list(SIZES)}
            },
        }
    )
    model = loaded.models["big"]
    revisions = tuple(replace(revision, bytes=SIZES[revision.name]) for revision in model.revisions)
    config = loaded.config.model_copy(update={"downloads": Downloads(disk_gigabytes=gigabytes)})
    return replace(loaded, config=config, models={"big": replace(model, revisions=revisions)})


@pytest.mark.parametrize(
    ("gigabytes", "at_once"),
    [(None, 4), (15.0, 4), (15.0, 3), (11.0, 2), (10.9, 1), (6.0, 1), (6.0, None)],
)
def test_what_fits_is_let_through(gigabytes, at_once):
    refuse_more_than_fit(study(gigabytes), at_once)


def test_more_at_once_than_fit_says_how_many_would():
    with pytest.raises(ConfigError) as caught:
        refuse_more_than_fit(study(14.9), 3)
    assert str(caught.value) == (
        "downloads.disk_gigabytes: 3 jobs at once may fetch 15.0, more than 14.9; "
        "run with --resources downloads=2, or raise it"
    )


@pytest.mark.parametrize("at_once", [1, None])
def test_a_revision_that_does_not_fit_alone_is_named(at_once):
    with pytest.raises(ConfigError, match=r"5.9 does not hold big step1, which takes 6.0; at least 6.0"):
        refuse_more_than_fit(study(5.9), at_once)


def test_the_profile_says_how_many_fetch_at_once(tmp_path):
    assert downloads_at_once(Path("profiles/default/config.yaml")) == 2
    assert downloads_at_once(tmp_path / "none.yaml") == 1
    (tmp_path / "empty.yaml").write_text("")
    assert downloads_at_once(tmp_path / "empty.yaml") == 1


def test_captured_are_the_caches_that_a_measure_of_the_study_reads():
    """A dataset that is only there to test another's probes too, and none that nothing asks for."""
    loaded = Study.load(
        {
            "seeds": [42],
            "datasets": {
                "moral": {"path": "resources/datasets/moral.jsonl", "measures": ["probes", "controls"]},
                "again": {"path": "resources/datasets/moral_paraphrases.jsonl", "tests": "moral"},
                "idle": {"path": "resources/datasets/syntax.jsonl", "measures": ["transfer"]},
            },
            "models": {
                "big": {
                    "source": {"hub": {"repo": "lab/big"}},
                    "layers": 2,
                    "revisions": ["step0", "step1"],
                    "measures": ["probes", "controls"],
                }
            },
        }
    )
    assert sorted(loaded.captured(loaded.models["big"])) == [
        (revision, dataset) for revision in ("step0", "step1") for dataset in ("again", "moral")
    ]
