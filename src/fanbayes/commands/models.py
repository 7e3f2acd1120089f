"""Classifiers by the names that the commands use."""

from __future__ import annotations

from typing import Any

from fanbayes.commands.options import Criterion, Model
from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier


def classifier(
    model: Model, criterion: Criterion, *, discretize: bool, components: int | None, seed: int, jobs: int | None
) -> NBClassifier | FMClassifier | FANClassifier:
    """A classifier, not fitted."""
    shared: dict[str, Any] = {"discretize": "mdlp" if discretize else "none", "n_jobs": jobs or -1}
    if model is Model.NB:
        return NBClassifier(**shared)
    shared |= {"n_components": components or "auto", "criterion": criterion.value, "random_state": seed}
    if model is Model.FM:
        return FMClassifier(**shared)
    return FANClassifier(mixing="per_class" if model is Model.FAN_PER_CLASS else "shared", **shared)
