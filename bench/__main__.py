"""Run all comparisons, or those named, and print what they found."""

import argparse
import sys
from pathlib import Path

from bench import outcome
from bench.setup import setup

NAMES = (
    "whole",
    "capture",
    "probes",
    "offload",
    "recoverability",
    "routing",
    "patching",
    "lora",
    "exact",
    "dag",
    "noop",
    "size",
)


def run(name: str, arguments: argparse.Namespace) -> outcome.Outcome:
    """One comparison; each imports only what it needs."""
    if name in ("whole", "capture"):
        from bench import forward, whole

        chosen = setup(arguments.checkpoint, arguments.dataset, arguments.threads)
        return whole.measure(chosen) if name == "whole" else forward.measure(chosen)
    if name == "probes":
        from bench import solver

        return solver.measure(arguments.threads)
    if name == "recoverability":
        from bench import recoverability

        return recoverability.measure()
    if name == "routing":
        from bench import routing

        return routing.measure()
    if name in ("offload", "patching"):
        from bench import offload, patching

        chosen = setup(arguments.checkpoint, arguments.dataset, arguments.threads)
        return offload.measure(chosen) if name == "offload" else patching.measure(chosen)
    if name == "lora":
        from bench import lora

        return lora.measure(setup(arguments.checkpoint, arguments.dataset, arguments.threads))
    if name == "exact":
        from bench import closed_form

        return closed_form.measure()
    if name == "size":
        from bench import size

        return size.measure()
    from bench import study

    return study.measure_dag() if name == "dag" else study.measure_noop()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(NAMES)}; without any, all of them")
    parser.add_argument(
        "--checkpoint", help="directory of SmolLM2-135M-Instruct (default: the default study's)"
    )
    parser.add_argument("--dataset", help="pairs to capture (default: the moral pairs)")
    parser.add_argument("--threads", type=int, default=2, help="of both sides of a comparison")
    parser.add_argument("--out", type=Path, help="write the page for the docs there, too")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in NAMES]
    if unknown:
        parser.error(f"{', '.join(unknown)}: unknown; the comparisons are {', '.join(NAMES)}")
    outcomes = []
    for name in arguments.names or NAMES:
        outcomes.append(run(name, arguments))
        print(outcome.as_text(outcomes[-1:]), flush=True)
    facts = outcome.machine_facts(arguments.threads)
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    if arguments.out:
        arguments.out.write_text(outcome.as_markdown(outcomes, facts), encoding="utf-8")
    return 1 if any(found.passed is False for found in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
