"""Classifiers by the names that the commands use."""

from __future__ import annotations

from typing import Any

from fanbayes.commands.options import Model
from fanbayes.estimators.aode import AODEClassifier
from fanbayes.estimators.boosted_nb import BoostedNBClassifier
from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier
from fanbayes.estimators.fan_cv import FANClassifierCV
from fanbayes.estimators.mda import MDAClassifier
from fanbayes.estimators.nb_tree import NBTreeClassifier
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.estimators.tan import TANClassifier

# The class of each model, and what sets it apart from others of the class.
_MODELS: dict[Model, tuple[type[TableClassifier], dict[str, Any]]] = {
    Model.NB: (NBClassifier, {}),
    Model.FM: (FMClassifier, {}),
    Model.FAN: (FANClassifier, {}),
    Model.FAN_PER_CLASS: (FANClassifier, {"mixing": "per_class"}),
    Model.FAN_TREE: (FANClassifier, {"tree": "forest"}),
    Model.FAN_CV: (FANClassifierCV, {}),
    Model.TAN: (TANClassifier, {}),
    Model.BOOSTED_NB: (BoostedNBClassifier, {}),
    Model.AODE: (AODEClassifier, {}),
    Model.MDA: (MDAClassifier, {}),
    Model.NBTREE: (NBTreeClassifier, {}),
}
# Those that learn from rows in memory only.
IN_MEMORY = {Model.BOOSTED_NB, Model.NBTREE}


def takes(model: Model, parameter: str) -> bool:
    """Whether a model has a parameter."""
    return parameter in _MODELS[model][0]().get_params()


def classifier(model: Model, **settings: Any) -> TableClassifier:
    """A classifier, not fitted, with those of the settings that it takes; None is its own default."""
    of, own = _MODELS[model]
    return of(**own, **{name: v for name, v in settings.items() if v is not None and takes(model, name)})
