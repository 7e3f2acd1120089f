"""Suites: what they contain, that they load lazily, and that one broken dataset breaks nothing else."""

import hashlib
import json
import lzma
import pickle
from types import SimpleNamespace
from urllib.error import URLError

import narwhals as nw
import numpy as np
import pytest
import sklearn.datasets

from fanbayes.datasets import RELATED, DatasetError, load_suite, suites

CSV = "split,x,k,class\ntrain,1.5,?,u\ntest,,01,v\n"
GOOD = {
    "name": "good",
    "file": "good.csv",
    "features": [{"name": "x", "kind": "continuous"}, {"name": "k", "kind": "discrete"}],
    "donor_split": True,
    "n_rows": 2,
    "sha256_csv": hashlib.sha256(CSV.encode()).hexdigest(),
}


@pytest.fixture
def folder(tmp_path):
    """A function that writes a suite of the given manifest entries and opens it."""

    def build(*entries):
        (tmp_path / "good.csv").write_text(CSV)
        (tmp_path / "manifest.json").write_text(json.dumps({"datasets": entries}))
        return load_suite(tmp_path)

    return build


def refusal(suite, name):
    with pytest.raises(DatasetError) as caught:
        suite[name]
    assert repr(name) in str(caught.value)
    return str(caught.value)


# Builtin


def test_builtin_loads_and_repeats_itself():
    suite = load_suite("builtin")
    assert len(suite) == len(list(suite)) == 21
    for name in suite:
        first, again = suite[name], suite[name]
        X, same = nw.from_native(first.X), nw.from_native(again.X)
        assert first.name == name
        assert X.shape == (len(first.y), len(first.kinds))
        assert X.columns == list(first.kinds)
        assert np.array_equal(X.to_numpy(), same.to_numpy())
        assert first.y.tolist() == again.y.tolist()
        assert all((X[key].dtype == nw.Float64) == (kind == "continuous") for key, kind in first.kinds.items())


def test_builtin_shapes():
    suite = load_suite("builtin")
    assert {name: suite[name].X.shape for name in ("iris", "wine", "breast_cancer", "digits", "led24")} == {
        "iris": (150, 4),
        "wine": (178, 13),
        "breast_cancer": (569, 30),
        "digits": (1797, 64),
        "led24": (3200, 24),
    }
    assert suite["iris"].classes == ["setosa", "versicolor", "virginica"]
    assert suite["digits"].classes == list("0123456789")


def test_groups():
    members = [name for group in RELATED.values() for name in group]
    assert len(members) == len(set(members))
    suite = load_suite("builtin")
    assert suite.groups["monks-1"] == suite.groups["monks-3"] == suite["monks-2"].group == "monks"
    assert suite["iris"].group is None
    assert "thyroid-sick" not in suite.groups


def test_a_suite_is_lazy_and_survives_pickling(monkeypatch):
    suite = pickle.loads(pickle.dumps(load_suite("builtin")))
    assert suite["lenses"].name == "lenses"
    monkeypatch.setattr(sklearn.datasets, "load_iris", None)
    assert "iris" in suite
    assert "isis" not in suite
    with pytest.raises(KeyError):
        suite["isis"]


def test_only():
    suite = load_suite("builtin").only(["wine", "lenses"])
    assert list(suite) == ["wine", "lenses"]
    with pytest.raises(DatasetError, match="no dataset 'iriss'; did you mean 'iris'"):
        load_suite("builtin").only(["iriss"])


# A folder


def test_folder(folder, tmp_path):
    packed = {**GOOD, "name": "packed", "file": "packed.csv.xz", "group": "mine"}
    (tmp_path / "packed.csv.xz").write_bytes(lzma.compress(CSV.encode()))
    suite = folder(GOOD, packed)
    for name in suite:
        dataset = suite[name]
        assert dict(dataset.kinds) == {"x": "continuous", "k": "discrete"}
        assert nw.from_native(dataset.X)["k"].to_list() == ["?", "01"]
        assert dataset.split.tolist() == ["train", "test"]
        assert dataset.y.tolist() == ["u", "v"]
        assert dataset.name == name
    assert suite["packed"].group == "mine"
    assert suite["good"].group is None


def test_groups_of_a_folder_are_known_by_name_or_declared(folder):
    suite = folder({**GOOD, "name": "wdbc"}, {**GOOD, "name": "dna", "group": "genes"})
    assert suite.groups == {"wdbc": "breast-wisconsin", "dna": "genes"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"file": "absent.csv", "sha256_csv": None}, "no file"),
        ({"file": "absent.csv"}, "no file"),
        ({"file": 3}, "incomplete"),
        ({"features": None}, "incomplete"),
        ({"features": [{"name": "x"}]}, "incomplete"),
        ({"features": [{"name": "x", "kind": "ordinal"}]}, "'ordinal'"),
        ({"features": [*GOOD["features"], {"name": "z", "kind": "discrete"}]}, "no column 'z'"),
        ({"features": GOOD["features"][:1]}, "'k'"),
        ({"n_rows": 3}, "3 rows"),
        ({"sha256_csv": "0" * 64}, "sha256"),
        ({"target": "klass"}, "did you mean 'class'"),
        ({"donor_split": False}, "'split'"),
    ],
)
def test_one_broken_dataset_breaks_nothing_else(folder, change, words):
    suite = folder({**GOOD, **change, "name": "bad"}, GOOD)
    assert list(suite) == ["bad", "good"]
    with pytest.raises(DatasetError) as caught:
        suite["bad"]
    assert words in str(caught.value)
    assert suite["good"].classes == ["u", "v"]


def test_entries_without_a_usable_name(folder):
    suite = folder("nonsense", {"file": "good.csv"}, GOOD, GOOD)
    assert list(suite) == ["entry 1", "entry 2", "good"]
    assert "incomplete" in refusal(suite, "entry 1")
    assert "incomplete" in refusal(suite, "entry 2")
    assert "twice" in refusal(suite, "good")


def test_damaged_file_with_a_checksum(folder, tmp_path):
    (tmp_path / "bad.csv.xz").write_bytes(lzma.compress(CSV.encode())[:-8])
    suite = folder({**GOOD, "name": "bad", "file": "bad.csv.xz"})
    with pytest.raises(DatasetError, match="cannot read"):
        suite["bad"]


@pytest.mark.parametrize("manifest", ["", "[1", "[]", "{}", '{"datasets": 3}', '{"datasets": null}', b"\xff\xfe\xff"])
def test_broken_manifest(tmp_path, manifest):
    content = manifest if isinstance(manifest, bytes) else manifest.encode()
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(DatasetError, match=r"manifest\.json is not a JSON object"):
        load_suite(tmp_path)


def test_no_such_suite(tmp_path):
    with pytest.raises(DatasetError, match=r"has no manifest\.json"):
        load_suite(tmp_path)
    with pytest.raises(DatasetError, match="'builtin', 'openml' or a folder"):
        load_suite("bulitin")


# OpenML


@pytest.mark.parametrize("error", [URLError("no route to host"), TimeoutError("too slow"), ValueError("gone")])
def test_openml_without_network(monkeypatch, error):
    def fail(**options):
        raise error

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
    message = refusal(load_suite("openml"), "iris")
    assert "openml.org" in message
    assert "'builtin'" in message


def test_openml(monkeypatch):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"k": pd.Categorical(["a", "b"], ["a", "b", "c"]), "n": [1, 2], "class": ["u", "v"]})

    def fetch(*, data_id, as_frame, parser):
        name = next(name for name, number in suites.OPENML.items() if number == data_id)
        told = "Vote" if name == "vote" else "something else"
        return SimpleNamespace(frame=frame, target_names=["class"], details={"name": told})

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    suite = load_suite("openml")
    assert len(suite) >= 20
    dataset = suite["vote"]
    assert dict(dataset.kinds) == {"k": "discrete", "n": "continuous"}
    assert list(dataset.X["k"].cat.categories) == ["a", "b", "c"]
    assert np.array_equal(dataset.y, ["u", "v"])
    assert "something else" in refusal(suite, "iris")


def test_openml_needs_pandas(monkeypatch):
    def fail(**options):
        raise ImportError("no pandas")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fail)
    with pytest.raises(DatasetError, match="pip install"):
        load_suite("openml")["iris"]
