"""What a study would cost: time on so many cores, past times by rule, sizes, and how it is said."""

import json
import random
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

from strataprobe.capture import Settings
from strataprobe.capture.caching import capture_dataset
from strataprobe.capture.chosen import capture_vocabulary
from strataprobe.config import Study
from strataprobe.datasets.reading import read_dataset
from strataprobe.layout import Layout
from strataprobe.revisions import Listed, Table, parse
from strataprobe.workflow import planning
from strataprobe.workflow.dry_run import Job, elapsed
from strataprobe.workflow.past import past_times
from strataprobe.workflow.space import Size, Space, parameters, space
from tests import control_cases, vocabulary_cases
from tests.tiny_models import save_tiny_model

LAYERS, HIDDEN = 4, 32
COMMIT, OTHER = "a" * 40, "b" * 40


def job(rule: str, inputs=(), outputs=(), threads: int = 1, **resources: int) -> Job:
    return Job(rule, tuple(inputs), tuple(outputs or [f"{rule}.out"]), threads, resources)


# time


@pytest.mark.parametrize(
    ("jobs", "seconds", "cores", "expected"),
    [
        pytest.param([job("a"), job("b"), job("c")], [2, 2, 2], 1, 6, id="one core: one after the other"),
        pytest.param([job("a"), job("b"), job("c")], [2, 2, 2], 2, 4, id="two cores: two waves"),
        pytest.param([job("a"), job("b", ["a.out"])], [3, 4], 8, 7, id="a chain waits on any number"),
        pytest.param([job("b", ["a.out"]), job("a")], [4, 3], 8, 7, id="in any order of the list"),
        pytest.param([job("a", ["there.csv"])], [3], 2, 3, id="an input that nothing makes is there"),
        pytest.param([job("a", threads=2), job("b")], [3, 1], 2, 4, id="threads hold their cores"),
        pytest.param([job("a", threads=16), job("b")], [3, 1], 2, 4, id="more threads than cores"),
        pytest.param(
            [job("a"), job("big", threads=2), job("c")], [5, 3, 5], 2, 8, id="a small one goes first"
        ),
        pytest.param([], [], 2, 0, id="nothing to do"),
    ],
)
def test_the_time_of_a_run_is_that_of_its_schedule(jobs, seconds, cores, expected) -> None:
    assert elapsed(jobs, seconds, cores) == expected


@pytest.mark.parametrize("seed", range(20))
def test_the_time_of_a_run_keeps_the_bounds_of_any_greedy_schedule(seed) -> None:
    """Never below the longest chain nor the work by cores; never above Graham's bound of the two together."""
    drawn = random.Random(seed)
    count, cores = 40, drawn.choice([1, 2, 3, 7])
    seconds = [drawn.uniform(0.1, 9) for _ in range(count)]
    earlier = [drawn.sample(range(number), drawn.randint(0, min(number, 2))) for number in range(count)]
    jobs = [job(f"r{n}", [f"r{other}.out" for other in others]) for n, others in enumerate(earlier)]
    chains: list[float] = []
    for number, others in enumerate(earlier):
        chains.append(seconds[number] + max((chains[other] for other in others), default=0.0))
    longest, work = max(chains), sum(seconds)
    found = elapsed(jobs, seconds, cores)
    assert max(longest, work / cores) - 1e-9 <= found <= work / cores + longest * (1 - 1 / cores) + 1e-9


def benchmark(folder: Path, path: str, *seconds: float | str) -> None:
    """A file as Snakemake writes it: a row a repeat."""
    place = folder / path
    place.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{value}\t0:00:01\t20.0" for value in seconds]
    place.write_text("\n".join(["s\th:m:s\tmax_rss", *rows]) + "\n")


def test_past_times_are_the_study_s_own_or_else_those_of_others(tmp_path) -> None:
    benchmark(tmp_path, "results/benchmarks/draw_depth.tsv", 8)
    benchmark(tmp_path, "results/benchmarks/probe/step0/care/seed42.tsv", 1.5)
    benchmark(tmp_path, "results/benchmarks/probe/step1/care/seed42.tsv", 2.5, 3.5)
    benchmark(tmp_path, "results/benchmarks/cut.tsv")
    benchmark(tmp_path, "results/benchmarks/odd.tsv", "-", "nan")
    benchmark(tmp_path, "results/benchmarks/studies/mine/probe/step0/care/seed42.tsv", 7)
    benchmark(tmp_path, "results/benchmarks/studies/other/floors/care.tsv", 4)
    assert past_times(Layout("default"), tmp_path) == {
        "draw_depth": [8], "floors": [4], "probe": [1.5, 2.5, 3.5],
    }  # fmt: skip
    assert past_times(Layout("mine"), tmp_path) == {"draw_depth": [8], "floors": [4], "probe": [7]}
    assert past_times(Layout("mine"), tmp_path / "elsewhere") == {}


def test_a_rule_costs_the_median_of_its_past_jobs_times_its_jobs() -> None:
    jobs = [job("probe", outputs=[f"{n}"]) for n in range(3)]
    jobs += [job("capture", threads=2, gpu=1), job("new", gpu=1), job("new", outputs=["n"], gpu=1)]
    past = {"capture": [4], "gone": [5], "probe": [1, 2, 60]}
    probe, capture, new = planning.costs(jobs, past)
    assert [cost.rule for cost in (probe, capture, new)] == ["probe", "capture", "new"]
    assert (probe.jobs, probe.past, probe.each, probe.seconds) == (3, 3, 2, 6)
    assert (probe.core_seconds, probe.gpu_seconds) == (6, 0)
    assert (capture.seconds, capture.core_seconds, capture.gpu_seconds) == (4, 8, 4)
    assert (new.jobs, new.past, new.each, new.seconds) == (2, 0, None, None)


# sizes


def hub_model(**entry) -> dict:
    return {
        "source": {"hub": {"repo": "lab/big"}},
        "layers": LAYERS,
        "revisions": ["step1", "step2"],
        **entry,
    }


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A folder with a dataset of each kind, in which the hub's cache is empty."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    pairs = [
        {"id": f"p{n}", "positive": f"The clerk sang {n}.", "negative": f"The clerk sat {n}.", "group": "g"}
        for n in range(10)
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    vocabulary_cases.write_files(tmp_path)
    control_cases.write(tmp_path, control_cases.rows())
    return tmp_path


def study_of(project: Path, models: dict, **config) -> Study:
    datasets = {
        "pairs": {"path": "pairs.jsonl"},
        "control": {"path": "items.jsonl", "kind": "control", "prompts": "prompts.json"},
        "words": {"path": "words.jsonl", "kind": "vocabulary", "design": "design.json"},
    }
    return Study.load({"seeds": [42], "datasets": datasets, "models": models, **config}, base=project)


def write_identity(project: Path, name: str, at: str, **entries) -> str:
    path = Layout().identity(name, at)
    (project / path).parent.mkdir(parents=True, exist_ok=True)
    (project / path).write_text(json.dumps(entries))
    return path


def states_bytes(path: Path) -> int:
    """Bytes of the states in a cache, by its own file."""
    with h5py.File(path) as file:
        return sum(entry.nbytes for name, entry in file.items() if name != "items")


@pytest.mark.parametrize("embed", [True, False])
def test_the_size_of_a_cache_is_that_of_the_states_a_capture_writes(embed, project) -> None:
    from strataprobe import lm

    loaded = lm.load(
        save_tiny_model("llama", project / "weights", layers=LAYERS), dtype="float32", device="cpu"
    )
    entry = {"source": {"local": {"directory": "weights"}}, "layers": LAYERS, "revisions": ["main"]}
    study = study_of(
        project,
        {"tiny": {**entry, "vocabulary_layers": [0, 2], "measures": ["probes", "levels", "routing"]}},
        capture={"embed": embed},
    )
    identity = {"model": "tiny", "revision": "main", "weights_sha256": "w", "tokenizer_sha256": "t"}
    write_identity(project, "tiny", "main", **identity, hidden_size=HIDDEN)
    settings = Settings(dtype="float32", device="cpu", batch_tokens=64, embed=embed, threads=1, window_mb=1)
    for name, config in study.config.datasets.items():
        path = study.layout.activations("tiny", "main", name)
        given = {
            key: str(project / value)
            for key in ("path", "prompts", "design")
            if (value := getattr(config, key))
        }
        dataset = read_dataset({"name": name, "kind": config.kind, **given})
        (project / name).mkdir()
        written = project / name / "made.h5"
        if name == "words":
            capture_vocabulary(loaded, dataset, written, layers=[0, 2], identity=identity, settings=settings)
        else:
            capture_dataset(loaded, dataset, written, identity=identity, settings=settings)
        found = space(study, [job("capture", outputs=[path])], {}, project)
        assert (found.caches.things, found.caches.unknown) == (1, {})
        assert found.caches.bytes == states_bytes(written)


def test_of_a_cache_that_is_made_again_only_the_growth_counts(project) -> None:
    study = study_of(project, {"big": hub_model(datasets=["pairs"])})
    write_identity(project, "big", "step2", hidden_size=HIDDEN)
    paths = [study.layout.activations("big", name, "pairs") for name in ("step1", "step2")]
    jobs = [job("capture", outputs=[path]) for path in paths]
    whole = 20 * 2 * LAYERS * HIDDEN * 4
    assert space(study, jobs, {}, project).caches == Size(2, 2 * whole)
    (project / paths[0]).parent.mkdir(parents=True)
    (project / paths[0]).write_bytes(bytes(whole - 100))
    assert space(study, jobs, {}, project).caches == Size(2, whole + 100)
    (project / paths[0]).write_bytes(bytes(whole + 100))
    assert space(study, jobs, {}, project).caches == Size(2, whole)


def test_without_an_identity_the_size_of_caches_is_not_known_and_no_zero(project) -> None:
    study = study_of(project, {"big": hub_model(datasets=["pairs"])})
    path = study.layout.activations("big", "step1", "pairs")
    found = space(study, [job("capture", outputs=[path])], {}, project).caches
    assert (found.things, found.bytes, list(found.unknown.values())) == (1, 0, [1])
    assert "big" in next(iter(found.unknown))


def test_parameters_of_a_model_made_here_are_those_of_the_model_that_is_made() -> None:
    from strataprobe.pretraining.model import build_model

    shape = {"hidden_size": 24, "heads": 4, "intermediate_size": 40, "vocab_size": 97, "max_positions": 16}
    for layers in (1, 3):
        model = build_model({"architecture": {**shape, "layers": layers}}, seed=1)
        stored = {parameter.data_ptr(): parameter.numel() for parameter in model.parameters()}
        assert parameters(layers=layers, **shape) == sum(stored.values())


def test_weights_made_here_count_by_what_is_stored(project) -> None:
    config = json.loads(json.dumps(PRETRAINED))
    study = study_of(project, {"nano": config, "packed": PACKED}, measures=["probes"])
    layout = study.layout
    made = [layout.weights("nano", "step0000"), layout.weights("nano", "step0010")]
    shape = config["source"]["pretrain"]["architecture"]
    assert space(study, [job("pretrain", outputs=made)], {}, project).weights == Size(
        2, 2 * 4 * parameters(layers=LAYERS, **shape)
    )
    wheel = [
        job(
            "fetch",
            outputs=[layout.weights("packed", "main"), layout.identity("packed", "main")],
            downloads=1,
        )
    ]
    found = space(study, wheel, {}, project)
    assert [list(part.unknown.values()) for part in (found.weights, found.fetched)] == [[1], [1]]
    write_identity(project, "packed", "main", parameters=1000, hidden_size=8)
    assert space(study, wheel, {}, project).weights == Size(1, 2000)


PRETRAINED = {
    "source": {
        "pretrain": {
            "seeds": [1],
            "architecture": {
                "hidden_size": 8, "heads": 2, "intermediate_size": 12, "vocab_size": 50, "max_positions": 16,
            },
            "corpus": {"seed": 1, "documents": 10},
            "training": {
                "batch_size": 2, "sequence_length": 8, "learning_rate": 0.1, "warmup_steps": 1,
                "weight_decay": 0.1, "gradient_norm": 1.0,
            },
            "checkpoints": [0, 10],
        }
    },
    "layers": LAYERS,
    "datasets": ["pairs"],
}  # fmt: skip
PACKED = {
    "source": {
        "wheel": {
            "package": "packed", "version": "1", "sha256": "0" * 64, "member": "a.gguf",
            "member_sha256": "1" * 64, "dtype": "bfloat16",
        }
    },
    "layers": LAYERS,
    "revisions": ["main"],
    "datasets": ["pairs"],
}  # fmt: skip


# downloads


def table(**sizes: int) -> Table:
    """The list of lab/big, whose revisions step1 and step2 have these sizes."""
    commits = {"step1": COMMIT, "step2": OTHER, "step3": "c" * 40}
    rows = [Listed(ref, parse(ref), commit, sizes.get(ref)) for ref, commit in commits.items()]
    return Table("lab/big", tuple(rows))


def capturing(study: Study, *names: str) -> list[Job]:
    layout = study.layout
    return [
        job("capture", [layout.identity("big", n)], [layout.activations("big", n, "pairs")], downloads=1)
        for n in names
    ]


def put_into_cache(project: Path, commit: str, **sizes: int) -> None:
    place = project / "cache/models--lab--big/snapshots" / commit
    place.mkdir(parents=True)
    for name, size in sizes.items():
        (place / name.replace("__", ".")).write_bytes(bytes(size))


def test_what_is_fetched_are_the_sizes_of_the_revisions_whose_weights_a_job_opens(project) -> None:
    study = study_of(project, {"big": hub_model(datasets=["pairs"])})
    jobs = capturing(study, "step2")
    # Pinning asks for checksums; probes read the identity of weights that they do not open.
    jobs += [job("pin", outputs=[study.layout.identity("big", "step1")], downloads=1)]
    jobs += [job("probes", [study.layout.identity("big", "step1")])]
    lists = {"big": table(step1=5000, step2=7000)}
    found = space(study, jobs, lists, project)
    assert (found.fetched, found.largest) == (Size(1, 7000), 7000)
    both = space(study, capturing(study, "step1", "step2", "step2"), lists, project)
    assert (both.fetched, both.largest) == (Size(2, 12000), 7000)


def test_what_the_hub_s_cache_holds_is_not_fetched_again(project) -> None:
    study = study_of(project, {"big": hub_model(datasets=["pairs"])})
    lists = {"big": table(step1=5000, step2=7000)}
    jobs = capturing(study, "step1", "step2")
    write_identity(
        project, "big", "step1", commit=COMMIT, files={"config.json": "x", "model.safetensors": "y"}
    )
    write_identity(
        project, "big", "step2", commit=OTHER, files={"config.json": "x", "model.safetensors": "y"}
    )
    # A file that no study reads is in the cache for somebody else.
    put_into_cache(project, COMMIT, config__json=10, pytorch_model__bin=4000)
    put_into_cache(project, OTHER, config__json=10, model__safetensors=6900)
    assert space(study, jobs, lists, project).fetched == Size(2, 5000 - 10)
    # All files of an identity are there: nothing is left, whether or not a list says how much it was.
    assert space(study, capturing(study, "step2"), {}, project).fetched == Size(1, 0)


def test_a_size_that_no_list_has_is_not_known_and_says_how_to_ask(project) -> None:
    study = study_of(project, {"big": hub_model(datasets=["pairs"])})
    for lists in ({}, {"big": table(step1=5000)}):
        found = space(study, capturing(study, "step1", "step2"), lists, project).fetched
        assert found.things == 2
        assert sum(found.unknown.values()) == 2 - len(lists)
        assert found.bytes == 5000 * len(lists)
        assert "resolve" in next(iter(found.unknown))


# how it is said


def a_plan(rules, *, fetched=None, caches=None, seconds=30.0) -> planning.Plan:
    parts = Space(caches or Size(), Size(), fetched or Size(), largest=6 * 10**9)
    return planning.Plan("studies/mine.yaml", 2, rules, seconds, parts, "results/benchmarks", 10**12, 2)


def test_a_report_names_each_rule_and_keeps_what_is_not_known_out_of_every_sum() -> None:
    jobs = [job("probe", outputs=[f"{n}"]) for n in range(3)] + [job("capture", gpu=1)]
    known = planning.report(a_plan(planning.costs(jobs, {"probe": [5400], "capture": [1800]})))
    assert "studies/mine.yaml: 4 jobs to run" in known
    assert [line.split() for line in known.splitlines() if line.startswith(("probe", "capture", "all"))] == [
        ["probe", "3", "1.5", "h", "4.5", "h", "1"],
        ["capture", "1", "30.0", "min", "30.0", "min", "1"],
        ["all", "rules", "4", "5.0", "h"],
    ]
    assert "CPU       5.00 core-hours" in known
    assert "GPU       0.50 hours" in known
    assert "at least" not in known
    assert "to fetch  nothing" in known

    partly = planning.report(a_plan(planning.costs(jobs, {"probe": [5400]}), seconds=8100.0))
    assert [line.split() for line in partly.splitlines() if line.startswith(("capture", "all"))] == [
        ["capture", "1", "not", "known", "not", "known", "0"],
        ["all", "rules", "4", "at", "least", "4.5", "h"],
    ]
    assert "time      at least 2.2 h on 2 cores" in partly
    assert "CPU       at least 4.50 core-hours" in partly
    assert "GPU       at least 0.00 hours" in partly
    assert "not known, and in none of these: 1 job of 1 rule never run here" in partly
    assert "GPU       no job reserves one" in planning.report(a_plan(planning.costs(jobs[:3], {})))


def test_a_report_says_of_downloads_and_disk_what_is_not_known() -> None:
    rules = planning.costs([job("capture")], {"capture": [1]})
    text = planning.report(
        a_plan(
            rules, fetched=Size(40, 2 * 10**11, {"big (ask)": 2}), caches=Size(4, 0, {"big (no identity)": 4})
        )
    )
    assert "to fetch  200.0 GB (38 revisions)\n          not known: 2 revisions of big (ask)" in text
    assert "on disk   at least 18.0 GB more at its peak; 1.0 TB are free" in text
    assert "activation caches: not known: 4 files of big (no identity)" in text
    assert "weights of the hub: 18.0 GB at a time, 2 fetched at once; 200.0 GB in all" in text
    nothing = planning.report(a_plan(rules, caches=Size(1, 0, {"big (no identity)": 1})))
    assert "on disk   not known at its peak" in nothing


def test_with_nothing_to_do_a_report_says_just_that() -> None:
    assert planning.report(a_plan([])) == "studies/mine.yaml: nothing to do, everything it asks for is there"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "not known"),
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1.0 min"),
        (3600, "1.0 h"),
        (9000, "2.5 h"),
    ],
)
def test_a_time_is_said_in_its_largest_fitting_unit(seconds, text) -> None:
    assert planning.spoken(seconds) == text


# what is wrong


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("studies/mone.yaml", None, "did you mean 'studies/mine.yaml'?"),
        ("nowhere/else.yaml", None, "studies here: studies/mine.yaml"),
        ("studies", None, "Is a directory"),
        ("broken.yaml", "models: [", "is not YAML"),
        ("text.yaml", "only words", "holds no study"),
        ("bytes.yaml", b"\xff\xfe\x00", "is not YAML"),
        ("faulty.yaml", "models: {}\nsedes: [1]", "sedes: unknown key; did you mean 'seeds'?"),
        ("unlisted.yaml", json.dumps({"models": {"big": hub_model(revisions={"every": 2})}}), "resolve"),
    ],
)
def test_a_study_that_cannot_be_planned_is_one_clear_error(name, content, said, project, monkeypatch, capsys):
    monkeypatch.chdir(project)
    Path("studies").mkdir()
    Path("studies/mine.yaml").write_text("models: {}")
    if content is not None:
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.setattr(planning, "planned", lambda *_: pytest.fail("no dry run of a study with faults"))
    assert planning.main([name, "--cores", "2"]) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"error: {name}")
    assert said in error
    assert "Traceback" not in error


@pytest.mark.parametrize("cores", ["0", "-1", "two", "1.5", ""])
def test_cores_are_a_number_or_all(cores, capsys) -> None:
    with pytest.raises(SystemExit):
        planning.main(["config.yaml", f"--cores={cores}"])
    assert "is not a number of at least 1, nor all" in capsys.readouterr().err


def test_planning_imports_neither_torch_nor_transformers() -> None:
    code = "import sys, strataprobe.workflow.planning; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                            cwd=Path(__file__).parents[2] / "workflow_scripts").stdout.split()  # fmt: skip
    assert "strataprobe.workflow.planning" in loaded
    assert not {"torch", "transformers", "snakemake"}.intersection(loaded)
