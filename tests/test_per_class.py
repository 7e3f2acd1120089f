"""A number of components for each class."""

from dataclasses import replace

import numpy as np
import pytest

from fanbayes import FANClassifier, load, save
from fanbayes.estimators.criteria import fit_by_criteria
from fanbayes.learning import selection
from fanbayes.learning.data import InMemoryData
from fanbayes.learning.em import Problem
from fanbayes.learning.per_class import class_scores, compose
from fanbayes.learning.scores import score
from fanbayes.learning.selection import _composed, select

CRITERIA = ("icl", "bic", "aic", "cs")


def one_and_three(n=240, seed=0):
    """Class "one" is a single cluster, class "three" consists of three far apart; one column is discrete."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0, 0.0], [12.0, 12.0], [20.0, 0.0], [12.0, -12.0]])
    cluster = np.concatenate([np.zeros(n, int), rng.integers(1, 4, n)])
    numbers = centres[cluster] + rng.normal(size=(2 * n, 2))
    code = (cluster + (rng.random(2 * n) < 0.2)) % 2
    X = np.column_stack([numbers, code])
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.repeat(["one", "three"], n)


def fitted(X, y, **settings):
    settings = {"mixing": "per_class", "categorical_features": [2], "random_state": 0} | settings
    return FANClassifier(**settings).fit(X, y)


def problem_of(clf, X, y):
    _, table = clf._cases(X, y, None).encoded("none")
    return Problem(InMemoryData(table), clf._options())


@pytest.mark.parametrize("criterion", CRITERIA)
def test_each_class_gets_its_own_number(criterion):
    X, y = one_and_three()
    clf = fitted(X, y, criterion=criterion)
    assert clf.components_per_class_ == {"one": 1, "three": 3}
    assert clf.n_components_ == 3
    np.testing.assert_allclose(clf.component_prior_.sum(axis=1), 1.0)
    np.testing.assert_allclose(clf.component_prior_[0, 1:], 0.0)
    chosen = clf.selection_[criterion][-1]
    assert chosen == max(clf.selection_[criterion])
    assert chosen > max(clf.selection_[criterion][:-1]) + 5  # what the needless components cost


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("tying", ["none", "class"])
def test_the_scores_of_the_classes_add_up(criterion, tying):
    """What one more component gains is the sum of what it gains for each class."""
    X, y = one_and_three()
    whole, parts = [], []
    for n_components in (1, 2):
        clf = fitted(X, y, n_components=n_components, variance_tying=tying)
        problem = problem_of(clf, X, y)
        statistics = problem.data.e_step(clf.network_.terms)
        whole.append(getattr(score(clf.network_, statistics, len(y)), criterion))
        parts.append(class_scores(problem, clf.network_, criterion).sum())
    np.testing.assert_allclose(parts[1] - parts[0], whole[1] - whole[0], rtol=1e-9)


def test_classes_are_composed_as_they_were_learnt():
    """Labelled classes do not touch each other: nothing is left to gain after they are put together."""
    X, y = one_and_three()
    single, triple = (fitted(X, y, n_components=k) for k in (1, 3))
    network = compose([single.network_, triple.network_], [0, 1])
    both = fitted(X, y, n_components={"one": 1, "three": 3}, n_init=20)
    problem = problem_of(both, X, y)
    assert np.bincount(network.structure.class_of).tolist() == [1, 3]
    composed = problem.data.e_step(network.terms).log_likelihood[0]
    np.testing.assert_allclose(composed, both.log_likelihood_, rtol=1e-5)


def test_every_criterion_gets_the_numbers_that_it_chose(monkeypatch):
    """Also with fewer sizes than criteria; what several of them chose is composed once."""
    X, y = one_and_three(40)
    clf = FANClassifier(mixing="per_class", categorical_features=[2], max_components=2, random_state=0)
    problem = problem_of(clf, X, y)
    search = replace(clf._search(np.unique(y), len(y)), criteria=CRITERIA)
    best = {"icl": [1, 1], "bic": [2, 1], "aic": [1, 2], "cs": [1, 2]}  # components of each class

    def of_classes(problem, network, criterion):
        return -np.abs(np.subtract(best[criterion], network.structure.n_components))

    monkeypatch.setattr(selection, "class_scores", of_classes)
    found = select(problem, search, 2, lambda _: None)
    sizes = [np.bincount(fit.network.structure.class_of).tolist() for fit in found.fits]
    assert sizes == [[1, 1], [2, 2], [2, 1], [1, 2]]


def test_unlabelled_rows_count():
    X, y = one_and_three()
    hidden = y.astype(object)
    hidden[np.random.default_rng(1).random(len(y)) < 0.9] = None
    clf = fitted(X, hidden)
    assert clf.components_per_class_ == {"one": 1, "three": 3}
    assert clf.score(X, y) > 0.99


def test_numbers_by_class(tmp_path):
    X, y = one_and_three()
    clf = fitted(X, y, n_components={"three": 2, "one": 3})
    assert clf.components_per_class_ == {"one": 3, "three": 2}
    save(clf, tmp_path / "model.fan")
    again = load(tmp_path / "model.fan")
    assert again.n_components == {"three": 2, "one": 3}
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    components = again.predict_components(X)
    assert components.shape == (len(X), 2, 3)
    np.testing.assert_allclose(components.sum(axis=2), again.predict_proba(X), rtol=1e-12)
    assert (components[:, 1, 2] == 0).all()  # there is no such component
    told = again.explain(X[:5])
    np.testing.assert_allclose(told.prior + told.contributions.sum(axis=1), told.log_odds, rtol=1e-9)


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ({"one": 1}, "differ in the classes 'three'"),
        ({"one": 1, "three": 1, "two": 1}, "differ in the classes 'two'"),
        ({"one": 0, "three": 1}, r"n_components\['one'\]=0 must be at least 1"),
    ],
)
def test_numbers_that_do_not_fit_the_classes(numbers, sentence):
    with pytest.raises(ValueError, match=sentence):
        fitted(*one_and_three(40), n_components=numbers)


def test_numbers_by_class_need_mixing_per_class():
    with pytest.raises(ValueError, match="needs mixing='per_class'"):
        fitted(*one_and_three(40), n_components={"one": 1, "three": 1}, mixing="shared")


@pytest.mark.parametrize("max_iter", [1, 2, 3, 20])
def test_what_is_composed_keeps_the_limit_of_passes_and_the_common_variance(max_iter):
    X, y = one_and_three()
    clf = FANClassifier(mixing="per_class", variance_tying="all", categorical_features=[2], random_state=0)
    problem = problem_of(clf, X, y)
    search = clf._search(np.unique(y), len(y))
    fits = list(select(problem, search, 2, lambda _: None).fits)
    found = _composed(problem, replace(search, max_iter=max_iter, tol=0.0), fits, [0, 2])
    assert found.n_iter == max_iter
    assert np.bincount(found.network.structure.class_of).tolist() == [1, 3]
    assert found.network.shared.shape == (1, 2)  # a variance a number
    assert (np.diff(found.trace) >= -1e-9).all()


def test_a_description_is_of_the_candidate_that_was_chosen():
    """Also where the criterion of the classifier is another than the one it was chosen by."""
    X, y = one_and_three(60)
    found = fit_by_criteria(
        FANClassifier(max_components=3, categorical_features=[2], random_state=0), X, y, ("bic", "aic")
    )
    for name, clf in found.items():
        row = clf.best_index_
        assert clf.selection_[name][row] == max(clf.selection_[name])
        assert clf.describe()["scores"][name] == clf.selection_[name][row]
        assert clf.describe()["n_parameters"] == clf.selection_["n_parameters"][row]
