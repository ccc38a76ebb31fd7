"""Figures: each is a target of its own, named by its key in the config, as svg and as png."""

PARTS_OF = {
    "saturation": ["trajectory"],
    "depth": ["probing", "fragility"],
    "scale": ["scale", "fragility"],
    "layer_profile": ["probing", "fragility", "scale"],
    "transfer": ["transfer"],
    "foundations": ["foundations"],
    "controls": ["controls"],
}
# The settings each kind draws from, besides title and style: what it does not use must not redraw it.
USES = {
    "saturation": ["checkpoints", "seeds", "step_onset"],
    "depth": ["checkpoints", "seeds"],
    "scale": ["checkpoints", "seeds"],
    "layer_profile": ["layer_onset", "revision"],
    "noise_curves": ["threshold"],
    "loss": ["checkpoints"],
    "emergence": ["checkpoints", "step_onset"],
    "transfer": ["checkpoints", "singled_out"],
    "foundations": ["checkpoints"],
    "controls": ["revision"],
    "floors": ["checkpoints"],
    "gates": ["datasets"],
}
COLLECTION_OF = {
    "gates": "datasets",
    "controls": "structure",
    "floors": "structure",
    "foundations": "structure",
    "transfer": "structure",
}
CATEGORIES = {
    "loss": "Models",
    "controls": "A checkpoint",
    "layer_profile": "A checkpoint",
    "noise_curves": "A checkpoint",
    "gates": "Datasets",
    "floors": "Datasets",
}


def figure_inputs(spec):
    """The tables, or the curves, that a figure is drawn from, by name."""
    if spec.kind == "loss":
        return {"losses": LAYOUT.loss_curve(spec.model)}
    if spec.kind == "gates":
        return {"gates": LAYOUT.table("gates")}
    if spec.kind == "emergence":
        return {"trajectory": [LAYOUT.table_part("trajectory", spec.model, d) for d in spec.datasets]}
    if spec.kind == "floors":
        onsets = [LAYOUT.table_part("onsets", spec.model, d) for d in spec.datasets]
        return {"floors": LAYOUT.table("floors"), "onsets": onsets}
    if spec.kind == "noise_curves":
        entry = MODELS[spec.model]
        place = spec.model, figure_revision(spec), spec.dataset, figure_seed(spec)
        return {
            "summary": LAYOUT.measure("fragility", *place, "summary.json"),
            "layers": [LAYOUT.layer("fragility", *place, layer) for layer in range(entry.layers)],
        }
    return {table: LAYOUT.table_part(table, spec.model, spec.dataset) for table in PARTS_OF[spec.kind]}


def figure_revision(spec):
    """The revision asked for, or the model's last."""
    return spec.revision or MODELS[spec.model].revisions[-1].name


def figure_seed(spec):
    return STUDY.seeds(MODELS[spec.model], spec.dataset)[0] if spec.seed is None else spec.seed


def figure_settings(name, spec):
    """What the drawing depends on besides its inputs, as one sorted dict."""
    config = STUDY.config
    known = {
        "datasets": list(spec.datasets or []),
        "layer_onset": config.probe.onset_threshold,
        "singled_out": config.transfer.singled_out,
        "step_onset": config.step_onset_threshold,
        "threshold": config.fragility.threshold,
    }
    if spec.model is not None:
        entry = MODELS[spec.model]
        known["checkpoints"] = [[revision.name, revision.step] for revision in entry.revisions]
        known["revision"] = figure_revision(spec)
        known["seeds"] = list(STUDY.seeds(entry, spec.dataset) if spec.dataset else entry.seeds)
    return {
        **{key: known[key] for key in USES[spec.kind]},
        "style": dict(sorted(spec.style.items())),
        "title": spec.title or " ".join(filter(None, [spec.model, spec.dataset])) or name,
    }


for name, spec in STUDY.config.figures.items():

    rule:
        name:
            f"draw_{name}"
        input:
            **figure_inputs(spec),
        output:
            svg=LAYOUT.figure(name, "svg"),
            png=report(
                LAYOUT.figure(name, "png"),
                caption=f"../report/{spec.kind}.rst",
                category=CATEGORIES.get(spec.kind, "Over training"),
                subcategory=spec.model or "all",
                labels={"figure": spec.kind, "model": spec.model or "-", "dataset": spec.dataset or "-"},
            ),
        log:
            LAYOUT.log(f"draw_{name}"),
        benchmark:
            LAYOUT.benchmark(f"draw_{name}")
        conda:
            "../envs/plot.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
        params:
            code=modules(f"draw_{spec.kind}"),
            figure=figure_settings(name, spec),
            kind=spec.kind,
        message:
            f"Drawing {name}"
        script:
            "../workflow_scripts/draw_{params.kind}.py"


for name, spec in STUDY.config.figures.items():
    COLLECTIONS[COLLECTION_OF.get(spec.kind, "fragility")].append(
        [LAYOUT.figure(name, extension) for extension in ("svg", "png")]
    )
