"""A page about a fitted model, self-contained: what it believes, how good it is, and what if."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from sklearn.utils.validation import check_is_fitted

from fanbayes import __version__
from fanbayes.estimators.tabular import TableClassifier
from fanbayes.explanation.nb_tree import node_line
from fanbayes.export import compile_model, model_javascript
from fanbayes.files.atomic import write_file
from fanbayes.pages import beliefs, quality
from fanbayes.pages.page import TEMPLATES, html_page, render, script
from fanbayes.pages.text import KNOWS_OF_HOLES, columns_text, number

LARGEST = 20_000_000
"""Bytes that a page may take; what does not fit is left out, and the page says so."""

_SCRIPTS = ("drawing.js", "features.js", "tree.js", "quality.js", "what_if.js", "report.js")


@dataclass(frozen=True)
class Report:
    """A page about a fitted model.

    In a notebook it shows itself, in a frame of its own.

    Attributes
    ----------
    title : str
    html : str
        The whole page; nothing is fetched from elsewhere.
    """

    title: str
    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which opens in any browser."""
        write_file(path, self.html.encode(errors="xmlcharrefreplace"))

    def _repr_html_(self) -> str:
        frame = "width:100%;height:85vh;min-height:600px;border:1px solid #8888;border-radius:8px"
        return f'<iframe title="{escape(self.title)}" srcdoc="{escape(self.html)}" style="{frame}"></iframe>'

    def __repr__(self) -> str:
        return f"Report({self.title!r}, {len(self.html) / 1e6:.1f} MB; save('page.html') writes it)"


def report(clf: TableClassifier, X: Any = None, y: Any = None, *, title: str | None = None) -> Report:
    """A page about a fitted classifier: what it believes, how good it is, and what if.

    Parameters
    ----------
    clf : fitted classifier of fanbayes
    X : data frame or array-like of shape (n_samples, n_features), optional
        Rows to judge it by, better not those that it was fitted to.
    y : array-like of shape (n_samples,), or str, optional
        Their classes, or the name of the column of X that holds them; rows without a label are left out.
    title : str, optional
        What the page is called; by default after the classifier.

    Returns
    -------
    Report
        Shows itself in a notebook; `save(path)` writes it to a file.

    Examples
    --------
    >>> from fanbayes import NBClassifier, report
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> page = report(NBClassifier().fit(X[::2], y[::2]), X[1::2], y[1::2], title="Iris")
    >>> page.html.startswith("<!doctype html>")
    True
    """
    if not isinstance(clf, TableClassifier):
        raise TypeError(
            f"a report is of a classifier of fanbayes, and {type(clf).__name__} is none; of a pipeline give its last "
            "step, pipeline[-1], and rows as that sees them"
        )
    check_is_fitted(clf)
    if (X is None) != (y is None):
        raise ValueError("rows to judge a model by need X and y, both of them")
    title = type(clf).__name__ if title is None else title
    content, data, model = _content(clf, X, y)
    content |= {
        "title": title,
        "version": __version__,
        "payloads": {"data": script(data), "model": model},
        "scripts": [model_javascript(), *((TEMPLATES / name).read_text("utf-8") for name in _SCRIPTS)],
    }
    filters: dict[str, Callable[..., str]] = {"share": _share, "text": _text}
    body = render(TEMPLATES / "report.html.jinja", content, filters)
    return Report(title, html_page(title, body, (TEMPLATES / "report.css").read_text("utf-8")))


def _content(clf: TableClassifier, X: Any, y: Any) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What the template shows, what the scripts draw, and the compiled model as JSON."""
    about = clf.describe()
    joint = beliefs.joint_of(clf)
    features = beliefs.feature_list(clf, joint, about)
    components = beliefs.components_in_words(about, features)
    judged = None if X is None else quality.judge(clf, X, y)
    n_left_out = 0
    if judged is not None:
        drop, n_left_out = quality.left_out(clf, judged, [feature["position"] for feature in features])
        for feature in features:
            feature["drop"] = drop.get(feature["position"])
    remarks = []
    if getattr(clf._predictor, "holds_training_rows", False):
        remarks.append("This page holds rows of the training table: a member of the average is a kernel density.")
    fitted = _fitting(features, remarks)
    model, missing = _compiled(clf, LARGEST - fitted, remarks)
    labels = [str(label) for label in clf.classes_.tolist()]
    data = {
        "classes": labels,
        "prior": clf.class_prior_.tolist(),
        "weight": None if joint is None else joint.weight.tolist(),
        "component_of": [] if joint is None else joint.component_of,
        "common_components": about.get("common_components", True),
        "components": components,
        "features": features,
        "arcs": about.get("arcs", []),
        "quality": None if judged is None else quality.quality(clf, judged),
    }
    content = {
        "about": about,
        "classes": list(zip(labels, clf.class_prior_.tolist())),
        "components": components,
        "columns_text": columns_text,
        "knows_of_holes": KNOWS_OF_HOLES,
        "nodes": [node_line(node) for node in about.get("nodes", [])],
        "quality": data["quality"],
        "n_left_out": n_left_out,
        "note": "" if joint is None else joint.note,
        "has_distributions": joint is not None,
        "without_what_if": missing,
        "remarks": remarks,
        "settings": {name: repr(value) for name, value in about["settings"].items()},
    }
    return content, data, model


def _fitting(features: list[dict[str, Any]], remarks: list[str]) -> int:
    """Leave out distributions of the least important features beyond half of a page; return what is taken."""
    taken, dropped = 0, 0
    for feature in features:
        size = len(script(feature))
        if taken + size > LARGEST // 2:
            dropped += 1
            for name in ("levels", "table", "mean", "deviation", "rate", "missing", "intervals"):
                feature.pop(name, None)
        else:
            taken += size
    if dropped:
        remarks.append(
            f"Distributions of the {dropped} least important features are left out: the page would have exceeded "
            f"{LARGEST // 10**6} MB."
        )
    return taken


def _compiled(clf: TableClassifier, most: int, remarks: list[str]) -> tuple[str, str]:
    """The model as JSON, and why there is none, if there is none."""
    try:
        model = script(compile_model(clf).to_json())
    except TypeError:
        return "null", f"What-if is not available for {type(clf).__name__}: it has no form that runs in a page yet."
    if len(model) > most:
        limit, size = LARGEST // 10**6, len(model) / 1e6
        why = f"What-if is left out: the page has at most {limit} MB, of which the model would take {size:.0f}."
        remarks.append(why)
        return "null", why
    return model, ""


def _share(p: float) -> str:
    """A probability in per cent."""
    return "< 0.1 %" if 0 < p < 0.001 else "> 99.9 %" if 0.999 < p < 1 else f"{100 * p:.1f} %"


def _text(value: Any) -> str:
    """A value of a table; nothing for what is not there."""
    if value is None or value != value:
        return ""
    return number(value, 4) if isinstance(value, float) else str(value)
