"""NB, FM and FAN as probability models: what they predict is what their parameters say."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.naive_bayes import CategoricalNB

from fanbayes import FANClassifier, FMClassifier, NBClassifier

# The variance of the paper, where EM comes to rest below the best network.
pytestmark = pytest.mark.filterwarnings("ignore:the best of .* passes:sklearn.exceptions.ConvergenceWarning")

FEW = {"n_init": 2, "random_state": 0}
MODELS = {
    "nb": NBClassifier(),
    "fan": FANClassifier(n_components=2, **FEW),
    "fan per class": FANClassifier(n_components=3, mixing="per_class", **FEW),
    "fan cem": FANClassifier(n_components=2, algorithm="cem", **FEW),
    "fm": FMClassifier(n_components=4, **FEW),
    "fan paper": FANClassifier(n_components=2, variance_estimator="paper", **FEW),
}


@pytest.fixture(params=MODELS)
def model(request):
    return clone(MODELS[request.param])


def mixed_rows(n=150, seed=0, missing=0.1, unlabelled=0.0):
    """Strings, booleans, declared categories and numbers; three classes that they tell apart, loosely."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    group = rng.integers(0, 2, n)
    X = pd.DataFrame(
        {
            "colour": np.array(["red", "green", "blue"])[(y + rng.integers(0, 2, n)) % 3],
            "flag": (y + group + (rng.random(n) < 0.2)) % 2 == 0,
            "size": pd.Categorical(np.array(["s", "m", "l"])[rng.integers(0, 3, n)], ["xs", "s", "m", "l"]),
            "x": y + 2.0 * group + 0.5 * rng.normal(size=n),
            "z": 1e3 * rng.normal(size=n) - 700 * group,
        }
    )
    X["flag"] = X["flag"].astype("boolean")
    for j in range(5):
        X.iloc[rng.random(n) < missing, j] = None
    labels = np.array(["a", "b", "c"], dtype=object)[y]
    labels[rng.random(n) < unlabelled] = None
    return X, labels


def discrete_rows(n=120, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    h = rng.integers(0, 2, n)
    columns = [(y + h + (rng.random(n) < 0.25)) % 2, (h + rng.integers(0, 2, n)) % 3, rng.integers(0, 2, n) * h]
    X = np.array(["uvw", "pqr", "mno"])
    return np.column_stack([np.array(list(names))[c] for names, c in zip(X, columns)]).astype(object), y


# ---------------------------------------------------------------- enumeration


def joint_by_hand(clf, row):
    """p(c, x) of one row from the readable parameters: a product over features, a sum over components."""
    tables = [clf.feature_table(j) for j in range(len(row))]

    def probability(j, **cell):
        t = tables[j]
        match = [
            p
            for k, p in enumerate(t["probability"])
            if t["level"][k] == row[j] and all(t[name][k] == value for name, value in cell.items())
        ]
        assert len(match) == 1
        return match[0]

    def product(**cell):
        return float(np.prod([probability(j, **cell) for j in range(len(row)) if row[j] is not None]))

    prior, mixing = clf.class_prior_, clf.component_prior_
    if isinstance(clf, NBClassifier):
        return np.array([prior[k] * product(**{"class": c}) for k, c in enumerate(clf.classes_)])
    if isinstance(clf, FANClassifier):
        mixing = np.broadcast_to(mixing, (len(prior), clf.n_components_))
        return np.array(
            [
                prior[k] * sum(mixing[k, h] * product(**{"class": c, "component": h}) for h in range(mixing.shape[1]))
                for k, c in enumerate(clf.classes_)
            ]
        )
    weight = np.exp(clf.network_.log_weight[0]).reshape(len(prior), clf.n_components_)  # p(c, h)
    np.testing.assert_allclose(weight.sum(axis=0), mixing)
    return weight @ [product(component=h) for h in range(clf.n_components_)]


def everything(clf):
    levels = [sorted(set(clf.feature_table(j)["level"])) for j in range(clf.n_features_in_)]
    return np.array(list(itertools.product(*levels)), dtype=object)


def test_predictions_are_the_enumerated_network(model):
    clf = model.fit(*discrete_rows())
    rows = everything(clf)
    assert len(rows) == 2 * 3 * 2
    wanted = np.array([joint_by_hand(clf, row) for row in rows])
    np.testing.assert_allclose(np.exp(clf.predict_joint_log_proba(rows)), wanted, rtol=1e-12)
    posterior = wanted / wanted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(clf.predict_proba(rows), posterior, rtol=1e-12)
    np.testing.assert_allclose(clf.predict_log_proba(rows), np.log(posterior), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(clf.score_samples(rows), np.log(wanted.sum(axis=1)), rtol=1e-12)
    np.testing.assert_array_equal(clf.predict(rows), clf.classes_[posterior.argmax(axis=1)])
    # A distribution over everything that can be seen.
    assert wanted.sum() == pytest.approx(1.0)
    assert np.exp(clf.predict_joint_log_proba(rows)).sum() == pytest.approx(1.0)


def test_a_missing_value_is_the_sum_over_its_values(model):
    clf = model.fit(*discrete_rows())
    rows = everything(clf)
    joint = np.exp(clf.predict_joint_log_proba(rows))
    for hidden in ([0], [1], [2], [0, 2], [0, 1, 2]):
        partial = rows.copy()
        partial[:, hidden] = None
        seen = [tuple(row) for row in partial]
        wanted = np.array([joint[[other == row for other in seen]].sum(axis=0) for row in seen])
        np.testing.assert_allclose(np.exp(clf.predict_joint_log_proba(partial)), wanted, rtol=1e-12)


def test_a_missing_number_is_the_integral_over_its_values(model):
    X, y = mixed_rows()
    clf = model.fit(X, y)
    row = X.iloc[[3]].copy()
    row[["x", "z"]] = [1.0, 20.0]
    grid = np.linspace(-12, 16, 4001)
    many = pd.concat([row] * len(grid), ignore_index=True)
    many["x"] = grid
    wanted = np.exp(clf.predict_joint_log_proba(many)).sum(axis=0) * (grid[1] - grid[0])
    row["x"] = np.nan
    np.testing.assert_allclose(np.exp(clf.predict_joint_log_proba(row))[0], wanted, rtol=1e-6)


def test_a_row_with_nothing_in_it_gets_the_class_prior(model):
    X, y = mixed_rows()
    clf = model.fit(X, y)
    empty = pd.DataFrame({name: pd.Series([None, None], dtype=X[name].dtype) for name in X})
    np.testing.assert_allclose(clf.predict_proba(empty), [clf.class_prior_] * 2, rtol=1e-14)
    np.testing.assert_allclose(clf.score_samples(empty), 0, atol=1e-12)
    assert clf.class_prior_.sum() == pytest.approx(1, rel=1e-14)
    joint = clf.component_prior_ if clf.component_prior_.ndim == 1 else clf.class_prior_[:, None] * clf.component_prior_
    np.testing.assert_allclose(clf.predict_components(empty), [joint] * 2, rtol=1e-12)


def test_component_posterior(model):
    clf = model.fit(*discrete_rows())
    rows = everything(clf)
    found = clf.predict_components(rows)
    # p(h) = sum_x p(x) p(h | x), whatever the model, or p(c, h) = sum_x p(x) p(c, h | x).
    wanted = clf.component_prior_
    if wanted.ndim == 2:
        wanted = clf.class_prior_[:, None] * wanted
        np.testing.assert_allclose(found.sum(axis=2), clf.predict_proba(rows), rtol=1e-12)
    assert found.shape == (len(rows), *wanted.shape)
    np.testing.assert_allclose(found.reshape(len(rows), -1).sum(axis=1), 1)
    np.testing.assert_allclose(np.einsum("n,n...->...", np.exp(clf.score_samples(rows)), found), wanted, rtol=1e-10)


# ---------------------------------------------------------------- against others


@pytest.mark.parametrize("alpha", [1.0, 0.25])
@pytest.mark.parametrize(
    "make", [NBClassifier, lambda **k: FANClassifier(1, **k), lambda **k: FANClassifier(1, mixing="per_class", **k)]
)
def test_one_component_is_naive_bayes_is_scikit_learns(alpha, make):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 200)
    X = np.column_stack([rng.integers(0, r, 200) for r in (2, 3, 7)])
    X[:, 0] = (X[:, 0] + y) % 2
    clf = make(alpha=alpha, categorical_features="all").fit(X, y)
    peer = CategoricalNB(alpha=alpha, class_prior=clf.class_prior_).fit(X, y)
    np.testing.assert_allclose(clf.predict_proba(X), peer.predict_proba(X), rtol=1e-10)
    np.testing.assert_allclose(clf.predict_joint_log_proba(X), peer.predict_joint_log_proba(X), rtol=1e-10)
    np.testing.assert_allclose(clf.class_prior_, (alpha + np.bincount(y)) / (4 * alpha + 200))


def test_one_component_is_naive_bayes_on_mixed_rows():
    X, y = mixed_rows(unlabelled=0.3)
    nb = NBClassifier(tol=1e-12).fit(X, y)
    for mixing in ("shared", "per_class"):
        fan = FANClassifier(1, mixing=mixing, tol=1e-12).fit(X, y)
        np.testing.assert_allclose(fan.predict_proba(X), nb.predict_proba(X), rtol=1e-9)
        assert fan.log_likelihood_ == pytest.approx(nb.log_likelihood_)
        for name in ("n_parameters", "bic", "aic", "cs", "icl"):
            assert fan.selection_[name][0] == pytest.approx(nb.selection_[name][0], rel=1e-9), name


def test_densities_are_in_the_units_of_the_columns():
    rng = np.random.default_rng(1)
    y = np.arange(90) % 3
    X = np.column_stack([1e4 * (rng.normal(size=90) + y), 1e-5 * rng.normal(size=90), 50 + rng.normal(size=90) * y])
    X[4, 1] = np.nan
    clf = NBClassifier().fit(X, y)
    wanted = np.tile(np.log(clf.class_prior_), (90, 1))
    for j in range(3):
        t = clf.feature_table(j)
        density = stats.norm.logpdf(X[:, [j]], t["mean"], np.sqrt(t["variance"]))
        wanted += np.where(np.isnan(density), 0, density)
        # The estimate is close to the class's own mean and variance: the prior counts for a few rows only.
        for c in range(3):
            own, all_ = X[y == c, j], X[:, j]
            assert t["mean"][c] == pytest.approx(np.nanmean(own), abs=0.01 * np.nanstd(all_))
            assert t["variance"][c] == pytest.approx(np.nanvar(own), rel=0.3, abs=0.1 * np.nanvar(all_))
    np.testing.assert_allclose(clf.predict_joint_log_proba(X), wanted, rtol=1e-10)
    np.testing.assert_allclose(clf.score_samples(X), logsumexp(wanted, axis=1), rtol=1e-10)


def test_units_do_not_matter_to_the_posterior(model):
    X, y = mixed_rows()
    clf = model.fit(X, y)
    other = X.assign(x=3e7 * X["x"] + 1e8, z=X["z"] / 4096)
    again = clone(model).fit(other, y)
    np.testing.assert_allclose(again.predict_proba(other), clf.predict_proba(X), rtol=1e-5, atol=1e-9)
    shift = np.log(3e7) * X["x"].notna() - np.log(4096) * X["z"].notna()
    np.testing.assert_allclose(again.score_samples(other), clf.score_samples(X) - shift, rtol=1e-5)


# ---------------------------------------------------------------- weights and order


def assert_same_model(a, b, X, tol=1e-7):
    np.testing.assert_array_equal(a.classes_, b.classes_)
    assert repr([c.levels for c in a.schema_.columns]) == repr([c.levels for c in b.schema_.columns])
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), rtol=tol, atol=tol)
    np.testing.assert_allclose(a.score_samples(X), b.score_samples(X), rtol=tol, atol=tol)
    assert a.log_likelihood_ == pytest.approx(b.log_likelihood_, rel=tol)
    for name in ("bic", "cs", "icl", "n_parameters"):
        np.testing.assert_allclose(list(a.selection_[name]), list(b.selection_[name]), rtol=1e-6, err_msg=name)


def test_weight_two_is_the_row_twice(model):
    X, y = mixed_rows(unlabelled=0.15)
    count = np.random.default_rng(3).integers(1, 4, len(X))
    twice = np.repeat(np.arange(len(X)), count)
    weighted = clone(model).fit(X, y, sample_weight=count)
    repeated = clone(model).fit(X.iloc[twice].reset_index(drop=True), y[twice])
    assert_same_model(weighted, repeated, X)
    plain = clone(model).fit(X, y)
    assert not np.allclose(plain.predict_proba(X), weighted.predict_proba(X), atol=1e-4)


def test_weight_zero_is_the_row_absent(model):
    """Its categories, its class, its part in means and floors, and whatever is wrong with it."""
    X, y = mixed_rows(unlabelled=0.15)
    odd = X.iloc[:4].copy()
    odd["colour"] = "purple"
    odd["x"] = [1e6, np.inf, -1e9, np.nan]
    y_odd = np.array(["d", "a", None, "b"], dtype=object)
    order = np.random.default_rng(4).permutation(len(X) + 4)
    X_all = pd.concat([X, odd], ignore_index=True).iloc[order]
    y_all = np.concatenate([y, y_odd])[order]
    weight = np.concatenate([np.ones(len(X)), np.zeros(4)])[order]
    assert_same_model(clone(model).fit(X_all, y_all, sample_weight=weight), clone(model).fit(X, y), X)


def test_auto_counts_weights_as_rows():
    X, y = mixed_rows()
    count = np.random.default_rng(3).integers(1, 4, len(X))
    twice = np.repeat(np.arange(len(X)), count)
    weighted = FANClassifier(random_state=0).fit(X, y, sample_weight=count)
    repeated = FANClassifier(random_state=0).fit(X.iloc[twice].reset_index(drop=True), y[twice])
    assert weighted.n_components_ == repeated.n_components_
    assert_same_model(weighted, repeated, X)


@pytest.mark.parametrize("name", ["fan", "fm"])
def test_weights_and_order_of_so_many_rows_that_starts_see_a_part(name):
    X, y = mixed_rows(6000, unlabelled=0.1)
    count = np.random.default_rng(3).integers(1, 4, len(X))
    twice = np.random.default_rng(4).permutation(np.repeat(np.arange(len(X)), count))
    model = clone(MODELS[name]).set_params(n_init=4, tol=1e-5)
    weighted = clone(model).fit(X, y, sample_weight=count)
    repeated = clone(model).fit(X.iloc[twice].reset_index(drop=True), y[twice])
    assert_same_model(weighted, repeated, X, tol=1e-6)


def test_rows_have_no_order(model):
    X, y = mixed_rows(unlabelled=0.15)
    order = np.random.default_rng(5).permutation(len(X))
    assert_same_model(clone(model).fit(X, y), clone(model).fit(X.iloc[order], y[order]), X, tol=1e-6)


def test_columns_of_naive_bayes_have_no_order():
    X, y = mixed_rows()
    other = X[["z", "colour", "x", "size", "flag"]]
    a, b = NBClassifier().fit(X, y), NBClassifier().fit(other, y)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(other), rtol=1e-10)


# ---------------------------------------------------------------- unlabelled rows


def test_likelihood_counts_labelled_and_unlabelled_rows(model):
    """log p(x, c) of a labelled row, log p(x) of an unlabelled one."""
    X, y = discrete_rows()
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.4, np.nan, y.astype(float))
    clf = model.fit(X, y)
    joint, known = clf.predict_joint_log_proba(X), ~np.isnan(y)
    wanted = joint[known, y[known].astype(int)].sum() + logsumexp(joint[~known], axis=1).sum()
    assert clf.log_likelihood_ == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize(
    "model",
    [
        NBClassifier(),
        NBClassifier(algorithm="cem"),
        FANClassifier(1),
        FANClassifier(1, algorithm="cem"),
        FMClassifier(2, random_state=0),
    ],
    ids=str,
)
def test_unlabelled_rows_are_learnt_from(model):
    """Two clusters, one label each: the other rows say where the border is."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    X = np.where(y == 0, -1, 3)[:, None] + rng.normal(size=(200, 3))
    seen = np.full(200, np.nan)
    seen[:6] = y[:6]
    semi = clone(model).fit(X, seen)
    assert semi.score(X, y) > 0.98
    alone = clone(model).fit(X[:6], y[:6])
    truth = -stats.norm.logpdf(X, -1).sum(axis=1) + stats.norm.logpdf(X, 3).sum(axis=1)
    odds = [c.predict_log_proba(X) @ [-1, 1] for c in (semi, alone)]
    assert np.abs(odds[0] - truth).mean() < np.abs(odds[1] - truth).mean()
    assert semi.n_iter_ > 1


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, np.nan, 1] * 20),
        np.array([0, None, 1] * 20, dtype=object),
        [0, None, 1] * 20,
        pd.Series([0, None, 1] * 20, dtype="Int64"),
        pd.Series(["u", None, "v"] * 20),
        pd.Series(["u", None, "v"] * 20, dtype="category"),
        pd.Series(["u", pd.NA, "v"] * 20, dtype="string"),
        [True, None, False] * 20,
    ],
    ids=["nan", "object", "list", "Int64", "strings", "category", "NA", "booleans"],
)
def test_missing_labels_of_any_kind(y):
    X, _ = mixed_rows(60)
    clf = NBClassifier().fit(X, y)
    assert clf.classes_.tolist() in ([0, 1], ["u", "v"])
    assert set(clf.predict(X)) <= set(clf.classes_.tolist())
    assert 0 <= clf.score(X, y) <= 1


def test_score_ignores_unlabelled_rows():
    X, y = mixed_rows()
    clf = NBClassifier().fit(X, y)
    hidden = np.arange(len(y)) % 3 == 0
    partly = np.where(hidden, None, y)
    assert clf.score(X, partly) == clf.score(X[~hidden], y[~hidden])
    weight = np.random.default_rng(0).random(len(y))
    assert clf.score(X, partly, weight) == pytest.approx(clf.score(X[~hidden], y[~hidden], weight[~hidden]))


def test_minus_one_is_a_class():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(60) % 2, 1, -1)
    X = y[:, None] + 0.3 * rng.normal(size=(60, 2))
    clf = NBClassifier().fit(X, y)
    np.testing.assert_array_equal(clf.classes_, [-1, 1])
    assert clf.score(X, y) == 1
    assert clf.n_iter_ == 1  # nothing was taken as unlabelled


def test_more_components_than_make_sense_are_refused():
    X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    with pytest.raises(ValueError, match="n_components=101 is too many for 20 cases; give at most 100"):
        FANClassifier(n_components=101).fit(X, y)
