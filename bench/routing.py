"""Probes of many classes with their folds: one batched solve against a loop of scikit-learn fits."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from bench.outcome import Outcome, best_of
from strataprobe.probes.multinomial import predict, solve_multinomial
from strataprobe.routing.fits import stratified_folds

NAME = "routing"
QUESTION = (
    "Multinomial probes of 15 words from 50 unscaled states each (576 dimensions), 10 of them with 5 folds "
    "(60 fits), on one core: one batched solve against a loop over scikit-learn's fits. The loop runs a "
    "sample, its time is scaled up: with the solver newton-cg, and with lbfgs, the default, which stops "
    "earlier. Predictions are of as many states that no probe was trained on."
)
REQUIRED = "at least 5 times as fast as newton-cg, all predictions equal to its own"
LEAST = 5
TOLERANCE = 1e-8
FOLDS = 5
SCIKIT_LEARN = {"newton-cg": {"tol": 1e-8, "max_iter": 1000}, "lbfgs": {"tol": 1e-8, "max_iter": 100_000}}


def measure(
    shape: tuple[int, int, int, int] = (10, 15, 50, 576), sample: int = 3, repeats: int = 2
) -> Outcome:
    """Compare times and predictions.

    Args:
        shape: problems, words, stimuli a word, and dimensions.
        sample: fits that the loop runs with each solver.
    """
    problems, words = shape[:2]
    states, labels = made_up(shape, seed=0)
    asked, _ = made_up(shape, seed=1)
    fold = stratified_folds(labels, FOLDS, seed=0)
    used = np.concatenate([np.ones((1, len(fold)), bool), fold != np.arange(FOLDS)[:, None]])
    rng = np.random.default_rng(0)
    chosen = [
        divmod(one, len(used)) for one in rng.choice(problems * len(used), sample, replace=False).tolist()
    ]
    found: dict[str, Any] = {}

    def batched() -> None:
        weights = np.broadcast_to(used, (problems, *used.shape))
        found["batched"] = solve_multinomial(
            states, labels, classes=words, C=1.0, tolerance=TOLERANCE, max_iterations=100, weights=weights
        )

    def loop(solver: str) -> Callable[[], None]:
        def run() -> None:
            found[solver] = [fitted(solver, states[one][used[fit]], labels[used[fit]]) for one, fit in chosen]

        return run

    with threadpool_limits(1):
        seconds = best_of(repeats, {"batched": batched, **{solver: loop(solver) for solver in SCIKIT_LEARN}})
    coefficients, intercepts, _ = found["batched"]
    ours = predict(asked, coefficients.swapaxes(0, 1), intercepts.swapaxes(0, 1))  # (fits, problems, items)
    numbers = {f"batched, {problems * len(used)} fits": f"{seconds['batched']:.2f} s"}
    differing = {}
    for solver in SCIKIT_LEARN:
        whole = seconds[solver] * problems * len(used) / sample
        pairs = zip(found[solver], chosen, strict=True)
        differing[solver] = sum(
            int((model.predict(asked[one].astype(float)) != ours[fit, one]).sum())
            for model, (one, fit) in pairs
        )
        numbers |= {
            f"{solver}, {sample} fits": f"{seconds[solver]:.2f} s",
            f"{solver}, scaled to {problems * len(used)} fits": f"{whole:.0f} s",
            f"times as fast as {solver}": f"{whole / seconds['batched']:.1f}",
            f"predictions that differ from {solver}'s": f"{differing[solver]} of {sample * len(labels)}",
        }
    fast = seconds["newton-cg"] * problems * len(used) / sample >= LEAST * seconds["batched"]
    return Outcome(NAME, QUESTION, REQUIRED, fast and differing["newton-cg"] == 0, numbers)


def fitted(solver: str, states: np.ndarray, labels: np.ndarray) -> LogisticRegression:
    """scikit-learn's probe; that it stops where it can go no further is part of what is compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return LogisticRegression(solver=solver, **SCIKIT_LEARN[solver]).fit(states.astype(float), labels)


def made_up(shape: tuple[int, int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(problems, stimuli of all words, dimensions) float32 of a residual stream's make, and each one's word.

    Words and templates have vectors of their own, the same for any seed. Dimensions fall off in width, two
    are far wider than all others, and all states share a mean.
    """
    problems, words, stimuli, hidden = shape
    fixed, drawn = np.random.default_rng(7), np.random.default_rng(seed)
    widths = 20 * np.arange(1, hidden + 1) ** -0.5
    widths[:2] *= 5
    mean = fixed.standard_normal((problems, 1, hidden))
    word = fixed.standard_normal((problems, words, 1, hidden))
    template = fixed.standard_normal((problems, 1, stimuli, hidden))
    own = drawn.standard_normal((problems, words, stimuli, hidden))
    states = (0.3 * word + template + own).reshape(problems, words * stimuli, hidden)
    return (widths * (states + mean)).astype(np.float32), np.repeat(np.arange(words), stimuli)
