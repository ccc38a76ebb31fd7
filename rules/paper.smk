"""The paper's tables in its own form, the published numbers beside ours."""

PUBLISHED = os.path.relpath(Path(workflow.basedir) / "resources/published")


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
