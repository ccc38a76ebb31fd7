"""A corpus from elsewhere: fetched when it is asked for, by the checksum in the config and none other."""

import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from tests.workflow import tuned
from tests.workflow.study import job
from tests.workflow.trees import Tree, errors, half_files

FETCHING = {job("fetch_corpus_aesop")}
PLACE = "results/corpora/aesop.txt"
TEXT = (
    "*** START OF THE PROJECT GUTENBERG EBOOK FABLES ***\nContents\n\n"
    + "A fox and a crow met by the well.\n" * 40
    + "*** END OF THE PROJECT GUTENBERG EBOOK FABLES ***\nLicence.\n"
)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def address(tmp_path):
    (tmp_path / "www").mkdir()
    (tmp_path / "www/fables.txt").write_text(TEXT)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "www")))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/fables.txt"
    server.shutdown()
    server.server_close()


@pytest.fixture
def study(tmp_path, address) -> Tree:
    tree = tuned.build(tmp_path / "study")
    config = tuned.tuned_config() | {"figures": {}}
    book = {"address": address, "sha256": hashlib.sha256(TEXT.encode()).hexdigest(), "after": "Contents"}
    config["corpora"]["aesop"] = {"book": book}
    config["models"]["tuned"]["source"]["lora"]["conditions"] = {"aesop": ["aesop"]}
    (tree / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return tree


def pinned(study: Tree, sha256: str | None) -> None:
    with study.changed_config() as config:
        config["corpora"]["aesop"]["book"]["sha256"] = sha256


def test_a_book_is_fetched_and_trained_on_without_its_front_matter(study):
    """What is counted is the text between Gutenberg's lines, behind the contents."""
    model = "tiny-lora-aesop-s1"
    done = study.run(f"results/checkpoints/{model}/step0020.json").done
    assert FETCHING | {job(f"train_lora_{model}")} <= done
    assert (study / PLACE).read_text() == TEXT, "kept as it was there, so that its checksum stays true"
    card = yaml.safe_load((study / f"results/checkpoints/{model}/corpus.json").read_text())
    (counted,) = card["corpora"]
    assert (counted["name"], counted["texts"], counted["words"]) == ("aesop", 1, 9 * 40)
    assert card["passes"] == pytest.approx(20 * 2 / card["rows"])


def test_another_text_than_the_one_in_the_config_is_refused_and_nothing_is_left(study):
    pinned(study, "0" * 64)
    run = study.run("fetch_corpus_aesop", fails=True)
    assert not (study / PLACE).exists()
    assert half_files(study) == []
    assert any(hashlib.sha256(TEXT.encode()).hexdigest() in message for message in errors(run.output))


def test_without_a_checksum_its_own_is_said_once_and_nothing_is_trained(study):
    pinned(study, None)
    run = study.run("results/checkpoints/tiny-lora-aesop-s1/step0020.json", fails=True)
    said = [message for message in errors(run.output) if "corpora.aesop.sha256" in message]
    assert hashlib.sha256(TEXT.encode()).hexdigest() in said[0]
    assert [name for name in run.jobs if name.startswith("fetch")] == [*FETCHING], "asked more than once"
    assert not (study / PLACE).exists()
    assert not Path(study / "results/checkpoints/tiny-lora-aesop-s1/loss.csv").exists()
