"""A model hub on loopback: enough of the real one's HTTP for huggingface_hub to pin and fetch from it.

Repositories lie in a folder as `owner/name/{commit}/...` with `owner/name/refs.json` naming branches
and tags; `add_revision` makes both, `add_trajectory` many at once. Large files are redirected to a
second server, as the real hub does, so that tests see whether a login leaves the hub. Faults are put in
by `HubServer.fail`. What was asked for, how many bytes went out, and how many revisions were waited for at
once is counted.
"""

import hashlib
import json
import re
import shutil
import socket
import struct
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

LARGE_SUFFIXES = (".safetensors", ".bin")
# Whoever has a signed URL can fetch what it names, so its query is as secret as a login.
SIGNATURE = "X-Amz-Signature=0f1e2d3c4b5a"


def add_revision(root: Path, repo: str, ref: str, files: Path, *, kind: str = "branches") -> str:
    """Put a folder's files into a repository as one commit and point a branch or tag at it.

    Args:
        root: the folder a HubServer serves.
        repo: "owner/name".
        ref: name of the branch or tag, made or moved.
        files: folder whose files (sub-folders too) are the commit.
        kind: "branches" or "tags".

    Returns:
        The commit sha, 40 hex digits, made from the ref's name and the files.
    """
    digest = hashlib.sha1(ref.encode())
    for path in sorted(path for path in files.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(files)}\0".encode() + path.read_bytes())
    commit = digest.hexdigest()
    shutil.copytree(files, root / repo / commit, dirs_exist_ok=True)
    listed = root / repo / "refs.json"
    refs = json.loads(listed.read_text()) if listed.exists() else {"branches": {}, "tags": {}}
    refs[kind][ref] = commit
    listed.write_text(json.dumps(refs))
    return commit


def add_trajectory(
    root: Path, repo: str, refs: Sequence[str], files: Path, *, kind: str = "branches"
) -> dict[str, str]:
    """Put a checkpoint into a repository once for each ref, its weights another each time, all of one size.

    Args:
        root, repo, kind: as `add_revision`.
        refs: names of the branches or tags.
        files: folder of the checkpoint; the last bytes of its weights, which are values, are changed.

    Returns:
        Commit by ref.
    """
    commits = {}
    with tempfile.TemporaryDirectory() as place:
        changed = Path(shutil.copytree(files, Path(place) / "files"))
        weights = changed / "model.safetensors"
        content = weights.read_bytes()
        for number, ref in enumerate(refs):
            weights.write_bytes(content[:-4] + struct.pack("<f", number))
            commits[ref] = add_revision(root, repo, ref, changed, kind=kind)
    return commits


@dataclass
class Fault:
    """What to do instead of answering: a status, or cutting the connection after some bytes."""

    path: str
    times: int
    status: int | None = None
    cut_after: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    method: str | None = None


class HubServer(AbstractContextManager["HubServer"]):
    """Serve a folder of repositories while the block runs.

    Attributes:
        url: what HF_ENDPOINT or `endpoint=` is to be.
        requests: number of requests by "METHOD /path" (without query), both servers together.
        sent: bytes of files sent by "owner/name/{commit}/{file}"; of a cut transfer those before it.
        hold: seconds that a large file is kept waiting for, so that two transfers can be seen to overlap;
            no longer than until `together` revisions are waited for at the same time.
        peak: the most revisions whose large files were waited for at the same time.
        authorized: paths that came with an Authorization header.
        gated: repositories whose files need an allowed token (their listing does not, as on the hub).
        private: repositories that do not exist for whoever has no allowed token.
        tokens: the allowed tokens.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.requests: Counter[str] = Counter()
        self.sent: Counter[str] = Counter()
        self.peak = 0
        self.hold = 0.0
        self.together = sys.maxsize
        self._held: Counter[str] = Counter()
        self._waiting = threading.Condition()
        self.authorized: list[str] = []
        self.gated: set[str] = set()
        self.private: set[str] = set()
        self.tokens: set[str] = set()
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"hub": self})
        # Port 0: the system picks free ones, so that tests can run side by side.
        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), handler) for _ in range(2)]
        self.url, self.storage = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def __enter__(self) -> "HubServer":
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def fail(
        self,
        path: str,
        *,
        times: int = 1,
        status: int | None = None,
        cut_after: int | None = None,
        headers: dict[str, str] | None = None,
        method: str | None = None,
    ) -> None:
        """Let the next `times` requests whose path contains `path` fail, by status or by a cut."""
        self._faults.append(Fault(path, times, status, cut_after, headers or {}, method))

    def count(self, part: str) -> int:
        """Number of requests whose "METHOD /path" contains `part`."""
        return sum(number for name, number in self.requests.items() if part in name)

    def bytes_sent(self, part: str) -> int:
        """Bytes sent of the files whose path contains `part`."""
        return sum(number for name, number in self.sent.items() if part in name)

    def note_bytes(self, path: Path, number: int) -> None:
        with self._lock:
            self.sent[path.relative_to(self.root).as_posix()] += number

    def keep_waiting(self, revision: str) -> None:
        """Hold a transfer back, and count it: before it goes out, so no client is done with it by then."""
        with self._waiting:
            self._held[revision] += 1
            self.peak = max(self.peak, len(self._held))
            self._waiting.notify_all()
            self._waiting.wait_for(lambda: self.peak >= self.together, timeout=self.hold)
            self._held -= Counter([revision])

    def take_fault(self, method: str, path: str) -> Fault | None:
        with self._lock:
            for fault in self._faults:
                if fault.times and fault.path in path and fault.method in (None, method):
                    fault.times -= 1
                    return fault
        return None

    def note(self, method: str, path: str, authorized: bool) -> None:
        with self._lock:
            self.requests[f"{method} {path}"] += 1
            if authorized:
                self.authorized.append(path)


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes: without this each answer waits 40 ms for the client to confirm one.
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Say nothing: the tests count requests instead."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.hub.note(self.command, path, "Authorization" in self.headers)
        self.fault = self.hub.take_fault(self.command, path)
        if self.fault and self.fault.status:
            self._refuse(self.fault.status, "", "as the test asked", self.fault.headers)
        elif match := re.fullmatch(r"/blob/([^/]+/[^/]+)/([0-9a-f]{40})/(.+)", path):
            if self.command == "GET":
                self.hub.keep_waiting(f"{match[1]}/{match[2]}")
            self._bytes(self.hub.root / match[1] / match[2] / match[3], {})
        elif match := re.fullmatch(
            r"/api/models/([^/]+/[^/]+)(?:/(revision|tree|paths-info|refs)(?:/(.+))?)?", path
        ):
            self._api(match[1], match[2] or "revision", match[3], url.query, body)
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/(.+)", path):
            # A ref may hold slashes; the raw path keeps them quoted.
            ref, _, name = url.path.split("/resolve/", 1)[1].partition("/")
            self._resolve(match[1], unquote(ref), unquote(name))
        else:
            self._refuse(404, "", "no such page")

    def _api(self, repo: str, what: str, ref: str | None, query: str, body: str) -> None:
        if not self._visible(repo):
            return
        refs = self._refs(repo)
        if what == "refs":
            listed = {
                kind: [
                    {"name": name, "ref": f"refs/{prefix}/{name}", "targetCommit": commit}
                    for name, commit in refs[kind].items()
                ]
                for kind, prefix in (("branches", "heads"), ("tags", "tags"))
            }
            self._json({**listed, "converts": []})
            return
        commit = self._commit(repo, ref or "main")
        if commit is None:
            return
        entries = self._entries(repo, commit)
        if what == "revision":
            blobs = "blobs" in parse_qs(query)
            siblings = [_sibling(entry) if blobs else {"rfilename": entry["path"]} for entry in entries]
            gated = "auto" if repo in self.hub.gated else False
            self._json({"id": repo, "sha": commit, "siblings": siblings, "private": False, "gated": gated})
        elif what == "tree":
            self._json(entries)
        else:
            wanted = set(parse_qs(body).get("paths", []))
            self._json([entry for entry in entries if entry["path"] in wanted])

    def _resolve(self, repo: str, ref: str, name: str) -> None:
        if not self._visible(repo):
            return
        if repo in self.hub.gated and not self._allowed():
            status = 403 if "Authorization" in self.headers else 401
            self._refuse(status, "GatedRepo", f"Access to model {repo} is restricted.")
            return
        commit = self._commit(repo, ref)
        if commit is None:
            return
        path = self.hub.root / repo / commit / name
        if not path.is_file():
            self._refuse(404, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
            return
        entry = _entry(path, name)
        if "lfs" not in entry:
            self._bytes(path, {"ETag": f'"{entry["oid"]}"', "X-Repo-Commit": commit})
            return
        self._send(
            302,
            b"",
            {
                "Location": f"{self.hub.storage}/blob/{repo}/{commit}/{name}?{SIGNATURE}",
                "ETag": f'"{entry["oid"]}"',
                "X-Repo-Commit": commit,
                "X-Linked-Etag": f'"{entry["lfs"]["oid"]}"',
                "X-Linked-Size": str(entry["size"]),
            },
        )

    def _visible(self, repo: str) -> bool:
        """Whether the repository exists for this caller; answers if it does not, as vaguely as the hub."""
        known = (self.hub.root / repo / "refs.json").is_file()
        if known and (repo not in self.hub.private or self._allowed()):
            return True
        if "Authorization" in self.headers:
            self._refuse(404, "RepoNotFound", "Repository not found")
        else:
            self._refuse(401, "RepoNotFound", "Invalid username or password.")
        return False

    def _allowed(self) -> bool:
        return self.headers.get("Authorization", "").removeprefix("Bearer ") in self.hub.tokens

    def _refs(self, repo: str) -> dict[str, dict[str, str]]:
        return json.loads((self.hub.root / repo / "refs.json").read_text())

    def _commit(self, repo: str, ref: str) -> str | None:
        refs = self._refs(repo)
        named = {**refs["tags"], **refs["branches"]}
        commit = named.get(ref, ref)
        if re.fullmatch(r"[0-9a-f]{40}", commit) and (self.hub.root / repo / commit).is_dir():
            return commit
        self._refuse(404, "RevisionNotFound", f"Invalid rev id: {ref}")
        return None

    def _entries(self, repo: str, commit: str) -> list[dict]:
        top = self.hub.root / repo / commit
        paths = sorted(path for path in top.rglob("*") if path.is_file())
        return [_entry(path, path.relative_to(top).as_posix()) for path in paths]

    def _json(self, content: object) -> None:
        self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        named = {"X-Error-Code": code} if code else {}
        content = json.dumps({"error": message}).encode()
        self._send(status, content, {"X-Error-Message": message, **named, **(headers or {})})

    def _bytes(self, path: Path, headers: dict[str, str]) -> None:
        content = path.read_bytes()
        status, extra = 200, {"Accept-Ranges": "bytes"}
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, stop = int(match[1]), int(match[2] or len(content) - 1) + 1
            extra["Content-Range"] = f"bytes {start}-{stop - 1}/{len(content)}"
            status, content = 206, content[start:stop]
        sent = self._send(status, content, {**headers, **extra})
        self.hub.note_bytes(path, sent)

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> int:
        """Answer, up to where the test cuts it; returns how many bytes of the content went out."""
        cut = self.fault.cut_after if self.fault else None
        if cut == 0:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return 0
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        body = b"" if self.command == "HEAD" else content[:cut]
        self.wfile.write(body)
        if cut is not None:
            self.close_connection = True
        return len(body)


def _entry(path: Path, name: str) -> dict:
    """One file as the hub's tree listing describes it; large ones carry their SHA-256."""
    content = path.read_bytes()
    oid = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
    entry = {"type": "file", "path": name, "size": len(content), "oid": oid}
    if name.endswith(LARGE_SUFFIXES):
        sha = hashlib.sha256(content).hexdigest()
        entry["lfs"] = {"oid": sha, "size": len(content), "pointerSize": 134}
    return entry


def _sibling(entry: dict) -> dict:
    """The same as the repository's own description has it, with its other names for things."""
    sibling = {"rfilename": entry["path"], "size": entry["size"], "blobId": entry["oid"]}
    if "lfs" in entry:
        large = entry["lfs"]
        sibling["lfs"] = {"sha256": large["oid"], "size": large["size"], "pointerSize": large["pointerSize"]}
    return sibling
