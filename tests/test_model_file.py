"""Model files: what comes back, what is refused, and what a crash leaves behind."""

import errno
import hashlib
import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import builders
import numpy as np
import pandas as pd
import polars as pl
import pytest
import safetensors.numpy
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from fanbayes import FANClassifier, FANClassifierCV, FMClassifier, NBClassifier
from fanbayes.data import state
from fanbayes.files.container import pack, read
from fanbayes.files.model_file import ModelFileError, load, save, to_state

DATA = Path(__file__).parent / "data"


def make_rows(n=120, seed=0):
    """Strings, booleans, integers, floats, a constant column; values missing in two of them."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 3, n)
    X = pd.DataFrame(
        {
            "colour": np.array(["rouge", "vert", "blåu"])[(group + (rng.random(n) < 0.2)) % 3],
            "flag": rng.random(n) < 0.3 + 0.2 * group,
            "count": pd.Series(rng.integers(0, 4, n)).astype("category"),
            "length": rng.normal(group, 1.0),
            "mass": rng.normal(0, 10.0 ** (group - 2)),
            "same": 1.0,
        }
    )
    X.loc[::7, "colour"] = None
    X.loc[::5, "mass"] = np.nan
    y = np.where(rng.random(n) < 0.8, np.array(["no", "yes", "maybe"])[group], "no")
    return X, y


def fit(clf, X, y):
    with pytest.warns(UserWarning, match="fewer than two distinct values"):
        return clf.fit(X, y)


CLASSIFIERS = {
    "fan": FANClassifier(3, random_state=0, n_init=3),
    "per class": FANClassifier("auto", max_components=2, mixing="per_class", random_state=0, tol=1e-3),
    "binned": FANClassifier(2, discretize="mdlp", random_state=0, categorical_features=["colour", "flag", "count"]),
    "fm": FMClassifier(3, random_state=0, max_iter=200, handle_unknown="error"),
    "nb": NBClassifier(alpha=0.5, variance_estimator="paper"),
}
FRAMES = {"pandas": lambda X: X, "polars": pl.from_pandas, "array": lambda X: X[["length", "mass", "same"]].to_numpy()}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:whole numbers of few different values:fanbayes.DataWarning")
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_everything_comes_back(name, frame, tmp_path):
    X, y = make_rows()
    rows = FRAMES[frame](X)
    clf = clone(CLASSIFIERS[name])
    if frame == "array" and name == "binned":
        clf = FANClassifier(2, discretize="mdlp", random_state=0)
    fit(clf, rows, y)
    save(clf, tmp_path / "model.fan")
    back = load(str(tmp_path / "model.fan"))

    assert type(back) is type(clf)
    assert back.get_params() == clf.get_params()
    assert vars(back).keys() == vars(clf).keys()
    for method in ("predict_proba", "predict_log_proba", "predict_joint_log_proba", "predict_components"):
        assert getattr(back, method)(rows).tobytes() == getattr(clf, method)(rows).tobytes()
    assert back.predict(rows).tolist() == clf.predict(rows).tolist()
    assert repr(back.schema_.to_json()) == repr(clf.schema_.to_json())
    assert back.classes_.dtype.kind == clf.classes_.dtype.kind
    for one, other in zip(builders.arrays(back.network_), builders.arrays(clf.network_)):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    for name in ("n_components_", "n_iter_", "log_likelihood_", "converged_", "n_features_in_"):
        assert getattr(back, name) == getattr(clf, name)
        assert type(getattr(back, name)) is type(getattr(clf, name))
    assert back.trace_.tolist() == clf.trace_.tolist()
    assert [t.tolist() for t in back.start_traces_] == [t.tolist() for t in clf.start_traces_]
    for table in ("selection_", "starts_"):
        one, other = getattr(back, table), getattr(clf, table)
        assert type(one) is type(other)
        if frame == "pandas":
            pd.testing.assert_frame_equal(one, other)
        else:
            assert one.equals(other) if frame == "polars" else one == other
    if frame != "array":
        assert back.feature_names_in_.tolist() == clf.feature_names_in_.tolist()
    # A loaded classifier can be used as the fitted one: samples, and another fit.
    one, other = back.sample(5, random_state=1), clf.sample(5, random_state=1)
    assert str(one) == str(other)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", "bcd"]),
        np.array(["a", "bcd"], dtype=object),
        np.array([True, False]),
        np.array([-3, 2**40]),
        np.array([1, 200], dtype=np.uint8),
        np.array([0.0, 3.0], dtype=np.float32),
    ],
    ids=lambda a: str(a.dtype),
)
def test_classes_keep_their_type(labels, tmp_path):
    clf = NBClassifier().fit(np.arange(6.0)[:, None], np.tile(labels, 3))
    save(clf, tmp_path / "m")
    back = load(tmp_path / "m")
    assert back.classes_.dtype == clf.classes_.dtype
    assert back.classes_.tolist() == clf.classes_.tolist()


def test_settings_come_back(tmp_path):
    X = np.arange(12.0).reshape(6, 2)
    settings = {
        "random_state": np.random.RandomState(3),
        "categorical_features": np.array([True, False]),
        "alpha": np.float64(0.5),
        "n_jobs": 2,
    }
    clf = FANClassifier(1, **settings).fit(X, [0, 1] * 3)
    save(clf, tmp_path / "m")
    back = load(tmp_path / "m")
    assert back.random_state is None  # a generator has no form in a file
    assert back.categorical_features == [True, False]
    assert back.alpha == 0.5
    assert back.n_jobs == 2
    np.testing.assert_array_equal(back.fit(X, [0, 1] * 3).predict_proba(X), clf.predict_proba(X))


def test_numbers_that_are_not_finite(tmp_path):
    """Of a column with nothing in it, and of a start that degenerated."""
    X = np.column_stack([np.arange(6.0), np.full(6, np.nan)])
    clf = fit(NBClassifier(), X, [0, 1] * 3)
    clf.starts_["objective"] = [-np.inf]
    clf.selection_["cs"] = [np.nan]
    save(clf, tmp_path / "m")
    back = load(tmp_path / "m")
    assert back.starts_["objective"] == [-np.inf]
    assert np.isnan(back.selection_["cs"][0])
    assert np.isnan(back.schema_[1].low)
    raw = (tmp_path / "m").read_bytes()
    outer = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")], parse_constant=pytest.fail)
    json.loads(outer["__metadata__"]["fanbayes"], parse_constant=pytest.fail)


def test_a_file_of_today_still_loads():
    """Of version 0.1.0, turned into format 2, and never to be written again."""
    expected = json.loads((DATA / "model-v2.json").read_text())
    clf = load(DATA / "model-v2.fan")
    X = pd.DataFrame(expected["rows"])
    np.testing.assert_allclose(clf.predict_proba(X), expected["proba"], rtol=1e-9)
    np.testing.assert_allclose(clf.predict_joint_log_proba(X), expected["log_joint"], rtol=1e-9)
    assert clf.predict(X).tolist() == expected["predicted"]
    assert clf.get_params() == {**FANClassifier().get_params(), **expected["settings"]}  # later ones: their defaults
    assert clf.selection_["icl"].tolist() == expected["icl"]
    assert clf.starts_["status"].tolist() == expected["status"]


def test_a_file_of_another_format_is_refused():
    with pytest.raises(ModelFileError, match="it has format 1, and this version reads 2: fit and save it again"):
        load(DATA / "model-v1.fan")


def test_the_file_is_as_described():
    """Probabilities computed from docs/model-file.md alone, with a JSON reader and a safetensors reader."""
    raw = (DATA / "model-v2.fan").read_bytes()
    header = json.loads(json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]["fanbayes"])
    arrays = safetensors.numpy.load(raw)
    expected = json.loads((DATA / "model-v2.json").read_text())
    class_of = np.repeat([0, 1, 2], header["structure"]["n_components"])
    for r, proba in enumerate(expected["proba"]):
        log_p = arrays["log_factor.class"][class_of] + arrays["log_factor.component | class"]
        first, number = 0, 0
        numbers = len(arrays["cells.gaussian"]) // 2
        columns = header["schema"]["columns"]
        for column in sorted(columns, key=lambda column: len(column["levels"])):  # which leaves the numbers in order
            value = expected["rows"][column["name"]][r]
            if column["kind"] == "discrete":
                if value is not None:
                    log_p = log_p + arrays["cells.categorical"][first + column["levels"].index(value)]
                first += len(column["levels"]) + 1
            elif column["scale"] > 0:
                if value is not None:
                    z = (value * 2.0 ** -column["exponent"] - column["centre"]) / column["scale"]
                    mean, sigma2 = (arrays["cells.gaussian"][k] for k in (number, numbers + number))
                    log_p = log_p - 0.5 * (np.log(2 * np.pi * sigma2) + (z - mean) ** 2 / sigma2)
                number += 1
        joint = np.bincount(class_of, np.exp(log_p))
        np.testing.assert_allclose(joint / joint.sum(), proba, rtol=1e-12)
    digest = header["sha256"].encode()
    assert hashlib.sha256(raw.replace(digest, b"0" * 64, 1)).hexdigest().encode() == digest


def test_loads_without_the_frame_library(tmp_path):
    program = (
        "import sys; sys.modules['pandas'] = None\n"
        "import numpy as np\n"
        "from fanbayes.files.model_file import load\n"
        "clf = load(sys.argv[1])\n"
        "assert isinstance(clf.selection_, dict) and isinstance(clf.starts_, dict)\n"
        "assert clf.classes_.tolist() == ['maybe', 'no', 'yes']\n"
        "try:\n"
        "    clf.feature_table('length')\n"
        "except ImportError:\n"
        "    print('asked for')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(DATA / "model-v2.fan")], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("asked for\n", "")


# ---------------------------------------------------------------- refusals on saving


def test_categories_that_are_dates_are_kept_as_text(tmp_path):
    days = pd.DataFrame({"day": pd.Categorical(pd.to_datetime(["2024-01-01", "2024-01-02"] * 3))})
    clf = NBClassifier().fit(days, [0, 1] * 3)
    save(clf, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict_proba(days), clf.predict_proba(days))
    assert clf.predict_proba(days).max() > 0.6


def test_save_refuses_what_it_cannot_keep(tmp_path):
    X, y = np.arange(6.0)[:, None], [0, 1] * 3

    class Mine(NBClassifier):
        pass

    with pytest.raises(TypeError, match=r"save takes a classifier of fanbayes.*pipeline\[-1\].*joblib"):
        save(Mine().fit(X, y), tmp_path / "m")
    with pytest.raises(NotFittedError):
        save(NBClassifier(), tmp_path / "m")
    clf = NBClassifier().fit(X, y)
    with pytest.raises(ModelFileError, match=r"cannot be kept in a file: alpha=-1"):
        save(clf.set_params(alpha=-1), tmp_path / "m")
    clf.set_params(alpha=1.0).network_.cells[0, 0, 0] = np.nan
    with pytest.raises(ModelFileError, match="parameters that are no numbers"):
        save(clf, tmp_path / "m")
    with pytest.raises(ModelFileError, match=r"not valid Unicode, near .*no\\ud800"):
        save(NBClassifier().fit(X, ["no\ud800", "yes"] * 3), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match=r"none/m cannot be written: there is no folder .*/none$"):
        save(NBClassifier().fit(X, y), tmp_path / "none" / "m")


# ---------------------------------------------------------------- crashes


@pytest.fixture
def two_models():
    X, y = np.arange(6.0)[:, None], [0, 1] * 3
    return NBClassifier().fit(X, y), NBClassifier(alpha=7.0).fit(X, y)


def test_a_failure_leaves_the_old_file(two_models, tmp_path, monkeypatch):
    """How files are written at all: test_atomic.py."""
    path = tmp_path / "model.fan"
    save(two_models[0], path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match=rf"^{re.escape(str(path))} cannot be written: no space left$"):
        save(two_models[1], path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    save(two_models[1], path)
    assert load(path).alpha == 7.0


# ---------------------------------------------------------------- files that are refused


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Bytes, header and arrays of a small model with every kind of content."""
    path = tmp_path_factory.mktemp("models") / "sample.fan"
    path.write_bytes((DATA / "model-v2.fan").read_bytes())
    header, arrays = read(path)
    return path, path.read_bytes(), header, arrays


def sealed(header, arrays):
    """A file with the digest that belongs to it, whatever its content."""
    return pack({k: v for k, v in header.items() if k != "sha256"}, arrays)


def refusal(data, path):
    """The sentence with which bytes are refused, or None."""
    path = path.with_suffix(".bad")
    path.write_bytes(data)
    try:
        load(path)
    except ModelFileError as error:
        sentence = str(error)
        assert sentence.startswith(f"{path} cannot be loaded: ")
        assert "\n" not in sentence
        assert len(sentence) < len(str(path)) + 200
        return sentence
    return None


def test_sealing_alone_is_accepted(sample):
    path, data, header, arrays = sample
    assert refusal(data, path) is None
    assert refusal(sealed(state.plain(header), arrays), path) is None


@pytest.mark.parametrize("n", [0, 1, 7, 8, 9, 40, 1000, -8, -1])
def test_truncated(n, sample):
    path, data, *_ = sample
    assert refusal(data[:n], path)


def test_bytes_that_are_no_model(sample):
    path, data, _, arrays = sample
    assert "no fanbayes model" in refusal(b"colour,flag\nrouge,1\n", path)
    assert "no fanbayes model" in refusal(safetensors.numpy.save(arrays), path)
    assert "no fanbayes model" in refusal(safetensors.numpy.save(arrays, {"fanbayes-like": "{}"}), path)
    assert "appended" in refusal(data + b"\0", path)
    for length in (2**25 + 1, 2**40, 2**64 - 1):
        assert "header claims" in refusal(length.to_bytes(8, "little") + data[8:], path)
    assert "truncated" in refusal((2**25).to_bytes(8, "little") + data[8:], path)
    assert "JSON" in refusal((100_000).to_bytes(8, "little") + b'{"a":' + b"[" * 99_995, path)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda header: header["schema"]["columns"][0].update(name="\ud800"),
        lambda header: header["schema"]["columns"][0]["levels"].append("\udfff\n" * 50),
        lambda header: header["classes"]["values"].__setitem__(0, "no\ud800"),
        lambda header: header["settings"].update(discretize="\ud800"),
        lambda header: header.update({"\ud800": 0}),
    ],
    ids=["name", "level", "class", "setting", "key"],
)
def test_text_that_is_not_unicode(sample, spoil):
    path, _, header, arrays = sample
    header = state.plain(header)
    spoil(header)
    assert "text that is not valid Unicode, near " in refusal(sealed(header, arrays), path)


def test_what_is_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(ModelFileError, match="not a regular file"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="not a regular file"):
        load(tmp_path / "pipe")


def test_any_altered_byte_is_noticed(sample):
    path, data, *_ = sample
    rng = np.random.default_rng(0)
    for k in rng.integers(0, len(data), 150):
        altered = bytearray(data)
        altered[k] ^= 1 << rng.integers(8)
        assert refusal(bytes(altered), path)


def structure_of(factors, n_components):
    return {"factors": factors, "n_components": n_components, "variance_tying": "none"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": 3, "library": "9.9"}, "it has format 3, of fanbayes '9.9', and this version reads 2: upgrade"),
        ({"format": 0}, "a format that does not exist"),
        ({"format": 10**50}, "a format that does not exist"),
        ({"classifier": "a\nb" * 1000}, "classifier, 'a\\nb"),
        ({"format": True}, "no 'format'"),
        ({"classifier": "os.system"}, "classifier, 'os.system', is unknown"),
        ({"classifier": "NBClassifier", "settings": {}}, "structure is inconsistent"),
        ({"settings": {"alpha": "much"}}, "alpha='much' is neither 'auto' nor a number"),
        ({"settings": {"evil": 1}}, "setting 'evil' is unknown"),
        ({"settings": {"categorical_features": {"a": 1}}}, "categorical_features is no setting"),
        ({"settings": {"criterion": "x\n" * 1000}}, "criterion='x"),
        ({"settings": {"random_state": [[1]]}}, "random_state is no setting"),
        ({"settings": {"distributions": {"a": 1}}}, "distributions is no setting"),
        ({"settings": {"distributions": [["a", 1]]}}, "distributions is no setting"),
        ({"structure": structure_of(["class", "component | class"], [1, 2])}, "inconsistent"),
        ({"structure": structure_of(["class", "component | class"], [2, 2, 0])}, "inconsistent"),
        ({"structure": structure_of(["class", "component"], [1, 2, 3])}, "inconsistent"),
        ({"structure": structure_of(["class"], [1, 1, 1])}, "inconsistent"),
        ({"structure": structure_of(["class", "component | class"], [2, 2, 10**12])}, "states"),
        ({"structure": structure_of(["class", "component | class"], [2, 2, 3])}, "has shape"),
        ({"classes": {"dtype": "object", "values": ["a", "a", "b"]}}, "classes are damaged"),
        ({"classes": {"dtype": "int8", "values": [1, 2, 300]}}, "classes are damaged"),
        ({"classes": {"dtype": "datetime64[D]", "values": [1, 2, 3]}}, "classes are damaged"),
        ({"tables": {"selection": {}, "starts": {"n_iter": [-1]}}}, "starts is damaged"),
        ({"tables": {"selection": {"a": [1, "b"]}, "starts": {}}}, "tables are damaged"),
        ({"tables": {"selection": {"a": [1], "b": []}, "starts": {}}}, "tables are damaged"),
        ({"tables": {"selection": {}, "starts": {}}}, "candidates is damaged"),
        ({"fit": {"log_likelihood": {"float": "nan"}, "converged": True}}, "log-likelihood is not a number"),
        ({"fit": {"log_likelihood": {"float": "eval"}, "converged": True}}, "not valid JSON"),
        ({"named": None}, "no 'named'"),
        ({"beside": [1]}, "names of columns are damaged"),
        ({"missing_texts": [None]}, "texts for a missing value are damaged"),
    ],
)
def test_inconsistent_headers(change, sentence, sample):
    path, _, header, arrays = sample
    assert sentence in refusal(sealed({**state.plain(header), **change}, arrays), path)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"},
        {"levels": ["a", "a"]},
        {"levels": ["a", False, 1]},
        {"levels": [[]]},
        {"levels": [10**30, 1]},
        {"cuts": [1.0]},
        {"scale": -1.0},
        {"scale": {"float": "inf"}},
        {"exponent": 10**6},
        {"exponent": 1.5},
        {"name": None},
        {"more": 1},
    ],
    ids=str,
)
def test_inconsistent_columns(change, sample):
    path, _, header, arrays = sample
    plain = state.plain(header)
    first, *others = plain["schema"]["columns"]
    schema = {**plain["schema"], "columns": [{**first, **change}, *others]}
    sentence = refusal(sealed({**plain, "schema": schema}, arrays), path)
    assert "schema is damaged" in sentence or "its header has no" in sentence


@pytest.mark.parametrize("change", [{"scale": 3.0}, {"centre": 5.5}, {"exponent": -1000}], ids=str)
def test_counts_are_taken_as_they_are(change, tmp_path):
    X, y = make_rows()
    rows = X.assign(count=np.arange(len(X)) % 7)
    clf = fit(NBClassifier(distributions={"count": "poisson"}), rows, y)
    header, arrays = to_state(clf)
    column = next(c for c in header["schema"]["columns"] if c["name"] == "count")
    column |= change
    assert "its schema is damaged" in refusal(sealed(header, arrays), tmp_path / "model.fan")


def test_numbers_are_no_categories(tmp_path):
    """Not even in a file that has the arrays of such a model."""
    X, y = make_rows()
    header, arrays = to_state(NBClassifier().fit(X[["length"]].to_numpy(), y))
    header["schema"]["columns"][0] |= {
        "distribution": "categorical",
        "exponent": 0,
        "centre": 0.0,
        "scale": 1.0,
        "mean": 1.0,
    }
    del arrays["cells.gaussian"], arrays["shared.gaussian"]
    arrays |= {"cells.categorical": np.zeros((0, len(set(y)))), "shared.categorical": np.zeros(0)}
    assert "a distribution that is unknown" in refusal(sealed(header, arrays), tmp_path / "model.fan")


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("cells.categorical", lambda a: a[:-1], "has shape"),
        ("cells.categorical", lambda a: a.astype(np.float32), "float32, not float64"),
        ("cells.categorical", lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.nan, a), "no numbers"),
        ("cells.categorical", lambda a: a * (1 + 1e-6), "do not sum to one"),
        ("log_factor.class", lambda a: a - 1e-6, "do not sum to one"),
        ("log_factor.class", lambda a: a[None], "has shape"),
        ("cells.gaussian", lambda a: a.T, "has shape"),
        ("cells.gaussian", lambda a: a + np.inf, "no numbers"),
        ("cells.gaussian", lambda a: a + 1e200, "beyond 1e100"),
        ("cells.gaussian", lambda a: -np.abs(a), "variance"),
        ("cells.gaussian", lambda a: 0 * a, "variance"),
        ("trace", lambda a: a[None], "has shape"),
        ("trace", lambda a: a.astype(np.int64), "int64, not float64"),
        ("start_traces", lambda a: a[1:], "has shape"),
    ],
)
def test_wrong_arrays(name, change, sentence, sample):
    path, _, header, arrays = sample
    plain = state.plain(header)
    assert sentence in refusal(sealed(plain, {**arrays, name: change(arrays[name])}), path)
    without = {k: a for k, a in arrays.items() if k != name}
    assert "arrays that it should" in refusal(sealed(plain, without), path)


def test_memory_stays_small(sample):
    """Small files that claim to be large."""
    path, data, header, arrays = sample
    plain = state.plain(header)
    factors = ["class", "component | class"]
    wide = {"dtype": "str", "values": ["x" * 16_000, *map(str, range(2000))]}
    wider = {"dtype": "str", "values": ["x" * 1_000_000, *map(str, range(100_000))]}
    empty = np.zeros((0, 2**40))
    deep = json.loads("[" + ",".join(["[" * 400 + "]" * 400] * 300) + "]")
    files = [
        (2**62).to_bytes(8, "little") + data[8:],
        *(sealed({**plain, "structure": structure_of(factors, [n, 1, 1])}, arrays) for n in (10**6, 10**15)),
        sealed({**plain, "classes": wide, "structure": structure_of(factors, [1] * 2001)}, arrays),
        sealed({**plain, "classes": wider}, arrays),
        sealed({**plain, "named": deep}, arrays),
        sealed(plain, {**arrays, "cells.gaussian": empty, "cells.categorical": empty}),
        data.replace(b'"shape":[', b'"shape":[99999999999,', 1),
    ]
    tracemalloc.start()
    try:
        for file in files:
            tracemalloc.clear_traces()
            assert refusal(file, path)
            assert tracemalloc.get_traced_memory()[1] < 50 * len(file) + 1e6
    finally:
        tracemalloc.stop()


def test_states_without_arrays_in_an_average(tmp_path):
    """Each of many members may not claim what would be right for one."""
    X, y = np.arange(40.0)[:, None], np.arange(40) // 20
    save(FANClassifierCV(effort="fast", random_state=0).fit(X, y), tmp_path / "m")
    header, arrays = read(tmp_path / "m")
    plain = state.plain(header)
    network = next(fit for fit in plain["fits"] if "structure" in fit)
    network["structure"]["n_components"] = [10**5] * 2
    assert "it has 200000 states, and not the numbers for so many" in refusal(sealed(plain, arrays), tmp_path / "m")


def test_columns_of_far_apart_integers_take_little(tmp_path):
    """Memory follows the number of levels, not the largest: in fitting, in the file and in predicting one row."""
    X = np.random.default_rng(0).choice([0, 2**20 - 1, 5, -(2**40)], (60, 50))
    y = np.arange(60) % 2
    tracemalloc.start()
    try:
        clf = NBClassifier(categorical_features="all").fit(X, y)
        save(clf, tmp_path / "m")
        proba = load(tmp_path / "m").predict_proba(X[:1])
        assert tracemalloc.get_traced_memory()[1] < 4e6
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(proba, clf.predict_proba(X)[:1])


def test_what_is_not_a_regular_file_is_left_alone(tmp_path):
    (tmp_path / "folder.fan").mkdir()
    model = NBClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    with pytest.raises(IsADirectoryError, match=r"folder\.fan cannot be written"):
        save(model, tmp_path / "folder.fan")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder.fan"]
