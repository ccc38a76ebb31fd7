"""Fetch a corpus by its address; kept only where its checksum is the config's."""

from strataprobe.curation import fetching
from strataprobe.logs import counted, job_log


def main(address, sha256, path, *, name):
    with counted(desc=f"bytes of corpus {name}", unit="B") as shown:
        fetching.fetch_known(address, sha256, path, field=f"corpora.{name}.sha256", progress=shown)


if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        corpus = snakemake.params.corpus
        main(corpus["address"], corpus["sha256"], snakemake.output[0], name=corpus["name"])
