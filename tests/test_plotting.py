"""Displays: what is drawn is what was learnt."""

import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fanbayes import AODEClassifier, BoostedNBClassifier, FANClassifier, FMClassifier, NBClassifier, NBTreeClassifier
from fanbayes.evaluation.metrics import expected_calibration_error
from fanbayes.plotting import (
    ArcDisplay,
    ComponentDisplay,
    ExplanationDisplay,
    FeatureDisplay,
    ImportanceDisplay,
    NBTreeDisplay,
    ReliabilityDisplay,
    SelectionDisplay,
    TraceDisplay,
)

matplotlib.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 200)
    X = pd.DataFrame(
        {
            "length": rng.normal(2 * group, 1),
            "mass": rng.normal(-group, 0.5),
            "colour": np.array(["red", "green", "blue"])[(group + rng.integers(0, 2, 200)) % 3],
        }
    )
    return X, np.where(rng.random(200) < 0.8, np.array(["p", "q", "q"])[group], "p")


@pytest.fixture(scope="module")
def fan(data):
    return FANClassifier(max_components=4, patience=4, n_init=4, random_state=0, tol=1e-4).fit(*data)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_selection(fan):
    display = SelectionDisplay.from_estimator(fan)
    assert [line.get_label() for line in display.lines_] == ["ICL", "BIC", "Cheeseman-Stutz", "AIC"]
    assert display.lines_[0].get_xdata().tolist() == [1, 2, 3, 4]
    assert display.lines_[1].get_ydata().tolist() == fan.selection_["bic"].tolist()
    assert display.ax_.get_legend().get_texts()[-1].get_text() == f"chosen: {fan.n_components_}"
    some = SelectionDisplay.from_estimator(fan, criteria=["aic"])
    assert len(some.lines_) == 1
    assert some.plot(display.ax_).figure_ is display.figure_


def test_traces(fan, data):
    display = TraceDisplay.from_estimator(fan, n_components=3)
    starts = fan.starts_[fan.starts_["n_components"] == 3]
    assert len(display.lines_) == len(starts) == 4
    for line, n_iter, objective in zip(display.lines_, starts["n_iter"], starts["objective"]):
        assert len(line.get_xdata()) == n_iter
        assert line.get_ydata()[-1] == objective
    best = display.lines_[starts["status"].tolist().index("best")]
    assert best.get_linewidth() == max(line.get_linewidth() for line in display.lines_)
    chosen = TraceDisplay.from_estimator(fan)
    k = chosen.statuses.index("best")
    assert chosen.lines_[k].get_ydata().tolist() == fan.trace_.tolist()
    with pytest.raises(ValueError, match="n_components=9 was not tried; there are 1, 2, 3, 4"):
        TraceDisplay.from_estimator(fan, n_components=9)
    assert len(TraceDisplay.from_estimator(NBClassifier().fit(*data)).lines_) == 1


def test_reliability(fan, data):
    X, y = data
    display = ReliabilityDisplay.from_estimator(fan, X, y, n_bins=5)
    error = expected_calibration_error(y, fan.predict_log_proba(X), classes=fan.classes_, n_bins=5)
    assert display.line_.get_label() == f"FANClassifier (ECE {error:.3f})"
    log_proba = fan.predict_log_proba(X)
    one = ReliabilityDisplay.from_predictions(
        y, log_proba, classes=fan.classes_, positive="q", n_bins=1, name="mine", ax=display.ax_
    )
    assert one.line_.get_xdata()[0] == pytest.approx(fan.predict_proba(X)[:, 1].mean())
    assert one.line_.get_ydata()[0] == pytest.approx(np.mean(y == "q"))
    assert one.ax_ is display.ax_
    labels = [text.get_text() for text in one.ax_.get_legend().get_texts()]
    assert labels.count("perfectly calibrated") == 1
    assert labels[-1].startswith("mine")
    numbers = X[["length", "mass"]]
    assert ReliabilityDisplay.from_estimator(LogisticRegression().fit(numbers, y), numbers, y).ax_


def test_intervals_of_frequencies():
    """Wilson's interval for 8 of 10 is (0.490, 0.943); for 0 of n it begins at 0."""
    from fanbayes.plotting.reliability import _wilson

    low, high = _wilson(np.array([0.8, 0.0]), np.array([10.0, 10.0]))
    np.testing.assert_allclose(low, [0.4902, 0.0], atol=5e-5)
    np.testing.assert_allclose(high, [0.9433, 0.2775], atol=5e-5)


def test_components(fan, data):
    display = ComponentDisplay.from_estimator(fan, max_traits=4)
    n_cells = 2 * fan.n_components_
    assert display.image_.get_array().shape == (4, n_cells)
    shares = [text.get_text().split("\n")[1] for text in display.ax_.get_xticklabels()]
    assert shares == [f"{100 * p:.0f}%" for p in display.profiles.share]
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert set(names) <= {"length", "mass", "colour = red", "colour = green", "colour = blue"}
    fm = ComponentDisplay.from_estimator(FMClassifier(3, random_state=0).fit(*data))
    assert fm.image_.get_array().shape == (5, 3)
    assert ComponentDisplay.from_estimator(NBClassifier().fit(*data)).image_.get_array().shape == (5, 2)


def test_trees_of_naive_bayes():
    rng = np.random.default_rng(0)
    names = [r"$\nope$", "b" * 50]
    X = pd.DataFrame(rng.choice(["no", "yes"], (400, 2)), columns=names)
    y = np.where(X[names[0]] == X[names[1]], r"$\frac$", "q")
    clf = NBTreeClassifier(random_state=0).fit(X, y)
    display = NBTreeDisplay.from_estimator(clf)
    display.figure_.canvas.draw()
    nodes = clf.describe()["nodes"]
    assert len(display.texts_) == len(nodes) > 2
    for bars, c in zip(display.bars_, range(2)):
        np.testing.assert_allclose([bar.get_width() for bar in bars], [node["prior"][c]["prior"] for node in nodes])
    assert display.texts_[0].get_text().startswith("all rows: 400, by ")
    top = NBTreeDisplay.from_estimator(clf, max_depth=0, ax=display.ax_)
    assert len(top.texts_) == 1
    assert top.ax_ is display.ax_


def test_waterfall(fan, data):
    X, _ = data
    why = fan.explain(X, classes=("p", "q"))
    display = ExplanationDisplay.from_explanation(why, row=7)
    assert sum(bar.get_width() for bar in display.bars_) == pytest.approx(why.log_odds[7])
    by_place = sorted(display.bars_, key=lambda bar: bar.get_y())
    ends = [bar.get_x() + bar.get_width() for bar in by_place]
    assert [bar.get_x() for bar in by_place[1:]] == pytest.approx(ends[:-1])  # each begins where the last one ends
    assert display.texts_[-1].get_text() == f"{why.log_odds[7]:+.2f}"
    display.figure_.canvas.draw()
    frame = display.ax_.get_window_extent()
    drawn = [part.get_window_extent() for part in (*display.bars_, *display.texts_)]
    assert all(frame.x0 < box.x0 and box.x1 < frame.x1 for box in drawn)
    names = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert (names[0], names[-1]) == ("prior", "sum")
    assert f"colour = {X['colour'][7]}" in names
    few = ExplanationDisplay.from_estimator(fan, X, row=7, classes=("p", "q"), max_features=1, ax=display.ax_)
    assert [label for label, _ in few.terms][::2] == ["prior", "2 more"]
    assert sum(x for _, x in few.terms) == pytest.approx(why.log_odds[7])
    assert few.ax_ is display.ax_
    for row in (-1, 200):
        with pytest.raises(ValueError, match=f"row={row} is not among the 200 rows"):
            ExplanationDisplay.from_explanation(why, row=row)


def test_importance(fan, data):
    display = ImportanceDisplay.from_estimator(fan)
    features = fan.describe()["features"]
    assert [bar.get_width() for bar in display.bars_] == [f["information"] for f in features]
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == [f["feature"] for f in features]
    few = ImportanceDisplay.from_estimator(AODEClassifier().fit(*data), max_features=2)
    assert len(few.bars_) == 2
    assert "1 more" in few.ax_.get_title()


def test_features(fan, data):
    lines = FeatureDisplay.from_estimator(fan, "length")
    for c, line in enumerate(lines.artists_):
        assert line.get_label() == fan.classes_[c]
        np.testing.assert_array_equal(line.get_ydata(), lines.distribution.classes[:, c])
    bars = FeatureDisplay.from_estimator(fan, "colour", components=True)
    table = fan.feature_table("colour").groupby("level")["probability"].size()
    assert len(table) == 3
    for c, drawn in enumerate(bars.artists_):
        np.testing.assert_allclose([bar.get_height() for bar in drawn], bars.distribution.classes[:, c])
    assert bars.ax_.get_title() == "colour in each class (sections: components)"
    assert FeatureDisplay.from_estimator(fan, 0, components=True, ax=lines.ax_).ax_ is lines.ax_
    assert len(FeatureDisplay.from_estimator(fan, "colour", max_levels=2).artists_[0]) == 2
    boosted = BoostedNBClassifier(random_state=0).fit(*data)
    assert FeatureDisplay.from_estimator(boosted, "mass").distribution.levels is not None
    with pytest.raises(TypeError, match="AODEClassifier has no one distribution"):
        FeatureDisplay.from_estimator(AODEClassifier().fit(*data), "mass")
    with pytest.raises(TypeError, match="of classifiers of fanbayes, and not of LogisticRegression"):
        FeatureDisplay.from_estimator(LogisticRegression(), "mass")


def test_many_classes_have_colours_of_their_own():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 12, 240)
    X = pd.DataFrame({"x": rng.normal(y, 1), "k": rng.choice([f"level {i}" for i in range(30)], 240)})
    clf = NBClassifier().fit(X, [f"class {c}" for c in y])
    lines = FeatureDisplay.from_estimator(clf, "x").artists_
    assert len({(tuple(line.get_color()), line.get_linestyle()) for line in lines}) == 12
    assert len(FeatureDisplay.from_estimator(clf, "k").artists_[0]) == 7
    ComponentDisplay.from_estimator(clf).figure_.canvas.draw()


def test_names_are_no_formulas(data):
    X, y = data
    names = dict(zip(X.columns, [r"$\nope$", r"$\frac$", "[c]"]))
    clf = NBClassifier().fit(X.rename(columns=names), [rf"$\{label}$" for label in y])
    display = ComponentDisplay.from_estimator(clf)
    display.figure_.canvas.draw()
    assert r"$\frac$" in [text.get_text() for text in display.ax_.get_yticklabels()]
    rows = X.rename(columns=names)
    for display in (
        ExplanationDisplay.from_estimator(clf, rows),
        ImportanceDisplay.from_estimator(clf),
        *(FeatureDisplay.from_estimator(clf, name) for name in names.values()),
    ):
        display.figure_.canvas.draw()


def test_without_matplotlib():
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from fanbayes.plotting import SelectionDisplay\n"
        "try:\n"
        "    SelectionDisplay([1], {'ICL': [0.0]}, 1).plot()\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "plots need matplotlib: pip install 'fanbayes[plot]'\n"


def test_figures_of_networks_refuse_other_models(data):
    aode = AODEClassifier().fit(*data)
    for display in (ArcDisplay, ComponentDisplay, SelectionDisplay, TraceDisplay):
        with pytest.raises(TypeError, match="this figure is of networks, such as FANClassifier, and not of AODE"):
            display.from_estimator(aode)
