"""Strataprobe: what a language model encodes, reads out and deploys, and how robustly.

A study is one config file, complete by itself. Without `--configfile` it is `config.yaml`, the default study.
"""

from snakemake.utils import min_version

min_version("9.20")

# Snakemake merges config files, so the default study is loaded only where no other one was given.
if "models" not in config:

    configfile: "config.yaml"


include: "rules/common.smk"
include: "rules/inputs.smk"
include: "rules/targets.smk"


report: "report/workflow.rst"


localrules:
    all,


rule all:
    default_target: True
    input:
        [rules_targets(collection) for collection in COLLECTIONS],


for collection in COLLECTIONS:

    rule:
        name:
            collection
        input:
            rules_targets(collection),
        localrule: True


include: "rules/resolve.smk"


# Before it is known which revisions there are, nothing can be planned but asking for them.
if not RESOLVING:

    include: "rules/checkpoints.smk"
    include: "rules/datasets.smk"
    include: "rules/activations.smk"
    include: "rules/perplexity.smk"
    include: "rules/probes.smk"
    include: "rules/published.smk"
    include: "rules/structure.smk"
    include: "rules/readout.smk"
    include: "rules/concentration.smk"
    include: "rules/interventions.smk"
    include: "rules/curation.smk"
    include: "rules/tables.smk"
    include: "rules/figures.smk"
    include: "rules/paper.smk"
    include: "rules/release.smk"


refuse_unknown_targets()


onstart:
    scheduling.only_when_a_job_ends(workflow)


onsuccess:
    print_time_per_rule()


onerror:
    print_time_per_rule()
    print(FAILURE_ADVICE, file=sys.stderr)
