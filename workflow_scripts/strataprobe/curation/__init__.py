"""Data curation: corpora, LoRA fine-tuning of a checkpoint on them, and the checkpoints derived so.

Source: fragility paper, section 4.3; LoRA by peft (Hu et al., 2022).
"""
