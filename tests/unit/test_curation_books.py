"""Corpora by address and checksum: fetched from a real server on loopback, and books cut to their text."""

import difflib
import hashlib
import shutil
import ssl
import subprocess
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from fetch_corpus import main
from strataprobe.curation import fetching
from strataprobe.curation.books import read_book
from strataprobe.errors import DatasetError, StrataprobeError

BODY = b"The first line.\r\n" + b"Words and words.\r\n" * 9000 + b"The last line.\r\n"
SHA256 = hashlib.sha256(BODY).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers /{word} as the word says; /to sends whoever asks on to the server's `target`."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Say nothing."""

    def do_GET(self):
        word = self.path.split("?")[0].strip("/")
        if word.isdigit():
            self.answer(int(word), {"Content-Length": "0"})
        elif word == "to":
            self.answer(self.server.status, {"Location": self.server.target, "Content-Length": "0"})
        elif word == "nowhere":
            self.answer(302, {"URI": "/book", "Content-Length": "0"})
        elif word == "echo":
            self.send_response(404, self.path)
            self.end_headers()
        elif word == "noise":
            self.wfile.write(b"no HTTP at all\r\n\r\n")
        elif word in ("chunks", "lost"):
            self.answer(200, {"Transfer-Encoding": "chunked"}, b"%x\r\n%b\r\n" % (len(BODY), BODY))
            self.wfile.write(b"0\r\n\r\n" if word == "chunks" else b"")
        elif word == "drops":
            self.answer(200, {"Content-Length": "1000"})
            for _ in range(40):
                self.wfile.write(b"x")
                time.sleep(0.05)
        else:
            self.answer(200, LENGTHS.get(word, {}), BODY if word != "silent" else b"")
            if word == "silent":
                time.sleep(1.0)
        self.close_connection = True

    def answer(self, status, headers, body=b""):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


LENGTHS = {
    "book": {"Content-Length": str(len(BODY))},
    "cut": {"Content-Length": str(len(BODY) + 7)},
    "silent": {"Content-Length": "9"},
}


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(ThreadingHTTPServer, "handle_error", lambda *_: None)  # clients that hung up
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    made.target, made.status = "", 302
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    made.url = f"http://127.0.0.1:{made.server_port}"
    yield made
    made.shutdown()
    made.server_close()


def refusal(address, folder, progress=None):
    """What is said of an address that cannot be fetched; nothing may be left, nor a token be shown."""
    with pytest.raises(DatasetError) as caught:
        fetching.fetch(address, folder / "book.txt", progress=progress)
    assert list(folder.iterdir()) == []
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


# fetching


@pytest.mark.parametrize(("word", "known"), [("book", True), ("unsized", False), ("chunks", False)])
def test_a_file_arrives_byte_for_byte_whether_or_not_its_size_is_said(server, tmp_path, word, known):
    seen = []
    fetching.fetch(f"{server.url}/{word}", tmp_path / "b.txt", progress=lambda *now: seen.append(now))
    assert (tmp_path / "b.txt").read_bytes() == BODY
    assert sum(count for count, _ in seen) == len(BODY)
    assert {total for _, total in seen} == {len(BODY) if known else 0}


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("404", "the server answered 404 (Not Found)"),
        ("echo", "the server answered 404 (Not Found)"),
        ("503", "the server answered 503 (Service Unavailable)"),
        ("206", "the server answered 206 (Partial Content); 200 would be right"),
        ("cut", f"{len(BODY):,} bytes came of {len(BODY) + 7:,} (Content-Length)"),
        ("lost", "the answer broke off or is not HTTP (IncompleteRead)"),
        ("noise", "the answer broke off or is not HTTP (BadStatusLine)"),
        ("200", "the server sent an empty file"),
        ("nowhere", "302 (Found), a redirect that leads nowhere or in circles"),
    ],
)
def test_what_a_server_does_wrong_is_named_with_the_address_but_no_token(server, tmp_path, word, said):
    message = refusal(f"{server.url}/{word}?token=secret", tmp_path)
    assert message.startswith(f"{server.url}/{word}: ")
    assert said in message


def test_a_silent_a_slow_and_an_absent_server_are_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "SILENCE", 0.3)
    monkeypatch.setattr(fetching, "LONGEST", 0.5)
    assert "fell silent for 0.3 s" in refusal(f"{server.url}/silent", tmp_path)
    assert "not through after 0.5 s" in refusal(f"{server.url}/drops", tmp_path)
    server.shutdown()
    server.server_close()
    assert "cannot be reached, or the connection broke (Connection refused)" in refusal(server.url, tmp_path)


@pytest.mark.parametrize("word", ["book", "unsized"])
def test_a_file_that_is_too_large_is_not_taken(server, tmp_path, monkeypatch, word):
    monkeypatch.setattr(fetching, "MOST", len(BODY) - 1)
    seen = []
    assert "is larger than 0.162" in refusal(f"{server.url}/{word}", tmp_path, lambda *now: seen.append(now))
    assert bool(seen) == (word == "unsized")
    monkeypatch.setattr(fetching, "MOST", len(BODY))
    fetching.fetch(f"{server.url}/{word}", tmp_path / "book.txt")


def test_a_redirect_is_followed_to_http_only(server, tmp_path):
    for target in ("/book", "/not encoded, caf\xe9"):
        server.target = target
        fetching.fetch(f"{server.url}/to", tmp_path / "book.txt")
        assert (tmp_path / "book.txt").read_bytes() == BODY
        (tmp_path / "book.txt").unlink()
    local = ("file:///etc/hostname", "redirects to file:///etc/hostname: 1 problem\n  scheme 'file'")
    for status, target, said in [
        *((code, *local) for code in (301, 302, 303, 307, 308)),
        (302, "ftp://127.0.0.1/x?secret", "redirects to ftp://127.0.0.1/x: 1 problem\n  scheme 'ftp'"),
        (302, f"http://me:secret@127.0.0.1:{server.server_port}/book", "holds a login"),
        (302, "http://[", "is not readable as an address"),
        (302, "/to", "leads nowhere or in circles"),
    ]:
        server.status, server.target = status, target
        message = refusal(f"{server.url}/to", tmp_path)
        assert message.startswith(f"{server.url}/to: ")
        assert said in message


@pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made by openssl")
def test_https_is_verified_and_not_left_for_http(server, tmp_path, monkeypatch):
    folder, key, own = tmp_path / "out", tmp_path / "key.pem", tmp_path / "own.pem"
    folder.mkdir()
    asked = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(own)]
    subprocess.run(["openssl", *asked.split(), *names], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own, key)
    plain = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    plain.status = 302
    plain.target, server.target = server.url.replace("http", "https") + "/book", "http://127.0.0.1/book"
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=plain.serve_forever, args=(0.02,), daemon=True).start()
    try:
        address = f"http://127.0.0.1:{plain.server_port}/to"
        assert "its certificate is not trusted here" in refusal(address, folder)
        monkeypatch.setenv("SSL_CERT_FILE", str(own))
        assert "leaves https" in refusal(plain.target.replace("/book", "/to"), folder)
        fetching.fetch(address, folder / "book.txt")
        assert (folder / "book.txt").read_bytes() == BODY
    finally:
        plain.shutdown()
        plain.server_close()


@pytest.mark.parametrize(
    ("address", "faults"),
    [
        ("file:///etc/hostname", ["scheme 'file': http or https would be right"]),
        ("book.txt", ["scheme '': http or https would be right"]),
        ("https:///book.txt", ["names no host"]),
        ("https://me:secret@host/a b", ["holds a blank or", "holds a login"]),
        ("http:me:secret@host/a", ["names no host"]),
        ("ftp://secret@host/a?secret", ["scheme 'ftp'", "holds a login"]),
        ("https://host:port/a", ["is not readable as an address"]),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_with_all_its_faults(tmp_path, address, faults):
    message = refusal(address, tmp_path)
    assert f"{len(faults)} problem" in message
    assert all(fault in message for fault in faults)


def test_a_failed_fetch_leaves_the_file_that_was_there(server, tmp_path):
    (tmp_path / "book.txt").write_text("old")
    with pytest.raises(DatasetError):
        fetching.fetch(f"{server.url}/cut", tmp_path / "book.txt")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("book.txt", "old")]


def test_a_place_that_cannot_be_written_is_not_blamed_on_the_server(server, tmp_path):
    """The disk fills up in the middle of the file."""
    with pytest.raises(StrataprobeError, match=r"^cannot write .*No space left on device"):
        fetching.fetch(f"{server.url}/book", tmp_path / "book.txt", progress=_full)
    assert list(tmp_path.iterdir()) == []


def _full(*_):
    raise OSError(28, "No space left on device")


# checksums


def test_a_file_is_kept_only_under_the_checksum_of_the_config(server, tmp_path):
    path = tmp_path / "corpora" / "book.txt"
    main(f"{server.url}/book", SHA256, path, name="grimm")
    assert path.read_bytes() == BODY
    path.unlink()
    held = f"{len(BODY):,} bytes, from 'The first line.' to 'The last line.'"
    for stated, said in (
        ("0" * 64, f"sha256 is {SHA256}, expected {'0' * 64} (corpora.grimm.sha256)"),
        (None, f"write into the config\n  corpora.grimm.sha256: {SHA256}"),
    ):
        with pytest.raises(DatasetError) as caught:
            main(f"{server.url}/book?secret", stated, path, name="grimm")
        assert said in str(caught.value)
        assert held in str(caught.value)
        assert "secret" not in str(caught.value)
        assert list(path.parent.iterdir()) == []


def test_a_checksum_is_compared_with_the_one_hashlib_finds(tmp_path):
    (tmp_path / "b").write_bytes(b"\n\n")
    fetching.check(tmp_path / "b", hashlib.sha256(b"\n\n").hexdigest(), "http://host/b")
    with pytest.raises(DatasetError, match="2 bytes, no line with text"):
        fetching.check(tmp_path / "b", SHA256, "http://host/b")


# books

GUTENBERG = """\
The Project Gutenberg eBook of Fables

*** START OF THE PROJECT GUTENBERG EBOOK FABLES, A TITLE SO LONG THAT
IT RUNS ON ***

Produced by somebody
CONTENTS
  The Fox
FABLES
The Fox

A fox  saw
   some grapes.\t

 \t
"Sour," he said.\x0c
THE END
The Wolf
THE END
***END OF THE PROJECT GUTENBERG EBOOK FABLES***
Licence. THE END of it.
"""


def book(folder, content, **markers):
    path = folder / "book.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_book(path, "fables", **markers)


def fault(folder, content, **markers):
    with pytest.raises(DatasetError) as caught:
        book(folder, content, **markers)
    return str(caught.value)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_book_is_cut_first_by_gutenberg_and_then_by_its_markers(tmp_path, end, mark):
    content = mark + GUTENBERG.replace("\n", end).encode()
    corpus = book(tmp_path, content, after="FABLES", before="THE END")
    (text,) = corpus.texts
    assert text.text == 'The Fox\n\nA fox saw some grapes.\n\n"Sour," he said.'
    assert (corpus.name, text.id, text.title, corpus.words) == ("fables", "fables", "fables", 10)
    assert corpus.sha256 == hashlib.sha256(content).hexdigest()


def test_without_markers_a_book_is_what_stands_between_gutenbergs_lines_or_all(tmp_path):
    whole = book(tmp_path, GUTENBERG).texts[0].text
    assert whole.startswith("Produced by somebody CONTENTS The Fox FABLES The Fox\n\nA fox")
    assert whole.endswith("THE END The Wolf THE END")
    assert book(tmp_path, b"\xef\xbb\xbfOne.").texts[0].text == "One."
    assert book(tmp_path, "One.\n\n*** END OF PART ONE ***\n\nTwo.").texts[0].text.endswith("Two.")
    assert book(tmp_path, "*** START OF THIS PROJECT GUTENBERG EBOOK\nOne.").texts[0].text == "One."
    assert book(tmp_path, "One.\n*** end of this project gutenberg ebook\nTwo.").texts[0].text == "One."


def test_one_marker_alone_cuts_one_side(tmp_path):
    assert book(tmp_path, "a\nb\nc\nb\nd", after="b").texts[0].text == "c b d"
    assert book(tmp_path, "a\nb\nc\nb\nd", before="b").texts[0].text == "a"
    assert book(tmp_path, "a\nb\nc\nb\nd", after="b", before="b").texts[0].text == "c"


def test_markers_that_are_not_there_are_named_with_the_nearest_lines(tmp_path):
    said = fault(tmp_path, GUTENBERG, after="The Foxes", before="Licence")
    assert "corpus 'fables': 2 problems" in said
    assert (
        "field 'after': none of lines 5 to 19 contains 'The Foxes'; the nearest is line 8, 'The Fox'" in said
    )
    assert "field 'before': none of lines 5 to 19 contains 'Licence' (line 21 does, but is not among" in said
    # The only line with it stands before what `after` cuts.
    assert "lines 8 to 19 contains 'Produced' (line 6 does" in fault(
        tmp_path, GUTENBERG, after="CONTENTS", before="Produced"
    )
    assert "the nearest is line 18, 'The Wolf'" in fault(tmp_path, GUTENBERG, after="THE WOLF")
    blank = fault(tmp_path, "a", after=" ", before="")
    assert "field 'after': is blank" in blank
    assert "field 'before': is blank" in blank
    assert "no lines are left to look for 'b' in" in fault(tmp_path, "a", after="a", before="b")


def test_the_nearest_line_is_the_one_difflib_ranks_first(tmp_path):
    rng = np.random.default_rng(3)
    lines = ["".join(rng.choice(list("abcd "), size=12)).strip() or "a" for _ in range(300)]
    (nearest,) = difflib.get_close_matches("abcdabcdabcda", lines, n=1, cutoff=0.0)
    best = difflib.SequenceMatcher(None, nearest, "abcdabcdabcda").ratio()
    said = fault(tmp_path, "\n".join(lines), after="abcdabcdabcda")
    chosen = said.rsplit(", '", 1)[1].rstrip("'")
    assert difflib.SequenceMatcher(None, chosen, "abcdabcdabcda").ratio() == best
    number = int(said.split("nearest is line ")[1].split(",")[0])
    assert lines[number - 1] == chosen


def test_a_book_of_nothing_is_refused(tmp_path):
    assert "lines 1 to 3 hold no text" in fault(tmp_path, " \n\n")
    assert "no line is left of its 2" in fault(tmp_path, "a\nb", after="a", before="b")
    assert "no line is left" in fault(tmp_path, "a\nb", before="a")
    assert "lines 2 to 2 hold no text" in fault(tmp_path, "a\n", after="a")


def test_a_file_that_is_no_utf8_text_is_named_with_its_line(tmp_path):
    assert "book.txt:3: not UTF-8 (byte 0xe9)" in fault(tmp_path, b"a\r\nb\rcaf\xe9")
    with pytest.raises(DatasetError, match=r"corpus 'fables': cannot read .*gone\.txt: No such file"):
        read_book(tmp_path / "gone.txt", "fables")
