"""Where every artifact lies. No other place in the project spells a path under `results/`.

Each method takes names, or the literal text of a Snakemake wildcard such as "{revision}", and returns a
path relative to the working directory.
"""

from collections.abc import Sequence
from dataclasses import dataclass

DEFAULT_STUDY = "default"


def layer_name(layer: int | str) -> str:
    """Two digits for a number (`7` is "07"); a wildcard's text stays as it is."""
    return f"{layer:02d}" if isinstance(layer, int) else layer


def by_checkpoint(paths: Sequence[str], checkpoints: int) -> list[list[str]]:
    """Paths of every layer of several checkpoints, one after the other, as a list a checkpoint.

    Raises:
        ValueError: the checkpoints cannot all have as many.
    """
    each, rest = divmod(len(paths), checkpoints)
    if rest:
        raise ValueError(f"{len(paths)} paths are not the same number for each of {checkpoints} checkpoints")
    return [list(paths[first : first + each]) for first in range(0, len(paths), each)]


@dataclass(frozen=True)
class Layout:
    """The places of one study. Identities and weights are shared by all studies of a working directory."""

    study: str = DEFAULT_STUDY
    base: str = "results"

    @property
    def root(self) -> str:
        return self.base if self.study == DEFAULT_STUDY else f"{self.base}/studies/{self.study}"

    @property
    def _beside(self) -> str:
        """Prefix of a study's logs and benchmarks, so that two studies never share a log."""
        return "" if self.study == DEFAULT_STUDY else f"studies/{self.study}/"

    # checkpoints

    def checkpoint(self, model: str, revision: str) -> str:
        """Folder of a revision's weights that this workflow made."""
        return f"{self.base}/checkpoints/{model}/{revision}"

    def identity(self, model: str, revision: str) -> str:
        return f"{self.base}/checkpoints/{model}/{revision}.json"

    def weights(self, model: str, revision: str) -> str:
        return f"{self.checkpoint(model, revision)}/model.safetensors"

    def adapter(self, model: str, revision: str) -> str:
        """Weights of a fine-tuned revision's LoRA adapter, whose settings lie beside it."""
        return f"{self.checkpoint(model, revision)}/adapter_model.safetensors"

    def adapter_config(self, model: str, revision: str) -> str:
        return f"{self.checkpoint(model, revision)}/adapter_config.json"

    def corpus_card(self, model: str) -> str:
        """What a model was fine-tuned on, counted by its own tokenizer."""
        return f"{self.base}/checkpoints/{model}/corpus.json"

    def book(self, name: str) -> str:
        """A corpus that was fetched from its address, as it was there."""
        return f"{self.base}/corpora/{name}.txt"

    def released(self, model: str, revision: str) -> str:
        """Note that a study is done with a revision's weights, so that what it fetched of them is dropped."""
        return f"{self.root}/released/{model}/{revision}.json"

    def loss_curve(self, model: str) -> str:
        return f"{self.base}/checkpoints/{model}/loss.csv"

    def perplexity(self, model: str, revision: str) -> str:
        """How a checkpoint predicts a fixed text: a study's own, since its text and dtype are."""
        return f"{self.root}/checkpoints/{model}/{revision}.perplexity.json"

    # measures

    def activations(self, model: str, revision: str, dataset: str) -> str:
        return f"{self.root}/activations/{model}/{revision}/{dataset}.h5"

    def measure(self, kind: str, model: str, revision: str, dataset: str, seed: int | str, name: str) -> str:
        """A file of one (model, revision, dataset, seed): `kind` is "probes", "fragility", ..."""
        return f"{self.root}/{kind}/{model}/{revision}/{dataset}/seed{seed}/{name}"

    def layer(
        self, kind: str, model: str, revision: str, dataset: str, seed: int | str, layer: int | str
    ) -> str:
        return self.measure(kind, model, revision, dataset, seed, f"layer{layer_name(layer)}.json")

    def whole(self, kind: str, model: str, revision: str, dataset: str) -> str:
        """The file of a measure that needs no seed: `kind` is "transfer", ..."""
        return f"{self.root}/{kind}/{model}/{revision}/{dataset}/summary.json"

    def predictions(self, model: str, revision: str, dataset: str) -> str:
        """Every prediction behind the cells of a routing study."""
        return f"{self.root}/routing/{model}/{revision}/{dataset}/predictions.h5"

    def scores(self, model: str, revision: str, dataset: str) -> str:
        """Every score that the behaviour on control items rests on, a row a candidate."""
        return f"{self.root}/behavior/{model}/{revision}/{dataset}/items.csv"

    def runs(self, kind: str, model: str, revision: str, dataset: str) -> str:
        """Every run of an intervention, a row each: `kind` is "patching", ..."""
        return f"{self.root}/{kind}/{model}/{revision}/{dataset}/runs.csv"

    def tuned_lens(self, model: str, revision: str) -> str:
        """The affine maps of a tuned lens, one a block."""
        return f"{self.root}/lenses/{model}/{revision}.safetensors"

    # datasets, whatever the model

    def gates(self, dataset: str) -> str:
        return f"{self.root}/datasets/{dataset}/gates.json"

    def floors(self, dataset: str) -> str:
        return f"{self.root}/datasets/{dataset}/floors.json"

    # what people look at

    def table(self, name: str) -> str:
        return f"{self.root}/tables/{name}.csv"

    def table_part(self, name: str, model: str, dataset: str) -> str:
        """The rows of one (model, dataset): what a figure waits for, instead of the whole study."""
        return f"{self.root}/tables/parts/{name}/{model}/{dataset}.csv"

    def checkpoints_part(self, model: str) -> str:
        """The rows of one model in the table of checkpoints, which are of no dataset."""
        return f"{self.root}/tables/parts/checkpoints/{model}.csv"

    def page(self, name: str) -> str:
        """A table as a page to read."""
        return f"{self.root}/tables/{name}.html"

    def paper_table(self, name: str, extension: str = "csv") -> str:
        """A table in the form of a paper's, the published numbers beside ours; as a page with "html"."""
        return f"{self.root}/tables/paper/{name}.{extension}"

    def figure(self, name: str, extension: str) -> str:
        return f"{self.root}/figures/{name}.{extension}"

    @property
    def report(self) -> str:
        return f"{self.root}/report.html"

    # what a job leaves beside its results

    def log(self, rule: str, *parts: str) -> str:
        return f"logs/{self._beside}{'/'.join([rule, *parts])}.log"

    def benchmark(self, rule: str, *parts: str) -> str:
        return f"{self.base}/benchmarks/{self._beside}{'/'.join([rule, *parts])}.tsv"

    @property
    def benchmarks(self) -> str:
        return f"{self.base}/benchmarks/{self._beside}".rstrip("/")

    def scratch(self, name: str) -> str:
        """State to resume from; never an output, so a failed job does not lose it."""
        return f"scratch/{name}"
