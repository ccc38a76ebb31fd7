"""The paper's tables in its own form, the published numbers beside ours."""

PUBLISHED = os.path.relpath(Path(workflow.basedir) / "resources/published")


def over_training(measure):
    """(model, dataset) pairs of a measure whose models have more than one checkpoint."""
    return [pair for pair in measured(measure) if len(MODELS[pair[0]].revisions) > 1]


def paper_inputs():
    """What the tables are made from, by name; only what the study measures."""
    found = {
        "trajectory": [LAYOUT.table_part("trajectory", *pair) for pair in over_training("fragility")],
        "foundations": [LAYOUT.table_part("foundations", *pair) for pair in over_training("foundations")],
        "floors": [LAYOUT.table("floors")] if with_floors() else [],
    }
    return {name: paths for name, paths in found.items() if paths}


def paper_outputs():
    """Which tables the study can fill, by name."""
    of = {"trajectory": ["table1", "table2", "table3"], "foundations": ["tableA"], "floors": ["tableD2"]}
    return [table for name in paper_inputs() for table in of[name]]


if STUDY.config.paper_tables and paper_inputs():

    rule tabulate_paper:
        input:
            **paper_inputs(),
            numbers=f"{PUBLISHED}/fragility.csv",
        output:
            **{
                name: report(
                    LAYOUT.paper_table(name),
                    caption="../report/paper_table.rst",
                    category="Tables of the paper",
                    labels={"table": name.removeprefix("table")},
                )
                for name in paper_outputs()
            },
        log:
            LAYOUT.log("tabulate_paper"),
        benchmark:
            LAYOUT.benchmark("tabulate_paper")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
        params:
            code=modules("tabulate_paper"),
            onset=STUDY.config.step_onset_threshold,
        script:
            "../workflow_scripts/tabulate_paper.py"

    COLLECTIONS["structure"].append([LAYOUT.paper_table(name) for name in paper_outputs()])
