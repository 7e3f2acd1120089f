"""NB, FM and FAN as the studies of the paper fit and judge them, and their relatives."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline

from fanbayes.estimators.aode import AODEClassifier
from fanbayes.estimators.boosted_nb import BoostedNBClassifier
from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier
from fanbayes.estimators.criteria import fit_by_criteria
from fanbayes.estimators.discretizer import MDLPDiscretizer
from fanbayes.estimators.mda import MDAClassifier
from fanbayes.estimators.nb_tree import NBTreeClassifier
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.estimators.tan import TANClassifier
from fanbayes.learning.scores import Criterion
from fanbayes.study.cards import Card, Version
from fanbayes.study.outcomes import quality
from fanbayes.study.records import Record

Model: TypeAlias = Literal["NB", "FM", "FAN"]
PresetName: TypeAlias = Literal["paper", "default"]
Classifier: TypeAlias = NBClassifier | FMClassifier | FANClassifier

MODELS: Mapping[Model, type[Classifier]] = {"NB": NBClassifier, "FM": FMClassifier, "FAN": FANClassifier}
# All that can be compared with the library's defaults: the class, and what sets a model apart from others of the class.
RELATIVES: Mapping[str, tuple[type[TableClassifier], Mapping[str, Any]]] = {
    "NB": (NBClassifier, {}),
    "FM": (FMClassifier, {}),
    "FAN": (FANClassifier, {}),
    "FAN tree": (FANClassifier, {"tree": "forest"}),
    "TAN": (TANClassifier, {}),
    "AODE": (AODEClassifier, {}),
    "Boosted NB": (BoostedNBClassifier, {}),
    "MDA": (MDAClassifier, {}),
    "NBTree": (NBTreeClassifier, {}),
}
CRITERIA: tuple[Criterion, ...] = ("icl", "bic", "aic", "cs")
AFTER_CEM = "icl_cem"  # ICL of each candidate after CEM continued from EM

_ESTIMATION = {"variance_estimator": "paper", "alpha": 1.0, "algorithm": "em", "max_iter": 1000, "tol": 1e-6}
_SELECTION = {"criterion": "icl", "n_init": 8, "patience": 2}
PAPER: Mapping[Model, Mapping[str, Any]] = {
    "NB": _ESTIMATION,
    "FM": {**_ESTIMATION, **_SELECTION, "max_components": "10 + 2 per class"},
    "FAN": {**_ESTIMATION, **_SELECTION, "mixing": "shared", "max_components": 10},
}


def most_components(model: Model, n_classes: int) -> int:
    """How far the search goes, in both presets."""
    return {"NB": 1, "FM": 10 + 2 * n_classes, "FAN": 10}[model]


def classifier(model: Model, preset: PresetName, version: Version, n_classes: int, seed: int) -> Classifier:
    """One of the three classifiers, not fitted, on one thread."""
    parameters: dict[str, Any] = dict(PAPER[model]) if preset == "paper" else {}
    if model != "NB":
        parameters |= {"random_state": seed, "max_components": most_components(model, n_classes)}
    discretize: Any = "mdlp" if version == "discretised" else "none"
    return MODELS[model](discretize=discretize, n_jobs=1, **parameters)


def relative(model: str, version: Version, seed: int) -> Any:
    """A model with the library's defaults, not fitted, on one thread; numbers are cut by the classifier if it can."""
    of, own = RELATIVES[model]
    takes = of().get_params()
    cut = version == "discretised"
    settings: dict[str, Any] = {"n_jobs": 1, "random_state": seed} | ({"discretize": "mdlp"} if cut else {})
    made = of(**own, **{name: value for name, value in settings.items() if name in takes})
    return make_pipeline(MDLPDiscretizer(), made) if cut and "discretize" not in takes else made


def presets() -> dict[str, Any]:
    """Parameters of both presets, for the settings of a study."""
    varied = ("random_state", "discretize", "n_jobs", "verbose")
    default = {m: {k: v for k, v in c().get_params().items() if k not in varied} for m, c in MODELS.items()}
    return {"paper": {m: dict(p) for m, p in PAPER.items()}, "default": default}


def cost(card: Card, n_rows: int, most: int, preset: PresetName) -> float:
    """Rows x columns x sizes x states of a row, calibrated on one machine."""
    work = n_rows * (card.n_discrete + 2 * card.n_continuous) * most**2
    return (0.02 + 5e-8 * work) * (1.0 if preset == "paper" else 0.6)


def seed_of(*origin: int | str) -> int:
    """Seed of one thing, whatever else is run."""
    entropy = [int.from_bytes(part.encode(), "little") if isinstance(part, str) else part for part in origin]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)


def learn(model: Classifier, X: Any, y: Any, criteria: tuple[str, ...]) -> dict[str, tuple[Classifier, Record]]:
    """Fit once; for each criterion the classifier it chooses and the seconds it would have taken alone.

    A criterion alone would have gone on for `patience` sizes beyond its choice; with CEM, all of them twice. The
    seconds of the search are those without reading the table.
    """
    began, cpu = time.perf_counter(), time.process_time()
    if criteria == ("none",):
        chosen: dict[str, Any] = {"none": model.fit(X, y)}
    else:
        scores = tuple(score for score in CRITERIA if score in criteria)
        chosen = fit_by_criteria(model, X, y, scores, cem=AFTER_CEM in criteria)
    elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu
    plain = next(iter(chosen.values()))
    em, sizes = np.array(plain.selection_["seconds"]), np.array(plain.selection_["n_components"])
    cem = np.array(chosen[AFTER_CEM].selection_["seconds"]) if AFTER_CEM in chosen else np.zeros_like(em)
    learnt = {}
    for name, fit in chosen.items():
        needed = sizes <= fit.n_components_ + getattr(fit, "patience", 0)
        spent = em[needed].sum() + (cem[needed].sum() if name == AFTER_CEM else 0.0)
        share = (elapsed - em.sum() - cem.sum() + spent) / elapsed
        learnt[name] = (
            fit,
            {
                "n_components": int(fit.n_components_),
                "capped": fit.n_components_ == getattr(fit, "max_components", None),
                "converged": bool(fit.converged_),
                "fit_seconds": round(cpu * share, 6),
                "search_seconds": round(cpu * float(spent) / elapsed, 6),
            },
        )
    return learnt


def assess(
    learnt: dict[str, tuple[Classifier, Record]], X: Any, y: NDArray[Any], classes: list[str]
) -> dict[str, Record]:
    """Facts of each classifier and how good its predictions are; criteria that agree share them."""
    known: dict[int, Record] = {}
    for fit, _ in learnt.values():
        if id(fit.network_) not in known:
            known[id(fit.network_)] = judge(fit, X, y, classes)
    return {name: facts | known[id(fit.network_)] for name, (fit, facts) in learnt.items()}


def judge(model: Any, X: Any, y: NDArray[Any], classes: list[str]) -> Record:
    """Measures of the predictions, and the seconds they took."""
    cpu = time.process_time()
    log_proba = model.predict_log_proba(X)
    seconds = round(time.process_time() - cpu, 6)
    return quality(y, log_proba, model.classes_, classes) | {"predict_seconds": seconds}
