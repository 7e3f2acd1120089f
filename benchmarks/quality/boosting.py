"""Boosted trees, their settings and number of rounds chosen by inner cross-validation within a time.

The libraries differ in how a model is fitted with rows to stop by, and how its first rounds predict; what is done with
that is the same for all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from calibration import mean_loss
from encoding import Categories, Filled, Texts, columns, for_forest
from problem import Fitted, Floats, Problem, Rows, calibrated_loss, empty, log_of
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

PATIENCE = 25
MOST_CONFIGURATIONS = 24
HOPELESS = 0.05  # a share of the best log loss: what is that far behind after some folds is given up
# LightGBM's own treatment of categories asks for 100 rows in a group of them, which small tables do not have.
OWN_CATEGORIES_FROM = 2_000
FEW_ROWS = 1_000

Config = Mapping[str, Any]
# Probabilities (n, n_classes) by the first so many rounds of a model.
Predict = Callable[[Any, int], Floats]


@dataclass(frozen=True)
class Library:
    """A library of boosted trees.

    Attributes
    ----------
    encoder : of tables, given the problem
    first : configurations to try first, the expert's
    others : values to draw the next configurations from
    most_rounds : on few rows, and on more
    stopped : (config, X, y, X_valid, y_valid, n_classes, most rounds) to how it predicts, and the best number of rounds
    fitted : (config, X, y, rounds, n_classes, most rounds) to how it predicts
    """

    encoder: Callable[[Problem], Any]
    first: tuple[Config, ...]
    others: Mapping[str, tuple[Any, ...]]
    most_rounds: tuple[int, int]
    stopped: Callable[..., tuple[Predict, int]]
    fitted: Callable[..., Predict]

    def configurations(self) -> Iterator[Config]:
        """The first ones, then random ones, the same ones every time."""
        yield from self.first
        rng = np.random.default_rng(0)
        while self.others:
            yield {name: values[rng.integers(len(values))] for name, values in self.others.items()}


def boosted(library: Library, problem: Problem) -> Fitted:
    """Try configurations until the time is over, at least one; then fit the best to all rows."""
    began = time.process_time()
    encoder = library.encoder(problem)
    Z, y, k = encoder.fit_transform(problem.X), problem.y, problem.n_classes
    best: tuple[float, Config, int, Floats] = (np.inf, {}, 0, empty(problem))
    for tried, config in enumerate(islice(library.configurations(), MOST_CONFIGURATIONS), start=1):
        found = _cross_validated(library, config, problem, Z, best[-1])
        if found is not None and found[0] < best[0]:
            best = found[0], config, *found[1:]
        # Another one would take about as long as these did on average.
        spent = time.process_time() - began
        if spent + 0.5 * spent / tried > problem.tuning_seconds:
            break
    _, config, rounds, held_out = best
    predict = library.fitted(config, Z, y, rounds, k, _most(library, problem))
    chosen = {**config, "rounds": rounds, "tried": tried}
    return Fitted(lambda X: log_of(predict(encoder.transform(X), rounds)), held_out, chosen)


def _cross_validated(
    library: Library, config: Config, problem: Problem, Z: Any, rival: Floats
) -> tuple[float, int, Floats] | None:
    """Log loss of held-out rows, number of rounds and scores of those rows; None once it falls behind a rival."""
    y, predictors = problem.y, []
    first = empty(problem)
    for train, valid in problem.splits:
        parts = _rows(Z, train), y[train], _rows(Z, valid), y[valid]
        predict, rounds = library.stopped(config, *parts, problem.n_classes, _most(library, problem))
        predictors.append((valid, predict, rounds))
        first[valid] = log_of(predict(_rows(Z, valid), rounds))
        seen = ~np.isnan(first).any(axis=1)
        if mean_loss(first[seen], y[seen]) > (1 + HOPELESS) * mean_loss(rival[seen], y[seen]):
            return None
    rounds = max(1, round(np.mean([best_round for *_, best_round in predictors])))
    held_out = empty(problem)
    for valid, predict, _ in predictors:
        held_out[valid] = log_of(predict(_rows(Z, valid), rounds))
    return calibrated_loss(held_out, y), rounds, held_out


def _most(library: Library, problem: Problem) -> int:
    few, many = library.most_rounds
    return few if len(problem.y) <= FEW_ROWS else many


def _rows(Z: Any, rows: Rows) -> Any:
    return Z.iloc[rows] if isinstance(Z, pd.DataFrame) else Z[rows]


def _own_categories(problem: Problem) -> Any:
    """Categories as the library has them, on large tables; else one-hot."""
    if len(problem.y) < OWN_CATEGORIES_FROM:
        return make_pipeline(Filled(), for_forest(problem.kinds))
    return make_pipeline(Filled(), Categories(columns(problem.kinds, "discrete")))


# ---------------------------------------------------------------- scikit-learn


def _hist_encoder(problem: Problem) -> Any:
    """Its own treatment of categories leaves out those of fewer than ten rows, so small tables are one-hot."""
    if len(problem.y) < OWN_CATEGORIES_FROM:
        return make_pipeline(for_forest(problem.kinds), FunctionTransformer(pd.DataFrame))
    return Categories(columns(problem.kinds, "discrete"))


def _hist_parameters(config: Config) -> dict[str, Any]:
    return {"random_state": 0, "early_stopping": False, "learning_rate": 0.1, **config}


def _hist_stopped(
    config: Config, X: Any, y: Rows, X_valid: Any, y_valid: Rows, k: int, most: int
) -> tuple[Predict, int]:
    from sklearn.ensemble import HistGradientBoostingClassifier

    usable = X.columns[X.notna().any()]  # it fails on a column without a value
    stop = {"early_stopping": True, "scoring": "loss", "n_iter_no_change": PATIENCE, "max_iter": most}
    model = HistGradientBoostingClassifier(**_hist_parameters(config) | stop)
    model.fit(X[usable], y, X_val=X_valid[usable], y_val=y_valid)

    def predict(Z: Any, rounds: int) -> Floats:
        return list(islice(model.staged_predict_proba(Z[usable]), rounds))[-1]

    return predict, max(1, int(np.argmax(model.validation_score_)))


def _hist_fitted(config: Config, X: Any, y: Rows, rounds: int, k: int, most: int) -> Predict:
    from sklearn.ensemble import HistGradientBoostingClassifier

    usable = X.columns[X.notna().any()]
    model = HistGradientBoostingClassifier(**_hist_parameters(config), max_iter=rounds).fit(X[usable], y)
    return lambda Z, _: model.predict_proba(Z[usable])


HIST = Library(
    encoder=_hist_encoder,
    first=({}, {"max_leaf_nodes": 7, "min_samples_leaf": 5, "l2_regularization": 1.0}),
    others={
        "learning_rate": (0.05, 0.1, 0.2),
        "max_leaf_nodes": (4, 7, 15, 31),
        "min_samples_leaf": (2, 5, 10, 20, 40),
        "l2_regularization": (0.0, 0.1, 1.0, 10.0),
        "max_features": (0.5, 1.0),
    },
    most_rounds=(500, 1_000),
    stopped=_hist_stopped,
    fitted=_hist_fitted,
)


# ---------------------------------------------------------------- LightGBM


def light_parameters(config: Config, k: int) -> dict[str, Any]:
    objective = {"objective": "binary"} if k == 2 else {"objective": "multiclass", "num_class": k}
    return {"learning_rate": 0.05, "num_threads": 1, "seed": 0, "verbose": -1, **objective, **config}


def _light_predict(model: Any) -> Predict:
    return lambda Z, rounds: _two_columns(model.predict(Z, num_iteration=rounds))


def _light_stopped(
    config: Config, X: Any, y: Rows, X_valid: Any, y_valid: Rows, k: int, most: int
) -> tuple[Predict, int]:
    import lightgbm

    data = lightgbm.Dataset(X, y, params={"verbose": -1})
    model = lightgbm.train(
        light_parameters(config, k),
        data,
        most,
        valid_sets=[data.create_valid(X_valid, y_valid)],
        callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
    )
    return _light_predict(model), model.best_iteration


def light_fitted(config: Config, X: Any, y: Rows, rounds: int, k: int, most: int) -> Predict:
    import lightgbm

    data = lightgbm.Dataset(X, y, params={"verbose": -1})
    return _light_predict(lightgbm.train(light_parameters(config, k), data, rounds))


LIGHT = Library(
    encoder=_own_categories,
    first=({"num_leaves": 31, "min_data_in_leaf": 20}, {"num_leaves": 7, "min_data_in_leaf": 5}),
    others={
        "learning_rate": (0.03, 0.05, 0.1),
        "num_leaves": (3, 7, 15, 31, 63),
        "min_data_in_leaf": (2, 5, 10, 20, 50),
        "feature_fraction": (0.4, 0.7, 1.0),
        "bagging_fraction": (0.6, 0.8, 1.0),
        "bagging_freq": (1,),
        "lambda_l2": (0.0, 1.0, 10.0),
    },
    most_rounds=(500, 1_000),
    stopped=_light_stopped,
    fitted=light_fitted,
)


# ---------------------------------------------------------------- XGBoost


def _xgb_parameters(config: Config, k: int) -> dict[str, Any]:
    objective = {"objective": "binary:logistic", "eval_metric": "logloss"}
    if k > 2:
        objective = {"objective": "multi:softprob", "eval_metric": "mlogloss", "num_class": k}
    return {"eta": 0.05, "tree_method": "hist", "nthread": 1, "seed": 0, "verbosity": 0, **objective, **config}


def _xgb_data(X: Any, y: Rows | None = None) -> Any:
    import xgboost

    return xgboost.DMatrix(X, y, enable_categorical=True, nthread=1)


def _xgb_predict(model: Any) -> Predict:
    def predict(Z: Any, rounds: int) -> Floats:
        return _two_columns(model.predict(_xgb_data(Z), iteration_range=(0, min(rounds, model.num_boosted_rounds()))))

    return predict


def _xgb_stopped(
    config: Config, X: Any, y: Rows, X_valid: Any, y_valid: Rows, k: int, most: int
) -> tuple[Predict, int]:
    import xgboost

    model = xgboost.train(
        _xgb_parameters(config, k),
        _xgb_data(X, y),
        most,
        evals=[(_xgb_data(X_valid, y_valid), "valid")],
        early_stopping_rounds=PATIENCE,
        verbose_eval=False,
    )
    return _xgb_predict(model), model.best_iteration + 1


def _xgb_fitted(config: Config, X: Any, y: Rows, rounds: int, k: int, most: int) -> Predict:
    import xgboost

    return _xgb_predict(xgboost.train(_xgb_parameters(config, k), _xgb_data(X, y), rounds))


XGB = Library(
    encoder=_own_categories,
    first=({"max_depth": 6}, {"max_depth": 3, "subsample": 0.8, "colsample_bytree": 0.7}),
    others={
        "eta": (0.03, 0.05, 0.1),
        "max_depth": (1, 2, 3, 4, 6, 8),
        "min_child_weight": (0.3, 1.0, 3.0, 10.0),
        "subsample": (0.6, 0.8, 1.0),
        "colsample_bytree": (0.4, 0.7, 1.0),
        "lambda": (0.3, 1.0, 5.0, 20.0),
    },
    most_rounds=(500, 1_000),
    stopped=_xgb_stopped,
    fitted=_xgb_fitted,
)


# ---------------------------------------------------------------- CatBoost


def _cat_model(k: int, **parameters: Any) -> Any:
    from catboost import CatBoostClassifier

    loss = "Logloss" if k == 2 else "MultiClass"
    quiet = {"verbose": False, "allow_writing_files": False, "thread_count": 1, "random_seed": 0}
    return CatBoostClassifier(loss_function=loss, **quiet, **parameters)


def _cat_pool(X: pd.DataFrame, y: Rows | None = None) -> Any:
    from catboost import Pool

    return Pool(X, y, cat_features=[name for name in X.columns if not pd.api.types.is_numeric_dtype(X[name])])


def _cat_predict(model: Any) -> Predict:
    return lambda Z, rounds: model.predict_proba(_cat_pool(Z), ntree_end=min(rounds, model.tree_count_))


def _cat_stopped(
    config: Config, X: Any, y: Rows, X_valid: Any, y_valid: Rows, k: int, most: int
) -> tuple[Predict, int]:
    model = _cat_model(k, iterations=most, use_best_model=False, **config)
    model.fit(_cat_pool(X, y), eval_set=_cat_pool(X_valid, y_valid), early_stopping_rounds=PATIENCE)
    return _cat_predict(model), model.get_best_iteration() + 1


def _cat_fitted(config: Config, X: Any, y: Rows, rounds: int, k: int, most: int) -> Predict:
    # Of itself it would take larger steps where there are fewer rounds.
    step = _cat_step(config, X, y, k, most)
    return _cat_predict(_cat_model(k, iterations=rounds, learning_rate=step, **config).fit(_cat_pool(X, y)))


def _cat_step(config: Config, X: Any, y: Rows, k: int, most: int) -> float:
    """The learning rate that it chooses by itself for as many rounds as the search had."""
    model = _cat_model(k, iterations=most, **config)
    model.fit(_cat_pool(X, y), callbacks=[_stop_at_once()])
    return float(model.get_all_params()["learning_rate"])


def _stop_at_once() -> Any:
    class Stop:
        def after_iteration(self, info: Any) -> bool:
            return False

    return Stop()


CAT = Library(
    encoder=lambda problem: make_pipeline(Filled(), Texts(columns(problem.kinds, "discrete"))),
    first=(
        {
            "border_count": 64,
            "one_hot_max_size": 16,
            "boosting_type": "Plain",
            "max_ctr_complexity": 1,
        },
    ),
    others={},
    most_rounds=(200, 1_000),
    stopped=_cat_stopped,
    fitted=_cat_fitted,
)


def _two_columns(proba: Floats) -> Floats:
    """Of two classes some libraries give the second only."""
    return np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
