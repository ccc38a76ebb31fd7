"""The paper's tables in its own form, the published numbers beside ours."""

PUBLISHED = os.path.relpath(Path(workflow.basedir) / "resources/published")


if STUDY.config.paper_tables and paper_inputs():

    rule tabulate_paper:
        input:
            **paper_inputs(),
            numbers=f"{PUBLISHED}/fragility.csv",
        output:
            **{
                name if extension == "csv" else f"{name}_page": report(
                    LAYOUT.paper_table(name, extension),
                    caption="../report/paper_table.rst",
                    category="Tables of the paper",
                    labels={"table": name.removeprefix("table"), "as": form},
                )
                for name in paper_outputs()
                for extension, form in (("html", "page"), ("csv", "long rows"))
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

    COLLECTIONS["structure"].append(
        [LAYOUT.paper_table(name, form) for name in paper_outputs() for form in ("csv", "html")]
    )
