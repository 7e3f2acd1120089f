"""Files of averages: what `tests/test_model_file.py` checks of single models, for `FANClassifierCV`."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold
from test_model_file import make_rows, refusal, sealed

from fanbayes import FANClassifierCV, load, save
from fanbayes.data.state import plain
from fanbayes.files.container import read
from fanbayes.learning.ensembles.candidates import Family
from fanbayes.learning.ensembles.members import Member, MemberNetwork
from fanbayes.learning.ensembles.nb_forest import fit_forest
from fanbayes.learning.ensembles.pool import Pool
from fanbayes.learning.kernel_density import fit_kernel


@pytest.fixture(scope="module")
def average():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FANClassifierCV(effort="fast", cv=KFold(4), random_state=0).fit(*make_rows(60))


def test_everything_comes_back(average, tmp_path):
    X, _ = make_rows(60)
    save(average, tmp_path / "average.fan")
    again = load(tmp_path / "average.fan")
    np.testing.assert_array_equal(again.predict_proba(X), average.predict_proba(X))
    np.testing.assert_array_equal(again.predict_log_proba(X), average.predict_log_proba(X))
    np.testing.assert_array_equal(again.explain(X).contributions, average.explain(X).contributions)
    np.testing.assert_array_equal(again.class_prior_, average.class_prior_)
    assert again.members_.equals(average.members_)
    assert again.log_score_ == average.log_score_
    assert again.cv is None  # a splitter is not kept
    drawn, wanted = (clf.sample(20, random_state=1) for clf in (again, average))
    assert drawn[0].equals(wanted[0])
    assert again.kernel_members == average.kernel_members
    for name in ("weights", "exponents", "share"):
        np.testing.assert_array_equal(getattr(again.pool_, name), getattr(average.pool_, name))


def test_not_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        save(FANClassifierCV(), tmp_path / "none.fan")


def members_of_every_kind(average):
    """Of two fits, one fine-tuned and one that sees columns mixed; and a forest."""
    X, y = make_rows(60)
    rows = average._cases(X, y, None).training_table()
    view, table = rows.view("decorrelate", rows.labels)
    family = Family("decorrelate", "all", (0.1,), (2,), 1)
    networks = family.fit(family.rows(view, view.mix(table), rows.n_classes), 2, 0)
    plain_view, table = rows.view("none", rows.labels)
    forest, _ = fit_forest(table, plain_view, rows.n_classes, 0, None)
    kernel, _ = fit_kernel(table, rows.n_classes, 0)
    members = (Member(tuple(networks)), Member((forest,)), Member((MemberNetwork(plain_view, kernel, "kernel"),)))
    pool = Pool(np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.5, 0.0, 1.2, 0.1]), 0.4)
    return replace(average.average_, members=members, pool=pool)


@pytest.fixture(scope="module")
def sample(average, tmp_path_factory):
    """A file with members of every kind."""
    clf = clone(average).set_params(cv=3)
    clf.__dict__.update({k: v for k, v in average.__dict__.items() if k.endswith("_")})
    clf.average_ = members_of_every_kind(average)
    path = tmp_path_factory.mktemp("models") / "members.fan"
    save(clf, path)
    return clf, path, *read(path)


def test_members_of_every_kind(sample):
    clf, path, header, arrays = sample
    X, _ = make_rows(60)
    again = load(path)
    np.testing.assert_array_equal(again.predict_log_proba(X), clf.predict_log_proba(X))
    np.testing.assert_array_equal(again.explain(X).contributions, clf.explain(X).contributions)
    assert [fit["kind"] for fit in header["fits"]] == ["network", "fine-tuned", "forest", "kernel"]
    assert [fit["member"] for fit in header["fits"]] == [0, 0, 1, 2]
    assert {len(name.split("/")) for name in arrays if name.startswith("fits/1/")} == {3}  # not what EM found as well
    assert "views/0/mixing" in arrays


def test_the_header_says_whether_rows_are_held(sample):
    clf, _, header, _ = sample
    assert header["holds_training_rows"] is True
    without = replace(clf.average_, members=clf.average_.members[:2])
    assert without.to_state()[0]["holds_training_rows"] is False


def test_centres_of_kernel_densities_are_no_components(sample):
    clf, path, *_ = sample
    assert clf.n_components_ == load(path).n_components_ == 2


def changed(name, by):
    """An array, changed."""

    def change(header, arrays):
        arrays[name] = by(arrays[name].copy())

    return change


def first(value):
    def put(array):
        array.flat[0] = value
        return array

    return put


def told(value, *keys):
    """An entry of the header, changed."""

    def change(header, arrays):
        *above, last = keys
        for key in above:
            header = header[key]
        header[last] = value

    return change


def lose_fit(header, arrays):
    header["fits"].pop()


def lose_array(header, arrays):
    del arrays["fits/0/cells.categorical"]


def without_shares(header, arrays):
    """No class may get probability 0."""
    header["share"] = 1.0
    arrays["weights"] = np.array([0.5, 0.3, 0.2, 0.0])


CHANGES = {
    "weights that do not sum to one": changed("weights", lambda x: 2 * x),
    "a negative weight": changed("weights", lambda x: np.array([-0.1, 0.6, 0.3, 0.2])),
    "a weight that is no number": changed("weights", first(np.nan)),
    "too many weights": changed("weights", lambda x: np.append(x, 0.0)),
    "a negative exponent": changed("exponents", first(-1.0)),
    "a huge exponent": changed("exponents", first(1e300)),
    "an exponent that is no number": changed("exponents", first(np.nan)),
    "a share above one": told(1.5, "share"),
    "a share that is no number": told(float("nan"), "share"),
    "a share that is text": told("half", "share"),
    "probabilities of 0": without_shares,
    "class shares of 0": changed("class_prior", first(0.0)),
    "class shares that do not sum to one": changed("class_prior", lambda x: x / 2),
    "a view that is not there": told(99, "fits", 0, "view"),
    "a view counted backwards": told(-1, "fits", 0, "view"),
    "a member left out": told(2, "fits", 2, "member"),
    "members out of order": told(1, "fits", 0, "member"),
    "a member counted backwards": told(-1, "fits", 3, "member"),
    "very many members": told(10**12, "fits", 3, "member"),
    "rows that are not mentioned": told(False, "holds_training_rows"),
    "rows that are kept from view": told("network", "fits", 3, "kind"),
    "an unknown kind": told("nothing", "fits", 0, "kind"),
    "a forest that is a network": told("network", "fits", 2, "kind"),
    "a network that is a forest": told("forest", "fits", 0, "kind"),
    "no fits": told([], "fits"),
    "fits that are none": told([1, 2, 3, 4], "fits"),
    "a fit less": lose_fit,
    "an array less": lose_array,
    "a mean far out": changed("imputer/cells.gaussian", lambda x: 1e9 * x),
    "columns mixed by infinities": changed("views/0/mixing", first(np.inf)),
    "another column": told("other", "views", 0, "schema", "columns", 0, "name"),
    "a path that leaves a tree": changed("fits/2/trees/right", lambda x: x + 10**6),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_inconsistent_members(change, sample):
    _, path, header, arrays = sample
    header, arrays = plain(header), dict(arrays)
    assert refusal(sealed(header, arrays), path) is None
    change(header, arrays)
    assert refusal(sealed(header, arrays), path)
