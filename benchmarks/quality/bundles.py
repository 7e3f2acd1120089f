"""The classifiers that are compared, each on one thread. A bundle is what one task fits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from apart import Failed, apart
from boosting import CAT, HIST, LIGHT, XGB, boosted
from calibration import calibrate
from ebm import ebm
from forests import extra_trees, forest
from linear import logistic
from problem import Fitted, Floats, Peer, Problem, empty
from scenarios import TestPart
from settings import MOST_SECONDS
from stack import pooled, weights
from svm import svm
from two_configurations import two_configurations
from weka_peers import weka_aode, weka_lmt

import fanbayes

# Each is calibrated on rows held out, and together they are the stack.
PEERS: dict[str, Peer] = {
    "logistic": logistic,
    "svm": svm,
    "forest": forest,
    "extra_trees": extra_trees,
    "boosting": partial(boosted, HIST),
    "lightgbm": partial(boosted, LIGHT),
    "xgboost": partial(boosted, XGB),
    "catboost": partial(boosted, CAT),
    "ebm": ebm,
}
LIBRARIES = ("lightgbm", "xgboost", "catboost", "interpret.glassbox", "fanbayes.estimators.fan_cv")
MARGINS = ("svm",)  # what they score by needs an offset for each class


def ours(name: str, **parameters: Any) -> Peer:
    """A classifier of the library with its defaults."""
    of = getattr(fanbayes, name)

    def fit(problem: Problem) -> Fitted:
        settings = {"n_jobs": 1, "random_state": 0, **parameters}
        takes = of().get_params()
        model = of(**{key: value for key, value in settings.items() if key in takes}).fit(problem.X, problem.y)
        size = getattr(model, "n_components_", None)
        chosen = {"n_components": int(size)} if isinstance(size, int | np.integer) else {}
        return Fitted(model.predict_log_proba, empty(problem), chosen)

    return fit


# Each is a bundle of its own; ours are taken as they are.
ALONE: dict[str, Peer] = {
    "nb": ours("NBClassifier"),
    "fm": ours("FMClassifier"),
    "fan": ours("FANClassifier"),
    "tan": ours("TANClassifier"),
    "aode": ours("AODEClassifier"),
    "nbtree": ours("NBTreeClassifier"),
    "boosted_nb": ours("BoostedNBClassifier"),
    "fan_cv": ours("FANClassifierCV"),
    "lightgbm_two": two_configurations,
    "weka_aode": weka_aode,
    "weka_lmt": weka_lmt,
}
CALIBRATED = ("weka_aode", "weka_lmt")

BUNDLES: dict[str, tuple[str, ...]] = {"peers": (*PEERS, "stack")} | {name: (name,) for name in ALONE}


@dataclass(frozen=True)
class Found:
    """What a method says of the test part.

    Attributes
    ----------
    log_proba : of each scenario, log-probabilities (n, n_classes)
    held_out : of training rows, after calibration (n_train, n_classes)
    fit_seconds, predict_seconds : of the processor, tuning included; prediction is that of the first scenario
    chosen : what was tuned
    """

    log_proba: Mapping[str, Floats]
    held_out: Floats = field(repr=False)
    fit_seconds: float
    predict_seconds: float
    chosen: Mapping[str, Any]


def run_bundle(bundle: str, problem: Problem, parts: Mapping[str, TestPart]) -> dict[str, Found | str]:
    """What each method of a bundle has found, or why it has failed."""
    _import(LIBRARIES)
    if bundle in ALONE:
        measure = partial(_calibrated, offsets=False) if bundle in CALIBRATED else _plain
        return {bundle: _one(partial(measure, ALONE[bundle], problem, parts))}
    found = {name: _one(partial(_calibrated, peer, problem, parts, name in MARGINS)) for name, peer in PEERS.items()}
    members = {name: one for name, one in found.items() if isinstance(one, Found)}
    return found | {"stack": _stack(members, problem, parts) if members else "all of its members have failed"}


def _import(modules: Iterable[str]) -> None:
    """Import what methods need before the fork, so that no fit is charged with it; what is not there fails later."""
    for name in modules:
        if find_spec(name.partition(".")[0]) is not None:
            import_module(name)


def _one(function: Callable[[], Found]) -> Found | str:
    try:
        return apart(function, MOST_SECONDS)
    except Failed as error:
        return str(error)


def _plain(peer: Peer, problem: Problem, parts: Mapping[str, TestPart]) -> Found:
    return _measured(peer, problem, parts, lambda fitted: lambda scores: scores)


def _calibrated(peer: Peer, problem: Problem, parts: Mapping[str, TestPart], offsets: bool) -> Found:
    def calibration(fitted: Fitted) -> Callable[[Floats], Floats]:
        some = ~np.isnan(fitted.held_out).any(axis=1)
        return calibrate(fitted.held_out[some], problem.y[some], offsets=offsets)

    return _measured(peer, problem, parts, calibration)


def _measured(
    peer: Peer,
    problem: Problem,
    parts: Mapping[str, TestPart],
    calibration: Callable[[Fitted], Callable[[Floats], Floats]],
) -> Found:
    began = time.process_time()
    fitted = peer(problem)
    to_log_proba = calibration(fitted)
    done = time.process_time()
    log_proba, seconds = {}, []
    for scenario, part in parts.items():
        begin = time.process_time()
        log_proba[scenario] = to_log_proba(np.asarray(fitted.scores(part.X), np.float64))
        seconds.append(time.process_time() - begin)
    some = ~np.isnan(fitted.held_out).any(axis=1)
    held_out = empty(problem)
    held_out[some] = to_log_proba(fitted.held_out[some])
    return Found(log_proba, held_out, done - began, seconds[0], fitted.chosen)


def _stack(members: Mapping[str, Found], problem: Problem, parts: Mapping[str, TestPart]) -> Found:
    began = time.process_time()
    weight = weights({name: one.held_out for name, one in members.items()}, problem.y)
    seconds = time.process_time() - began
    log_proba = {
        scenario: pooled({name: one.log_proba[scenario] for name, one in members.items()}, weight) for scenario in parts
    }
    return Found(
        log_proba,
        empty(problem),
        seconds + sum(one.fit_seconds for one in members.values()),
        sum(one.predict_seconds for one in members.values()),
        {"weights": {name: round(w, 4) for name, w in weight.items()}},
    )
