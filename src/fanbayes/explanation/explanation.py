"""What an explanation is: contributions with the names that make them readable, as arrays, tables, text and bars."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fanbayes.arrays import Floats, Ints
from fanbayes.data.frames import to_user_table
from fanbayes.data.text_table import printable, shortened, text_table

Part = Literal["component", "member", "star", "leaf"]

_ROWS = 5  # that are shown
_TERMS_IN_TEXT, _TERMS_IN_HTML = 3, 10
_LARGEST_LOG_ODDS = 700.0  # whose exponential is a number


@dataclass(frozen=True)
class Attribution:
    """The log-odds of one class against another, row by row.

    Attributes
    ----------
    log_odds : (n_rows,), log p(c | x) - log p(c' | x)
    prior : (n_rows,), log p(c) - log p(c')
    contributions : (n_rows, n_features)
        ``prior + contributions.sum(axis=1)`` are the log-odds.
    part : int (n_rows,)
        What is most responsible for the row: the component of the largest p(h | c, x), or the member of an average,
        or the leaf of a tree, that adds most to p(c | x).
    responsibility : (n_rows,)
        That probability, or its share.
    """

    log_odds: Floats
    prior: Floats
    contributions: Floats
    part: Ints
    responsibility: Floats


@dataclass(frozen=True, repr=False)
class Explanation(Attribution):
    """What `explain` returns: an `Attribution` with the names that make it readable, as arrays and as tables.

    Attributes
    ----------
    kind_of_part : "component", "member" of an average, "star", or "leaf" of a tree
    features : names of the features, without those that have no parameters
    values : for each feature its value in each row, as text; None where missing, but "(missing)" where that counts,
        and "(unknown)" where it counts that there is a value, which was not seen in training
    classes : (n_rows, 2)
        Each row's class and the one it is compared with.
    information : (n_rows, n_features)
        Expected information about the class, in nats, of observing a missing feature next; NaN where observed.
    frame : library of the tables, None for dicts of columns
    """

    kind_of_part: Part
    features: tuple[str, ...]
    values: tuple[tuple[str | None, ...], ...]
    classes: NDArray[Any]
    information: Floats
    frame: str | None

    def table(self) -> Any:
        """Contributions: "row", "class", "against", "feature", "value", "contribution", first the "(prior)".

        A missing value is null, or "(missing)" where it counts that it is, or "(expected)" where an average has filled
        it in, or a tree splits on it.
        """
        n, width = len(self.log_odds), len(self.features) + 1
        values = [
            ["(expected)" if value is None and contribution != 0.0 else value for value, contribution in zip(*column)]
            for column in zip(self.values, self.contributions.T)
        ]
        return to_user_table(
            {
                "row": np.repeat(np.arange(n), width).tolist(),
                "class": np.repeat(self.classes[:, 0], width).tolist(),
                "against": np.repeat(self.classes[:, 1], width).tolist(),
                "feature": ["(prior)", *self.features] * n,
                "value": [v for row in zip([""] * n, *values) for v in row],
                "contribution": np.column_stack([self.prior, self.contributions]).ravel().tolist(),
            },
            self.frame,
        )

    def summary(self) -> Any:
        """One line a row: "row", "class", "against", "log_odds", `kind_of_part`, "responsibility"."""
        return to_user_table(
            {
                "row": list(range(len(self.log_odds))),
                "class": self.classes[:, 0].tolist(),
                "against": self.classes[:, 1].tolist(),
                "log_odds": self.log_odds.tolist(),
                self.kind_of_part: self.part.tolist(),
                "responsibility": self.responsibility.tolist(),
            },
            self.frame,
        )

    def worth_observing(self) -> Any:
        """Missing values, the most informative of each row first: "row", "feature", "information"."""
        row, feature = np.nonzero(~np.isnan(self.information))
        information = self.information[row, feature]
        order = np.lexsort((feature, -information, row))
        return to_user_table(
            {
                "row": row[order].tolist(),
                "feature": [self.features[j] for j in feature[order]],
                "information": information[order].tolist(),
            },
            self.frame,
        )

    def __repr__(self) -> str:
        """The first rows, each with what contributes most."""
        rows = [
            [
                str(row),
                str(self.classes[row, 0]),
                str(self.classes[row, 1]),
                f"{self.log_odds[row]:+.2f}",
                f"{self.prior[row]:+.2f}",
                ", ".join(f"{shortened(name)} {x:+.2f}" for name, x in strongest(self, row, _TERMS_IN_TEXT)[1:]),
            ]
            for row in range(min(len(self.log_odds), _ROWS))
        ]
        headers = ["row", "class", "against", "log-odds", "prior", "contributions, the largest first"]
        lines = text_table(headers, rows, left=(1, 2, 5))
        return "\n".join([f"Explanation of {_rows(self)}: log-odds = prior + contributions", *lines, _rest(self)])

    def _repr_html_(self) -> str:
        """The first rows as bars, for notebooks."""
        rows = {row: strongest(self, row, _TERMS_IN_HTML) for row in range(min(len(self.log_odds), _ROWS))}
        longest = max((abs(x) for terms in rows.values() for _, x in terms), default=0.0) or 1.0
        parts = "".join(_html_row(self, row, terms, longest) for row, terms in rows.items())
        return f'<div style="max-width:46em">{parts}<p style="opacity:.75">{escape(_rest(self))}</p></div>'


def strongest(explanation: Explanation, row: int, most: int) -> list[tuple[str, float]]:
    """What the log-odds of a row are a sum of: the prior, the largest contributions, and the rest together.

    Parameters
    ----------
    explanation : Explanation
    row : its number
    most : most features to name; those that contribute nothing are left out

    Returns
    -------
    list of (label, log-odds)
        Such as ``("age = 78", 1.62)``; first the "prior", last the sum of what is not named, if there is any.
    """
    contributions = explanation.contributions[row]
    order = [j for j in np.argsort(-np.abs(contributions), kind="stable").tolist() if contributions[j] != 0.0]
    terms = [("prior", float(explanation.prior[row]))]
    for j in order[:most]:
        value = explanation.values[j][row]
        text = "(expected)" if value is None else few_digits(value)
        terms.append((f"{explanation.features[j]} = {text}", float(contributions[j])))
    rest = order[most:]
    if rest:
        terms.append((f"{len(rest)} more", float(contributions[rest].sum())))
    return terms


def few_digits(value: str) -> str:
    """A value in at most 20 characters, a long number in 5 digits."""
    with suppress(ValueError):
        value = f"{float(value):.5g}" if len(value) > 6 else value
    return shortened(value, 20)


def odds(log_odds: float) -> str:
    """Odds of one class against another, as people say them.

    >>> odds(1.96), odds(-3.0), odds(9.0), odds(50.0)
    ('7.1 : 1', '1 : 20', '8,103 : 1', '5.2e+21 : 1')
    """
    ratio = math.exp(min(abs(log_odds), _LARGEST_LOG_ODDS))
    text = f"{ratio:.2g}" if not 10 <= ratio < 1e14 else f"{ratio:,.0f}"
    return f"{text} : 1" if log_odds >= 0 else f"1 : {text}"


def _rows(explanation: Explanation) -> str:
    n = len(explanation.log_odds)
    return "1 row" if n == 1 else f"{n} rows"


def _rest(explanation: Explanation) -> str:
    more = len(explanation.log_odds) - _ROWS
    which = f"{more} more rows. " if more > 0 else ""
    return f"{which}All of it: table(), summary(), worth_observing()."


def _html_row(explanation: Explanation, row: int, terms: list[tuple[str, float]], longest: float) -> str:
    """A heading and a bar for each term, to the right for the class, to the left for the other one."""
    one, other = (escape(printable(str(label))) for label in explanation.classes[row])
    log_odds = float(explanation.log_odds[row])
    bars = "".join(_html_bar(label, x, 50 * x / longest) for label, x in terms)
    cell = "padding:1px 6px;text-align"
    return (
        f'<p style="margin:.8em 0 .2em"><b>Row {row}</b>: <b>{one}</b> against {other}, log-odds {log_odds:+.2f}, odds '
        f"{odds(log_odds)}</p>"
        f'<table style="border-collapse:collapse;width:100%;font-size:90%"><tr style="opacity:.75">'
        f'<td style="{cell}:left"></td><td style="{cell}:right">log-odds</td><td style="width:55%;padding:1px 6px">'
        f'<span style="float:left">&larr; {other}</span><span style="float:right">{one} &rarr;</span></td></tr>'
        f"{bars}</table>"
    )


def _html_bar(label: str, x: float, percent: float) -> str:
    """A line of the table: a bar that begins in the middle."""
    side, colour = ("left", "#3b78b5") if x >= 0 else ("right", "#d9822b")
    return (
        f'<tr><td style="padding:1px 6px;text-align:left">{escape(printable(shortened(label, 48)))}</td>'
        f'<td style="padding:1px 6px;text-align:right">{x:+.2f}</td><td style="padding:1px 6px">'
        f'<div style="position:relative;height:1em"><div style="position:absolute;{side}:50%;width:{abs(percent):.1f}%;'
        f'height:100%;background:{colour}"></div><div style="position:absolute;left:50%;height:100%;'
        'border-left:1px solid currentColor;opacity:.5"></div></div></td></tr>'
    )
