"""Data curation: checkpoints fine-tuned by LoRA on several corpora, and how these differ."""

EXPERIMENTS = STUDY.experiments
BOOKS = {name: entry.book for name, entry in STUDY.config.corpora.items() if entry.book is not None}


def book_settings(name):
    """What the config says of a corpus from elsewhere, as one sorted dict."""
    return {"address": BOOKS[name].address, "name": name, "sha256": BOOKS[name].sha256}


def corpus_entry(name):
    """How a corpus is read, as one sorted dict."""
    entry = STUDY.config.corpora[name].model_dump(mode="json")
    return dict(sorted({**entry, "name": name, "path": corpus_path(name)}.items()))


def corpus_path(name):
    entry = STUDY.config.corpora[name]
    if entry.book is not None:
        return LAYOUT.book(name)
    return entry.texts or entry.statements.path


def run_settings(model):
    """What a fine-tuning run depends on besides its inputs, as one sorted dict."""
    entry = MODELS[model]
    return {
        "corpora": [corpus_entry(name) for name in entry.source["corpora"]],
        "device": STUDY.config.capture.device,
        "dtype": entry.dtype,
        "layers": entry.layers,
        "model": model,
        "revisions": [[revision.name, revision.step] for revision in entry.revisions],
        "source": entry.source,
    }


for name, book in BOOKS.items():

    rule:
        name:
            f"fetch_corpus_{name}"
        output:
            ensure(LAYOUT.book(name), sha256=book.sha256) if book.sha256 else LAYOUT.book(name),
        log:
            LAYOUT.log(f"fetch_corpus_{name}"),
        benchmark:
            LAYOUT.benchmark(f"fetch_corpus_{name}")
        # The same again without a checksum would only say it once more.
        retries: 3 if book.sha256 else 0
        # Where there is a network, which nodes of a cluster often lack.
        localrule: True
        conda:
            "../envs/torch.yaml"
        threads: 1
        params:
            code=modules("fetch_corpus"),
            corpus=book_settings(name),
        message:
            f"Fetching corpus {name}"
        script:
            "../workflow_scripts/fetch_corpus.py"


for unit, models in job_units().items():
    model, entry = models[0], MODELS[models[0]]
    if entry.kind != "lora":
        continue
    base, revision = entry.source["base"], entry.source["revision"]
    names = [saved.name for saved in entry.revisions]

    rule:
        name:
            f"train_lora_{unit}"
        input:
            base=LAYOUT.identity(base, revision),
            weights=made_weights(base, [revision]),
            corpora=sorted(
                {corpus_path(name) for model in models for name in MODELS[model].source["corpora"]}
            ),
        output:
            adapters=[LAYOUT.adapter(model, name) for model in models for name in names],
            configs=[LAYOUT.adapter_config(model, name) for model in models for name in names],
            identities=[LAYOUT.identity(model, name) for model in models for name in names],
            losses=[LAYOUT.loss_curve(model) for model in models],
            cards=[LAYOUT.corpus_card(model) for model in models],
        log:
            LAYOUT.log(f"train_lora_{unit}"),
        benchmark:
            LAYOUT.benchmark(f"train_lora_{unit}")
        priority: earlier_first(model)
        conda:
            "../envs/torch.yaml"
        threads: entry.source["threads"]
        resources:
            mem_mb=partial(capture_memory, model),
            runtime=partial(capture_minutes, model),
            gpu=partial(capture_gpus, model),
            downloads=fetches(model),
        params:
            code=modules("train_lora"),
            runs=[run_settings(model) for model in models],
            scratch=LAYOUT.scratch("lora"),
        message:
            f"Fine-tuning {base} at {revision}: {unit}, {len(names)} adapters a run"
        script:
            "../workflow_scripts/train_lora.py"


# How conditions differ


def compared_on(experiment):
    """Datasets that an experiment's conditions are compared on: those with probes and fragility."""
    model = experiment.runs[0].model
    curved = measured_on("fragility", model)
    return [name for name in measured_on("probes", model) if name in curved]


COMPARED = [(name, dataset) for name, entry in EXPERIMENTS.items() for dataset in compared_on(entry)]
CURATION_TABLES = ["curation", "curation_layers", "curation_differences"] if COMPARED else []


def runs_there(name, dataset):
    """The runs to read: all of them, or with `gaps: draw` those of which everything is there."""
    runs = EXPERIMENTS[name].runs
    if STUDY.config.gaps == "refuse":
        return list(runs)
    return [run for run in runs if all(Path(path).exists() for path in run_files(run, dataset))]


def run_files(run, dataset):
    """Everything that the tables read of a run by itself."""
    seeds = STUDY.seeds(MODELS[run.model], dataset)
    places = (probe_weights, states_of, fragility_summary)
    results = [path for place in places for path in by_seed(place, [run], dataset, seeds)]
    return [LAYOUT.loss_curve(run.model), LAYOUT.corpus_card(run.model), *results]


def by_seed(place, runs, dataset, seeds):
    """Files of every revision of these runs, one a seed: `place` gives each."""
    at = [(run.model, saved.name) for run in runs for saved in MODELS[run.model].revisions]
    return [place(model, revision, dataset, seed) for model, revision in at for seed in seeds]


def experiment_settings(name, dataset):
    """The runs of an experiment and where they start, as one sorted dict."""
    entry = EXPERIMENTS[name]
    runs = [
        {
            "condition": run.condition,
            "model": run.model,
            "revisions": [[saved.name, saved.step] for saved in MODELS[run.model].revisions],
            "seed": run.seed,
        }
        for run in runs_there(name, dataset)
    ]
    fragility = STUDY.config.fragility
    return {
        "base": {"model": entry.base, "revision": entry.revision},
        "name": name,
        "noise_levels": {"raw": fragility.noise_levels, "rms": fragility.rms_noise_levels},
        "runs": runs,
    }


def run_parts(table, name, dataset):
    """Parts of a table: of the base, then of every run."""
    models = [EXPERIMENTS[name].base, *(run.model for run in runs_there(name, dataset))]
    return [LAYOUT.table_part(table, model, dataset) for model in models]


def compared_files(name, dataset):
    """Probes and caches by seed at the base, then at every revision of every run.

    None where a run with gaps has nothing to compare: no run is whole, or the base is not.
    """
    entry, runs, seeds = EXPERIMENTS[name], runs_there(name, dataset), compared_seeds(name, dataset)
    places = {"probes": probe_weights, "caches": states_of}
    base = {
        key: [place(entry.base, entry.revision, dataset, seed) for seed in seeds]
        for key, place in places.items()
    }
    if not runs or any(len(available(paths)) < len(paths) for paths in base.values()):
        return {key: [] for key in places}
    return {key: base[key] + by_seed(place, runs, dataset, seeds) for key, place in places.items()}


def probe_weights(model, revision, dataset, seed):
    return LAYOUT.measure("probes", model, revision, dataset, seed, "weights.h5")


def states_of(model, revision, dataset, seed):
    return LAYOUT.activations(model, revision, dataset)


def fragility_summary(model, revision, dataset, seed):
    return LAYOUT.measure("fragility", model, revision, dataset, seed, "summary.json")


def compared_seeds(name, dataset):
    return list(STUDY.seeds(MODELS[EXPERIMENTS[name].runs[0].model], dataset))


def comparison_settings(name, dataset):
    """What the comparison depends on besides its inputs, as one sorted dict."""
    fragility = settings("fragility")
    return {
        **experiment_settings(name, dataset),
        "conventions": fragility["conventions"],
        "curation": settings("curation"),
        "dataset": dataset,
        "pooling": fragility["pooling"],
        "seeds": compared_seeds(name, dataset),
        "threshold": fragility["threshold"],
    }


for name, dataset in COMPARED:
    runs = runs_there(name, dataset)

    rule:
        name:
            f"tabulate_curation_{name}_{dataset}"
        input:
            trajectory=run_parts("trajectory", name, dataset),
            probing=run_parts("probing", name, dataset),
            fragility=run_parts("fragility", name, dataset),
            losses=[LAYOUT.loss_curve(run.model) for run in runs],
            corpora=[LAYOUT.corpus_card(run.model) for run in runs],
        output:
            curation=LAYOUT.table_part("curation", name, dataset),
            layers=LAYOUT.table_part("curation_layers", name, dataset),
        log:
            LAYOUT.log("tabulate_curation", name, dataset),
        benchmark:
            LAYOUT.benchmark("tabulate_curation", name, dataset)
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
            runtime=table_minutes,
        params:
            code=modules("tabulate_curation"),
            experiment=experiment_settings(name, dataset),
        message:
            f"Table of {name} for {dataset}"
        script:
            "../workflow_scripts/tabulate_curation.py"

    rule:
        name:
            f"compare_curation_{name}_{dataset}"
        input:
            **compared_files(name, dataset),
        output:
            table=LAYOUT.table_part("curation_differences", name, dataset),
        log:
            LAYOUT.log("compare_curation", name, dataset),
        benchmark:
            LAYOUT.benchmark("compare_curation", name, dataset)
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=structure_memory,
            runtime=structure_minutes,
        params:
            code=modules("compare_curation"),
            experiment=comparison_settings(name, dataset),
        message:
            f"How the conditions of {name} differ for {dataset}"
        script:
            "../workflow_scripts/compare_curation.py"


COLLECTIONS["curation"].append([LAYOUT.table(table) for table in CURATION_TABLES])
