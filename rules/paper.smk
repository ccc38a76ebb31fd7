"""The paper's tables in its own form, the published numbers beside ours."""

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
                    subcategory="fragility",
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
            runtime=table_minutes,
        params:
            code=modules("tabulate_paper"),
            onset=STUDY.config.step_onset_threshold,
        script:
            "../workflow_scripts/tabulate_paper.py"

    COLLECTIONS["structure"].append(
        [LAYOUT.paper_table(name, form) for name in paper_outputs() for form in ("csv", "html")]
    )


LEVELS_PAPER = [f"levels_table{number}" for number in range(1, 10)]


if STUDY.config.paper_tables and measured("levels"):

    rule tabulate_levels_paper:
        input:
            levels=[LAYOUT.table_part("levels", *pair) for pair in measured("levels")],
            layers=[LAYOUT.table_part("levels_layers", *pair) for pair in measured("levels")],
            datasets=sorted({path for _, name in measured("levels") for path in dataset_sources(name)}),
            numbers=f"{PUBLISHED}/levels.csv",
        output:
            **{
                name if extension == "csv" else f"{name}_page": report(
                    LAYOUT.paper_table(name, extension),
                    caption="../report/paper_table.rst",
                    category="Tables of the paper",
                    subcategory="levels",
                    labels={"table": name.removeprefix("levels_table"), "as": form},
                )
                for name in LEVELS_PAPER
                for extension, form in (("html", "page"), ("csv", "long rows"))
            },
        log:
            LAYOUT.log("tabulate_levels_paper"),
        benchmark:
            LAYOUT.benchmark("tabulate_levels_paper")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
            runtime=table_minutes,
        params:
            code=modules("tabulate_levels_paper"),
            datasets=[dataset_entry(name) for name in sorted({name for _, name in measured("levels")})],
            models=model_relations(),
        message:
            "Tables of the levels paper"
        script:
            "../workflow_scripts/tabulate_levels_paper.py"

    COLLECTIONS["levels"].append(
        [LAYOUT.paper_table(name, form) for name in LEVELS_PAPER for form in ("csv", "html")]
    )


LUCKY_PAPER = [f"lucky_table{number}" for number in range(1, 5)]


if STUDY.config.paper_tables and measured("routing"):

    rule tabulate_lucky_paper:
        input:
            cells=[LAYOUT.table_part("routing_cells", *pair) for pair in measured("routing")],
            sensitivity=[LAYOUT.table_part("routing_sensitivity", *pair) for pair in measured("routing")],
            numbers=f"{PUBLISHED}/lucky_defaults.csv",
        output:
            **{
                name if extension == "csv" else f"{name}_page": report(
                    LAYOUT.paper_table(name, extension),
                    caption="../report/lucky_table.rst",
                    category="Tables of the paper",
                    subcategory="lucky defaults",
                    labels={"table": name.removeprefix("lucky_table"), "as": form},
                )
                for name in LUCKY_PAPER
                for extension, form in (("html", "page"), ("csv", "long rows"))
            },
        log:
            LAYOUT.log("tabulate_lucky_paper"),
        benchmark:
            LAYOUT.benchmark("tabulate_lucky_paper")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
            runtime=table_minutes,
        params:
            code=modules("tabulate_lucky_paper"),
            gate={
                "hhi": STUDY.config.concentration.hhi,
                "max_share": STUDY.config.concentration.max_share,
            },
        message:
            "Tables of the lucky-defaults paper"
        script:
            "../workflow_scripts/tabulate_lucky_paper.py"

    COLLECTIONS["lucky_defaults"].append(
        [LAYOUT.paper_table(name, form) for name in LUCKY_PAPER for form in ("csv", "html")]
    )


if STUDY.config.paper_tables and COMPARED:

    rule tabulate_curation_paper:
        input:
            curation=[LAYOUT.table_part("curation", *pair) for pair in COMPARED],
            numbers=f"{PUBLISHED}/fragility.csv",
        output:
            **{
                name: report(
                    LAYOUT.paper_table("section4_3", extension),
                    caption="../report/paper_table.rst",
                    category="Tables of the paper",
                    subcategory="fragility",
                    labels={"table": "section 4.3", "as": form},
                )
                for name, extension, form in (
                    ("section4_3_page", "html", "page"),
                    ("section4_3", "csv", "long rows"),
                )
            },
        log:
            LAYOUT.log("tabulate_curation_paper"),
        benchmark:
            LAYOUT.benchmark("tabulate_curation_paper")
        conda:
            "../envs/analysis.yaml"
        threads: 1
        resources:
            mem_mb=table_memory,
            runtime=table_minutes,
        params:
            code=modules("tabulate_curation_paper"),
        message:
            "Section 4.3 of the fragility paper"
        script:
            "../workflow_scripts/tabulate_curation_paper.py"

    COLLECTIONS["curation"].append([LAYOUT.paper_table("section4_3", form) for form in ("csv", "html")])
