"""Settings of a small steering study, and where its probe peak is said to stand."""

STEERING = {
    "conventions": "default",
    "tasks": ["qa"],
    "languages": None,
    "states": ["own_prompt"],
    "methods": ["probe", "means"],
    "alphas": [-40.0, 0.0, 2.0, 40.0],
    "random": 3,
    "random_alphas": [40.0],
    "erasures": 2,
    "first_layer": "peak",
    "every": None,
    "bootstrap": 50,
    "seed": 3,
}


def settings(**changed):
    batch_tokens = changed.pop("batch_tokens", 4096)
    return {
        "chat": False,
        "capture": {"batch_tokens": batch_tokens, "threads": changed.pop("threads", 1)},
        "probe": {"learning_rate": 0.01, "epochs": 20},
        "steering": STEERING | changed,
    }


def peak(layer=2, mode="ab", coding="decorrelated"):
    """A recoverability summary as far as it is read."""
    place = {"layer": layer, "block": layer - 1, "depth": layer / 3, "mode": mode, "accuracy": 0.7}
    return {"codings": {coding: {"pick": {"global": place, "seeds": {"1729": place}}}}}
