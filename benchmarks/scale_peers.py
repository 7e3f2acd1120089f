"""Naive Bayes and a pass of FAN beside those of others that read tables larger than memory, from the same files.

Whoever is compared takes turns, and the least of some repeats counts; nobody's imports do. scikit-learn's `partial_fit`
is given batches that Arrow reads, its categories by number; dask-ml arrays, a block for each file. dask-ml and Spark
have this machine's cores, Spark a bounded heap, no network but loopback, and rows that were cached before. Each is
asked for what it can: GaussianNB, Spark's gaussian naive Bayes and its mixture see the continuous columns only,
CategoricalNB the discrete ones.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from measure import Result, seconds
from scale_table import N_CLASSES, N_COMPONENTS, N_CONTINUOUS, N_DISCRETE, TARGET, files
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from fanbayes import FANClassifier, NBClassifier, _native

CODES, NUMBERS = [f"c{j}" for j in range(N_DISCRETE)], [f"x{j}" for j in range(N_CONTINUOUS)]
ITERATIONS, REPEAT = 5, 3
_HEAP = "4g"


def run(rows: list[int] | None = None) -> list[Result]:
    """Fits of as many rows, by default five million."""
    warnings.simplefilter("ignore")
    n = max(rows or [5_000_000])
    results = []
    with files(n, min(n, 1_000_000)) as paths:
        for name, columns, make in (
            ("scikit-learn's CategoricalNB.partial_fit", CODES, lambda: categorical),
            ("scikit-learn's GaussianNB.partial_fit", NUMBERS, lambda: gaussian),
            ("dask-ml's GaussianNB", NUMBERS, dask_ml),
        ):
            what = f"NB fit, {n:,} x {len(columns)}: {name} / NBClassifier"
            results.append(beside(what, columns, make, paths))
        results += beside_spark(paths, n)
    return results


def beside(what: str, columns: list[str], make: Callable[[], Callable[[list[str]], None]], paths: list[str]) -> Result:
    """How many times as long another takes as our naive Bayes of these columns; a note where it cannot be run."""
    try:
        fit = make()
        theirs, ours = seconds(lambda: fit(paths), lambda: naive_bayes(paths, columns), repeat=REPEAT)
    except Exception as error:  # whatever its versions disagree about
        return Result(what, float("nan"), detail={"note": f"not run: {type(error).__name__}: {error!s:.200}"})
    return Result(what, theirs / ours, 3, detail={"s": {"fanbayes": ours, "other": theirs}} | load())


def load() -> dict[str, float]:
    return {"load": os.getloadavg()[0]}


# ---------------------------------------------------------------- in this process


def naive_bayes(paths: list[str], columns: list[str]) -> None:
    NBClassifier(n_jobs=2).fit(dataset(paths, columns), TARGET)


def dataset(paths: list[str], columns: list[str]) -> ds.Dataset:
    """The files, of which only some columns are known."""
    whole = ds.dataset(paths).schema
    return ds.dataset(paths, schema=pa.schema([whole.field(name) for name in (*columns, TARGET)]))


def batches(paths: list[str], columns: list[str], rows: int = 65_536) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Columns and classes of some rows after the other; texts are numbered."""
    levels: dict[str, pa.Array] = {}
    for batch in dataset(paths, columns).to_batches(batch_size=rows):
        found = []
        for name in (*columns, TARGET):
            values = batch.column(name)
            if name not in NUMBERS:
                known = levels.setdefault(name, pc.unique(values).sort())
                values = pc.index_in(values, value_set=known)
            found.append(values.to_numpy(zero_copy_only=False))
        yield np.column_stack(found[:-1]), found[-1]


def categorical(paths: list[str]) -> None:
    clf = CategoricalNB(min_categories=[2 + j % 6 for j in range(N_DISCRETE)])
    for X, y in batches(paths, CODES):
        clf.partial_fit(X, y, classes=np.arange(N_CLASSES))


def gaussian(paths: list[str]) -> None:
    clf = GaussianNB()
    for X, y in batches(paths, NUMBERS):
        clf.partial_fit(X, y, classes=np.arange(N_CLASSES))


def dask_ml() -> Callable[[list[str]], None]:
    import dask
    import dask.array as da
    from dask_ml.naive_bayes import GaussianNB as LazyGaussianNB

    @dask.delayed(nout=2)
    def read(path: str) -> tuple[np.ndarray, np.ndarray]:
        (X, y), *more = batches([path], NUMBERS, rows=10**9)
        assert not more
        return X, y

    def fit(paths: list[str]) -> None:
        lengths, parts = [pq.read_metadata(path).num_rows for path in paths], [read(path) for path in paths]
        X = da.concatenate([da.from_delayed(X, (n, len(NUMBERS)), float) for n, (X, _) in zip(lengths, parts)])
        y = da.concatenate([da.from_delayed(y, (n,), np.int32) for n, (_, y) in zip(lengths, parts)])
        clf = LazyGaussianNB(classes=np.arange(N_CLASSES)).fit(X, y)
        dask.compute(clf.theta_, clf.sigma_)  # which `fit` only plans

    return fit


# ---------------------------------------------------------------- Spark


def beside_spark(paths: list[str], n: int) -> list[Result]:
    """Its naive Bayes, and an iteration of its mixture beside a pass of FAN with as many states."""
    what = f"NB fit, {n:,} x {N_CONTINUOUS}: Spark's NaiveBayes (gaussian, rows cached) / NBClassifier (from files)"
    of_mixture = f"EM, {n:,} rows: iteration of Spark's GaussianMixture, 5 columns / pass of FAN, 20 columns"
    try:
        spark = session()
    except Exception as error:  # no Java, or none that it takes
        note = {"note": f"not run: {type(error).__name__}: {error!s:.200}"}
        return [Result(what, float("nan"), detail=note), Result(of_mixture, float("nan"), detail=note)]
    from pyspark.ml.classification import NaiveBayes
    from pyspark.ml.clustering import GaussianMixture
    from pyspark.ml.feature import StringIndexer, VectorAssembler

    try:
        frame = spark.read.parquet(*paths).select(*NUMBERS, TARGET)
        frame = StringIndexer(inputCol=TARGET, outputCol="label").fit(frame).transform(frame)
        rows = VectorAssembler(inputCols=NUMBERS, outputCol="features").transform(frame)
        rows = rows.select("features", "label").cache()
        rows.count()
        found = beside(what, NUMBERS, lambda: lambda _: NaiveBayes(modelType="gaussian").fit(rows), paths)

        def mixture(n_iter: int) -> None:
            GaussianMixture(k=N_CLASSES * N_COMPONENTS, maxIter=n_iter, tol=0.0, seed=0).fit(rows)

        few, many = seconds(lambda: mixture(1), lambda: mixture(1 + ITERATIONS), repeat=2)
        theirs, ours = (many - few) / ITERATIONS, min(seconds_a_pass(paths, n) for _ in range(2))
        detail = {"s": {"fanbayes": ours, "Spark": theirs}} | load()
        return [found, Result(of_mixture, theirs / ours, 20, detail=detail)]
    finally:
        spark.stop()


def session() -> Any:
    """Spark in this machine's cores."""
    os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"] = sys.executable, "127.0.0.1"
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": _HEAP,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master(f"local[{os.cpu_count()}]").appName("fanbayes")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def seconds_a_pass(paths: list[str], n: int) -> float:
    """Of FAN, all columns, two threads: what some passes more take, by the rows that were visited."""
    found = []
    for n_iter in (4, 24):
        clf = FANClassifier(N_COMPONENTS, n_init=1, max_iter=n_iter, tol=0.0, random_state=0, n_jobs=2)
        visited = _native.rows_visited()
        clf.fit(ds.dataset(paths), TARGET)
        found.append((sum(clf.selection_["seconds"].to_pylist()), (_native.rows_visited() - visited) / n))
    return (found[1][0] - found[0][0]) / (found[1][1] - found[0][1])
