"""What a checkpoint directory is identified by, and that nothing else is opened in its place."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from strataprobe import checkpoints
from strataprobe.checkpoints import identify_directory, open_weights, twins
from strataprobe.errors import CheckpointError

CONFIG = {"architectures": ["OlmoForCausalLM"], "num_hidden_layers": 3, "hidden_size": 16}


def write(directory: Path, **changes: Any) -> Path:
    """A checkpoint directory; `changes` are file contents by name, None leaves the file out."""
    files: dict[str, Any] = {
        "config.json": json.dumps(CONFIG),
        "tokenizer.json": "{}",
        "tokenizer_config.json": '{"add_bos_token": true}',
        "model.safetensors": "weights",
        "training_state.txt": "nothing to do with it",
    }
    directory.mkdir(parents=True)
    for name, content in (files | changes).items():
        if content is not None:
            (directory / name).write_bytes(stored(name, content))
    return directory


def stored(name: str, content: str) -> bytes:
    """The content as a file's bytes: a shard holds it as a tensor of its own, one number a letter."""
    if not name.endswith(".safetensors"):
        return content.encode()
    return save({"layer.weight": np.frombuffer(content.encode(), np.uint8)})


def identify(directory: Path, **changes: Any) -> dict[str, Any]:
    asked = {"model": "m", "revision": "r", "step": 7, "source": "local", "layers": 3}
    return identify_directory(directory, **(asked | changes))


def refusal(question: Callable[[], Any]) -> str:
    with pytest.raises(CheckpointError) as caught:
        question()
    return str(caught.value)


def test_identity_holds_names_shape_and_checksums(tmp_path: Path) -> None:
    directory = write(tmp_path / "a")
    identity = identify(directory, origin={"sha256": "0" * 64})
    used = ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    expected = {name: hashlib.sha256((directory / name).read_bytes()).hexdigest() for name in used}
    assert identity["files"] == expected
    assert {key: identity[key] for key in ("model", "revision", "step", "layers", "hidden_size")} == {
        "model": "m",
        "revision": "r",
        "step": 7,
        "layers": 3,
        "hidden_size": 16,
    }
    assert identity["architecture"] == "OlmoForCausalLM"
    assert identity["parameters"] == len("weights")
    assert identity["origin"] == {"sha256": "0" * 64}
    assert identity["directory"] == str(directory)
    json.dumps(identity, allow_nan=False)


def test_identity_of_a_model_made_here_does_not_hold_where_it_lies(tmp_path: Path) -> None:
    identities = [identify(write(tmp_path / name), source="pretrain") for name in ("a", "b")]
    assert identities[0] == identities[1]
    assert str(tmp_path) not in json.dumps(identities[0])


@pytest.mark.parametrize(
    ("name", "content", "changed"),
    [
        ("model.safetensors", "weightS", "weights_sha256"),
        ("tokenizer.json", '{"a": 1}', "tokenizer_sha256"),
        ("tokenizer_config.json", '{"add_bos_token": false}', "tokenizer_sha256"),
    ],
)
def test_a_change_shows_in_the_checksum_it_belongs_to_and_no_other(
    tmp_path: Path, name: str, content: str, changed: str
) -> None:
    before, after = identify(write(tmp_path / "a")), identify(write(tmp_path / "b", **{name: content}))
    sums = [key for key in ("weights_sha256", "tokenizer_sha256") if before[key] != after[key]]
    assert sums == [changed]


def test_all_faults_of_a_directory_are_listed_at_once(tmp_path: Path) -> None:
    config = json.dumps({"num_hidden_layers": 5})
    directory = write(
        tmp_path / "a", **{"config.json": config, "tokenizer.json": None, "model.safetensors": None}
    )
    (directory / "pytorch_model.bin").write_text("pickle")
    message = refusal(lambda: identify(directory))
    assert f"m r ({directory}): 4 problems" in message
    assert "only pytorch_model.bin, which can run code when opened, so they are refused" in message
    assert "tokenizer.json: not there (spans need a fast tokenizer" in message
    assert "layers: the study says 3, config.json says 5" in message
    assert "config.json: no hidden size" in message


@pytest.mark.parametrize("content", ["{broken", "[]", "\ud800".encode("utf-16", "surrogatepass").hex()])
def test_an_unreadable_config_is_named(tmp_path: Path, content: str) -> None:
    assert "config.json: " in refusal(lambda: identify(write(tmp_path / "a", **{"config.json": content})))


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    assert "nowhere is not a directory" in refusal(lambda: identify(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    "config",
    [
        {"n_layer": 3, "n_embd": 16},
        {"text_config": {"num_hidden_layers": 3, "hidden_size": 16}, "model_type": "gemma3"},
    ],
)
def test_shape_is_found_under_the_names_other_families_use(tmp_path: Path, config: dict[str, Any]) -> None:
    identity = identify(write(tmp_path / "a", **{"config.json": json.dumps(config)}))
    assert (identity["layers"], identity["hidden_size"]) == (3, 16)


def test_a_sharded_checkpoint_as_transformers_writes_it_is_complete_or_refused(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=16, num_hidden_layers=3, num_attention_heads=2
    )
    directory = write(tmp_path / "a", **{"model.safetensors": None})
    transformers.LlamaForCausalLM(config).save_pretrained(directory, max_shard_size="6KB")
    shards = sorted(directory.glob("*.safetensors"))
    assert len(shards) > 1
    identity = identify(directory)
    assert [name for name in identity["files"] if name.endswith(".safetensors")] == [p.name for p in shards]
    assert open_weights(identity, None) == directory
    shards[0].unlink()
    assert f"{shards[0].name}: not there, though model.safetensors.index.json names it" in refusal(
        lambda: identify(directory)
    )


@pytest.mark.parametrize("name", ["../other.safetensors", "pytorch_model.bin"])
def test_an_index_may_not_lead_to_pickles_or_out_of_the_directory(tmp_path: Path, name: str) -> None:
    index = json.dumps({"weight_map": {"layer": name}})
    files = {"model.safetensors": None, "model.safetensors.index.json": index, Path(name).name: "x"}
    message = refusal(lambda: identify(write(tmp_path / "a", **files)))
    assert f"names {name!r}; weights must be .safetensors files beside it" in message


def test_changed_and_missing_files_are_all_named_with_both_checksums(tmp_path: Path) -> None:
    directory = write(tmp_path / "a")
    identity = identify(directory, source="pretrain")
    (directory / "model.safetensors").write_text("altered")
    (directory / "tokenizer.json").unlink()
    message = refusal(lambda: open_weights(identity, directory))
    altered, original = (
        hashlib.sha256(text).hexdigest() for text in (b"altered", stored("model.safetensors", "weights"))
    )
    assert f"model.safetensors: sha256 is {altered}, expected {original}" in message
    assert "tokenizer.json: not there" in message
    assert "2 problems" in message


@pytest.mark.parametrize("name", ["adapter_config.json", "added_tokens.json"])
def test_a_file_added_later_that_the_loader_would_read_is_refused(tmp_path: Path, name: str) -> None:
    directory = write(tmp_path / "a")
    identity = identify(directory)
    (directory / "notes.txt").write_text("harmless")
    assert open_weights(identity, None) == directory
    (directory / name).write_text("{}")
    assert f"{name}: was not there when the checkpoint was identified" in refusal(
        lambda: open_weights(identity, None)
    )


def test_a_single_weight_file_put_beside_shards_is_refused(tmp_path: Path) -> None:
    index = json.dumps({"weight_map": {"layer": "model-1.safetensors"}})
    files = {"model.safetensors": None, "model.safetensors.index.json": index, "model-1.safetensors": "shard"}
    directory = write(tmp_path / "a", **files)
    identity = identify(directory)
    (directory / "model.safetensors").write_text("the loader would take this one")
    assert "model.safetensors: was not there" in refusal(lambda: open_weights(identity, None))


def test_a_directory_that_is_gone_or_was_never_given_is_named(tmp_path: Path) -> None:
    identity = identify(write(tmp_path / "a"), source="wheel")
    assert "gone is no longer there" in refusal(lambda: open_weights(identity, tmp_path / "gone"))
    assert "no directory given" in refusal(lambda: open_weights(identity, None))


def test_twins_are_found_by_their_weights_alone(tmp_path: Path) -> None:
    first = identify(write(tmp_path / "a"), revision="step1")
    other = identify(write(tmp_path / "b", **{"model.safetensors": "other"}), revision="step2")
    again = identify(write(tmp_path / "c", **{"tokenizer_config.json": "{}"}), revision="step3")
    assert twins([first, other, again]) == [["m/step1", "m/step3"]]
    assert twins([first, other]) == []


def test_reading_identities_loads_no_heavy_library() -> None:
    program = (
        "import sys; import strataprobe.checkpoints; "
        "print([m for m in ('torch', 'transformers', 'huggingface_hub', 'numpy') if m in sys.modules])"
    )
    library = str(Path(checkpoints.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": library},
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("kept", [4, 40, -3])
def test_a_shard_that_was_cut_short_is_named_before_anything_is_captured(tmp_path: Path, kept: int) -> None:
    directory = write(tmp_path / "a")
    shard = directory / "model.safetensors"
    shard.write_bytes(shard.read_bytes()[:kept])
    message = refusal(lambda: identify(directory))
    assert "model.safetensors: " in message
    assert "is the file complete?" in message
