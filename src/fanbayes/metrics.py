"""The public name of `fanbayes.evaluation.metrics`."""

from fanbayes.evaluation.metrics import *  # noqa: F403
