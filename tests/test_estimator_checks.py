"""scikit-learn's own checks: nothing is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from fanbayes import (
    AODEClassifier,
    BoostedNBClassifier,
    FANClassifier,
    FANClassifierCV,
    FMClassifier,
    MDAClassifier,
    MDLPDiscretizer,
    NBClassifier,
    NBTreeClassifier,
    TANClassifier,
)

ESTIMATORS = [
    NBClassifier(),
    NBClassifier(discretize="mdlp"),
    FANClassifier(),
    FANClassifier(n_components=2, mixing="per_class", algorithm="cem"),
    FANClassifier(variance_estimator="paper", discretize="mdlp"),
    FANClassifier(n_components=2, tree="full"),
    TANClassifier(),
    TANClassifier(tree="full", discretize="mdlp"),
    FMClassifier(),
    FANClassifierCV(effort="fast", cv=2),
    AODEClassifier(),
    BoostedNBClassifier(),
    BoostedNBClassifier(4, combination="votes"),
    MDAClassifier(),
    MDAClassifier(2, covariance_tying="class", algorithm="cem"),
    NBTreeClassifier(),
    NBTreeClassifier(split_score="accuracy", leaf="fan", shrinkage=0),
    MDLPDiscretizer(),
]


# scikit-learn's small random data have constant columns, or one class, and no clusters to converge on.
@pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*labelled cases are too few")
@parametrize_with_checks(ESTIMATORS)
def test_estimator_check(estimator, check):
    check(estimator)
