"""Read published result files into the summaries that tables and figures take."""

from strataprobe import files
from strataprobe.errors import StrataprobeError, listing
from strataprobe.logs import job_log
from strataprobe.published.files import read_directory


def main(outputs, *, directory, model, dataset, seed, revisions, layers):
    found = read_directory(directory, dataset=dataset, model=model, seed=seed)
    read = {"probes": found.probing, "fragility": found.fragility}
    by_revision = {kind: {summary["revision"]: summary for summary in read[kind]} for kind in outputs}
    faults = [
        f"{revision}: no {kind} result; there are {', '.join(there) or 'none'}"
        for kind, there in by_revision.items()
        for revision in revisions
        if revision not in there
    ]
    faults += [
        f"{revision}: {kind} of {len(there[revision]['layer_scores'])} layers, and the study says {layers}"
        for kind, there in by_revision.items()
        for revision in revisions
        if revision in there and len(there[revision]["layer_scores"]) != layers
    ]
    if faults:
        raise StrataprobeError(listing(f"published files in {directory}", faults))
    for kind, paths in outputs.items():
        for revision, path in zip(revisions, paths, strict=True):
            files.write_json(path, by_revision[kind][revision])


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        outputs = {
            kind: [paths] if isinstance(paths, str) else paths for kind, paths in snakemake.output.items()
        }
        main(outputs, **snakemake.params.published)
