"""The public name of `fanbayes.evaluation.metrics`, with `class_report` beside it."""

from fanbayes.evaluation.confusion import class_report  # noqa: F401
from fanbayes.evaluation.metrics import *  # noqa: F403
