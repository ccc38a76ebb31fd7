"""`nano`, the model this project pre-trains itself: its corpus, its tokenizer, its training run."""

from strataprobe.pretraining.train import pretrain

__all__ = ["pretrain"]
