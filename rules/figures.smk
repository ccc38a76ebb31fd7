"""Figures: each is a target of its own, named by its key in the config, as svg and as png."""

PARTS_OF = {
    "saturation": ["trajectory"],
    "depth": ["probing", "fragility"],
    "scale": ["scale", "fragility"],
    "layer_profile": ["probing", "fragility", "scale"],
    "transfer": ["transfer"],
    "foundations": ["foundations"],
    "controls": ["controls"],
    "many_class": ["many_class"],
}
# The settings each kind draws from, besides title and style: what it does not use must not redraw it.
USES = {
    "saturation": ["checkpoints", "seeds", "step_onset"],
    "depth": ["checkpoints", "seeds"],
    "scale": ["checkpoints", "seeds"],
    "layer_profile": ["layer_onset", "revision"],
    "noise_curves": ["threshold"],
    "loss": ["checkpoints"],
    "checkpoints": ["checkpoints"],
    "emergence": ["checkpoints", "step_onset"],
    "transfer": ["checkpoints", "singled_out"],
    "foundations": ["checkpoints"],
    "controls": ["revision"],
    "floors": ["checkpoints"],
    "gates": ["datasets"],
    "levels": ["models"],
    "recoverability_depth": ["models"],
    "levels_tuning": ["models", "pairs"],
    "deployment_gap": ["models"],
    "order_bias": ["models"],
    "verb_out": ["models", "clean_gap", "leak_gap", "clean_window"],
    "levels_training": ["checkpoints"],
    "routing_matrix": ["models", "lucky"],
    "routing_paths": ["models", "coarse_accuracy", "lucky"],
    "routing_plane": ["models", "coarse_accuracy", "lucky"],
    "routing_sensitivity": ["models", "lucky"],
    "many_class": ["models", "coarse_accuracy", "lucky", "sides"],
    "patching_depth": ["models"],
    "patching_cells": ["models"],
    "steering": ["models"],
    "tracing_layers": ["models"],
    "tracing_depth": ["checkpoints"],
    "curation": ["conditions"],
    "curation_heatmaps": ["conditions"],
    "curation_loss": ["conditions"],
    "curation_differences": ["conditions"],
}
# Figures of words put to probes of many classes, likewise.
PARTS_OF_ROUTING = {
    "routing_matrix": ["routing_counts", "routing_cells"],
    "routing_paths": ["routing_cells"],
    "routing_plane": ["routing_cells"],
    "routing_sensitivity": ["routing_sensitivity", "routing_cells"],
}
# Figures of control items: the tables of every model they show.
PARTS_OF_LEVELS = {
    "levels": ["levels"],
    "recoverability_depth": ["levels_layers"],
    "levels_tuning": ["levels"],
    "deployment_gap": ["levels"],
    "order_bias": ["levels"],
    "verb_out": ["levels_layers"],
    "levels_training": ["levels", "levels_layers"],
}
# Figures of interventions: the tables of every model they show.
PARTS_OF_INTERVENTIONS = {
    "patching_depth": ["patching"],
    "patching_cells": ["patching"],
    "steering": ["steering"],
    "tracing_layers": ["tracing"],
    "tracing_depth": ["tracing"],
}
# Figures of fine-tuning experiments, likewise.
PARTS_OF_CURATION = {
    "curation": ["curation", "curation_layers"],
    "curation_heatmaps": ["curation_layers"],
    "curation_loss": ["curation"],
    "curation_differences": ["curation_differences"],
}
COLLECTION_OF = {
    **dict.fromkeys(PARTS_OF_CURATION, "curation"),
    **dict.fromkeys(PARTS_OF_INTERVENTIONS, "interventions"),
    **dict.fromkeys(PARTS_OF_LEVELS, "levels"),
    **dict.fromkeys([*PARTS_OF_ROUTING, "many_class"], "lucky_defaults"),
    "gates": "datasets",
    "controls": "structure",
    "floors": "structure",
    "foundations": "structure",
    "transfer": "structure",
}
CATEGORIES = {
    "loss": "Models",
    "checkpoints": "Models",
    "controls": "A checkpoint",
    "layer_profile": "A checkpoint",
    "noise_curves": "A checkpoint",
    "gates": "Datasets",
    "floors": "Datasets",
    **dict.fromkeys(PARTS_OF_LEVELS, "Three levels"),
    **dict.fromkeys([*PARTS_OF_ROUTING, "many_class"], "Lucky defaults"),
    **dict.fromkeys(PARTS_OF_INTERVENTIONS, "Interventions"),
    **dict.fromkeys(PARTS_OF_CURATION, "Data curation"),
    "levels_training": "Over training",
    "tracing_depth": "Over training",
}


def figure_inputs(spec):
    """The tables, or the curves, that a figure is drawn from, by name."""
    if spec.kind == "loss":
        return {"losses": LAYOUT.loss_curve(spec.model)}
    if spec.kind == "checkpoints":
        return {"checkpoints": LAYOUT.checkpoints_part(spec.model)}
    if spec.kind in PARTS_OF_LEVELS:
        over = {"levels_models": LAYOUT.table("levels_models")} if spec.kind == "levels_tuning" else {}
        return over | {
            table: [LAYOUT.table_part(table, model, spec.dataset) for model in figure_models(spec)]
            for table in PARTS_OF_LEVELS[spec.kind]
        }
    if spec.kind in PARTS_OF_INTERVENTIONS:
        return {
            table: [LAYOUT.table_part(table, model, spec.dataset) for model in figure_models(spec)]
            for table in PARTS_OF_INTERVENTIONS[spec.kind]
        }
    if spec.kind in PARTS_OF_CURATION:
        tables = PARTS_OF_CURATION[spec.kind]
        return {table: LAYOUT.table_part(table, spec.experiment, spec.dataset) for table in tables}
    if spec.kind in PARTS_OF_ROUTING:
        numbers = f"{PUBLISHED}/lucky_defaults.csv"
        beside = {"numbers": numbers} if spec.kind == "routing_sensitivity" else {}
        return beside | {
            table: [
                LAYOUT.table_part(table, model, spec.dataset or ELSEWHERE) for model in figure_models(spec)
            ]
            for table in PARTS_OF_ROUTING[spec.kind]
        }
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


def figure_checkpoints(spec, model):
    """The revisions of a model that a figure of this kind can show."""
    return MODELS[model].measured_at(MEASURE_OF.get(spec.kind))


def figure_checkpoint(spec, model):
    """The revision that a figure shows of a model: the one asked for, or the last."""
    return spec.revision or figure_checkpoints(spec, model)[-1].name if model else None


def figure_sides(spec):
    """How many groups are on either side of the dataset's partition, by its name."""
    partition = DATASETS[spec.dataset].partition if spec.kind == "many_class" else None
    return {" | ".join(partition): [len(groups) for groups in partition.values()]} if partition else {}


def figure_names(spec):
    """Whom a title names: an experiment, a model, or the models where they are few."""
    if spec.experiment is not None:
        return [spec.experiment]
    return figure_models(spec) if len(spec.models or []) < 3 else []


def figure_models(spec):
    return spec.models or [spec.model]


def figure_seed(spec):
    return STUDY.seeds(MODELS[spec.model], spec.dataset)[0] if spec.seed is None else spec.seed


def figure_settings(name, spec):
    """What the drawing depends on besides its inputs, as one sorted dict."""
    config = STUDY.config
    known = {
        "conditions": list(EXPERIMENTS[spec.experiment].conditions) if spec.experiment else [],
        "datasets": list(spec.datasets or []),
        "models": [[model, figure_checkpoint(spec, model)] for model in spec.models or [spec.model]],
        "pairs": [[MODELS[name].base, name] for name in spec.models or [] if MODELS[name].base],
        "coarse_accuracy": config.concentration.coarse_accuracy,
        "lucky": config.concentration.lucky,
        "sides": figure_sides(spec),
        "clean_gap": config.recoverability.clean_gap,
        "leak_gap": config.recoverability.leak_gap,
        "clean_window": config.recoverability.clean_window,
        "layer_onset": config.probe.onset_threshold,
        "singled_out": config.transfer.singled_out,
        "step_onset": config.step_onset_threshold,
        "threshold": config.fragility.threshold,
    }
    if spec.model is not None:
        entry = MODELS[spec.model]
        checkpoints = figure_checkpoints(spec, spec.model)
        known["checkpoints"] = [[revision.name, revision.step] for revision in checkpoints]
        known["revision"] = figure_revision(spec)
        known["seeds"] = list(STUDY.seeds(entry, spec.dataset) if spec.dataset else entry.seeds)
    return {
        **{key: known[key] for key in USES[spec.kind]},
        "style": dict(sorted(spec.style.items())),
        "title": spec.title or " ".join(filter(None, [*figure_names(spec), spec.dataset])) or name,
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
                subcategory=spec.model or spec.experiment or "all",
                labels={
                    "figure": spec.kind,
                    "model": spec.model or spec.experiment or ", ".join(spec.models or []) or "-",
                    "dataset": spec.dataset or "-",
                },
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
            runtime=table_minutes,
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
