"""The docs name what the code writes: every column, key, path and setting, and links that lead somewhere."""

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest
import yaml
from pydantic import BaseModel

import measure_fragility
import train_probes
from strataprobe import cache, figures, files, tables
from strataprobe.checkpoints import identify_directory
from strataprobe.config import Study, StudyConfig
from strataprobe.layout import Layout
from strataprobe.pretraining.train import LOSS_COLUMNS
from strataprobe.provenance import made_from

ROOT = Path(__file__).resolve().parents[2]
CARD = ROOT / "resources/datasets/README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
TEXTS = ROOT / "resources/texts/README.md"
PAGES = [path for path in (ROOT / "README.md", *DOCS, CARD, TEXTS) if path.is_file()]
OUTPUTS = (ROOT / "docs/outputs.md").read_text(encoding="utf-8")
LAYERS, PAIRS, HIDDEN = 3, 20, 8
BASE = {
    "seeds": [42],
    "datasets": {"moral": {"path": "resources/datasets/moral.jsonl"}},
    "models": {
        "nano": {"source": {"local": {"directory": "."}}, "layers": LAYERS, "revisions": ["step0000"]},
    },
}


def section(heading: str) -> str:
    """The text of outputs.md under a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", OUTPUTS, re.MULTILINE | re.DOTALL)
    assert found, f"docs/outputs.md has no section {heading!r}"
    return found[1]


def first_column(text: str) -> tuple[str, ...]:
    """Names in the first column of a section's tables, in order."""
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return tuple(name for cell in cells for name in re.findall(r"`([^`]+)`", cell))


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def keys_of(record: object) -> set[str]:
    """Every key of a nested record but noise levels, which are numbers, and names of packages."""
    if isinstance(record, list):
        return set().union(*map(keys_of, record)) if record else set()
    if not isinstance(record, dict):
        return set()
    own = {key for key in record if not re.fullmatch(r"[\d.]+", key)}
    return own.union(*(keys_of(value) for key, value in record.items() if key != "software"))


def named(text: str) -> set[str]:
    """What a page writes as code, by itself or at the end of a path or after a word (`attribute` names)."""
    return {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"[\w.]+", code)}


@pytest.fixture(scope="module")
def study() -> Study:
    return Study.load(BASE, base=ROOT)


@pytest.fixture(scope="module")
def identity(tmp_path_factory) -> dict:
    """The identity of a directory that has what a checkpoint needs, and nothing in it."""
    place = tmp_path_factory.mktemp("model")
    (place / "config.json").write_text('{"num_hidden_layers": 3, "hidden_size": 8, "model_type": "toy"}')
    (place / "tokenizer.json").write_text("{}")
    (place / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return identify_directory(
        place, model="nano", revision="step0000", step=0, source="local", layers=LAYERS, origin={}
    )


@pytest.fixture(scope="module")
def activations(tmp_path_factory, identity) -> Path:
    """A small cache in which the classes are apart."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.array([1, -1], "i1"), PAIRS)
    path = tmp_path_factory.mktemp("docs") / "toy.h5"
    names = cache.layer_names(LAYERS, embed=True)
    with cache.create(
        path,
        ids=[f"p{item // 2:02d}:{'negative' if item % 2 else 'positive'}" for item in range(2 * PAIRS)],
        labels=labels,
        groups=["g"] * 2 * PAIRS,
        pairs=np.repeat(np.arange(PAIRS), 2),
        layers=names,
        positions=["mean", "mean_rest"],
        hidden_size=HIDDEN,
        provenance={"stage": "capture", **made_from(identity)},
    ) as writer:
        drawn = {name: rng.normal(size=(2 * PAIRS, 2, HIDDEN)) + labels[:, None, None] for name in names}
        layers = {name: values.astype("f4") for name, values in drawn.items()}
        writer.write(0, layers, np.full(2 * PAIRS, 7, "i4"))
    return path


@pytest.fixture(scope="module")
def records(study, activations, identity) -> dict[str, object]:
    """What the two measures' scripts write, read back."""
    place = activations.parent
    files.write_json(place / "identity.json", identity)
    noise = {**study.settings("fragility"), "draws": 2, "bootstrap": 20}
    layers = {
        kind: [place / f"{kind}{layer}.json" for layer in range(LAYERS)] for kind in ("probes", "fragility")
    }
    summaries = {kind: place / f"{kind}.json" for kind in layers}
    given, weights, whose = (
        (activations, place / "identity.json"),
        place / "weights.h5",
        {"dataset": "toy", "seed": 42},
    )
    train_probes.main(
        *given, layers["probes"], weights, summaries["probes"], **whose, probe=study.settings("probe")
    )
    measure_fragility.main(
        *given, weights, layers["fragility"], summaries["fragility"], **whose, settings=noise
    )
    found = {f"{kind} layers": [files.read_json(path) for path in paths] for kind, paths in layers.items()}
    return found | {f"{kind} summary": files.read_json(path) for kind, path in summaries.items()}


def config_keys(model: type[BaseModel] = StudyConfig) -> set[str]:
    """Every key that may stand in a study's config."""
    definitions = model.model_json_schema()
    return {
        key
        for entry in (definitions, *definitions.get("$defs", {}).values())
        for key in entry.get("properties", {})
    }


@pytest.mark.parametrize("table", sorted(tables.COLUMNS))
def test_a_table_has_exactly_the_columns_that_the_docs_list_in_that_order(table):
    own = first_column(section(f"{table}.csv"))
    keyed = tables.COLUMNS[table][: len(tables.KEY)] == tables.KEY
    documented = first_column(section("Key columns")) + own if keyed else own
    assert documented == tables.COLUMNS[table]


def test_the_loss_curve_has_exactly_the_columns_that_the_docs_list():
    assert ",".join(first_column(section("Loss curve"))) == LOSS_COLUMNS


def test_every_key_of_the_results_is_explained(records):
    missing = {kind: sorted(keys_of(record) - named(OUTPUTS)) for kind, record in records.items()}
    # Settings are the config's own keys, explained where they are set.
    missing = {kind: [key for key in keys if key not in config_keys()] for kind, keys in missing.items()}
    assert not any(missing.values()), missing


def test_the_docs_list_no_layer_key_that_the_results_do_not_have(records):
    listed = set(first_column(section("Probes"))) - {"variants", "activations_sha256", "settings"}
    weights = {"weights", "biases", "divisors", "test_items", "train_items", "attribute"}
    written = keys_of(records["probes layers"]) | keys_of(records["probes summary"])
    assert listed - weights - written == set()
    listed = set(first_column(section("Fragility")))
    assert listed - keys_of(records["fragility layers"]) - keys_of(records["fragility summary"]) == set()


def test_every_key_of_an_identity_is_explained(identity):
    checksummed = set(identity["files"])
    assert keys_of(identity) - checksummed - named(section("Checkpoint identity")) == set()


def test_every_dataset_and_attribute_of_the_hdf5_files_is_explained(activations, records):
    assert records  # weights.h5 is written with them
    for path, heading in ((activations, "Activation cache"), (activations.with_name("weights.h5"), "Probes")):
        with h5py.File(path) as file:
            names = [*file.attrs]
            file.visititems(
                lambda name, node, names=names: names.append(name) if isinstance(node, h5py.Dataset) else None
            )
        text = section(heading)
        plain = {name for name in names if not re.fullmatch(r"layer_\d\d", name)}
        assert {name for name in plain if f"`{name}`" not in text} == set(), path.name
        assert "`layer_00`" in section("Activation cache")


def test_every_place_of_the_layout_is_listed():
    places = Layout()
    model, revision, dataset, seed = "{model}", "{revision}", "{dataset}", "{seed}"
    expected = [
        places.identity(model, revision),
        places.weights(model, revision),
        places.perplexity(model, revision),
        places.loss_curve(model),
        places.activations(model, revision, dataset),
        *(places.layer(kind, model, revision, dataset, seed, "{layer}") for kind in ("probes", "fragility")),
        *(
            places.measure(kind, model, revision, dataset, seed, "summary.json")
            for kind in ("probes", "fragility", "foundations", "controls")
        ),
        *(
            places.whole(kind, model, revision, dataset)
            for kind in ("transfer", "behavior", "readout", "recoverability", "routing", "many_class")
        ),
        places.scores(model, revision, dataset),
        places.predictions(model, revision, dataset),
        places.tuned_lens(model, revision),
        places.gates(dataset),
        places.floors(dataset),
        places.measure("probes", model, revision, dataset, seed, "weights.h5"),
        places.table_part("{name}", model, dataset),
        places.table("{name}"),
        places.checkpoints_part(model),
        places.page("checkpoints"),
        places.figure("{name}", "svg"),
        places.figure("{name}", "png"),
        places.report,
        places.log("{rule}"),
        places.benchmark("{rule}"),
    ]
    assert [path for path in expected if f"`{path}`" not in section("Files")] == []


def test_every_key_of_the_config_is_explained():
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCS)
    commented = (ROOT / "config.yaml").read_text(encoding="utf-8")
    keys = set(re.findall(r"(?:^|[{,#]|- )\s*(\w+):", commented, re.MULTILINE))
    assert config_keys() - named(text) - keys - yaml_keys(text) == set()


def yaml_keys(text: str) -> set[str]:
    return set().union(*(keys_of(yaml.safe_load(block)) for block in fenced(text, "yaml")))


def test_every_kind_of_figure_is_described():
    page = (ROOT / "docs/outputs.md").read_text(encoding="utf-8")
    assert [kind for kind in figures.KINDS if f"\n| `{kind}` | " not in page] == []


def test_every_config_shown_in_the_docs_is_valid():
    blocks = fenced((ROOT / "docs/adding.md").read_text(encoding="utf-8"), "yaml")
    assert blocks
    for block in blocks:
        shown = yaml.safe_load(block)
        whole = shown if "seeds" in shown else {**BASE, **shown}
        Study.load(whole, where=block)


def test_the_dataset_card_is_of_the_file_that_ships():
    listed = dict(re.findall(r"^\| `(\S+\.jsonl)` .*`([0-9a-f]{64})`", CARD.read_text("utf-8"), re.MULTILINE))
    shipped = {path.name: files.sha256_file(path) for path in CARD.parent.glob("*.jsonl")}
    assert listed == shipped


def anchors(path: Path) -> set[str]:
    """The anchors that a page's headings get when it is rendered."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page):
    links = re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", page.read_text(encoding="utf-8"))
    broken = []
    for link in links:
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_names_a_place_on_one_machine(page):
    machine = r"(?<![\w.)}~-])(/(?:home|root|Users|tmp|work|mnt|opt|var|private|Volumes)\b\S*|[A-Z]:\\\S*)"
    assert re.findall(machine, page.read_text(encoding="utf-8")) == []


def test_the_example_of_a_dataset_line_is_readable():
    lines = [
        block for block in fenced((ROOT / "docs/adding.md").read_text("utf-8"), "text") if '"id"' in block
    ]
    assert set(json.loads(lines[0])) == {"id", "positive", "negative", "group", "contrast"}
