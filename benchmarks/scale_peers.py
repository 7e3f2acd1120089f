"""Naive Bayes and a pass of FAN beside those of others that read tables larger than memory, from the same files.

scikit-learn's `partial_fit` is given batches that Arrow reads, its categories by number. dask-ml and Spark have this
machine's cores, Spark a bounded heap and no network but loopback. Each is asked for what it can: GaussianNB, Spark's
gaussian naive Bayes and its mixture see the continuous columns only, CategoricalNB the discrete ones.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from measure import Result
from scale_table import N_CLASSES, N_COMPONENTS, N_CONTINUOUS, N_DISCRETE, TARGET, files
from sklearn.naive_bayes import CategoricalNB, GaussianNB

from fanbayes import FANClassifier, NBClassifier, _native

CODES, NUMBERS = [f"c{j}" for j in range(N_DISCRETE)], [f"x{j}" for j in range(N_CONTINUOUS)]
ITERATIONS = 5
_HEAP = "4g"


def run(rows: list[int] | None = None) -> list[Result]:
    """Fits of as many rows, by default five million."""
    warnings.simplefilter("ignore")
    n = max(rows or [5_000_000])
    results = []
    with files(n, min(n, 1_000_000)) as paths:
        ours = {tuple(columns): clock(lambda c=columns: naive_bayes(paths, c)) for columns in (CODES, NUMBERS)}
        for name, columns, fit in (
            ("scikit-learn's CategoricalNB.partial_fit", CODES, categorical),
            ("scikit-learn's GaussianNB.partial_fit", NUMBERS, gaussian),
            ("dask-ml's GaussianNB", NUMBERS, dask_ml),
        ):
            results.append(
                beside(f"NB fit, {n:,} x {len(columns)}: {name} / NBClassifier", fit, paths, ours[*columns,], 3)
            )
        results += beside_spark(paths, n, ours[*NUMBERS,])
    return results


def beside(what: str, fit: Callable[[list[str]], None], paths: list[str], ours: float, target: float) -> Result:
    """How many times as long another takes; a note where it cannot be run."""
    try:
        theirs = clock(lambda: fit(paths))
    except Exception as error:  # whatever its versions disagree about
        return Result(what, float("nan"), detail={"note": f"not run: {type(error).__name__}: {error!s:.200}"})
    return Result(what, theirs / ours, target, detail={"s": {"fanbayes": ours, "other": theirs}} | load())


def clock(fit: Callable[[], object]) -> float:
    """Seconds by the clock."""
    began = time.perf_counter()
    fit()
    return time.perf_counter() - began


def load() -> dict[str, float]:
    return {"load": os.getloadavg()[0]}


# ---------------------------------------------------------------- in this process


def naive_bayes(paths: list[str], columns: list[str]) -> None:
    NBClassifier(n_jobs=2).fit(dataset(paths, columns), TARGET)


def dataset(paths: list[str], columns: list[str]) -> ds.Dataset:
    """The files, of which only some columns are known."""
    whole = ds.dataset(paths).schema
    return ds.dataset(paths, schema=pa.schema([whole.field(name) for name in (*columns, TARGET)]))


def batches(paths: list[str], columns: list[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Columns and classes of some rows after the other; texts are numbered."""
    levels: dict[str, pa.Array] = {}
    for batch in dataset(paths, columns).to_batches(batch_size=65_536):
        found = []
        for name in (*columns, TARGET):
            values = batch.column(name)
            if name not in NUMBERS:
                known = levels.setdefault(name, pc.unique(values))
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


def dask_ml(paths: list[str]) -> None:
    import dask.dataframe as dd
    from dask_ml.naive_bayes import GaussianNB as LazyGaussianNB

    frame = dd.read_parquet(paths, columns=[*NUMBERS, TARGET])
    X = frame[NUMBERS].to_dask_array(lengths=True)
    y = (frame[TARGET] == "class 1").astype(int).to_dask_array(lengths=True)
    LazyGaussianNB(classes=np.arange(N_CLASSES)).fit(X, y)


# ---------------------------------------------------------------- Spark


def beside_spark(paths: list[str], n: int, ours: float) -> list[Result]:
    """Its naive Bayes, and an iteration of its mixture beside a pass of FAN with as many states."""
    what = f"NB fit, {n:,} x {N_CONTINUOUS}: Spark's NaiveBayes (gaussian) / NBClassifier"
    of_mixture = f"EM, {n:,} rows: iteration of Spark's GaussianMixture, 5 columns / pass of FAN, 20 columns"
    try:
        spark = session()
    except Exception as error:  # no Java, or none that it takes
        note = {"note": f"not run: {type(error).__name__}: {error!s:.200}"}
        return [Result(what, float("nan"), detail=note), Result(of_mixture, float("nan"), detail=note)]
    from pyspark.ml.classification import NaiveBayes
    from pyspark.ml.clustering import GaussianMixture
    from pyspark.ml.feature import StringIndexer, VectorAssembler

    def assembled(_: list[str]) -> Any:
        frame = spark.read.parquet(*paths).select(*NUMBERS, TARGET)
        frame = StringIndexer(inputCol=TARGET, outputCol="label").fit(frame).transform(frame)
        return VectorAssembler(inputCols=NUMBERS, outputCol="features").transform(frame)

    def fit(given: list[str]) -> None:
        NaiveBayes(modelType="gaussian").fit(assembled(given))

    try:
        found = [beside(what, fit, paths, ours, 3)]
        rows = assembled(paths).select("features").cache()
        rows.count()
        states = N_CLASSES * N_COMPONENTS

        def mixture(n_iter: int) -> float:
            return clock(lambda: GaussianMixture(k=states, maxIter=n_iter, tol=0.0, seed=0).fit(rows))

        few, many = mixture(1), mixture(1 + ITERATIONS)
        theirs, ours_a_pass = (many - few) / ITERATIONS, seconds_a_pass(paths, n)
        detail = {"s": {"fanbayes": ours_a_pass, "Spark": theirs}} | load()
        return [*found, Result(of_mixture, theirs / ours_a_pass, 20, detail=detail)]
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
