"""The study's config: what may stand in it, what is wrong with it, what it means."""

from strataprobe.config.faults import check
from strataprobe.config.models import StudyConfig
from strataprobe.config.study import ELSEWHERE, Model, Revision, Study

__all__ = ["ELSEWHERE", "Model", "Revision", "Study", "StudyConfig", "check"]
