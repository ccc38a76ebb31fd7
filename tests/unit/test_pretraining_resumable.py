"""What a killed run leaves: pre-training and fine-tuning go on from it to the same bytes, or say why not."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from strataprobe import lm
from strataprobe.checkpoints import identify_directory
from strataprobe.curation import training
from strataprobe.errors import ModelError
from strataprobe.pretraining import resumable, train
from tests.tiny_models import save_tiny_model
from tests.unit import test_curation_lora, test_pretraining


@dataclass(frozen=True)
class Kind:
    """One of the two kinds of run: `go(out, progress)` does it; undisturbed, it ends with bytes `whole`."""

    go: Callable[..., None]
    whole: dict[str, bytes]
    module: ModuleType
    last: int


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> tuple[Path, dict]:
    """A small model to fine-tune, and its identity."""
    place = save_tiny_model("llama", tmp_path_factory.mktemp("base") / "llama")
    facts = {"model": "tiny", "revision": "step0005", "step": 5, "source": "local", "layers": 2}
    return place, identify_directory(place, **facts)


def tune(base: tuple[Path, dict], out: Path, progress=None, dtype: str = "float32") -> None:
    place, facts = base
    test_curation_lora.run(lm.load(place, dtype=dtype, device="cpu"), facts, out, progress=progress)


def pretrain(out: Path, progress=None) -> None:
    test_pretraining.run(out, out.parent / "scratch", progress=progress)


@pytest.fixture(scope="module", params=["pretraining", "fine-tuning"])
def kind(request, base, tmp_path_factory) -> Kind:
    out = tmp_path_factory.mktemp("whole") / "out"
    go, module, last = (
        (pretrain, train, 12)
        if request.param == "pretraining"
        else (lambda *given: tune(base, *given), training, test_curation_lora.SMALL.steps)
    )
    go(out)
    return Kind(go, test_pretraining.contents(out), module, last)


def watched(seen: list[int], stop: int | None = None):
    """A progress bar that notes the steps done, and breaks off before step `stop`."""

    def progress(steps, *, total, **_):
        assert total == len(steps), "the bar counts what is left"
        for step in steps:
            if step == stop:
                raise KeyboardInterrupt
            seen.append(step)
            yield step

    return progress


def stopped(kind: Kind, out: Path) -> Path:
    """A run broken off before step 8, after a checkpoint; its folder in scratch."""
    with pytest.raises(KeyboardInterrupt):
        kind.go(out, watched([], 8))
    (scratch,) = (out.parent / "scratch").iterdir()
    return scratch


def killed(kind: Kind, out: Path, monkeypatch, where: ModuleType, name: str, broken: Callable) -> None:
    """A run that ends in `broken`, which stands for the function `name` of `where`; then its outputs go."""
    with monkeypatch.context() as patched:
        patched.setattr(where, name, broken)
        with pytest.raises(KeyboardInterrupt):
            kind.go(out)
    shutil.rmtree(out)  # as Snakemake does with the outputs of a failed job


def ends_as_it_should(kind: Kind, out: Path, first: int | None) -> None:
    """Run again, it does the steps from `first` on (None: none) and ends with the bytes of a whole run."""
    seen: list[int] = []
    kind.go(out, watched(seen))
    assert seen == ([] if first is None else list(range(first, kind.last + 1)))
    assert test_pretraining.contents(out) == kind.whole
    assert list((out.parent / "scratch").iterdir()) == []


def test_killed_while_results_are_put_in_place_it_can_still_put_all_of_them(kind, tmp_path, monkeypatch):
    put, placed = resumable.put, []

    def fail_second(source, target):
        if placed:
            raise KeyboardInterrupt
        placed.append(target)
        put(source, target)

    killed(kind, tmp_path / "out", monkeypatch, resumable, "put", fail_second)
    for path in (tmp_path / "scratch").rglob("*"):
        os.utime(path, (0, 0))
    began = time.time()
    ends_as_it_should(kind, tmp_path / "out", None)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert all(path.stat().st_mtime > began - 1 for path in files), "older than its inputs, it is made again"


def test_killed_while_scratch_goes_it_does_not_take_up_what_is_left_of_it(kind, tmp_path, monkeypatch):
    """With the state still there, a checkpoint half removed would be put in place as if it were whole."""
    remove = shutil.rmtree

    def broken_off(path, *args, **more):
        if Path(path).parent.name != "scratch":
            return remove(path, *args, **more)
        for file in Path(path).rglob("*.safetensors"):
            if file.name != resumable.STATE:
                file.unlink()
        raise KeyboardInterrupt

    killed(kind, tmp_path / "out", monkeypatch, shutil, "rmtree", broken_off)
    ends_as_it_should(kind, tmp_path / "out", 1)


def cut(state: Path) -> None:
    os.truncate(state, state.stat().st_size // 2)


def empty(state: Path) -> None:
    os.truncate(state, 0)


def without_notes(state: Path) -> None:
    save_file(load_file(state), state)


def without_momenta(state: Path) -> None:
    """Whole as a file, and its weights are all there."""
    with safe_open(state, framework="pt") as opened:
        notes = opened.metadata()
    save_file({name: own for name, own in load_file(state).items() if "exp_avg" not in name}, state, notes)


@pytest.mark.parametrize("damage", [cut, empty, without_notes, without_momenta])
def test_a_damaged_state_is_said_and_the_run_begins_anew(damage, kind, tmp_path, caplog):
    """Nothing of it may be taken up: with its weights but not its momenta other bytes would be written."""
    scratch = stopped(kind, tmp_path / "out")
    damage(scratch / resumable.STATE)
    ends_as_it_should(kind, tmp_path / "out", 1)
    assert f"begins anew: in {scratch}, state.safetensors cannot be read" in caplog.text


def test_a_state_whose_checkpoint_is_gone_is_said_and_the_run_begins_anew(kind, tmp_path, caplog):
    scratch = stopped(kind, tmp_path / "out")
    first = min(path.name for path in scratch.iterdir() if path.is_dir())
    shutil.rmtree(scratch / first)
    ends_as_it_should(kind, tmp_path / "out", 1)
    assert f"but {first} is not there" in caplog.text


def test_a_whole_state_is_taken_up_without_a_word(kind, tmp_path, caplog):
    scratch = stopped(kind, tmp_path / "out")
    done = max(int(path.name.removeprefix("step")) for path in scratch.iterdir() if path.is_dir())
    assert done > 0
    ends_as_it_should(kind, tmp_path / "out", done + 1)
    assert "anew" not in caplog.text


def test_a_gradient_that_is_no_number_stops_the_run_though_the_loss_is_one(kind, tmp_path, monkeypatch):
    """Put into the weights, it would show a step later, after a checkpoint of NaN."""
    real, calls = kind.module.next_token_loss, []

    def broken(model, rows):
        loss = real(model, rows)
        calls.append(loss.requires_grad)
        own = next(own for own in model.parameters() if own.requires_grad)
        return loss + (0 * own.sum()).sqrt() if sum(calls) == 8 and calls[-1] else loss

    with monkeypatch.context() as patched:
        patched.setattr(kind.module, "next_token_loss", broken)
        with pytest.raises(
            ModelError, match=r"gradient's norm is nan at step 8 of .*kept up to step [56] in "
        ):
            kind.go(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    ends_as_it_should(kind, tmp_path / "out", 7 if kind.last == 12 else 6)


def test_where_files_cannot_be_linked_they_are_copied(kind, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    ends_as_it_should(kind, tmp_path / "out", 1)


def test_a_state_of_the_model_in_another_dtype_is_not_taken_up(base, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        tune(base, tmp_path / "out", watched([], 8))
    seen: list[int] = []
    tune(base, tmp_path / "out", watched(seen), dtype="bfloat16")
    assert seen[0] == 1
