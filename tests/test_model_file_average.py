"""Files of averages: what `tests/test_model_file.py` checks of single models, for `FANClassifierCV`."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold
from test_model_file import make_rows, refusal, sealed

from fanbayes import FANClassifierCV, load, save
from fanbayes.data.state import plain
from fanbayes.files.container import read


@pytest.fixture(scope="module")
def average():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FANClassifierCV(effort="fast", cv=KFold(2), random_state=0).fit(*make_rows(60))


@pytest.fixture(scope="module")
def sample(average, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "average.fan"
    save(average, path)
    header, arrays = read(path)
    return path, path.read_bytes(), header, arrays


def test_everything_comes_back(average, sample):
    X, _ = make_rows(60)
    again = load(sample[0])
    np.testing.assert_array_equal(again.predict_proba(X), average.predict_proba(X))
    np.testing.assert_array_equal(again.predict_log_proba(X), average.predict_log_proba(X))
    np.testing.assert_array_equal(again.explain(X).contributions, average.explain(X).contributions)
    np.testing.assert_array_equal(again.class_prior_, average.class_prior_)
    assert again.members_.equals(average.members_)
    assert again.log_score_ == average.log_score_
    assert again.cv == 5  # a splitter is not kept
    drawn, wanted = (clf.sample(20, random_state=1) for clf in (again, average))
    assert drawn[0].equals(wanted[0])
    predictors = [m.predictor for m in average.average_.members]
    assert any(p.fine_tuned is not None for p in predictors)  # else half of it is not tested
    assert any(p.view.mixing is not None for p in predictors)


def test_not_fitted(tmp_path):
    with pytest.raises(NotFittedError):
        save(FANClassifierCV(), tmp_path / "none.fan")


def change_weight(header, arrays):
    arrays["weights"] = arrays["weights"] * 2


def change_view(header, arrays):
    header["members"][0]["view"] = 99


def change_feature_weights(header, arrays):
    arrays["members/0/feature_weights"] = -arrays["members/0/feature_weights"]


def change_mean(header, arrays):
    arrays["imputer/cells.gaussian"] = 1e9 * arrays["imputer/cells.gaussian"]


def lose_member(header, arrays):
    header["members"].pop()


def lose_array(header, arrays):
    del arrays["members/0/cells.categorical"]


def rename_column(header, arrays):
    header["views"][0]["schema"]["columns"][0]["name"] = "other"


@pytest.mark.parametrize(
    "change", [change_weight, change_view, change_feature_weights, change_mean, lose_member, lose_array, rename_column]
)
def test_inconsistent_members(change, sample):
    path, _, header, arrays = sample
    header, arrays = plain(header), dict(arrays)
    assert refusal(sealed(header, arrays), path) is None
    change(header, arrays)
    assert refusal(sealed(header, arrays), path)
