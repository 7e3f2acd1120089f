"""Tables of Dask: the same fits as in memory, the same bits for any number of workers, and bad days."""

import os
import pickle
import signal
import time

import builders
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone

from fanbayes import (
    AODEClassifier,
    BoostedNBClassifier,
    FANClassifier,
    FMClassifier,
    MDAClassifier,
    MDLPDiscretizer,
    NBClassifier,
    TANClassifier,
)
from fanbayes.estimators import on_dask
from fanbayes.estimators.dask_parts import DaskParts
from fanbayes.estimators.on_dask import blocks_of
from fanbayes.learning.data import InMemoryData


def make_table(n=7000, seed=0):
    """Mixed columns, two components a class, values missing, rows without a label, weights."""
    rng = np.random.default_rng(seed)
    y, h = rng.integers(0, 2, n), rng.integers(0, 2, n)
    columns = {f"x{j}": rng.normal(size=n) + 2 * y * (j % 2) + 4 * h * (-1) ** j for j in range(3)}
    for j in range(3):
        columns[f"c{j}"] = np.array([*"abcde"], dtype=object)[rng.binomial(4, 0.2 + 0.4 * y * h + 0.1 * j)]
    frame = pd.DataFrame(columns)
    frame["fraud"] = np.array(["no", "yes"], dtype=object)[y]
    frame["times"] = rng.integers(0, 3, n).astype(float)
    for name in ("x1", "c1", "fraud"):
        frame.loc[rng.random(n) < 0.05, name] = None
    return frame


FRAME = make_table()
FEATURES = [name for name in FRAME if name[0] in "xc"]


def bits(model):
    """Parameters as they are in memory."""
    return [array.tobytes() for array in builders.arrays(model.network_)]


def is_soon_empty(futures):
    """Dask lets go in a thread of its own."""
    for _ in range(100):
        if not futures:
            return True
        time.sleep(0.05)
    return False


def parts(frames):
    """A frame of Dask with these partitions, whatever they hold."""
    return dd.from_map(lambda k: frames[k], range(len(frames)), meta=frames[0].iloc[:0], enforce_metadata=False)


@pytest.fixture
def table():
    return dd.from_pandas(FRAME, npartitions=5, sort=False)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(on_dask, "_ROWS_A_BLOCK", 2000)
    monkeypatch.setattr(on_dask, "_ROWS_TOGETHER", 1000)


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes, started once."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        client.wait_for_workers(1)
        yield client


@pytest.fixture(scope="module")
def worker_here():
    """A worker in this process, started at once."""
    with LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def client_here(worker_here):
    with Client(worker_here) as client:
        yield client


MODELS = {
    "NB": NBClassifier(),
    "NB with bins": NBClassifier(discretize="mdlp"),
    "NB, missing is informative": NBClassifier(missing="informative"),
    "FM": FMClassifier(n_components=2, random_state=0),
    "FAN": FANClassifier(random_state=0, n_init=4),
    "FAN by class": FANClassifier(random_state=0, n_init=4, mixing="per_class"),
    "CEM": FANClassifier(n_components=2, algorithm="cem", random_state=0),
    "FAN with arcs": FANClassifier(n_components=2, tree="forest", random_state=0),
    "TAN": TANClassifier(),
    "MDA": MDAClassifier(n_components=2, random_state=0),
}


# ---------------------------------------------------------------- the same fits


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.usefixtures("small_blocks")
def test_a_fit_agrees_with_the_one_in_memory(model, table, monkeypatch):
    """To 1e-8, where EM in memory takes the same steps: pass by pass, no row frozen."""
    monkeypatch.setattr(InMemoryData, "run_em", lambda *_, **__: None)
    here = model.fit(FRAME[FEATURES], FRAME["fraud"], FRAME["times"])
    proba, likelihood, schema = here.predict_proba(FRAME[FEATURES]), here.log_likelihood_, here.schema_
    there = model.fit(table, "fraud", "times")
    assert [c.levels for c in there.schema_.columns] == [c.levels for c in schema.columns]
    assert there.classes_.tolist() == ["no", "yes"]
    assert there.log_likelihood_ == pytest.approx(likelihood, rel=1e-8)
    found = there.predict_proba(table)
    assert found.chunks[1] == (2,)
    np.testing.assert_allclose(found.compute(), proba, atol=1e-8)


def test_columns_of_dask_and_names_are_the_same(table):
    one = NBClassifier().fit(table, "fraud", "times")
    two = NBClassifier().fit(table[FEATURES], table["fraud"], table["times"])
    assert bits(one) == bits(two)


def test_arrays():
    X = FRAME[["x0", "x1", "x2"]].to_numpy()
    y = (X[:, 0] > 0).astype(int)
    here = NBClassifier().fit(X, y)
    there = NBClassifier().fit(da.from_array(X, chunks=(1500, 2)), da.from_array(y, chunks=1000))
    assert there.log_likelihood_ == pytest.approx(here.log_likelihood_, rel=1e-12)
    rows = da.from_array(X, chunks=(999, 3))
    assert there.predict_proba(rows).shape == (7000, 2)
    np.testing.assert_allclose(there.predict_proba(rows).compute(), here.predict_proba(X), atol=1e-12)
    predicted = there.predict(rows)
    assert predicted.dtype == here.classes_.dtype
    np.testing.assert_array_equal(predicted.compute(), here.predict(X))
    assert there.score(rows, da.from_array(y, chunks=999)) == pytest.approx(here.score(X, y))


def test_what_partitions_may_be(monkeypatch):
    """Empty, of one class, without labels, without weight, with categories of their own."""
    monkeypatch.setattr(InMemoryData, "run_em", lambda *_, **__: None)
    whole = FRAME.assign(c0=FRAME["c0"].astype("category"))
    known = whole["fraud"].notna()
    frames = [whole[:0], whole[known & (whole["fraud"] == "no")][:900], whole[900:2000].assign(fraud=None)]
    frames += [whole[2000:3000].assign(times=0.0), whole[3000:], whole[:0]]
    frames[4] = frames[4].assign(c0=frames[4]["c0"].astype(object).replace("e", "new").astype("category"))
    together = pd.concat([frame.assign(c0=frame["c0"].astype(object)) for frame in frames])
    here = NBClassifier().fit(together[FEATURES], together["fraud"], together["times"])
    there = NBClassifier().fit(parts(frames), "fraud", "times")
    assert set(there.schema_["c0"].levels) == {*"abcde", "new"}
    proba = there.predict_proba(parts(frames)).compute()
    np.testing.assert_allclose(proba, here.predict_proba(together[FEATURES]), atol=1e-10)


def test_blocks_are_made_of_neighbours():
    assert blocks_of([10_000] * 200, 1_000_000) == [list(range(100)), list(range(100, 200))]
    assert blocks_of([1_000_000, 1_000_000], 1_000_000) == [[0], [1]]
    assert blocks_of([0, 700_000, 700_000, 0, 5_000_000, 3], 1_000_000) == [[0, 1, 2], [3, 4], [5]]


@pytest.mark.usefixtures("small_blocks")
def test_rows_stay_where_they_are(table, monkeypatch):
    """What comes here is much smaller than the rows, but for those that the short runs see."""
    sizes, gather = [], DaskParts.gather

    def measured(self):
        found = gather(self)
        sizes.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(DaskParts, "gather", measured)
    NBClassifier().fit(table, "fraud", "times")
    assert len(sizes) > 3
    assert max(sizes) < 20_000 < len(pickle.dumps(FRAME)) / 10


# ---------------------------------------------------------------- on a cluster


@pytest.mark.usefixtures("small_blocks")
def test_any_number_of_workers_gives_the_same_bits(table, client):
    model = FANClassifier(n_components=2, random_state=0, n_init=4, tol=1e-3)
    two = clone(model).fit(table, "fraud", "times")
    names = set(client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes)))
    assert {"fanbayes-read", "fanbayes-summary", "fanbayes-encode", "fanbayes-e-step"} <= names
    assert is_soon_empty(client.futures)
    with dask.config.set(scheduler="sync"):
        one = clone(model).fit(table, "fraud", "times")
    assert bits(one) == bits(two)


@pytest.mark.parametrize(
    "phase", [pytest.param(f"_{name}", marks=pytest.mark.slow) for name in ("read", "summary", "encode")] + ["_e_step"]
)
@pytest.mark.usefixtures("small_blocks")
def test_a_worker_that_is_killed_costs_nothing_but_time(phase, table, cluster, client, monkeypatch):
    model = FANClassifier(n_components=2, random_state=0, n_init=4, tol=1e-3)
    with dask.config.set(scheduler="sync"):
        calm = clone(model).fit(table, "fraud", "times")
    do, killed = DaskParts.of.__func__, []

    def kill(cls, function, *arguments):
        found = do(cls, function, *arguments)
        if function.__name__ == phase and len(killed) < 1:
            found = found.persist()  # it has begun
            killed.append(next(w.process.pid for w in cluster.workers.values() if w.process and w.process.pid))
            os.kill(killed[0], signal.SIGKILL)
        return found

    monkeypatch.setattr(DaskParts, "of", classmethod(kill))
    again = model.fit(table, "fraud", "times")
    assert killed
    assert bits(again) == bits(calm)


def test_versions_that_differ(table, client_here, monkeypatch):
    versions = client_here.get_versions(packages=["fanbayes"])
    address = next(iter(versions["workers"]))
    for name, there, said in (("fanbayes", None, "has no fanbayes"), ("numpy", "1.26.0", "has numpy 1.26.0")):
        packages = versions["workers"][address]["packages"] | {name: there}
        changed = versions | {"workers": versions["workers"] | {address: {"packages": packages}}}
        monkeypatch.setattr(Client, "get_versions", lambda *_, found=changed, **__: found)
        with pytest.raises(ValueError, match=f"worker {address} of Dask {said}.*; install the same there"):
            NBClassifier().fit(table, "fraud", "times")


def test_a_scheduler_that_goes_away(table, monkeypatch):
    cluster = LocalCluster(n_workers=1, processes=False, dashboard_address=":0")
    client, gather, calls = Client(cluster), DaskParts.gather, []

    def close(self):
        calls.append(1)
        if len(calls) == 3:
            cluster.close()
        return gather(self)

    monkeypatch.setattr(DaskParts, "gather", close)
    with client, pytest.raises(ConnectionError, match=r"the scheduler of Dask went away.*fit again"):
        NBClassifier().fit(table, "fraud", "times")


def test_an_interrupted_fit_leaves_nothing(table, client_here, monkeypatch):
    model, calls, gather = NBClassifier().fit(FRAME[FEATURES], FRAME["fraud"]), [], DaskParts.gather
    before = model.network_

    def interrupted(self):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return gather(self)

    monkeypatch.setattr(DaskParts, "gather", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(table, "fraud", "times")
    assert model.network_ is before
    assert is_soon_empty(client_here.futures)


# ---------------------------------------------------------------- what is refused


def test_partitions_that_differ():
    other = FRAME[3000:].assign(x0=FRAME["c0"][3000:])
    with pytest.raises(ValueError, match=r"column 'x0' holds numbers in partition 0 and strings in partition 1"):
        NBClassifier().fit(parts([FRAME[:3000], other]), "fraud", "times")
    shorter = FRAME[3000:].drop(columns="x0")
    with pytest.raises(ValueError, match=r"partition 1 .*'x0'"):
        NBClassifier().fit(parts([FRAME[:3000], shorter]), "fraud", "times")
    infinite = FRAME[3000:].assign(x0=np.inf)
    with pytest.raises(ValueError, match=r"partition 1: column 'x0' contains infinity"):
        NBClassifier().fit(parts([FRAME[:3000], infinite]), "fraud", "times")
    with pytest.raises(ValueError, match=r"partition 1: it has no column 'fraud'; give all partitions the same"):
        NBClassifier().fit(parts([FRAME[:3000], FRAME[3000:].drop(columns="fraud")]), "fraud", "times")
    mixed = FRAME[3000:].assign(fraud=1)
    with pytest.raises(ValueError, match="y mixes labels of different types"):
        NBClassifier().fit(parts([FRAME[:3000], mixed]), "fraud", "times")


@pytest.mark.filterwarnings("ignore:.*inplace keyword")  # Dask's, of newer versions of pandas
def test_a_partition_that_cannot_be_read(tmp_path):
    dd.from_pandas(FRAME, npartitions=6).to_parquet(tmp_path)
    table = dd.read_parquet(tmp_path)
    model = NBClassifier().fit(table, "fraud", "times")
    files = sorted(tmp_path.glob("*.parquet"))
    files[4].write_bytes(files[4].read_bytes()[:500])
    with pytest.raises(ValueError, match="partition 4 cannot be read"):
        model.fit(table, "fraud", "times")
    files[2].unlink()
    with pytest.raises(ValueError, match="partition 2 cannot be read"):
        model.fit(table, "fraud", "times")


@pytest.mark.filterwarnings("ignore:.*inplace keyword")  # Dask's, of newer versions of pandas
@pytest.mark.usefixtures("client_here")
def test_a_partition_that_cannot_be_read_on_a_cluster(tmp_path):
    dd.from_pandas(FRAME, npartitions=4).to_parquet(tmp_path)
    table = dd.read_parquet(tmp_path)
    sorted(tmp_path.glob("*.parquet"))[3].unlink()
    with pytest.raises(ValueError, match="partition 3 cannot be read"):
        NBClassifier().fit(table, "fraud", "times")


def test_wrong_use(table):
    with pytest.raises(ValueError, match=r"X has no column 'price'"):
        NBClassifier().fit(table, "price")
    with pytest.raises(ValueError, match="X has no column beside y and sample_weight"):
        NBClassifier().fit(table[["fraud"]], "fraud")
    with pytest.raises(TypeError, match=r"name a column of X, or one of Dask"):
        NBClassifier().fit(table[FEATURES], FRAME["fraud"])
    with pytest.raises(ValueError, match=r"X has 5 partitions and y has 2"):
        NBClassifier().fit(table[FEATURES], table["fraud"].repartition(npartitions=2))
    with pytest.raises(ValueError, match="no row has a label"):
        NBClassifier().fit(parts([FRAME.assign(fraud=None)]), "fraud", "times")
    for other in (AODEClassifier(), BoostedNBClassifier(), MDLPDiscretizer()):
        with pytest.raises(TypeError, match=r"X is a table of Dask, and this needs rows in memory"):
            other.fit(table[FEATURES], table["fraud"])
    model = NBClassifier().fit(table, "fraud", "times")
    with pytest.raises(ValueError, match=r"X has no column 'x1', which was there in training"):
        model.predict_proba(table.drop(columns="x1"))
    with pytest.raises(TypeError, match=r"X is a table of Dask, and this needs rows in memory"):
        model.explain(table)
    unseen = parts([FRAME, FRAME.assign(c0="new")])
    model.set_params(handle_unknown="error")
    with pytest.raises(ValueError, match=r"partition 1: column 'c0' has a category"):
        model.predict_proba(unseen).compute()


def test_answers_come_partition_by_partition():
    frame = pd.DataFrame({"x": np.arange(30.0), "y": np.arange(30) % 2})
    table = dd.from_pandas(frame, npartitions=3)
    clf = NBClassifier().fit(table, "y")
    found = list(clf.predict_proba_batches(table))
    assert [len(p) for p in found] == [10, 10, 10]
    np.testing.assert_array_equal(np.concatenate(found), clf.predict_proba(frame[["x"]]))


def test_others_say_that_they_need_rows_in_memory():
    table = dd.from_pandas(pd.DataFrame({"x": np.arange(30.0), "y": np.arange(30) % 2}), npartitions=3)
    with pytest.raises(TypeError, match=r"rows in memory are needed here; call .compute\(\) on it first"):
        BoostedNBClassifier().fit(table, "y")


@pytest.mark.parametrize(("other", "said"), [("rows", r"it had \d+ rows when"), ("values", "it had other values when")])
def test_a_partition_that_is_another_one_when_it_is_read_again(other, said):
    """As it has to be where a worker died, or where a view needs other codes."""
    reads = []

    def read(k):
        reads.append(k)
        some = FRAME[k * 1000 : k * 1000 + 1000]
        if k != 2 or reads.count(2) < 2:
            return some
        return some[:900] if other == "rows" else some.assign(x0=some["x0"] + 1e-9)

    table = dd.from_map(read, range(4), meta=FRAME[:0])
    with dask.config.set(scheduler="sync"):
        cases = NBClassifier()._cases_of(table, "fraud", "times")
        schema, _ = cases.encoded("none")
        assert sorted(reads) == [0, 1, 2, 3]
        with pytest.raises(ValueError, match=f"partition 2: {said}"):
            cases.table(schema)


def test_partitions_are_read_once_and_let_go(client_here):
    """Encoded rows stay; those that they were made of do not."""
    table = dd.from_pandas(FRAME, npartitions=5, sort=False)
    cases = NBClassifier()._cases_of(table, "fraud", "times")
    _, encoded = cases.encoded("none")

    def held(name):
        tasks = client_here.run_on_scheduler(
            lambda dask_scheduler: [str(key) for key, task in dask_scheduler.tasks.items() if task.who_has]
        )
        return sum(name in key for key in tasks)

    for _ in range(100):  # Dask lets go in a thread of its own
        if held("fanbayes-read") == 1:  # the first, by which traps are judged
            break
        time.sleep(0.05)
    assert held("fanbayes-read") == 1
    assert held("fanbayes-joined") == len(encoded.parts.values)


def test_small_partitions_make_the_blocks_of_large_ones(monkeypatch):
    monkeypatch.setattr(on_dask, "_ROWS_TOGETHER", 2000)
    with dask.config.set(scheduler="sync"):
        many, few = (dd.from_pandas(FRAME, npartitions=n, sort=False) for n in (70, 1))
        cases = [NBClassifier()._cases_of(table, "fraud", "times") for table in (many, few)]
        schema, _ = cases[1].encoded("none")
        found = [np.concatenate([t.numbers for t in c.table(schema).parts.gather()]) for c in cases]
    np.testing.assert_array_equal(*found)


@pytest.mark.usefixtures("client_here")
def test_progress_of_partitions_is_shown(table, capsys):
    NBClassifier(verbose=True).fit(table, "fraud", "times")
    assert "100%" in capsys.readouterr().err
    NBClassifier().fit(table, "fraud", "times")
    assert capsys.readouterr() == ("", "")
