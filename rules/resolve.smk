"""Which revisions there are: the hub is asked once, and git keeps the answer, so that no DAG needs a network.

These rules declare no output. So they ask anew whenever they are asked for, and a failed one loses no list.
"""


def hub_models(names, wildcards):
    """What the study asks of its models from the hub, as one sorted dict."""
    return {
        "megabytes_per_second": STUDY.config.downloads.megabytes_per_second,
        "models": [
            {"model": name, "repo": MODELS[name].source["repo"], "revisions": STUDY.asked_of_hub(name)}
            for name in names
        ],
    }


FROM_HUB = [name for name, model in MODELS.items() if model.kind == "hub"]

for name, models in {"resolve": FROM_HUB, **{f"resolve_{model}": [model] for model in FROM_HUB}}.items():

    rule:
        name:
            name
        log:
            LAYOUT.log(name),
        localrule: True
        conda:
            "../envs/torch.yaml"
        threads: 1
        params:
            code=modules("resolve"),
            hub=partial(hub_models, models),
        message:
            f"Asking the hub for the revisions of {', '.join(models) or 'no model'}"
        script:
            "../workflow_scripts/resolve.py"
