"""What can be asked for, and what is said of it. No rule stands here."""

# What each collection asks for: filled by the rule files, read when the DAG is built.
COLLECTIONS = {
    "datasets": [],
    "fragility": [],
    "structure": [],
    "levels": [],
    "lucky_defaults": [],
    "interventions": [],
    "curation": [],
    "released": [],
}

COLLECTION_OF_MEASURE = {
    "probes": "fragility",
    "fragility": "fragility",
    "levels": "levels",
    "routing": "lucky_defaults",
    "many_class": "lucky_defaults",
    "patching": "interventions",
    "steering": "interventions",
    "tracing": "interventions",
}


def rules_targets(collection):
    """What a collection asks for; an input function, since the rules that make it come later."""
    return partial(collected, collection)


def collected(collection, wildcards):
    return [path for paths in COLLECTIONS[collection] for path in paths]


def print_time_per_rule():
    rows = timing.time_per_rule(Path(LAYOUT.benchmarks), since=STARTED)
    print(timing.report(rows, time.time() - STARTED), file=sys.stderr)


def refuse_unknown_targets():
    """Name the nearest valid path for a mistyped one.

    Costs a look through the rules for each word of the command line that could be a result; only when
    nothing makes it is the command line parsed to see whether it was asked for.
    """
    made = partial(is_made, list(workflow.rules))
    if all(made(word) for word in sys.argv[1:] if word.startswith(f"{LAYOUT.base}/")):
        return
    wanted = get_argument_parser().parse_known_args(sys.argv[1:])[0].targets
    message = targets.unknown_targets(wanted or [], made, known_paths)
    if message:
        raise WorkflowError(message)


def is_made(rules_known, target):
    return (
        any(rule.name == target or rule.is_producer(target) for rule in rules_known) or Path(target).exists()
    )


def known_paths():
    """Every path this study can make that a person would ask for by name, and the names of its rules."""
    paths = [rule.name for rule in workflow.rules]
    paths += [path for paths in COLLECTIONS.values() for group in paths for path in group]
    elsewhere = [name for name, model in MODELS.items() if model.kind == "predictions"]
    paths += [LAYOUT.whole("routing", model, "main", ELSEWHERE) for model in elsewhere]
    for model in RUNNABLE.values():
        asked = [(kind, name) for kind in model.measures for name in measured_on(kind, model.name)]
        for revision in model.revisions:
            paths.append(LAYOUT.identity(model.name, revision.name))
            for dataset in model.datasets:
                if DATASETS[dataset].kind == "vocabulary" and ("routing", dataset) not in asked:
                    continue
                if revision in model.measured_at(needed_by([dataset])):
                    paths.append(LAYOUT.activations(model.name, revision.name, dataset))
            for kind, dataset in asked:
                if revision in model.measured_at(kind):
                    paths += result_paths(kind, model, revision.name, dataset)
    return paths


def result_paths(kind, model, revision, dataset):
    """Results of one measure at one checkpoint, as far as a mistyped path is looked for among them."""
    if kind in WHOLE:
        return [LAYOUT.whole(place, model.name, revision, dataset) for place in WHOLE[kind]]
    place = model.name, revision, dataset, STUDY.seeds(model, dataset)[0]
    layers = [LAYOUT.layer(kind, *place, 0)] if kind in ("probes", "fragility") else []
    return [LAYOUT.measure(kind, *place, "summary.json"), *layers]
