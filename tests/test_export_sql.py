"""The compiled form as one SELECT: SQLite and DuckDB say what Python says, or nothing."""

import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest
from export_cases import HARD, MODELS, TABLE, asked, chained, table

from fanbayes import FANClassifier, NBClassifier, TANClassifier
from fanbayes.export import compile_model, model_sql
from fanbayes.export.sql_text import exact

pytestmark = pytest.mark.filterwarnings("ignore::fanbayes.DataWarning")
SINGLE = [name for name in MODELS if not name.startswith("average")]


def plain(X):
    """Columns of text, numbers and truth values, as databases have them."""
    X = X.astype({name: object for name in X if isinstance(X[name].dtype, pd.CategoricalDtype)})
    return X.astype(object).where(X.notna(), None)


def in_sqlite(X, query, name="rows"):
    connection = sqlite3.connect(":memory:")
    numbers = {name: "REAL" for name in X if pd.api.types.is_float_dtype(X[name])}
    plain(X).to_sql(name, connection, index=False, dtype=numbers)
    return _result(connection.execute(query))


def in_duckdb(X, query, name="rows"):
    connection = duckdb.connect(config={"threads": 1})  # otherwise rows may come in another order
    values = plain(X)
    kinds = [next((type(v) for v in values[column] if v is not None), float) for column in values]
    of_pandas = {bool: "boolean", int: "Int64", float: "Float64", str: "object"}
    connection.register("given", values.astype({column: of_pandas[kind] for column, kind in zip(values, kinds)}))
    connection.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM given")
    return _result(connection.execute(query))


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def _result(cursor):
    return pd.DataFrame(cursor.fetchall(), columns=[item[0] for item in cursor.description])


DATABASES = pytest.mark.parametrize("run", [in_sqlite, in_duckdb])


def probabilities(run, clf, X, name="rows"):
    found = run(X, model_sql(compile_model(clf), name, [X.columns[0]]), name)
    names = [f"p_{label}" for label in clf.classes_.tolist()]
    assert found.columns.tolist() == [X.columns[0], *names]
    return found[names].to_numpy(dtype=float)


def assert_same(run, clf, X, name="rows"):
    found = probabilities(run, clf, X, name)
    np.testing.assert_allclose(found, clf.predict_proba(X), rtol=0, atol=1e-9)


def holes(clf, X):
    """Whether rows lack a value above one that they have, or one of correlated numbers."""
    model = compile_model(clf)
    network, view = model.predictor, model.views[model.predictor.view]
    features = [model.features[j] for j in [*(c.feature for c in view.codes), *view.numbers]]
    known = np.array([X[f.name].isin(f.levels) if f.levels else X[f.name].notna() for f in features])
    known[[i for i, c in enumerate(view.codes) if c.by == "missing"]] = True
    refused = np.zeros(len(X), dtype=bool)
    for i, p in enumerate(network.parent):
        if p >= 0:
            refused |= known[i] & ~known[p]
        if network.normals is not None and network.levels[i] == 0:
            refused |= ~known[i]
    return refused


@DATABASES
@pytest.mark.parametrize("name", SINGLE)
def test_mixed_rows(run, name):
    clf, X = MODELS[name].fit(*TABLE), pd.concat([asked(3000), table(1000, 3, missing=0)[0]], ignore_index=True)
    found, refused = probabilities(run, clf, X), holes(clf, X)
    assert np.isnan(found[refused]).all()
    np.testing.assert_allclose(found[~refused], clf.predict_proba(X)[~refused], rtol=0, atol=1e-9)
    assert refused.any() == any(kind in name for kind in ("tan", "tree", "mda"))
    assert not refused.all()


@DATABASES
def test_arcs_between_numbers(run):
    clf = TANClassifier(tree="full").fit(*chained(400, 0))
    assert len(compile_model(clf).predictor.regression) > 2
    X, _ = chained(2000, 1)
    X.loc[::5, list("abcdef")] *= 1e6
    X.loc[::7, list("abcdef")] *= 1e180
    found, refused = probabilities(run, clf, X), holes(clf, X)
    assert 100 < refused.sum() < 1900
    assert np.isnan(found[refused]).all()
    np.testing.assert_allclose(found[~refused], clf.predict_proba(X)[~refused], rtol=0, atol=1e-9)


@DATABASES
@pytest.mark.parametrize("X", HARD.values(), ids=HARD)
def test_hard_tables(run, X):
    assert_same(run, NBClassifier().fit(X, ["ill", "ill", "well", "well", "well"] * 4), X)


@DATABASES
def test_columns_that_vary_in_their_last_bits(run):
    rng = np.random.default_rng(0)
    centre = rng.normal(size=60) * 10.0 ** rng.integers(-5, 6, 60)
    last = centre * (1 + 2.0**-51 * rng.integers(0, 4, (80, 60)))
    X = pd.DataFrame(last, columns=[f"x{j}" for j in range(60)])
    X["share"] = pd.Categorical(last[:, 0])
    assert_same(run, NBClassifier().fit(X, rng.integers(0, 2, 80)), X)


@DATABASES
def test_values_may_be_cuts(run):
    X = pd.DataFrame({"x": np.random.default_rng(0).normal(size=300)})
    clf = NBClassifier(discretize="mdlp").fit(X, np.digitize(X["x"], [-1 / 3, 0.1, 2 / 3]))
    cuts = compile_model(clf).views[0].codes[0].cuts
    assert len(cuts) == 3
    near = np.concatenate([cuts, np.nextafter(cuts, 9), np.nextafter(cuts, -9)])
    assert_same(run, clf, pd.DataFrame({"x": near}))


@pytest.mark.parametrize("connect", [sqlite3.connect, duckdb.connect])
def test_numbers_are_read_to_the_last_bit(connect):
    """SQLite 3.40 reads some numbers that are written as Python writes them a bit off."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=9000) * 10.0 ** rng.integers(-20, 21, 9000)
    numbers = np.append(numbers, [6146335.45604053, 1e308 / 3, 5e-324, -1e-310])
    rows = connect(":memory:").execute("VALUES " + ", ".join(f"({exact(x)})" for x in numbers)).fetchall()
    assert [x for (x,) in rows] == numbers.tolist()


@DATABASES
def test_many_columns_levels_and_states(run):
    """Nothing is nested too deeply."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(100, 1010)), columns=[f"x{j}" for j in range(1010)])
    X["postcode"] = pd.Categorical([f"level {v}" for v in rng.integers(0, 3000, 100)])
    assert_same(run, NBClassifier().fit(X, rng.integers(0, 2, 100)), X)
    X = X[["x0", "postcode"]]
    assert_same(run, FANClassifier(5, random_state=0, tol=1.0).fit(X, rng.integers(0, 15, 100)), X)


@DATABASES
def test_one_class(run):
    X = pd.DataFrame({"x": [1.0, 2.0, None], "kind": ["a", None, "b"]})
    assert probabilities(run, NBClassifier().fit(X, ["only"] * 3), X).tolist() == [[1.0]] * 3


@DATABASES
def test_names_and_levels_are_quoted(run):
    X = pd.DataFrame(
        {
            'x"; DROP TABLE rows; --': [1.0, 2.0, None, -0.0] * 5,
            "it's": ["'; DROP TABLE rows; --", "\\", "é\u2028 x", None] * 5,
            "[a b]": np.arange(20.0),
            "select": [True, False, False, True] * 5,
        }
    )
    y = np.array(["'\"--", "é ", "'\"--", "*/"] * 5)
    assert_same(run, NBClassifier().fit(X, y), X, 'a "table"; --')
    assert_same(run, NBClassifier().fit(X, y), X, "fanbayes_0")


@DATABASES
def test_columns_of_the_table_are_kept(run):
    X = pd.DataFrame({"x": [0.0, 1.0] * 5, "P_A": ["b", "c"] * 5})
    model = compile_model(NBClassifier().fit(X, ["a", "A"] * 5))
    assert run(X, model_sql(model, "rows")).columns.tolist() == ["x", "P_A", "p_A_", "p_a__"]
    rows = X.assign(key=np.arange(10), when="now")
    found = run(rows, model_sql(model, "rows", ["key", "when"]))
    assert found.columns.tolist() == ["key", "when", "p_A", "p_a_"]
    assert found["key"].tolist() == list(range(10))


@pytest.mark.parametrize("connect", [sqlite3.connect, duckdb.connect])
def test_a_view_of_it(connect):
    X = pd.DataFrame({"x": [0.0, 1.0] * 5})
    query = model_sql(compile_model(NBClassifier().fit(X, ["a", "b"] * 5)), "rows")
    database = connect(":memory:")
    database.execute('CREATE TABLE "rows" AS SELECT 1.0 AS x')
    database.execute(f"CREATE VIEW risk AS {query}")
    assert _result(database.execute("SELECT p_b > 0.5 AS b FROM risk"))["b"].tolist() == [True]


def test_duckdb_reads_files(tmp_path):
    X, y = TABLE
    X = X[["height", "width"]]
    clf = NBClassifier().fit(X, y)
    X.to_parquet(tmp_path / "rows.parquet")
    found = _result(duckdb.connect().execute(model_sql(compile_model(clf), str(tmp_path / "rows.parquet"))))
    np.testing.assert_allclose(found[["p_ill", "p_unsure", "p_well"]], clf.predict_proba(X), rtol=0, atol=1e-9)


@DATABASES
@pytest.mark.parametrize(
    ("column", "value"), [("height", np.inf), ("height", -np.inf), ("events", 1.5), ("events", -1)]
)
def test_what_can_be_no_value_has_no_answer(run, column, value):
    clf = MODELS["nb, counts"].fit(*TABLE)
    X, _ = table(20, 1, missing=0)
    expected = clf.predict_proba(X)
    X.loc[13, column] = value
    expected[13] = np.nan
    np.testing.assert_allclose(probabilities(run, clf, X), expected, rtol=0, atol=1e-9)


def test_text_is_no_number():
    clf = MODELS["nb"].fit(*TABLE)
    X, _ = table(20, 1, missing=0)
    query = model_sql(compile_model(clf), "rows")
    for text in ("tall", ""):
        connection = sqlite3.connect(":memory:")
        plain(X).to_sql("rows", connection, index=False, dtype={"height": "REAL"})
        connection.execute("UPDATE rows SET height = ? WHERE rowid = 14", [text])
        found = _result(connection.execute(query))
        assert found["p_ill"].isna().to_numpy().nonzero()[0].tolist() == [13]
    with pytest.raises(duckdb.Error, match="tall"):
        duckdb.sql(query.replace('"rows" AS t', "(SELECT * REPLACE ('tall' AS height) FROM X) AS t")).fetchall()


def test_nan_is_missing_in_duckdb():
    X, y = TABLE
    X = X[["height", "code"]].astype(float).assign(code=pd.Categorical(X["code"]))
    clf = NBClassifier(missing="informative").fit(X, y)
    rows = X.astype({"code": float})  # DuckDB reads NaN of pandas as NULL
    query = model_sql(compile_model(clf), "rows")
    source = "(SELECT coalesce(height, 'nan'::DOUBLE) AS height, coalesce(code, 'nan'::DOUBLE) AS code FROM rows)"
    found = _result(duckdb.execute(query.replace('"rows" AS t', f"{source} AS t")))
    assert len(rows) == len(found)
    np.testing.assert_allclose(found[["p_ill", "p_unsure", "p_well"]], clf.predict_proba(X), rtol=0, atol=1e-9)


@DATABASES
def test_a_column_that_is_not_there(run):
    """SQLite takes names that it does not know for text, where it can."""
    query = model_sql(compile_model(MODELS["nb"].fit(*TABLE)), "rows", ["height"])
    with pytest.raises((sqlite3.OperationalError, duckdb.BinderException), match="colour"):
        run(TABLE[0][["height", "flag"]], query)


@pytest.mark.parametrize(
    ("X", "says"),
    [
        ({"mixed": pd.Categorical(["a", 1] * 10)}, "feature 'mixed' has categories of text and of numbers"),
        ({"a": [1.0, 2.0] * 10, "A": [1.0, 2.0] * 10}, "differ by upper and lower case only"),
        ({"a\0": [1.0, 2.0] * 10}, "SQL has no way to write 'a.x00'"),
    ],
)
def test_what_sql_cannot_hold(X, says):
    clf = NBClassifier().fit(pd.DataFrame(X), [0, 1] * 10)
    with pytest.raises(ValueError, match=says):
        model_sql(compile_model(clf), "rows")


def test_averages_are_refused():
    clf = MODELS["average"].fit(*TABLE)
    with pytest.raises(ValueError, match="a SELECT holds a single network, and FANClassifierCV is an average; fit a"):
        model_sql(compile_model(clf), "rows")


def test_texts_differ_by_case_in_a_column_without_it():
    """SQLite compares the values of such a column without case, and categories differ by it."""
    X = pd.DataFrame({"letter": ["k", "K", "l"] * 20})
    y = [0, 1, 1, 0, 1, 0] * 10
    clf = NBClassifier().fit(X, y)
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE data (letter TEXT COLLATE NOCASE)")
    base.executemany("INSERT INTO data VALUES (?)", [("k",), ("K",), ("L",)])
    found = [row[-1] for row in base.execute(model_sql(compile_model(clf), "data"))]
    new = pd.DataFrame({"letter": ["k", "K", None]})
    np.testing.assert_allclose(found, clf.predict_proba(new)[:, 1], atol=1e-12)
