"""Controls on probes: what accuracy would be without the property, or with other words."""

from strataprobe.controls.measure import measure
from strataprobe.controls.validity import adversarial_transfer, matched_items, paraphrase_transfer

__all__ = ["adversarial_transfer", "matched_items", "measure", "paraphrase_transfer"]
