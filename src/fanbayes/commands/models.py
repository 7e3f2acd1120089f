"""Classifiers by the names that the commands use."""

from __future__ import annotations

from typing import Any

from fanbayes.commands.options import Criterion, Effort, Model
from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier
from fanbayes.estimators.fan_cv import FANClassifierCV


def classifier(
    model: Model,
    criterion: Criterion,
    effort: Effort,
    *,
    discretize: bool,
    components: int | None,
    seed: int,
    jobs: int | None,
) -> NBClassifier | FMClassifier | FANClassifier | FANClassifierCV:
    """A classifier, not fitted; the average tries out what the others are told."""
    if model is Model.FAN_CV:
        return FANClassifierCV(effort=effort.value, random_state=seed, n_jobs=jobs or -1)
    shared: dict[str, Any] = {"discretize": "mdlp" if discretize else "none", "n_jobs": jobs or -1}
    if model is Model.NB:
        return NBClassifier(**shared)
    shared |= {"n_components": components or "auto", "criterion": criterion.value, "random_state": seed}
    if model is Model.FM:
        return FMClassifier(**shared)
    return FANClassifier(mixing="per_class" if model is Model.FAN_PER_CLASS else "shared", **shared)
