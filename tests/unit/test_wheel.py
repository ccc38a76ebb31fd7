"""A model out of a wheel: real pip and the real GGUF loader, on a small wheel made here."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from strataprobe.checkpoints import identify_directory, wheel
from strataprobe.errors import CheckpointError, StrataprobeError

PACKAGE, VERSION, MEMBER = "tiny-gguf-model", "0.1", "tiny_gguf_model/tiny.gguf"
LAYERS, WIDTH, HEADS, INNER = 2, 64, 2, 96
WORDS = ["<|end|>", "<|start|>", *"abcdefgh", "Ġ", "ab", "cd", "Ġab"]
MERGES = ["a b", "c d", "Ġ ab"]


def _interleaved(weight: np.ndarray) -> np.ndarray:
    """Rows of a query or key projection in the order llama.cpp's own converter writes them."""
    rows, columns = weight.shape
    return weight.reshape(HEADS, 2, rows // HEADS // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_gguf(path: Path) -> dict[str, np.ndarray]:
    """A two-block Llama of random numbers in GGUF; gives its weights by their transformers names."""
    gguf = pytest.importorskip("gguf")
    rng = np.random.default_rng(5)

    def draw(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(WORDS))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(WORDS)
    writer.add_token_types([3, 3] + [1] * (len(WORDS) - 2))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(0)
    weights = {"model.embed_tokens.weight": draw(len(WORDS), WIDTH), "model.norm.weight": draw(WIDTH)}
    written = {
        "token_embd": weights["model.embed_tokens.weight"],
        "output_norm": weights["model.norm.weight"],
    }
    for block in range(LAYERS):
        parts = {
            "attn_q": ("self_attn.q_proj", draw(WIDTH, WIDTH)),
            "attn_k": ("self_attn.k_proj", draw(WIDTH, WIDTH)),
            "attn_v": ("self_attn.v_proj", draw(WIDTH, WIDTH)),
            "attn_output": ("self_attn.o_proj", draw(WIDTH, WIDTH)),
            "ffn_gate": ("mlp.gate_proj", draw(INNER, WIDTH)),
            "ffn_up": ("mlp.up_proj", draw(INNER, WIDTH)),
            "ffn_down": ("mlp.down_proj", draw(WIDTH, INNER)),
            "attn_norm": ("input_layernorm", draw(WIDTH)),
            "ffn_norm": ("post_attention_layernorm", draw(WIDTH)),
        }
        for short, (name, weight) in parts.items():
            weights[f"model.layers.{block}.{name}.weight"] = weight
            written[f"blk.{block}.{short}"] = (
                _interleaved(weight) if short in ("attn_q", "attn_k") else weight
            )
    for name, weight in written.items():
        writer.add_tensor(f"{name}.weight", np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def write_wheel(folder: Path, content: bytes) -> Path:
    """A wheel pip accepts, holding `content` as its GGUF member."""
    folder.mkdir(parents=True, exist_ok=True)
    name = PACKAGE.replace("-", "_")
    info = f"{name}-{VERSION}.dist-info"
    path = folder / f"{name}-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(MEMBER, content)
        archive.writestr(
            f"{info}/METADATA",
            f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: {VERSION}\nRequires-Dist: not-to-be-fetched\n",
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], dict[str, np.ndarray]]:
    """A folder with the wheel, settings that fit it, and the weights inside."""
    folder = tmp_path_factory.mktemp("shelf")
    weights = write_gguf(folder / "tiny.gguf")
    content = (folder / "tiny.gguf").read_bytes()
    path = write_wheel(folder, content)
    settings = {
        "package": PACKAGE,
        "version": VERSION,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "member": MEMBER,
        "member_sha256": hashlib.sha256(content).hexdigest(),
        "dtype": "float32",
    }
    return folder, settings, weights


@pytest.fixture(autouse=True)
def _pip_looks_on_the_shelf_only(shelf: tuple[Path, Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf[0]))


def refusal(settings: dict[str, Any], target: Path) -> str:
    """The message, having seen that nothing was left behind."""
    with pytest.raises(StrataprobeError) as caught:
        wheel.make(settings, target)
    assert not target.exists()
    assert list(target.parent.iterdir()) == []
    return str(caught.value)


def test_weights_and_tokenizer_of_the_wheel_are_written_as_they_were_made(
    shelf: tuple[Path, dict[str, Any], dict[str, np.ndarray]], tmp_path: Path
) -> None:
    from safetensors.numpy import load_file

    _, settings, weights = shelf
    target = tmp_path / "model" / "main"
    origin = wheel.make(settings, target)
    written = load_file(target / "model.safetensors")
    # No head of its own: it is tied to the embedding, as a GGUF file without one means.
    assert sorted(written) == sorted(weights)
    for name, expected in weights.items():
        np.testing.assert_array_equal(written[name], expected, err_msg=name)
    identity = identify_directory(
        target, model="m", revision="main", step=None, source="wheel", layers=LAYERS, origin=origin
    )
    assert identity["origin"]["sha256"] == settings["sha256"]
    assert identity["origin"]["member_sha256"] == settings["member_sha256"]
    assert "quantization_config" not in json.loads((target / "config.json").read_text())
    modes = {path.stat().st_mode & 0o777 for path in target.iterdir()}
    assert modes == {target.stat().st_mode & 0o666}
    assert [path.name for path in target.parent.iterdir()] == ["main"]


def test_the_written_directory_loads_and_tokenizes_without_a_double_bos(
    shelf: tuple[Path, dict[str, Any], Any], tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    wheel.make(shelf[1], tmp_path / "main")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "main")
    ids = tokenizer("ab abe")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["ab", "Ġab", "e"]
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "main")
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    assert model.config.vocab_size == len(WORDS)


def test_the_same_wheel_gives_the_same_bytes_in_any_folder(
    shelf: tuple[Path, dict[str, Any], Any], tmp_path: Path
) -> None:
    for name in ("first", "second/deeper"):
        wheel.make(shelf[1], tmp_path / name)
    first, second = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
        for name in ("first", "second/deeper")
    )
    assert first == second
    assert str(tmp_path).encode() not in b"".join(first.values())


def test_weights_are_stored_in_the_asked_dtype(
    shelf: tuple[Path, dict[str, Any], dict[str, np.ndarray]], tmp_path: Path
) -> None:
    from safetensors.numpy import load_file

    wheel.make({**shelf[1], "dtype": "float16"}, tmp_path / "main")
    written = load_file(tmp_path / "main" / "model.safetensors")
    for name, expected in shelf[2].items():
        np.testing.assert_array_equal(written[name], expected.astype(np.float16), err_msg=name)


@pytest.mark.parametrize(
    ("key", "what"), [("sha256", "wheel tiny_gguf"), ("member_sha256", f"member {MEMBER}")]
)
def test_a_checksum_that_differs_names_both(
    shelf: tuple[Path, dict[str, Any], Any], tmp_path: Path, key: str, what: str
) -> None:
    message = refusal({**shelf[1], key: "ab" * 32}, tmp_path / "out" / "main")
    assert message.startswith(what)
    assert f"sha256 is {shelf[1][key]}, expected {'ab' * 32}" in message


def test_a_wrong_member_names_the_gguf_files_there_are(
    shelf: tuple[Path, dict[str, Any], Any], tmp_path: Path
) -> None:
    message = refusal({**shelf[1], "member": "other.gguf"}, tmp_path / "out" / "main")
    assert f"no member 'other.gguf'; its GGUF files are: {MEMBER}" in message


def test_a_package_that_does_not_exist_is_told_from_a_network_that_does_not(
    shelf: tuple[Path, dict[str, Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**shelf[1], "version": "9.9"}
    message = refusal(settings, tmp_path / "out" / "main")
    assert f"the package index configured for pip has no wheel of {PACKAGE}==9.9, or did not" in message
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    # The discard port: nobody listens there, so every connection is refused at once.
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:secretword@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    message = refusal(settings, tmp_path / "out" / "main")
    assert "pip cannot reach the package index" in message
    assert "secretword" not in message


def test_a_member_that_is_no_gguf_file_is_said_to_be_unreadable(
    shelf: tuple[Path, dict[str, Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_wheel(tmp_path / "shelf", b"not a model")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    sums = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "member_sha256": hashlib.sha256(b"not a model").hexdigest(),
    }
    message = refusal({**shelf[1], **sums}, tmp_path / "out" / "main")
    assert "the GGUF file cannot be read as a model" in message


def test_weights_missing_from_the_gguf_file_are_named(
    shelf: tuple[Path, dict[str, Any], Any], tmp_path: Path
) -> None:
    content = (shelf[0] / "tiny.gguf").read_bytes()
    # Renamed to a name of the same length that no model has.
    (tmp_path / "model.gguf").write_bytes(content.replace(b"blk.1.ffn_up.weight", b"blk.1.ffn_uq.weight"))
    (tmp_path / "out").mkdir()
    with pytest.raises(
        CheckpointError, match=r"lacks weights of the model: model\.layers\.1\.mlp\.up_proj\.weight"
    ):
        wheel.convert(tmp_path / "model.gguf", tmp_path / "out", dtype="float32")


def test_an_environment_without_pip_is_told_so(
    shelf: tuple[Path, dict[str, Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bin" / "python"
    bare.parent.mkdir()
    bare.write_text('#!/bin/sh\necho "$0: No module named pip" >&2\nexit 1\n')
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    assert "there is no pip in this environment" in refusal(shelf[1], tmp_path / "out" / "main")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting needs root")
@pytest.mark.parametrize("kilobytes", [64, 700])
def test_a_full_disk_is_named_and_leaves_nothing(
    shelf: tuple[Path, dict[str, Any], Any], tmp_path: Path, kilobytes: int
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(small)], check=False
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        target = small / "main"
        with pytest.raises(StrataprobeError, match=r"disk is full|No space left"):
            wheel.make(shelf[1], target)
        assert list(small.iterdir()) == []
        assert shutil.disk_usage(small).used == 0
    finally:
        subprocess.run(["umount", str(small)], check=True)
