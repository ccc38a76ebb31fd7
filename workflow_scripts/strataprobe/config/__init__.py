"""The study's config: what may stand in it, what is wrong with it, what it means."""

from strataprobe.config.drawn import MEASURE_OF
from strataprobe.config.faults import check
from strataprobe.config.models import StudyConfig
from strataprobe.config.study import ELSEWHERE, KIND_OF, Model, Revision, Study

__all__ = ["ELSEWHERE", "KIND_OF", "MEASURE_OF", "Model", "Revision", "Study", "StudyConfig", "check"]
