"""`fanbayes show`: a model in words and numbers."""

import json

import numpy as np
import pandas as pd
import pytest
from program import run

import fanbayes
from fanbayes.commands.options import Model
from fanbayes.commands.output import screen
from fanbayes.commands.show import print_members

pytestmark = pytest.mark.usefixtures("server")


def test_show_finds_the_chosen_size_among_fits_of_equal_likelihood():
    rng = np.random.default_rng(0)
    h = rng.integers(3, size=300)
    X = np.column_stack([h + 0.2 * rng.normal(size=300), (7 * h) % 3 + 0.2 * rng.normal(size=300)])
    clf = fanbayes.FANClassifier(random_state=0, max_components=4).fit(X, (h == 1).astype(int))
    chosen = list(clf.selection_["n_components"]).index(clf.n_components_)
    assert chosen > 0
    clf.selection_["log_likelihood"] = [clf.log_likelihood_] * len(clf.selection_["n_components"])
    assert clf.describe()["scores"]["icl"] == clf.selection_["icl"][chosen]


def test_show(folder):
    out, _ = run("show", "m.fan", cwd=folder, fresh=True)
    about = json.loads(run("show", "m.fan", "--json", cwd=folder)[0])
    clf = fanbayes.load(folder / "m.fan")
    assert about["n_components"] == clf.n_components_
    assert sum(cell["share"] for cell in about["components"]) == pytest.approx(1)
    assert len(about["components"]) == 2 * clf.n_components_
    information = [feature["information"] for feature in about["features"]]
    assert information == sorted(information, reverse=True)
    features = out[out.index("Features") :].splitlines()[2:]
    assert [line.split("  ")[0] for line in features if line] == [f["feature"] for f in about["features"]]
    for text in ("FANClassifier", "4 features (2 discrete, 2 continuous)", f"{clf.class_prior_[0]:.4f}", "h0"):
        assert text in out


def test_components_of_a_class_are_named_as_such(folder, tmp_path):
    data = pd.read_csv(folder / "patients.csv").drop(columns="id")
    sizes, pair = {"ill": 2, "well": 3}, ("--class", "well", "--against", "ill")
    codes = ["smoker", "grade"]
    clf = fanbayes.FANClassifier(sizes, mixing="per_class", categorical_features=codes, random_state=0)
    fanbayes.save(clf.fit(data.drop(columns="outcome"), data["outcome"]), tmp_path / "m.fan")
    out, _ = run("show", "m.fan", cwd=tmp_path)
    shown = out[out.index("Components") : out.index("Features")].split()
    assert [word for word in shown if "/" in word] == ["ill/h0", "ill/h1", "well/h0", "well/h1", "well/h2"]
    assert "h0" not in shown
    assert json.loads(run("show", "m.fan", "--json", cwd=tmp_path)[0])["common_components"] is False
    out, _ = run("explain", "m.fan", folder / "new.csv", *pair, cwd=tmp_path)
    assert "Most responsible: component well/h" in out


def test_members_fit_into_80_columns(capsys):
    widest = {"model": "NB forest", "n_components": 1000, "treatment": "normal_scores", "strength": 0.003}
    scores = {"n_fits": 10, "log_score": -10.1234, "weight": 0.123, "exponent": 0.123}
    print_members(screen(), [widest | scores, widest | scores | {"model": "kernel", "strength": float("nan")}])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "1000  normal scores" in out
    assert "hold rows of the training table (--no-kernel-members: none).\n" in out


@pytest.mark.parametrize("model", [model.value for model in Model])
def test_every_model_can_be_shown(model, tmp_path):
    """Each by itself: what one kind of model describes, another may lack."""
    rng = np.random.default_rng(0)
    n = 80
    y, x = np.arange(n) % 2, rng.normal(size=n)
    table = pd.DataFrame({"y": np.array(list("ab"))[y], "number": x + y, "other": x - y + 0.1 * rng.normal(size=n)})
    table.to_csv(tmp_path / "t.csv", index=False)
    run("fit", "t.csv", "-t", "y", "-o", "m.fan", "--model", model, cwd=tmp_path)
    out, _ = run("show", "m.fan", cwd=tmp_path)
    assert "number" in out
    assert "\\n" not in out
    assert ("hold rows of the training table" in out) == (" kernel " in out)
    assert ("Arcs between features" in out) == (model in ("tan", "fan-tree"))
    assert ("the rest to 1 being that of the class shares" in " ".join(out.split())) == (model == "fan-cv")
