"""Explanations against their definition, naive Bayes' own terms, and probabilities asked of the classifier itself."""

import re
import time
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pytest
from builders import KINDS, changed, make_world, part
from scipy import integrate
from scipy.special import logsumexp, softmax

from fanbayes import FANClassifier, NBClassifier
from fanbayes.explanation import contributions
from fanbayes.explanation.contributions import attribute, path_weights
from fanbayes.explanation.explanation import strongest
from fanbayes.explanation.information import feature_information


def log_probabilities(plain, rows, r):
    """Log p(x_i | state) of row r (n_states, n_features), 0 where missing, from the definition."""
    terms = np.zeros((len(plain.class_of), rows.codes.shape[1] + rows.numbers.shape[1]))
    for s, cell in enumerate(plain.cell_of):
        for i, code in enumerate(rows.codes[r]):
            terms[s, i] = plain.tables[i][code, cell] if code >= 0 else 0.0
        for i, x in enumerate(rows.numbers[r], start=rows.codes.shape[1]):
            if not np.isnan(x):
                mean, variance = plain.mean[i - rows.codes.shape[1], cell], plain.sigma2[i - rows.codes.shape[1], cell]
                terms[s, i] = -0.5 * (np.log(2 * np.pi * variance) + (x - mean) ** 2 / variance)
    return terms


def by_trapezoids(log_weight, terms, n=20_001):
    """A_i = ∫ E_t[log p(x_i | c, h)] dt for each feature, on a fine grid."""
    t = np.linspace(0, 1, n)
    p = softmax(log_weight + t[:, None] * terms.sum(axis=1), axis=1)  # (n, components)
    return integrate.trapezoid(p @ terms, t, axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_contributions_by_their_definition(kind):
    world = make_world(3, kind, 4, n=12)
    plain, rows = world.plain, world.rows
    rng = np.random.default_rng(0)
    pairs = np.array([rng.choice(3, 2, replace=False) for _ in range(12)])
    found = attribute(world.network, world.table, pairs)
    class_of = np.array(plain.class_of)
    for r, pair in enumerate(pairs):
        terms = log_probabilities(plain, rows, r)
        sides = [np.flatnonzero(class_of == c) for c in pair]
        weights = [np.asarray(plain.log_weight)[s] for s in sides]
        expected = [by_trapezoids(w, terms[s]) for w, s in zip(weights, sides)]
        np.testing.assert_allclose(found.contributions[r], expected[0] - expected[1], atol=2e-6)
        joints = [logsumexp(w + terms[s].sum(axis=1)) for w, s in zip(weights, sides)]
        assert found.log_odds[r] == pytest.approx(joints[0] - joints[1], abs=1e-12)
        assert found.prior[r] == pytest.approx(logsumexp(weights[0]) - logsumexp(weights[1]), abs=1e-12)
        posterior = softmax(weights[0] + terms[sides[0]].sum(axis=1))
        assert found.part[r] == np.argmax(posterior)
        assert found.responsibility[r] == pytest.approx(posterior.max())
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-12)


@pytest.mark.parametrize("levels", [(2, 3), (2, 3, 4, 9, 300)])
def test_columns_that_share_a_code_are_told_apart(levels):
    world = make_world(3, "fan", 3, levels=levels, n=900)
    fused = world.table.fused()
    assert fused.narrow.shape[1] < world.table.narrow.shape[1]
    pairs = np.tile([0, 2], (900, 1))
    wanted, found = (attribute(world.network, table, pairs) for table in (world.table, fused))
    np.testing.assert_array_equal(found.log_odds, wanted.log_odds)
    np.testing.assert_array_equal(found.contributions, wanted.contributions)


def test_path_weights_of_two_components():
    """∫ 1 / (1 + exp(-a - b t)) dt is a difference of softplus functions, however sharp the switch."""
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 30.0, 1e3, 1e6):
        log_weight = np.log(rng.dirichlet([0.3, 0.3], 300))
        slope = -scale * rng.exponential(size=(300, 2))
        a, b = log_weight[:, 1] - log_weight[:, 0], slope[:, 1] - slope[:, 0]
        expected = (np.logaddexp(0, a + b) - np.logaddexp(0, a)) / b
        rounding = 1e-15 * (1 + np.abs(a)) / np.abs(b)
        assert (np.abs(path_weights(log_weight, slope)[:, 1] - expected) < 1e-14 + rounding).all()


@pytest.mark.parametrize("scale", [1e8, 1e16, 1e50, 1e150, 1e300])
def test_path_weights_of_a_component_that_is_left_at_once(scale):
    """Its weight times its slope is what the log-odds lose by it, however steep it falls."""
    log_weight = np.log([[0.5, 0.5], [0.1, 0.9], [1e-3, 1.0]])
    found = path_weights(log_weight, np.array([[0.0, -scale]] * 3))
    np.testing.assert_allclose(found[:, 1] * scale, np.log1p(np.exp(log_weight[:, 1] - log_weight[:, 0])), rtol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4, 1e8, 1e150])
@pytest.mark.parametrize("n_components", [1, 3, 12])
def test_path_weights_are_complete(n_components, scale):
    """sum_h W_h S_h = F(1) - F(0), and the weights sum to one."""
    rng = np.random.default_rng(1)
    log_weight = np.log(rng.dirichlet([0.3] * n_components, 100))
    if n_components > 2:
        log_weight[::3, -1] = -np.inf
    slope = scale * rng.normal(size=(100, n_components))
    weights = path_weights(log_weight, slope)
    rise = logsumexp(log_weight + slope, axis=1) - logsumexp(log_weight, axis=1)
    np.testing.assert_allclose((weights * slope).sum(axis=1), rise, rtol=0, atol=1e-14 * max(10.0, scale))
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-14)


@pytest.mark.parametrize("steep", [1e20, 1e70, 1e200])
def test_path_weights_of_a_switch_next_to_the_start(steep):
    """The first component, of probability p, is left at once: log (1 - p) of its slope remains."""
    p = 0.3
    weights = path_weights(np.log([[p, 1 - p]]), np.array([[-steep, 0.0]]))
    np.testing.assert_allclose(-steep * weights[0, 0], np.log(1 - p), rtol=1e-12)


def test_path_weights_of_several_switches():
    """Three components lead one after the other, each switch within a thousandth: the weights are their times."""
    log_weight = np.array([[0.0, -3000.0, -8000.0]])
    slope = np.array([[0.0, 1e4, 2e4]])  # they meet at t = 0.3 and t = 0.5
    np.testing.assert_allclose(path_weights(log_weight, slope), [[0.3, 0.2, 0.5]], atol=1e-12)


def test_what_does_not_add_up_is_an_error(monkeypatch):
    world = make_world(3, "fan", 3)
    monkeypatch.setattr(contributions, "path_weights", lambda w, s: np.full_like(s, 1 / s.shape[1]))
    with pytest.raises(FloatingPointError, match="the contributions of row 0 miss its log-odds"):
        attribute(world.network, world.table, np.tile([0, 1], (world.table.n_rows, 1)))


NAMES = ["nb", "fan", "per class", "binned", "fm"]


@pytest.mark.parametrize("name", NAMES)
def test_prior_and_contributions_are_the_log_odds(name, explained_models, explained_rows):
    clf, X = explained_models[name], explained_rows[0]
    found = clf.explain(X)
    log_proba = clf.predict_log_proba(X)
    order = np.argsort(-log_proba, axis=1, kind="stable")
    assert found.classes.tolist() == clf.classes_[order[:, :2]].tolist()
    assert found.classes[:, 0].tolist() == clf.predict(X).tolist()
    row = np.arange(len(X))
    np.testing.assert_allclose(found.log_odds, log_proba[row, order[:, 0]] - log_proba[row, order[:, 1]], atol=1e-10)
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, atol=1e-10)
    np.testing.assert_allclose(found.prior, np.log(clf.class_prior_[order[:, 0]] / clf.class_prior_[order[:, 1]]))
    uncut = ("mass",) if name == "binned" else ()
    assert (*found.features, *uncut) == ("colour", "length", "flag", "mass")
    missing = X[list(found.features)].isna().to_numpy()
    assert (found.contributions[missing] == 0).all()
    assert (found.contributions[~missing] != 0).all()
    assert (np.isnan(found.information) == ~missing).all()


def test_naive_bayes_contributes_its_own_terms(explained_models, explained_rows):
    clf, X = explained_models["nb"], explained_rows[0]
    found = clf.explain(X, classes=("b", "c"))
    colour = clf.feature_table("colour").set_index(["class", "level"])["probability"]
    expected = [0.0 if v is None or v != v else np.log(colour["b", v] / colour["c", v]) for v in X["colour"]]
    np.testing.assert_allclose(found.contributions[:, 0], expected, atol=1e-12)
    length = clf.feature_table("length").set_index("class")
    log_density = {
        c: -0.5 * (np.log(length.variance[c]) + (X["length"] - length["mean"][c]) ** 2 / length.variance[c])
        for c in ("b", "c")
    }
    np.testing.assert_allclose(found.contributions[:, 1], (log_density["b"] - log_density["c"]).fillna(0.0), atol=1e-10)
    assert found.part.tolist() == [0] * len(X)
    np.testing.assert_allclose(found.responsibility, 1.0)


def test_one_component_is_naive_bayes(explained_rows):
    with pytest.warns(UserWarning, match="fewer than two distinct values"):
        one, nb = FANClassifier(1).fit(*explained_rows), NBClassifier().fit(*explained_rows)
    np.testing.assert_allclose(
        one.explain(explained_rows[0]).contributions, nb.explain(explained_rows[0]).contributions, atol=1e-12
    )


def test_equal_features_contribute_equally():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200) + (y := rng.integers(0, 2, 200))
    clf = FANClassifier(2, random_state=0).fit(np.column_stack([x, rng.normal(size=200), x]), y)
    rows = {name: part(clf.network_, name).copy() for name in ("mean", "sigma2")}
    for array in rows.values():
        array[0, 2] = array[0, 0]  # rounding apart they are equal already
    clf.network_ = changed(clf.network_, **rows)
    found = clf.explain(np.column_stack([x, np.zeros(200), x]))
    np.testing.assert_allclose(found.contributions[:, 0], found.contributions[:, 2], atol=1e-9)


def test_pairs_of_classes(explained_models, explained_rows):
    clf, X = explained_models["fan"], explained_rows[0]
    one, other = clf.explain(X, classes=["a", "c"]), clf.explain(X, classes=["c", "a"])
    np.testing.assert_array_equal(one.contributions, -other.contributions)
    assert one.classes.tolist() == [["a", "c"]] * len(X)
    log_proba = clf.predict_log_proba(X)
    np.testing.assert_allclose(one.log_odds, log_proba[:, 0] - log_proba[:, 2], atol=1e-10)
    for wrong in (["a"], ["a", "a"], ["a", "z"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="must be two of 'a', 'b', 'c'"):
            clf.explain(X, classes=wrong)
    with pytest.warns(UserWarning, match="only the class 1"):
        single = NBClassifier().fit([[0.0], [1.0]], [1, 1])
    with pytest.raises(ValueError, match="one class only"):
        single.explain([[0.0]])


def test_the_responsible_component(explained_models, explained_rows):
    clf, X = explained_models["fm"], explained_rows[0]
    found = clf.explain(X, classes=["a", "b"])
    states = clf._run(clf._table(X), "states")[:, :4]  # of class a
    expected = softmax(states, axis=1)
    assert found.part.tolist() == expected.argmax(axis=1).tolist()
    np.testing.assert_allclose(found.responsibility, expected.max(axis=1))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_observed_leaves_the_prior(name, explained_models):
    clf = explained_models[name]
    nothing = pd.DataFrame({"colour": [None], "length": [np.nan], "same": [None], "flag": [None], "mass": [np.nan]})
    found = clf.explain(nothing)
    assert found.log_odds[0] == pytest.approx(found.prior[0], abs=1e-12)
    assert (found.contributions == 0).all()
    ranked = feature_information(clf.network_, clf.schema_)
    assert dict(zip(found.features, found.information[0])) == pytest.approx(
        {c.name: ranked[j] for j, c in enumerate(clf.schema_.columns) if c.is_informative}, rel=1e-9
    )
    assert ranked[2] == 0


def test_components_hundreds_of_nats_apart():
    """Rows far from everything: p_t(h) switches within a thousandth of the way."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20)) + 3 * rng.integers(0, 3, (300, 1))
    clf = FANClassifier(3, random_state=0).fit(X, rng.integers(0, 2, 300))
    far = 100 * rng.normal(size=(50, 20))
    found = clf.explain(far)
    assert np.abs(found.log_odds).max() > 1e4
    np.testing.assert_allclose(found.prior + found.contributions.sum(axis=1), found.log_odds, rtol=1e-12, atol=1e-8)
    beyond = clf.explain(1e90 * far)  # and no overflow
    assert np.isfinite(beyond.contributions).all()


LISTS = {"pandas": {"orient": "list"}, "polars": {"as_series": False}}


@pytest.mark.parametrize("library", ["pandas", "polars", "dict"])
def test_tables(library, explained_rows):
    X, y = explained_rows
    X = X.drop(columns="same")
    rows = {"pandas": X, "polars": pl.from_pandas(X), "dict": X.astype(object).to_numpy()}[library]
    clf = FANClassifier(2, random_state=0).fit(rows, y)
    found = clf.explain(rows)
    types = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "dict": dict}
    for table in (found.table(), found.summary(), found.worth_observing()):
        assert type(table) is types[library]
    frame = pd.DataFrame(found.table() if library == "dict" else found.table().to_dict(**LISTS[library]))
    assert frame.columns.tolist() == ["row", "class", "against", "feature", "value", "contribution"]
    assert len(frame) == 5 * len(X)
    np.testing.assert_allclose(frame.groupby("row")["contribution"].sum(), found.log_odds, atol=1e-10)
    first = frame[frame["row"] == 1]
    assert first["feature"].tolist() == ["(prior)", *found.features]
    length, mass = (f"{X[name][1]:.12g}" for name in ("length", "mass"))
    assert first["value"].tolist()[1:] == [X["colour"][1], length, str(X["flag"][1]), mass]
    assert frame["value"].isna().sum() == X.isna().to_numpy().sum()
    summary = pd.DataFrame(found.summary() if library == "dict" else found.summary().to_dict(**LISTS[library]))
    assert summary["class"].tolist() == clf.predict(rows).tolist()
    assert summary.columns.tolist() == ["row", "class", "against", "log_odds", "component", "responsibility"]
    worth = found.worth_observing()
    worth = pd.DataFrame(worth if library == "dict" else worth.to_dict(**LISTS[library]))
    assert len(worth) == X.isna().to_numpy().sum()
    assert (worth.groupby("row")["information"].diff().dropna() <= 0).all()
    assert worth[worth["row"] == 0]["feature"].nunique() == 3


def test_intervals_are_named(explained_models, explained_rows):
    found = explained_models["binned"].explain(explained_rows[0])
    shown = {v for v in found.values[1] if v is not None}
    assert all(v[0] == "(" and v[-1] in ")]" for v in shown)


def test_a_thousand_rows_take_about_a_second():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 20)) + rng.integers(0, 3, (1000, 1))
    clf = FANClassifier(5, random_state=0, max_iter=10, n_init=1, tol=1e-2).fit(X, rng.integers(0, 2, 1000))
    X[rng.random(X.shape) < 0.1] = np.nan
    began = time.process_time()
    clf.explain(X)
    assert time.process_time() - began < 3


def test_it_can_be_read(explained_rows, explained_models):
    X, _ = explained_rows
    clf = explained_models["fan"]
    why = clf.explain(X)
    lines = repr(why).splitlines()
    assert len(lines) == 8
    assert lines[0] == "Explanation of 150 rows: log-odds = prior + contributions"
    assert lines[-1].startswith("145 more rows.")
    row = lines[2].split()
    assert row[:4] == ["0", why.classes[0, 0], why.classes[0, 1], f"{why.log_odds[0]:+.2f}"]
    for number in range(5):
        named = re.findall(r"[+-]\d+\.\d\d(?=,|$)", lines[2 + number])
        assert sum(map(float, named)) + why.prior[number] == pytest.approx(why.log_odds[number], abs=0.03)
    assert repr(clf.explain(X[:1])).splitlines()[-1] == "All of it: table(), summary(), worth_observing()."


def test_strongest_terms_add_up(explained_rows, explained_models):
    X, _ = explained_rows
    why = explained_models["fm"].explain(X)
    for most in (0, 1, 3, 10):
        for row in range(20):
            terms = strongest(why, row, most)
            assert sum(x for _, x in terms) == pytest.approx(why.log_odds[row])
            sizes = [abs(x) for _, x in terms[1 : most + 1]]
            assert sizes == sorted(sizes, reverse=True)
            assert len(terms) <= most + 2


def test_html_is_escaped_and_complete():
    X = pd.DataFrame({"<script>alert(1)</script>": ["<b>", "&"] * 20, "n": np.arange(40.0)})
    clf = NBClassifier().fit(X, ["<i>yes", "no & \x1b"] * 20)
    html = clf.explain(X)._repr_html_()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; = &lt;b&gt;" in html
    assert "&lt;i&gt;yes" in html
    assert "\x1b" not in html
    assert html.count("<table") == html.count("</table>") == 5
    assert len(html) < 20_000
    ElementTree.fromstring(html.replace("&larr;", "").replace("&rarr;", ""))  # well-formed
