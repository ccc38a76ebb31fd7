"""What this workflow fetched into the hub's cache, so that it can drop that again, and nothing else.

The notes lie in the cache itself, beside the snapshots of a repository: whoever moves or clears the cache
moves or clears them too. Each note is an empty file, made and removed in one step: jobs need no lock.

    models--{owner}--{name}/strataprobe/{commit}/files/{file}     fetched by this workflow
    models--{owner}--{name}/strataprobe/{commit}/users/{digest}   a checkpoint of a study that still needs it
"""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

NOTES = "strataprobe"


def claim(repo: str, commit: str, names: Iterable[str], checkpoint: str) -> None:
    """Note that these files of a commit, which the cache lacks, are about to be fetched for a checkpoint.

    Noted beforehand, so that what a killed job fetched is known too.
    """
    for name in names:
        _note(_notes(repo, commit) / "files" / name)
    use(repo, commit, checkpoint)


def use(repo: str, commit: str, checkpoint: str) -> None:
    """Note that a checkpoint ("model/revision") of this working folder's study needs what was fetched."""
    place = _notes(repo, commit)
    if place.is_dir():
        _note(place / "users" / _user(checkpoint))


def release(repo: str, commit: str, checkpoint: str) -> tuple[int, bool]:
    """Drop what was fetched of a commit, unless another checkpoint or working folder still needs it.

    Contents that another commit has as well (twins, tokenizers) stay for that one.

    Returns:
        Bytes that were freed, and whether another needs it, so that all stays.
    """
    place = _notes(repo, commit)
    if not place.is_dir():
        return 0, False
    users = place / "users"
    (users / _user(checkpoint)).unlink(missing_ok=True)
    if users.is_dir() and any(users.iterdir()):
        return 0, True
    files = snapshot(repo, commit)
    freed = sum(_drop(files / name) for name in _claimed(place))
    shutil.rmtree(place)
    for folder in (files, place.parent):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return freed, False


def snapshot(repo: str, commit: str) -> Path:
    """The folder of the hub's cache that a commit's files are in, or would be."""
    return _repository(repo) / "snapshots" / commit


def held() -> int:
    """Bytes in the hub's cache that this workflow fetched and has not dropped, each content once."""
    contents = {
        path.resolve()
        for place in _cache().glob(f"models--*/{NOTES}/*")
        for name in _claimed(place)
        if (path := place.parents[1] / "snapshots" / place.name / name).is_file()
    }
    return sum(path.stat().st_size for path in contents if path.is_file())


def _drop(link: Path) -> int:
    """Remove a file of a snapshot, and its content where no other snapshot has it. Returns bytes freed."""
    if not link.is_symlink():
        count = link.stat().st_size if link.is_file() else 0
        link.unlink(missing_ok=True)
        return count
    content = link.resolve()
    link.unlink()
    snapshots = link.parents[1]
    if not content.is_file() or any(other.resolve() == content for other in snapshots.glob("*/*")):
        return 0
    count = content.stat().st_size
    content.unlink()
    return count


def _claimed(place: Path) -> list[str]:
    files = place / "files"
    return sorted(path.name for path in files.iterdir()) if files.is_dir() else []


def _note(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _user(checkpoint: str) -> str:
    """A name for a checkpoint of the study in this working folder."""
    return hashlib.sha256(f"{Path.cwd()}\n{checkpoint}".encode()).hexdigest()[:16]


def _cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _repository(repo: str) -> Path:
    from huggingface_hub.file_download import repo_folder_name

    return _cache() / repo_folder_name(repo_id=repo, repo_type="model")


def _notes(repo: str, commit: str) -> Path:
    return _repository(repo) / NOTES / commit
