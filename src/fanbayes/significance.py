"""The public name of `fanbayes.evaluation.significance`."""

from fanbayes.evaluation.significance import *  # noqa: F403
