"""LightGBM with two configurations and as many rounds as its own cross-validation finds: a peer for times."""

from __future__ import annotations

from boosting import LIGHT, light_fitted, light_parameters
from problem import Fitted, Problem, empty, log_of

MOST_ROUNDS, PATIENCE = 500, 25
# Above so many rows one inner split is as good as five and takes a fifth of the time.
ONE_SPLIT_ABOVE = 2_000


def two_configurations(problem: Problem) -> Fitted:
    """A small learning rate; size of the trees and number of rounds by `lightgbm.cv`; then fitted to all rows."""
    import lightgbm as lgb

    encoder = LIGHT.encoder(problem)
    Z, y, k = encoder.fit_transform(problem.X), problem.y, problem.n_classes
    splits = problem.splits if len(y) <= ONE_SPLIT_ABOVE else problem.splits[:1]
    candidates = []
    for config in LIGHT.first:
        found = lgb.cv(
            light_parameters(config, k),
            lgb.Dataset(Z, y, params={"verbose": -1}),
            num_boost_round=MOST_ROUNDS,
            folds=splits,
            callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
        )
        (losses,) = (values for name, values in found.items() if name.endswith("logloss-mean"))
        candidates.append((losses[-1], len(losses), config))
    _, rounds, config = min(candidates, key=lambda candidate: candidate[0])
    predict = light_fitted(config, Z, y, rounds, k, MOST_ROUNDS)
    chosen = {**config, "rounds": rounds}
    return Fitted(lambda X: log_of(predict(encoder.transform(X), rounds)), empty(problem), chosen)
